// Package recording reads what one trial left in its folder: its latency log, its series and
// the stalls of sleepers. It judges nothing.
package recording

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"dyno/load/hist"
	"dyno/results/rundir"
	"dyno/results/rundir/series"
)

// edgeSlack is how inexact the marks of the window's edges may be, in seconds: the thread that
// makes them may run late.
const edgeSlack = 0.05

// A Source is a trial with its recordings.
type Source struct {
	Trial  *rundir.Trial
	Log    func() ([]hist.Interval, error) // the latency log, all tags; starts are from the beginning of the warm-up
	Series func() (*series.Series, error)  // nil without an error: there is no series
	Stalls func() (stalls []series.Stall, known bool, err error)
}

// FromFolder is a trial with the files of its folder.
func FromFolder(t *rundir.TrialFolder) Source {
	return Source{
		Trial: &t.Trial,
		Log: func() ([]hist.Interval, error) {
			_, intervals, err := t.Intervals()
			return intervals, err
		},
		Series: func() (*series.Series, error) {
			s, err := t.Series()
			if errors.Is(err, fs.ErrNotExist) { // there was nothing to observe
				return nil, nil
			}
			return s, err
		},
		Stalls: t.Stalls,
	}
}

// A Recording is a trial of a variant with what was recorded of it.
type Recording struct {
	Trial  *rundir.Trial
	Plan   rundir.PlanVariant
	Times  Times           // merged, of the log
	Stages []StageLog      // of the window; nil without any
	Log    []hist.Interval // of all tags
	Series *series.Series  // what observers recorded; nil: nothing

	Stalls      []series.Stall
	StallsKnown bool // there were observers for them
	Substitute  bool // the trial was interrupted, and is judged by what it measured until then
}

// Read reads a trial's recordings, once. It reads nothing of a trial that did not reach
// its end, unless that trial is a substitute.
func (from Source) Read(plan rundir.Plan, substitute bool) (Recording, error) {
	t := from.Trial
	at := slices.IndexFunc(plan.Variants, func(v rundir.PlanVariant) bool { return v.Name == t.Variant })
	if at < 0 {
		return Recording{}, fmt.Errorf("variant %q is not in the plan", t.Variant)
	}
	x := Recording{Trial: t, Plan: plan.Variants[at], Substitute: substitute}
	if !x.HasFigures() {
		return x, nil
	}
	var err error
	if !WithoutLoad(x.Plan) {
		x.Log, err = from.Log()
		if err != nil && (t.Complete || substitute || !errors.Is(err, fs.ErrNotExist)) { // with nothing reached there is none
			return Recording{}, fmt.Errorf("latency log: %w", err)
		}
	}
	if x.Series, err = from.Series(); err != nil {
		return Recording{}, fmt.Errorf("series: %w", err)
	}
	if x.Stalls, x.StallsKnown, err = from.Stalls(); err != nil {
		return Recording{}, fmt.Errorf("stalls: %w", err)
	}
	x.Times, x.Stages = Merged(x.Log), staged(x.Log, x.Plan, t)
	return x, nil
}

// HasFigures tells whether the trial has figures.
func (r *Recording) HasFigures() bool { return r.Trial.IsMeasured() || r.Substitute }

// Open tells whether the schedule alone decides when requests are due. In a probe it
// does.
func (r *Recording) Open() bool { return r.Plan.Loop == "open" || r.Trial.Rate != nil }

// OnlySubscribers tells whether there were only subscribers: the load sent nothing that it
// could have been late with.
func (r *Recording) OnlySubscribers() bool { return r.Plan.Loop == "stream" && r.Trial.Rate == nil }

// IsProgram tells whether the target itself was the load.
func (r *Recording) IsProgram() bool { return r.Plan.Loop == "" && r.Trial.Rate == nil }

// SharesCPUs tells whether the generator was on its target's own CPUs by design, as in a duet
// on two CPUs. There its waiting for the target says nothing about the machine.
func (r *Recording) SharesCPUs() bool { return r.Trial.Duet != nil && r.Trial.Duet.Shared }

// Rate is how many requests a second were asked for; nil in a closed loop, and for
// stages, whose rate is meant to change.
func (r *Recording) Rate() *float64 {
	if r.Trial.Rate != nil {
		return r.Trial.Rate
	}
	return r.Plan.Rate
}

// InWindow tells whether a moment lies in the window.
func (r *Recording) InWindow(at float64) bool {
	begin := r.Trial.WarmupSeconds
	return at >= begin-edgeSlack && at <= begin+r.Trial.WindowSeconds+edgeSlack
}

// StallInWindow tells whether a stall reaches into the window.
func (r *Recording) StallInWindow(stall series.Stall) bool {
	return r.InWindow(stall.Due.Seconds()) || r.InWindow((stall.Due + stall.Late).Seconds())
}

// Delayed is the share of the load that a stall delayed: that of one agent, where agents carried the load.
func (r *Recording) Delayed(stall series.Stall) float64 {
	if stall.Target {
		return 1
	}
	return 1 / float64(max(len(r.Trial.Agents), 1))
}

// StolenShare is the share of the CPUs' time that the hypervisor took: of a process's own CPUs
// where known, otherwise of all.
func StolenShare(t *rundir.Trial, own *float64) float64 {
	switch {
	case own != nil:
		return *own
	case t.Machine.StealShare != nil:
		return *t.Machine.StealShare
	}
	return 0
}

// WithoutLoad tells whether a variant is a program that runs to its end: it has no load and
// no latencies.
func WithoutLoad(v rundir.PlanVariant) bool { return v.Loop == "" }

// CountedTag is the tag by which a load's responses are counted. A load without requests
// is counted by the events that came.
func CountedTag(v rundir.PlanVariant) string {
	if v.Loop == "stream" {
		return rundir.TagEventGap
	}
	return rundir.TagResponse
}
