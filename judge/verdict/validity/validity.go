// Package validity says what may be said of a variant's figures. Bounds hold whatever happened
// in disturbed stretches.
//
//	ok              disturbances can have moved the figure only a little
//	bounded         the true value lies between two values
//	relative only   the ratios of the figure are valid, its value is not
//	not identified  none of these
package validity

import (
	"math"

	"dyno/internal/texts"
	"dyno/judge/stat"
	"dyno/judge/verdict/checks"
	"dyno/judge/verdict/dataset"
	"dyno/results/rundir"
)

// A figure is ok when disturbances cannot move it by more than WithinInterval of its interval's half-width. A
// latency is also ok when they cannot move it by more than WithinLatency of it. For any other figure the
// share is WithinFigure. Readers treat figures that differ by less as equal.
const (
	WithinInterval = 0.5
	WithinLatency  = 0.10
	WithinFigure   = 0.05
	// WithinMargin is by how much they may move a ratio, as a share of the plan's margin.
	WithinMargin = 0.25
)

// tolerated is by how much disturbances may move a figure that is printed as it is.
func tolerated(figure string, estimate float64) float64 {
	if _, isLatency := rundir.ClockOf(figure); isLatency {
		m, _ := dataset.Lookup(figure)
		return max(resolution(m), WithinLatency*math.Abs(estimate))
	}
	return WithinFigure * math.Abs(estimate)
}

// resolution is what a latency is known to at best, in seconds: also on an idle machine threads wake so late.
func resolution(m dataset.Metric) float64 {
	if m.Quantile != nil && m.Quantile.Q > 0.5 {
		return 100e-6
	}
	return 50e-6
}

// An Assessor says how far the figures of a dataset can be relied on.
type Assessor struct{ *dataset.Dataset }

// WhyBiased says that a check of some trial found something that disturbs all its figures.
func WhyBiased(trials []*dataset.Stats, kind string) *rundir.Message {
	for _, t := range trials {
		for _, f := range t.Flags {
			if f.Kind == kind && f.Disturbs && (kind == checks.FlagOwnLimit || kind == checks.FlagFewConnections) { // which say how to raise it
				return f.Detail
			}
		}
	}
	if own := "why." + kind; texts.Has(own) {
		return new(texts.New(own))
	}
	return new(texts.New("why.beyond_limit", "check", kind))
}

// OfVariant says what may be said of a variant's figures.
func (s Assessor) OfVariant(variant string) (list []rundir.Validity) {
	for _, m := range s.Metrics() {
		if CanBeDisturbed(m) && (s.Whole[variant].Figures[m.Name].Estimate != nil || len(held(s.InOrder(variant), m)) > 0) {
			list = append(list, s.validity(variant, m))
		}
	}
	return list
}

// CanBeDisturbed tells whether a disturbance can affect a metric at all: it can affect times, and
// counts per time.
func CanBeDisturbed(m dataset.Metric) bool {
	return m.IsThroughput() || m.Name == rundir.MetricCPU || LatencyTag(m) != "" || m.Kind() == rundir.MetricErrorRatio
}

// LatencyTag is the tag of a latency by which the target is judged; empty for all other
// metrics. Send lag is the generator's own, and true.
func LatencyTag(m dataset.Metric) string {
	if c, ok := rundir.ClockOf(m.Name); ok && c.Target {
		return c.Tag
	}
	return ""
}

// validity says what may be said of a figure of one variant.
func (s Assessor) validity(variant string, m dataset.Metric) rundir.Validity {
	f := s.Whole[variant]
	e := f.Figures[m.Name]
	v := rundir.Validity{Figure: m.Name, Variant: variant, State: rundir.StateOK}
	if e.Estimate == nil {
		if kinds := held(s.InOrder(variant), m); len(kinds) > 0 {
			v.State, v.Causes, v.Why = rundir.StateNotIdentified, kinds, WhyBiased(s.InOrder(variant), kinds[0])
		}
		return v
	}
	if s.Plan.Duet != nil && m.Kind() != rundir.MetricErrorRatio { // a failure remains one, whatever the neighbour does
		return state(v, e, open(new(texts.New("why.duet"))))
	}
	return state(v, e, s.Bounds(variant, m))
}

// state decides what may be said of an estimate with its bounds.
func state(v rundir.Validity, e rundir.Estimate, b Bounds) rundir.Validity {
	estimate := *e.Estimate
	v.Causes = b.causes
	// An end that cannot be calculated is no end; and JSON knows no NaN.
	known := func(end float64) bool { return !math.IsInf(end, 0) && !math.IsNaN(end) }
	low, high := widened(e, b)
	if known(low) {
		v.Low = &low
	}
	if known(high) {
		v.High = &high
	}
	if v.Low == nil || v.High == nil {
		v.State = rundir.StateNotIdentified
		v.Why = b.Why
		return v
	}
	allowed := tolerated(v.Figure, estimate)
	if w := stat.Ends(e.Low, e.High); e.Interval != rundir.NoInterval && !math.IsInf(w.High-w.Low, 0) {
		allowed = max(allowed, WithinInterval*(w.High-w.Low)/2)
	}
	if max(b.High-estimate, estimate-b.Low) <= allowed {
		v.Causes = nil
		if b.Low == b.High {
			v.Low, v.High = nil, nil
		}
		return v
	}
	v.State = rundir.StateBounded
	v.Why = b.Why
	return v
}

// widened adds the sampling error to the bounds: at either end the estimate's own
// interval, in proportion.
func widened(e rundir.Estimate, b Bounds) (low, high float64) {
	low, high = b.Low, b.High
	if w := stat.Ends(e.Low, e.High); e.Interval != rundir.NoInterval && *e.Estimate != 0 {
		if !math.IsInf(low, 0) && !math.IsInf(w.Low, 0) {
			low = min(low, low*w.Low / *e.Estimate)
		}
		if !math.IsInf(high, 0) && !math.IsInf(w.High, 0) {
			high = max(high, high*w.High / *e.Estimate)
		}
	}
	return low, high
}

// MarkRelative turns absolute figures that are not identified into relative ones,
// where their ratios are known.
func MarkRelative(list []rundir.Validity) {
	known := map[[2]string]bool{}
	for _, v := range list {
		if v.Base != "" && v.State == rundir.StateOK {
			known[[2]string{v.Figure, v.Variant}], known[[2]string{v.Figure, v.Base}] = true, true
		}
	}
	for i := range list {
		if v := &list[i]; v.Base == "" && v.State == rundir.StateNotIdentified && known[[2]string{v.Figure, v.Variant}] {
			v.State = rundir.StateRelative
		}
	}
}
