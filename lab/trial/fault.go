package trial

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"

	"dyno/host/target"
	"dyno/internal/texts"
	"dyno/lab/experiment"
	"dyno/load/engine"
	"dyno/results/rundir"
)

// A Fault says that the target itself ended a trial: it was not ready in time, ended by
// itself, or did not come to its end.
type Fault struct{ Err error }

func (f *Fault) Error() string { return f.Err.Error() }
func (f *Fault) Unwrap() error { return f.Err }

// startFault makes a Fault of a target that was started and did not become ready. That it
// could not be started at all, as when there is no such program, is the plan's.
func startFault(err error) error {
	if errors.Is(err, target.ErrExited) || errors.Is(err, target.ErrNotReady) {
		return &Fault{err}
	}
	return err
}

// targets tells whether all that went wrong was the target's doing: nothing else may be
// passed over with it.
func targets(err error) bool {
	switch e := err.(type) { //nolint:errorlint // each link of the chain is looked at
	case *Fault, *engine.Unreachable:
		return true
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if !targets(one) {
				return false
			}
		}
		return true
	case interface{ Unwrap() error }:
		return targets(e.Unwrap())
	}
	return false
}

// lose records a trial whose target ended it: what was left of the window it did nothing.
func lose(t *rundir.Trial, l *experiment.Load, program bool) {
	t.Fault = rundir.FaultTarget
	if program {
		return
	}
	t.PlannedSeconds = max(l.Window.Seconds(), t.WindowSeconds)
	throughput := 0.0
	if t.PlannedSeconds > 0 {
		throughput = float64(t.Work()) / t.PlannedSeconds
	}
	t.Throughput = &throughput
	t.Counts.Missed = missed(t, l)
}

// missed is how many requests would have been due in the rest of the window: as many a
// second as until then, else as many as the load's rate says, else one of each user.
func missed(t *rundir.Trial, l *experiment.Load) int64 {
	rest := t.PlannedSeconds - t.WindowSeconds
	switch {
	case rest <= 0:
		return 0
	case t.Counts.Scheduled > 0 && t.WindowSeconds > 0:
		return int64(math.Ceil(float64(t.Counts.Scheduled) / t.WindowSeconds * rest))
	case l.Open != nil && l.Open.Rate > 0:
		return int64(math.Ceil(l.Open.Rate * rest))
	case l.Closed != nil:
		return int64(l.Closed.Connections)
	}
	return 0
}

// blames tells whether a trial failed by its target's fault alone, so that it is recorded
// as lost.
func blames(ctx context.Context, s task, failed error) bool {
	return failed != nil && s.purpose != rundir.PurposePilot && context.Cause(ctx) == nil && targets(failed)
}

// goesOn tells whether there is more to measure when a trial is lost. A target that is alone
// and has never answered would only not answer again.
func (r *runner) goesOn(t *rundir.Trial) bool {
	answered := t.Counts.OK > 0 || slices.ContainsFunc(r.trials, func(t *rundir.TrialFolder) bool { return t.Stands() && !t.Lost() })
	return len(r.experiment.Variants) > 1 || r.experiment.Capacity != nil || r.experiment.Design.Rounds > 1 && answered
}

// hopelessRounds is after how many rounds a variant that lost each of them ends the run.
const hopelessRounds = 3

// hopeless returns why no more rounds are made: a variant lost all of them.
func (r *runner) hopeless(round int) (reason *rundir.Message) {
	if round < hopelessRounds {
		return nil
	}
	for i := range r.experiment.Variants {
		name := r.experiment.Variants[i].Name
		all, lost := 0, 0
		for _, t := range r.trials {
			if t.Variant == name && t.Purpose == "" && t.Stands() {
				all++
				if t.Lost() {
					lost++
				}
			}
		}
		if all >= hopelessRounds && lost == all {
			m := texts.New("stopped.lost", "variant", name, "n", strconv.Itoa(lost))
			return &m
		}
	}
	return nil
}
