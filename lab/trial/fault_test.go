package trial

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"dyno/host/target"
	"dyno/load/engine"
	"dyno/results/rundir"
)

// A variant whose target ends by itself loses the round. The others are still measured.
// Only if it has lost the first three rounds, no more are made.
func TestLostRoundsDoNotEndTheRun(t *testing.T) {
	const well = `echo '{"n": 1}'`
	for _, c := range []struct {
		name, script string
		rounds, made int
		lost         int
	}{
		{"in every round", "exit 9", 5, 3, 3},
		{"with too few rounds to tell", "exit 9", 2, 2, 2},
		{"now and then", `test -e mark && { rm mark; echo '{"n": 1}'; exit 0; }; touch mark; exit 9`, 4, 4, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := programs(c.rounds, "program.n", well, c.script)
			for i := range e.Variants {
				e.Variants[i].Target.Dir = t.TempDir()
			}
			o := options(t, new(log))
			if err := Run(t.Context(), e, o); err != nil {
				t.Fatal(err)
			}
			f := open(t, o.Dir)
			if f.Run.Rounds != c.made || (f.Run.Stopped != nil) != (c.made < c.rounds) || len(f.Trials) != 2*c.made {
				t.Errorf("%d rounds, %d trials, stopped %q", f.Run.Rounds, len(f.Trials), f.Run.Stopped)
			}
			lost := 0
			for _, x := range f.Trials {
				if x.Fault == rundir.FaultTarget {
					lost++
					if x.Complete || !x.IsMeasured() || !x.Lost() || !strings.Contains(x.Error, "exit status 9") {
						t.Errorf("trial %+v", x.Trial)
					}
				}
			}
			if lost != c.lost {
				t.Errorf("%d lost, want %d", lost, c.lost)
			}
		})
	}
}

// The target did nothing in the rest of the window.
func TestLostThroughput(t *testing.T) {
	e := parse(t, `name: dies
target: {protocol: tcp, start: [sh, -c, "sleep 600; : {{port}}"], ready: none, ready_timeout: 50ms}
load: {closed: {connections: 4}, warmup: 0, window: 10s}
design: {rounds: 2}
`)
	l := &e.Variants[0].Load
	x := &rundir.Trial{Interrupted: true, WindowSeconds: 4, Counts: rundir.Counts{Scheduled: 400, CompletedInWindow: 400}}
	lose(x, l, false)
	if *x.Throughput != 40 || x.Counts.Missed != 600 || x.PlannedSeconds != 10 {
		t.Errorf("throughput %v, missed %d of a window of %v s", *x.Throughput, x.Counts.Missed, x.PlannedSeconds)
	}
	if x.Interrupted { // it stands
		t.Error("it is a substitute, too")
	}
	x = new(rundir.Trial)
	lose(x, l, false)
	if *x.Throughput != 0 || x.Counts.Missed != 4 || !x.Lost() {
		t.Errorf("before the load: %+v", x)
	}
}

// A fault that is not the target's is never accepted as a lost trial.
func TestFaultOfTargetOrPlan(t *testing.T) {
	fault := &Fault{&target.Failure{Target: "x", Reason: target.ErrExited}}
	other := errors.New("no room")
	for _, c := range []struct {
		err  error
		want bool
	}{
		{fault, true},
		{fmt.Errorf("trial 1: %w", fault), true},
		{errors.Join(fault, nil), true},
		{errors.Join(fault, other), false},
		{fmt.Errorf("trial 1: %w", errors.Join(fault, other)), false},
		{&engine.Unreachable{Err: other}, true},
		{&engine.Exhausted{Err: other}, false},
		{fault.Err, false}, // of a service
		{startFault(&target.Failure{Reason: target.ErrNotFound}), false},
		{startFault(&target.Failure{Reason: target.ErrNotReady}), true},
	} {
		if got := targets(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}
