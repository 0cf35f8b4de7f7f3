package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"dyno/cli/arguments"
	"dyno/cli/help"
	"dyno/cli/quick"
	"dyno/internal/exit"
	"dyno/lab/plan"
	"dyno/results/rundir"
)

const (
	reachWindow = 2 * time.Second // of that closed loop
	leastReach  = 10              // good responses in it
	leastWindow = 100 * time.Millisecond
)

// capacityCommand is the quick load that finds a rate instead of keeping to one.
func (a *app) capacityCommand() *cobra.Command {
	var (
		q   quick.Load
		out outputFlags
	)
	cmd := &cobra.Command{
		Use:   "capacity URL",
		Short: "Find the highest rate within an SLO",
		Long: `Find the highest rate at which a server keeps the conditions of an SLO.

A closed loop of two seconds shows what the server reaches. From half of that on, the rate is
doubled until a condition is broken; then the rates between are halved until 5 % are left.
Requests are sent at each rate for --duration (2s, or as long as the percentiles of the conditions
need), whatever becomes of earlier ones; at the rates on both sides of the result at least twice.

The number of connections grows with the rate, unless --connections says how many. If dyno itself is
the limit, by its connections or its CPU time, the result is "at least" (≥), and the exit code 4.

The URL names the protocol: http:// and https://, tcp://HOST:PORT, or grpc://HOST:PORT with
--call, which names the method. dyno sse and dyno llm have --capacity instead of this command.`,
		Example: `  dyno capacity http://127.0.0.1:8080/ --slo 'p99 < 20ms'
  dyno capacity http://127.0.0.1:8080/ --slo 'p99 < 20ms, errors.ratio < 1%' --to 50000
  dyno capacity tcp://127.0.0.1:7000 --payload 1KiB --slo 'p99.9 < 5ms' -z 10s`,
		Args: arguments.ExactArgs(1, "a URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !q.IsSearch() {
				return exit.Misused("as in: dyno capacity --slo 'p99 < 20ms' "+args[0], "dyno capacity: there is no condition; give it with --slo")
			}
			protocol, where, faults := q.Spoken(args[0])
			if len(faults) > 0 {
				return exit.With(exit.Usage, errors.Join(faults...), "")
			}
			if protocol == plan.GRPC {
				return a.call(cmd.Context(), &q, []string{where}, out)
			}
			return a.quick(cmd.Context(), &q, protocol, where, out)
		},
	}
	f := cmd.Flags()
	q.Flags(f, a.stdin, "slo", plan.OfURLs()...)
	window := f.Lookup("duration")
	window.Usage, window.DefValue = "how long to measure at each rate (default: 2s, or as long as the percentiles of the conditions need)", ""
	connections := f.Lookup("connections")
	connections.Usage, connections.DefValue = "the most connections there may be (default: as many as the rate takes)", ""
	for _, flag := range []string{"rate", "stages", "requests"} {
		f.Lookup(flag).Hidden = true // they are refused: the search says how much is sent
	}
	out.flags(f, "none is kept", a.outputs)
	a.agents.Flags(f)
	help.ByGroup(cmd, "slo from to connections streams duration method header body payload call data out json")
	return cmd
}

// findRange completes what the flags of a search leave open: its first rate, its last rate and the duration of each. It
// always sends some load first, because a search would take a missing server for a slow one.
func (a *app) findRange(ctx context.Context, q *quick.Load, e *plan.Experiment, quiet bool) error {
	if q.Given("from") {
		if _, err := q.LastEnough(e, e.Capacity.From); err != nil {
			return err
		}
		defer a.meanwhile(quiet, "trying whether the server answers")()
		_, err := a.tryOut(ctx, q, e, leastWindow)
		return err
	}
	reached, err := a.reached(ctx, q, e, quiet)
	if err != nil {
		return err
	}
	return q.BeginNear(e, reached)
}

// reached is how many requests per second a closed loop of a load gets answered.
func (a *app) reached(ctx context.Context, q *quick.Load, e *plan.Experiment, quiet bool) (rate float64, err error) {
	if !quiet {
		fmt.Fprintf(a.stderr, "finding a rate to begin with: %d connections, %v\n", q.ClosedConnections(e), reachWindow)
	}
	run, err := a.tryOut(ctx, q, e, reachWindow)
	if err != nil {
		return 0, err
	}
	t := &run.Measured()[0].Trial
	if t.Counts.OK < leastReach { // of many connections some may get no answer: with how many that begins, the search finds out
		if err := unanswered(&run.Run, gate{}); err != nil {
			return 0, err
		}
		return 0, exit.With(exit.Invalid, fmt.Errorf("a closed loop of %d connections got only %d good responses in %v, too few to tell where a search should begin", q.ClosedConnections(e), t.Counts.OK, reachWindow),
			"say it with --from and --to")
	}
	return float64(t.Counts.OK) / t.WindowSeconds, nil
}

// tryOut runs a closed loop instead of a search. Nothing of it is kept.
func (a *app) tryOut(ctx context.Context, q *quick.Load, e *plan.Experiment, window time.Duration) (*rundir.Folder, error) {
	closed := *e
	closed.Capacity, closed.Thresholds, closed.Design.Metric = nil, nil, ""
	closed.Variants = slices.Clone(e.Variants)
	v := &closed.Variants[0]
	v.Observe.Server = false
	l := &v.Load
	l.Open, l.Closed = nil, &plan.Closed{Connections: q.ClosedConnections(e)}
	l.Warmup, l.Window = 0, window
	closed.Complete()
	var run *rundir.Folder
	err := a.scratch(ctx, &closed, func(f *rundir.Folder) error {
		run = f
		return nil
	})
	return run, err
}
