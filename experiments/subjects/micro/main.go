package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dyno/services/channels"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

// The exit codes, as dyno has them.
const (
	failed       = 1
	misused      = 2
	interruption = 130
)

// A failure is an error of a measurement. All other errors are of the command line.
type failure struct{ error }

// run runs the program that the arguments name, and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := command()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "micro: %v\n", err)
	if _, measured := errors.AsType[failure](err); !measured {
		fmt.Fprintf(stderr, "hint: %s --help lists the flags\n", cmd.CommandPath())
		return misused
	}
	if ctx.Err() != nil {
		return interruption
	}
	return failed
}

// command returns the command line: a command for each program.
func command() *cobra.Command {
	root := &cobra.Command{
		Use:   "micro",
		Short: "Measure what a load test cannot: context switches, stacks, locks, pinning, I/O models, socket options, pools, jitter filters",
		Long: `Each program measures one thing once and prints its figures as one line of JSON.
An experiment with "protocol: program" repeats and interleaves them.`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	const second = time.Second

	handOff := Switch{Unit: Goroutine, Duration: second}
	f := add(root, "switch", "The cost of a hand-over to another goroutine or thread", func() Program { return handOff })
	f.StringVar(&handOff.Unit, "unit", handOff.Unit, "goroutine or thread")
	f.DurationVar(&handOff.Duration, "duration", handOff.Duration, "how long to measure")

	stack := Stack{Unit: Goroutine, Units: 1000}
	f = add(root, "stack", "The memory that a parked goroutine or thread takes", func() Program { return stack })
	f.StringVar(&stack.Unit, "unit", stack.Unit, "goroutine or thread")
	f.IntVar(&stack.Units, "units", stack.Units, "how many to park")

	units := Units{Unit: Goroutine}
	f = add(root, "units", "How many goroutines or threads can be parked at once", func() Program { return units })
	f.StringVar(&units.Unit, "unit", units.Unit, "goroutine or thread")
	f.IntVar(&units.Bound, "bound", units.Bound, "the number to stop at; 0 for 100000 goroutines or 20000 threads")

	lock := Lock{Kind: Mutex, Goroutines: 8, Reads: 0.5, Duration: second}
	f = add(root, "lock", "Counters under locks of several kinds", func() Program { return lock })
	f.StringVar(&lock.Kind, "kind", lock.Kind, "mutex, rwmutex, sharded or atomic")
	f.IntVar(&lock.Goroutines, "goroutines", lock.Goroutines, "how many goroutines share the counters")
	f.Float64Var(&lock.Reads, "reads", lock.Reads, "the share of operations that only read")
	f.DurationVar(&lock.Duration, "duration", lock.Duration, "how long to measure")

	pin := Pin{Threads: 4, Duration: second}
	f = add(root, "pin", "Threads bound to one CPU each, or left to the scheduler", func() Program { return pin })
	f.BoolVar(&pin.Pinned, "pinned", pin.Pinned, "bind each thread to one CPU")
	f.IntVar(&pin.Threads, "threads", pin.Threads, "how many")
	f.DurationVar(&pin.Duration, "duration", pin.Duration, "how long to measure")

	io := IO{Model: Blocking, Connections: 100, Duration: second}
	f = add(root, "io", "An echo server with a chosen I/O model", func() Program { return io })
	f.StringVar(&io.Model, "model", io.Model, "blocking, polling, multiplexing or asynchronous")
	f.IntVar(&io.Connections, "connections", io.Connections, "how many, with one message outstanding on each")
	f.DurationVar(&io.Duration, "duration", io.Duration, "how long to measure")

	carried := Channels{Connections: 8, Records: 400_000, Bytes: 100, Buffer: 4096, WhenFull: channels.Block, Sync: channels.SyncInterval}
	f = add(root, "channels", "Records carried from TCP connections into a file, and how many are lost", func() Program { return carried })
	f.IntVar(&carried.Connections, "connections", carried.Connections, "how many producers")
	f.IntVar(&carried.Records, "records", carried.Records, "how many, in all")
	f.IntVar(&carried.Bytes, "bytes", carried.Bytes, "of each record")
	f.IntVar(&carried.Buffer, "buffer", carried.Buffer, "how many records the channel holds")
	f.StringVar(&carried.WhenFull, "when-full", carried.WhenFull, "what happens if it is full: block, drop-oldest or drop-newest")
	f.StringVar(&carried.Sync, "sync", carried.Sync, "when the file is forced to disk: always, interval or never")

	buffers := Buffers{Bytes: 64 << 10}
	f = add(root, "buffers", "The sizes of socket buffers: requested, and given by the kernel", func() Program { return buffers })
	f.IntVar(&buffers.Bytes, "bytes", buffers.Bytes, "the size to request, for each kind of buffer")

	delay := NoDelay{On: true, Parts: 2, Bytes: 50, Duration: second}
	f = add(root, "nodelay", "Round trips of messages written in parts, with or without Nagle's algorithm", func() Program { return delay })
	f.BoolVar(&delay.On, "on", delay.On, "TCP_NODELAY")
	f.IntVar(&delay.Parts, "parts", delay.Parts, "writes per message")
	f.IntVar(&delay.Bytes, "bytes", delay.Bytes, "per part")
	f.DurationVar(&delay.Duration, "duration", delay.Duration, "how long to measure")

	jitter := Filter{Rate: 500, Last: 30, Sigmas: 2.5, Duration: 5 * second}
	f = add(root, "filter", "What a jitter filter leaves of a server's response times, and what there was", func() Program { return jitter })
	f.StringVar(&jitter.URL, "url", jitter.URL, "what is asked")
	f.StringVar(&jitter.Body, "body", jitter.Body, "what is sent by POST; without, it is a GET")
	f.StringVar(&jitter.Bearer, "bearer", jitter.Bearer, "the token or key that is sent in Authorization")
	f.Float64Var(&jitter.Rate, "rate", jitter.Rate, "requests a second")
	f.IntVar(&jitter.Last, "last", jitter.Last, "how many times before each one it is held against")
	f.Float64Var(&jitter.Sigmas, "sigmas", jitter.Sigmas, "how many standard deviations from their mean are too many")
	f.DurationVar(&jitter.Duration, "duration", jitter.Duration, "how long to measure")

	alive := KeepAlive{On: true, Wait: 5 * second}
	f = add(root, "keepalive", "How long a connection takes to notice that its peer has fallen silent", func() Program { return alive })
	f.BoolVar(&alive.On, "on", alive.On, "SO_KEEPALIVE")
	f.IntVar(&alive.Socket, "socket", alive.Socket, "TCP_KEEPIDLE and TCP_KEEPINTVL in seconds, and TCP_KEEPCNT; 0 leaves them to the kernel")
	f.IntVar(&alive.Kernel, "kernel", alive.Kernel, "tcp_keepalive_time and _intvl in seconds, and _probes, in a network namespace of its own; 0 leaves them")
	f.DurationVar(&alive.Wait, "wait", alive.Wait, "how long the peer is silent")

	kept := Pool{Kind: FixedPool, Rate: 500, Service: 8 * time.Millisecond, Size: 16, Base: 3 * second, Window: second, Warmup: second, Duration: 5 * second, Seed: 1}
	f = add(root, "pool", "An HTTP client's pool of connections: hits, waiting and times at a rate", func() Program { return kept })
	f.StringVar(&kept.Kind, "kind", kept.Kind, "fixed, adaptive, or as-written, by report R0's formula to the letter")
	f.Float64Var(&kept.Rate, "rate", kept.Rate, "requests a second, at random moments")
	f.DurationVar(&kept.Service, "service", kept.Service, "mean time that the server takes for an answer")
	f.IntVar(&kept.Size, "size", kept.Size, "how many connections there may be, at first if adaptive")
	f.DurationVar(&kept.Base, "base", kept.Base, "how long an idle connection is kept, at most if adaptive")
	f.DurationVar(&kept.Window, "window", kept.Window, "how often an adaptive pool looks at its load")
	f.DurationVar(&kept.Warmup, "warmup", kept.Warmup, "load that is not measured, before")
	f.DurationVar(&kept.Duration, "duration", kept.Duration, "how long to measure")
	f.Uint64Var(&kept.Seed, "seed", kept.Seed, "of everything random")
	return root
}

// add adds a program to the command line, and returns its flags.
func add(root *cobra.Command, name, short string, configured func() Program) *pflag.FlagSet {
	cmd := &cobra.Command{
		Use:   name,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p := configured()
			if err := p.Validate(); err != nil {
				return err
			}
			result, err := p.Run(cmd.Context())
			if err == nil {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(result)
			}
			if err != nil {
				return failure{err}
			}
			return nil
		},
	}
	root.AddCommand(cmd)
	return cmd.Flags()
}
