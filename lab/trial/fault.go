package trial

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"

	"dyno/host/target"
	"dyno/internal/texts"
	"dyno/lab/generator"
	"dyno/lab/plan"
	"dyno/lab/remote"
	"dyno/load/engine"
	"dyno/results/rundir"
)

// A Fault means that the target itself ended a trial: it was not ready in time, ended by
// itself, or did not end when it should have.
type Fault struct{ Err error }

func (f *Fault) Error() string { return f.Err.Error() }
func (f *Fault) Unwrap() error { return f.Err }

// startFault makes a Fault for a target that was started and did not become ready. If the target could
// not be started at all, as when there is no program, the plan is at fault.
func startFault(err error) error {
	if errors.Is(err, target.ErrExited) || errors.Is(err, target.ErrNotReady) {
		return &Fault{err}
	}
	return err
}

// deathOf returns why a process has ended. It is no fault of a target that its agent is lost or does not let it go on.
func deathOf(p process, up *stage) error {
	err := p.Err()
	_, lost := errors.AsType[*generator.LostError](err)
	_, refused := errors.AsType[*remote.RefusedError](err)
	if p == up.target && !lost && !refused {
		return &Fault{err}
	}
	return err
}

// targets reports whether everything that went wrong was the target's fault. Otherwise a
// trial must not be recorded as lost.
func targets(err error) bool {
	return consistsOf(err, func(err error) bool {
		switch err.(type) { //nolint:errorlint // each link of the chain is looked at
		case *Fault, *engine.Unreachable:
			return true
		}
		return false
	})
}

// consistsOf reports whether all errors that are joined in an error are, or wrap, some of a kind.
func consistsOf(err error, kind func(error) bool) bool {
	if kind(err) {
		return true
	}
	switch e := err.(type) { //nolint:errorlint // each link of the chain is looked at
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if !consistsOf(one, kind) {
				return false
			}
		}
		return true
	case interface{ Unwrap() error }:
		return consistsOf(e.Unwrap(), kind)
	}
	return false
}

// lose records a trial that its target ended: the target did nothing in the rest of the
// window.
func lose(t *rundir.Trial, l *plan.Load, program bool) {
	t.Fault, t.Interrupted = rundir.FaultTarget, false
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

// missed is how many requests would have been due in the rest of the window: at the rate
// until then, or else at the load's own rate, or else one for each user.
func missed(t *rundir.Trial, l *plan.Load) int64 {
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

// targetAtFault reports whether a trial failed only by its target's fault, so that it is
// recorded as lost.
func targetAtFault(ctx context.Context, s task, failed error) bool {
	return failed != nil && s.purpose != rundir.PurposePilot && context.Cause(ctx) == nil && targets(failed)
}

// canContinue reports whether to measure more after a lost trial. A target that is the only
// variant and has never answered would not answer again either.
func (r *runner) canContinue(t *rundir.Trial) bool {
	answered := t.Counts.OK > 0 || slices.ContainsFunc(r.trials, func(t *rundir.TrialFolder) bool { return t.IsMeasured() && !t.Lost() })
	return len(r.experiment.Variants) > 1 || r.experiment.Capacity != nil || r.experiment.Design.Rounds > 1 && answered
}

// lostRoundsLimit is the number of rounds that a variant must have, and lose, before it
// ends the run.
const lostRoundsLimit = 3

// allRoundsLost returns why no more rounds are made: a variant has lost all of them.
func (r *runner) allRoundsLost(round int) (reason *rundir.Message) {
	if round < lostRoundsLimit {
		return nil
	}
	for i := range r.experiment.Variants {
		name := r.experiment.Variants[i].Name
		all, lost := 0, 0
		for _, t := range r.trials {
			if t.Variant == name && t.Purpose == "" && t.IsMeasured() {
				all++
				if t.Lost() {
					lost++
				}
			}
		}
		if all >= lostRoundsLimit && lost == all {
			m := texts.New("stopped.lost", "variant", name, "n", strconv.Itoa(lost))
			return &m
		}
	}
	return nil
}
