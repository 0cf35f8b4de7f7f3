package verdict

import (
	"math"
	"slices"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/judge/stat"
	"dyno/results/rundir"
)

const (
	// widest is the largest quotient of an interval's ends that still says something: a figure that may be twice
	// another of the same run ranks nothing.
	widest = 2
	// controlLevel is the level at which a control differs: one sound run in a hundred.
	controlLevel = 0.01
	// fewestForWidth is how many rounds an interval needs before its width is the machine's fault. Three rounds that
	// differ by a seventh are as wide, and more of them are the remedy.
	fewestForWidth = 4
)

// tooWide tells whether an interval says nothing. One that is not known is none.
func tooWide(low, high *float64) bool {
	ends := stat.Ends(low, high)
	return (low != nil || high != nil) && !(ends.High <= widest*ends.Low)
}

// markTooDisturbed marks bounds that say nothing. If most trials of the run were disturbed, a comparison's ratio
// with such an interval is not identified.
func markTooDisturbed(run *rundir.Run) {
	disturbed := MostlyDisturbed(run) != nil
	for i := range run.Validity {
		v := &run.Validity[i]
		v.TooDisturbed = v.State == rundir.StateBounded && tooWide(v.Low, v.High) && !slices.Contains(v.Causes, rundir.CauseAgentClocks)
		if disturbed && (v.State == rundir.StateBounded || v.State == rundir.StateOK) && slices.ContainsFunc(run.Comparisons, func(c rundir.Comparison) bool {
			return c.Metric == v.Figure && c.Variant == v.Variant && c.Base == v.Base && c.Role != rundir.RoleControl && isTooWide(c)
		}) {
			v.TooDisturbed, v.State, v.Low, v.High = true, rundir.StateNotIdentified, nil, nil
			v.Why = new(texts.New(rundir.TooDisturbed))
		}
	}
}

// isTooWide tells whether a comparison's interval says nothing although there were rounds enough.
func isTooWide(c rundir.Comparison) bool {
	return c.Rounds >= fewestForWidth && tooWide(c.Ratio.Low, c.Ratio.High)
}

// controlDiffers tells whether a comparison is that of a control that differs: at its level, and by more than the margin.
func controlDiffers(c rundir.Comparison, margin float64) bool {
	return c.Role == rundir.RoleControl && c.Primary && c.Equivalence != nil && !stat.Ends(c.Ratio.Low, c.Ratio.High).Contains(1) &&
		*c.P <= controlLevel && math.Abs(math.Log(*c.Ratio.Estimate)) > math.Log1p(margin)
}

// leaveRoom withdraws what a run cannot show: the outcomes of claims whose intervals say nothing and, where the
// control or the disturbances leave no room, all verdicts.
func leaveRoom(run *rundir.Run) {
	disturbed := MostlyDisturbed(run) != nil
	for i := range run.Claims {
		if c := &run.Claims[i]; disturbed && c.Outcome == rundir.NotSettled && tooWide(c.Low, c.High) {
			c.Low, c.High, c.Detail = nil, nil, new(texts.New(rundir.TooDisturbed))
		}
	}
	if run.NoRoom = noRoom(run, disturbed); run.NoRoom == nil {
		return
	}
	for i := range run.Comparisons {
		if c := &run.Comparisons[i]; c.Role != rundir.RoleControl {
			c.Verdict, c.FurtherRounds = rundir.Invalid, nil
		}
	}
	for i := range run.Claims {
		if c := &run.Claims[i]; c.Outcome != rundir.NotTestable {
			c.Outcome, c.Low, c.High, c.Detail = rundir.NotSettled, nil, nil, run.NoRoom
		}
	}
}

// noRoom says why a run shows nothing; nil if it shows something. Its control may differ or be too wide. Or most of its
// trials were disturbed, and neither a comparison nor a claim can be decided.
func noRoom(run *rundir.Run, disturbed bool) *rundir.Message {
	for _, c := range run.Comparisons {
		if c.Role != rundir.RoleControl || !c.Primary || c.Equivalence == nil || run.Plan.Duet != nil { // a duet is refused by its own checks
			continue
		}
		switch {
		case controlDiffers(c, run.Plan.Margin):
			return new(texts.New("no_room.differs", "base", c.Base, "metric", c.Metric, "share", units.Percent(math.Abs(*c.Ratio.Estimate-1))))
		case isTooWide(c):
			return new(texts.New("no_room.wide", "base", c.Base, "metric", c.Metric))
		}
	}
	settled := slices.ContainsFunc(run.Claims, func(c rundir.Claim) bool { return c.Outcome != rundir.NotSettled && c.Outcome != rundir.NotTestable })
	if !disturbed || settled || len(run.Plan.Variants) < 2 || run.Rounds < fewestForWidth {
		return nil
	}
	for _, at := range primaries(run) {
		i := slices.IndexFunc(run.Validity, func(v rundir.Validity) bool {
			return v.Figure == at.Metric && v.Variant == at.Variant && v.Base == at.Base
		})
		if i < 0 || !run.Validity[i].TooDisturbed && run.Validity[i].State != rundir.StateNotIdentified {
			return nil
		}
	}
	return new(texts.New("no_room.disturbed"))
}
