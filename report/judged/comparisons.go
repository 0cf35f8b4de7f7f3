package judged

import (
	"cmp"
	"math"
	"slices"

	"dyno/internal/units"
	"dyno/judge/verdict/checks"
	"dyno/report/figure"
	"dyno/results/rundir"
)

// Primary returns the comparisons in the plan's metric, the clearest first.
func (r *Result) Primary(role string) []rundir.Comparison {
	var list []rundir.Comparison
	for _, c := range r.Run.Comparisons {
		if c.Primary && c.Role == role {
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(a, b rundir.Comparison) int {
		return cmp.Or(cmp.Compare(unclear(a), unclear(b)), -cmp.Compare(distance(a), distance(b)))
	})
	return list
}

// unclear ranks verdicts: differences, then equivalence, then undecided ones.
func unclear(c rundir.Comparison) int {
	return max(0, slices.Index([]string{rundir.Better, rundir.Worse, rundir.Equivalent, rundir.Inconclusive, "", rundir.Invalid}, c.Verdict)-1)
}

func distance(c rundir.Comparison) float64 {
	if c.Ratio.Estimate == nil || *c.Ratio.Estimate <= 0 {
		return 0
	}
	return math.Abs(math.Log(*c.Ratio.Estimate))
}

// ChangeUnder writes a ratio as a change, if its verdict does not say that it is not identified.
func ChangeUnder(verdict string, ratio rundir.Estimate) string {
	if verdict == rundir.Invalid {
		return Doubted(ratio)
	}
	return figure.Change(ratio)
}

// Doubted writes a ratio that cannot be relied on as a change.
func Doubted(ratio rundir.Estimate) string {
	if ratio.Estimate == nil {
		return figure.Unknown
	}
	return figure.Change(rundir.Estimate{Estimate: ratio.Estimate}) + Doubt
}

// Paired writes a comparison's two figures in one unit, each with its mark: those of its rounds, so that the change is
// theirs. If a round was lost there are none, and those of all trials stand there.
func (r *Result) Paired(c rundir.Comparison) (variant, base string) {
	u := figure.UnitOf(c.Metric)
	of := func(name string, v *float64) (*float64, string) {
		x := r.Run.Variant(name)
		return cmp.Or(v, x.Figure(c.Metric).Estimate), r.Mark(*x, c.Metric)
	}
	over, marked := of(c.Variant, c.Figure)
	under, baseMarked := of(c.Base, c.BaseFigure)
	if over == nil || under == nil {
		return r.Briefly(c.Variant, c.Metric), r.Briefly(c.Base, c.Metric)
	}
	step := u.Step(max(*over, *under))
	write := func(v float64) string { return units.Figure(v/step.From) + step.Name + u.Suffix() }
	return Marked(marked, write(*over)), Marked(baseMarked, write(*under))
}

// Identified tells whether anything can be said of a comparison.
func (r *Result) Identified(c rundir.Comparison) bool {
	return c.Verdict != rundir.Invalid && r.State(c.Metric, c.Variant, c.Base).State != rundir.StateNotIdentified
}

// ControlDiffers tells whether the run has the flag of a control that differs.
func (r *Result) ControlDiffers() bool {
	return slices.ContainsFunc(r.Run.Flags, func(f rundir.Flag) bool { return f.Kind == checks.FlagControlDiffers })
}

// PValue is the p that decides: within its family where there is one.
func PValue(c rundir.Comparison) (p *float64, adjusted bool) {
	if c.AdjustedP != nil {
		return c.AdjustedP, true
	}
	return c.P, false
}
