package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"dyno/cli/arguments"
	"dyno/internal/exit"
	"dyno/internal/units"
	"dyno/selftest/oracle"
)

// OracleCommand starts servers with a known answer as separate processes, so that trials can
// start them like any target. It is hidden: tests, benchmarks and calibration use it.
func OracleCommand() *cobra.Command {
	cmd := arguments.Group(&cobra.Command{Use: oracle.Command, Short: "Servers with a known answer", Hidden: true})
	cmd.AddCommand(nullServer(), delayServer(), queueServer(), freezeServer(), workServer(), streamServer(), breakingServer(), burnCommand())
	return cmd
}

// serveOracle is the command of one kind of server. It calls start once the flags are
// known. It prints the result of last, which may be nil, as JSON when the server has
// ended.
func serveOracle(kind, short string, start func(context.Context, oracle.Config) (*oracle.Server, error), last func() any) *cobra.Command {
	var c oracle.Config
	var cpus string
	cmd := &cobra.Command{
		Use:   kind,
		Short: short,
		Args:  arguments.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cpus != "" {
				var err error
				if c.CPUs, err = units.ParseCPUs(cpus); err != nil {
					return exit.Misused("such as 0", "--cpus: %w", err)
				}
			}
			// The server is closed here and not by the context, so that its counts can be
			// read.
			server, err := start(context.WithoutCancel(cmd.Context()), c)
			if err != nil {
				return exit.With(exit.Usage, err, "")
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%s on %s\n", kind, server.Addr())
			<-cmd.Context().Done()
			if err := server.Close(); err != nil {
				return err
			}
			if last != nil {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(last())
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Addr, "listen", "127.0.0.1:0", "loopback address to serve HTTP on")
	f.StringVar(&cpus, "cpus", "", "CPUs of the server's thread")
	f.DurationVar(&c.Spin, "spin", 0, "poll for so long before an answer is due")
	return cmd
}

func nullServer() *cobra.Command {
	return serveOracle("null", "answers at once", oracle.StartNull, nil)
}

func delayServer() *cobra.Command {
	var delay time.Duration
	var seed uint64
	cmd := serveOracle("delay", "answers each request a fixed time after its arrival", func(ctx context.Context, c oracle.Config) (*oracle.Server, error) {
		s, err := oracle.StartDelay(ctx, c, oracle.Fixed(delay), seed)
		if err != nil {
			return nil, err
		}
		return s.Server, nil
	}, nil)
	cmd.Flags().DurationVar(&delay, "delay", time.Millisecond, "of each answer")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "of everything random")
	return cmd
}

func queueServer() *cobra.Command {
	var (
		service     time.Duration
		workers     int
		exponential bool
		seed        uint64
	)
	cmd := serveOracle("queue", "has workers with one queue", func(ctx context.Context, c oracle.Config) (*oracle.Server, error) {
		var d oracle.Distribution = oracle.Fixed(service)
		if exponential {
			d = oracle.Exponential{Mean: service}
		}
		s, err := oracle.StartQueue(ctx, c, workers, d, seed)
		if err != nil {
			return nil, err
		}
		return s.Server, nil
	}, nil)
	f := cmd.Flags()
	f.DurationVar(&service, "service", time.Millisecond, "time of a worker for each request")
	f.BoolVar(&exponential, "exponential", false, "draw it from the exponential distribution")
	f.IntVar(&workers, "workers", 1, "workers")
	f.Uint64Var(&seed, "seed", 1, "of everything random")
	return cmd
}

func freezeServer() *cobra.Command {
	var hold, period time.Duration
	cmd := serveOracle("freeze", "answers at once, but stands still once in every period", func(ctx context.Context, c oracle.Config) (*oracle.Server, error) {
		s, err := oracle.StartFreeze(ctx, c, hold, period)
		if err != nil {
			return nil, err
		}
		return s.Server, nil
	}, nil)
	cmd.Flags().DurationVar(&hold, "hold", 100*time.Millisecond, "how long it stands still")
	cmd.Flags().DurationVar(&period, "period", time.Second, "how often")
	return cmd
}

func workServer() *cobra.Command {
	var (
		load   oracle.Workload
		work   time.Duration
		slow   string
		hot    string
		server *oracle.Work
	)
	cmd := serveOracle("work", "computes for each request", func(ctx context.Context, c oracle.Config) (*oracle.Server, error) {
		var err error
		if load.Slow, err = units.ParseShare(slow); err != nil {
			return nil, fmt.Errorf("--slow: %w", err)
		}
		if load.Hot, err = units.ParseShare(hot); err != nil {
			return nil, fmt.Errorf("--hot: %w", err)
		}
		if load.Iterations == 0 {
			load.Iterations = oracle.WorkIterations(work)
		}
		if server, err = oracle.StartWork(ctx, c, load); err != nil {
			return nil, err
		}
		return server.Server, nil
	}, func() any {
		account := server.Account()
		return map[string]any{
			"requests":        server.Traffic().Answered,
			"cycles":          account.Cycles,
			"busy_seconds":    account.Busy.Seconds(),
			"planted_seconds": account.Planted.Seconds(),
			"idle_seconds":    account.Idle.Seconds(),
		}
	})
	f := cmd.Flags()
	f.DurationVar(&work, "work", 20*time.Microsecond, "CPU time of each request")
	f.Int64Var(&load.Iterations, "iterations", 0, "the same, in iterations of the loop that is burnt")
	f.StringVar(&slow, "slow", "0", "a planted slowdown, such as 5%")
	f.StringVar(&hot, "hot", "0", "a planted function's share of the CPU time, such as 3%")
	return cmd
}

func streamServer() *cobra.Command {
	var rate float64
	cmd := serveOracle("stream", "sends numbered events to its subscribers", func(ctx context.Context, c oracle.Config) (*oracle.Server, error) {
		s, err := oracle.StartStream(ctx, c, oracle.StreamConfig{Rate: rate})
		if err != nil {
			return nil, err
		}
		return s.Server, nil
	}, nil)
	cmd.Flags().Float64Var(&rate, "rate", 100, "events per second, to each")
	return cmd
}

// breakingServer relays to a healthy server until it breaks.
func breakingServer() *cobra.Command {
	var (
		c     oracle.BreakingConfig
		fault string
	)
	cmd := &cobra.Command{
		Use:   "breaking",
		Short: "relays to a healthy server, and breaks at a set time",
		Args:  arguments.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if c.Break, err = oracle.ParseBreak(fault); err != nil {
				return exit.With(exit.Usage, err, "")
			}
			c.Crash = func() { os.Exit(crashed) }
			server, err := oracle.StartBreaking(cmd.Context(), c)
			if err != nil {
				return exit.With(exit.Usage, err, "")
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "breaking on %s\n", server.Addr())
			<-cmd.Context().Done()
			return server.Close()
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Addr, "listen", "127.0.0.1:0", "loopback address to listen on")
	f.StringVar(&c.To, "to", "", "the healthy server")
	f.StringVar(&fault, "fault", oracle.Hangs.String(), "hangs, crashes, half-hang, never-reads, refuses, resets or slows")
	f.DurationVar(&c.After, "after", 0, "when it breaks, from the first byte that it received on; 0 is from the start")
	f.DurationVar(&c.Delay, "delay", 0, "of slows (default 100ms)")
	return cmd
}

// crashed is the exit code of a server that crashes on purpose.
const crashed = 7

// burnCommand is not a server but a noisy neighbour.
func burnCommand() *cobra.Command {
	var threads int
	cmd := &cobra.Command{
		Use:   "burn",
		Short: "uses up the CPU that it is placed on",
		Args:  arguments.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if threads < 1 || threads > 1024 {
				return exit.Misused("such as 1", "--threads %d: want 1 to 1024", threads)
			}
			oracle.Burn(cmd.Context(), threads)
			return nil
		},
	}
	cmd.Flags().IntVar(&threads, "threads", 1, "threads that compute")
	return cmd
}
