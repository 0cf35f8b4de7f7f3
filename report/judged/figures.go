package judged

import (
	"cmp"
	"math"
	"slices"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/judge/verdict/expr"
	"dyno/report/figure"
	"dyno/results/rundir"
)

// State returns what may be said of a figure. A figure that was not judged is ok.
func (r *Result) State(figure, variant, base string) rundir.Validity {
	for _, v := range r.Run.Validity {
		if v.Figure == figure && v.Variant == variant && v.Base == base {
			return v
		}
	}
	return rundir.Validity{Figure: figure, Variant: variant, Base: base, State: rundir.StateOK}
}

// Because is why a figure is not as it is printed.
func Because(v rundir.Validity) texts.Message {
	if v.Why != nil {
		return *v.Why
	}
	return texts.New("why.unknown")
}

// Briefly writes a variant's figure as its state allows, without footnotes.
func (r *Result) Briefly(variant, metric string) string {
	return r.Figure(*r.Run.Variant(variant), metric, figure.UnitOf(metric))
}

// Figure writes a variant's figure in a unit, with the mark that it needs.
func (r *Result) Figure(v rundir.Variant, metric string, u figure.Unit) string {
	e := v.Figure(metric)
	if e.Estimate != nil && IsFew(v, metric) {
		return Marked(TooFew, u.Write(*e.Estimate))
	}
	return stated(u, e, r.State(metric, v.Name, ""))
}

// Mark is the mark that a variant's figure needs.
func (r *Result) Mark(v rundir.Variant, metric string) string {
	if IsFew(v, metric) {
		return TooFew
	}
	return markOf(v.Figure(metric), r.State(metric, v.Name, ""))
}

// IsFew tells whether a figure is a quantile with fewer than ten values beyond it.
func IsFew(v rundir.Variant, metric string) bool {
	_, few := v.Few[metric]
	return few
}

// BrieflyIn writes a figure of a variant as its state allows.
func (r *Result) BrieflyIn(variant, metric string, e rundir.Estimate) string {
	return stated(figure.UnitOf(metric), e, r.State(metric, variant, ""))
}

// The marks of figures. A figure has one at most.
const (
	AtMost  = "≤" // disturbances can only have made it larger than it truly is
	AtLeast = "≥" // or smaller
	TooFew  = "~" // it has fewer than ten samples
	Doubt   = "?" // it cannot be relied on
)

// stated writes a figure as it was measured, with its mark. The interval or the bounds come
// after it.
func stated(u figure.Unit, e rundir.Estimate, v rundir.Validity) string {
	if e.Estimate == nil {
		return figure.Unknown
	}
	if v.State == rundir.StateOK {
		return u.Estimate(e)
	}
	mark := markOf(e, v)
	text := Marked(mark, u.Write(*e.Estimate))
	if mark != Doubt && figure.Bounded(e) && v.Low != nil && v.High != nil {
		if v.TooDisturbed {
			return text + tooDisturbed()
		}
		text += " " + u.Ends(rundir.Estimate{Estimate: e.Estimate, Low: v.Low, High: v.High})
	}
	return text
}

// tooDisturbed stands in place of an interval that says nothing.
func tooDisturbed() string { return " (" + texts.Say(texts.English, "too_disturbed", nil) + ")" }

// Marked puts a mark where it stands: the doubt after the figure, the others before it.
func Marked(mark, figure string) string {
	if mark == Doubt {
		return figure + mark
	}
	return mark + figure
}

// markOf is the mark that a figure needs as its state is.
func markOf(e rundir.Estimate, v rundir.Validity) string {
	if v.State == rundir.StateOK || e.Estimate == nil {
		return ""
	}
	// A disturbed exchange takes longer, not shorter.
	// Bounds that are far apart say nothing.
	if _, isTime := rundir.ClockOf(v.Figure); isTime && v.Base == "" && v.State == rundir.StateBounded && !slices.Contains(v.Causes, rundir.CauseAgentClocks) {
		if v.Low != nil && v.High != nil && *v.High > wide**v.Low {
			return Doubt
		}
		return AtMost
	}
	// A bound at the end of the interval of trials is that of chance alone.
	below, above := math.Inf(1), math.Inf(1) // how far beyond that the bounds lie, as a share
	if v.Low != nil {
		below = -beyond(*cmp.Or(e.Low, e.Estimate), *v.Low)
	}
	if v.High != nil {
		above = beyond(*cmp.Or(e.High, e.Estimate), *v.High)
	}
	switch {
	case v.State == rundir.StateRelative || !(min(below, above) <= slight):
		return Doubt
	case above <= below:
		return AtMost
	}
	return AtLeast
}

// beyond is how far a bound lies above a value, as a share of it.
func beyond(value, bound float64) float64 {
	if value == bound {
		return 0 // even where both are 0
	}
	return bound/value - 1
}

// slight is the share by which a bound may pass a figure in the direction that the mark rules out.
const slight = 0.1

// wide is the factor between the bounds of a time from which the time is of no use.
const wide = 3

// Claimed writes the measured value of a claim.
func (r *Result) Claimed(c rundir.Claim) string {
	if c.NotIdentified != nil && c.Measured != nil {
		return written(expr.ClaimUnit(c, r.Run.Plan), c.Measured, nil, nil) + Doubt
	}
	text := written(expr.ClaimUnit(c, r.Run.Plan), c.Measured, c.Low, c.High)
	if c.Detail != nil && c.Detail.Kind == rundir.TooDisturbed {
		text += tooDisturbed()
	}
	return text
}

// Measured writes the measured value of a threshold.
func (r *Result) Measured(t rundir.Threshold) string {
	return written(expr.ThresholdUnit(t.Text, r.Run.Plan), t.Measured, t.Low, t.High)
}

// written writes a measured value with its interval.
func written(of rundir.Unit, v, low, high *float64) string {
	if v == nil {
		return ""
	}
	if of == rundir.SharePerSecond {
		// The expression's growth is that of its own time.
		return figure.Over(rundir.Estimate{Estimate: v, Low: low, High: high}, MostSpan) + " in " + units.FormatSeconds(MostSpan)
	}
	u := figure.UnitIn(of)
	if low == nil && high == nil || low != nil && high != nil && *low == *v && *high == *v {
		return u.Write(*v)
	}
	return u.Write(*v) + " " + u.Ends(rundir.Estimate{Estimate: v, Low: low, High: high})
}

// MostSpan is the time of which reports say what grows in it.
const MostSpan = 1800.0

// MeasuredSpan is in how many seconds a variant's gauges are said to grow: no more than were measured,
// as what comes later may be another slope.
func (r *Result) MeasuredSpan(variant string) float64 {
	for _, v := range r.Run.Plan.Variants {
		if v.Name == variant && v.WindowSeconds > 0 {
			return min(MostSpan, v.WindowSeconds)
		}
	}
	return MostSpan
}

// Grown writes a variant's slope as the growth in what was measured of it.
func (r *Result) Grown(variant string, slope rundir.Estimate) string {
	if slope.Estimate == nil {
		return figure.Unknown
	}
	span := r.MeasuredSpan(variant)
	return figure.Over(slope, span) + " in " + units.FormatSeconds(span)
}

// Float returns a count as a figure.
func Float(n *int64) *float64 {
	if n == nil {
		return nil
	}
	return new(float64(*n))
}
