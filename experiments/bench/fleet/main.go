// Fleet has many agents in one process, as real as those of dyno agent: they register, listen and carry
// parts of loads in processes of their own. It also compares agents' clocks, whose offsets are known.
//
//	fleet agents --control-plane http://127.0.0.1:7100 --version VERSION --agents 1000
//	fleet clocks --version VERSION --ahead NAME=100s --agent 127.0.0.1:7300
//
// VERSION is that of dyno. Results are lines that begin with "result: ".
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"dyno/host/child"
	"dyno/lab/fleet"
	"dyno/lab/fleet/identity"
	"dyno/lab/generator"
)

func main() {
	if code, ran := child.Run(os.Args[1:], generator.Role(nil)); ran {
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		stop()
		os.Exit(1)
	}
}

// options are those of all commands.
type options struct {
	version string

	control, admin string
	pid            int
	agents, atOnce int
	length         time.Duration

	identity  string
	addresses []string
	ahead     map[string]time.Duration
	rounds    int
}

var commands = map[string]func(context.Context, options, io.Writer) error{"agents": agents, "clocks": clocks}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) == 0 || commands[args[0]] == nil {
		return errors.New("want a command: agents or clocks")
	}
	o := options{ahead: map[string]time.Duration{}}
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	f.StringVar(&o.version, "version", "", "of dyno")
	f.StringVar(&o.control, "control-plane", "http://127.0.0.1:7100", "agents: where they register")
	f.StringVar(&o.admin, "admin", "", "agents: the control plane's admin listener, whose metrics say how many messages it got")
	f.IntVar(&o.pid, "pid", 0, "agents: the control plane's process")
	f.IntVar(&o.agents, "agents", 1000, "agents: how many")
	f.IntVar(&o.atOnce, "at-once", 16, "agents: how many are cordoned at the same time")
	f.DurationVar(&o.length, "for", 30*time.Second, "agents: how long they do nothing but live")
	f.StringVar(&o.identity, "identity", "", "clocks: the folder of a coordinator's certificate; empty: no TLS")
	f.Func("agent", "clocks: an agent's `HOST:PORT`; may be repeated", func(text string) error {
		o.addresses = append(o.addresses, text)
		return nil
	})
	f.Func("ahead", "clocks: `NAME=DURATION` by which an agent's CLOCK_MONOTONIC is ahead; may be repeated; others' are not", func(text string) error {
		name, value, _ := strings.Cut(text, "=")
		d, err := time.ParseDuration(value)
		o.ahead[name] = d
		return err
	})
	f.IntVar(&o.rounds, "rounds", 20, "clocks: how often they are compared")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	return commands[args[0]](ctx, o, stdout)
}

// clocks compares the clocks of agents as every load does. It fails if an offset is outside its stated error.
func clocks(ctx context.Context, o options, stdout io.Writer) error {
	var m *identity.Member
	if o.identity != "" {
		var err error
		if m, err = identity.Load(filepath.Join(o.identity, identity.MemberFile)); err != nil {
			return err
		}
	}
	all, err := fleet.Connect(ctx, o.version, m, o.addresses...)
	if err != nil {
		return err
	}
	missed, before := 0, ownCPU()
	fmt.Fprintf(stdout, "%-12s %-14s %-9s %-22s %-22s %s\n", "agent", "true offset", "compared", "wrong by, µs: p50, max", "stated, µs: p50, max", "outside")
	for _, a := range all {
		truth := o.ahead[a.Info.Name]
		var wrong, stated []float64 // ns
		outside := 0
		for range o.rounds {
			part, err := a.Start(ctx)
			if err != nil {
				return err
			}
			ours := generator.Monotonic()
			theirs, within := part.At(ours)
			part.Kill()
			_ = part.Wait() // it was killed
			by := math.Abs(float64(theirs - ours - truth.Nanoseconds()))
			wrong, stated = append(wrong, by), append(stated, float64(within))
			if by > float64(within) {
				outside++
			}
		}
		slices.Sort(wrong)
		slices.Sort(stated)
		last := len(wrong) - 1
		fmt.Fprintf(stdout, "%-12s %-14v %-9d %-22s %-22s %d\n", a.Info.Name, truth, o.rounds,
			fmt.Sprintf("%.1f, %.1f", wrong[last/2]/1e3, wrong[last]/1e3), fmt.Sprintf("%.1f, %.1f", stated[last/2]/1e3, stated[last]/1e3), outside)
		fmt.Fprintf(stdout, "result: clock.%s.wrong_max_us %.1f\n", a.Info.Name, wrong[last]/1e3)
		fmt.Fprintf(stdout, "result: clock.%s.stated_p50_us %.1f\n", a.Info.Name, stated[last/2]/1e3)
		missed += outside
	}
	fmt.Fprintf(stdout, "result: clock.outside %d\n", missed)
	fmt.Fprintf(stdout, "result: clock.cpu_ms_each %.2f\n", (ownCPU()-before).Seconds()*1e3/float64(o.rounds*len(all)))
	if missed > 0 {
		return fmt.Errorf("%d offsets are not within their stated errors", missed)
	}
	return nil
}
