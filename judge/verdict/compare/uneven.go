package compare

import (
	"math"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/judge/stat"
	"dyno/judge/verdict/checks"
	"dyno/judge/verdict/dataset"
	"dyno/judge/verdict/disturbance"
	"dyno/judge/verdict/validity"
	"dyno/results/rundir"
)

const (
	// unlikeLevel and unlikeLeast say when one variant was disturbed more than another:
	// by a paired test at this level, and by this share of the window at least.
	unlikeLevel = 0.01
	unlikeLeast = 0.05
)

// uneven says by how much, and by what, the machine disturbed one variant of a pair more than the
// other; nil if it did not. What disturbs both alike is in the interval of their ratio.
func (s Comparer) uneven(p Pair, m dataset.Metric) (why *rundir.Message, causes []string) {
	if e := max(s.ClockError(p.Variant, m), s.ClockError(p.Base, m)); e > 0 {
		return new(validity.WhyClocks(e)), []string{rundir.CauseAgentClocks}
	}
	if !validity.CanBeDisturbed(m) || m.Name == rundir.MetricCPU || m.Kind() == rundir.MetricErrorRatio {
		return nil, nil
	}
	measure, least := func(d *disturbance.Disturbance) float64 { return d.Moved }, unlikeLeast
	if m.IsThroughput() {
		measure = func(d *disturbance.Disturbance) float64 { return d.Lost }
		least = max(validity.WithinMargin*s.Plan.Margin, 0.005)
	}
	by := s.unequal(p, measure)
	if !(math.Abs(by) > least) {
		return nil, nil
	}
	more, less := p.Variant, p.Base
	if by < 0 {
		more, less = less, more
	}
	kinds := map[string]int{}
	for _, t := range s.InOrder(more) {
		if t.Disturbance != nil {
			for _, kind := range t.Disturbance.Causes() {
				kinds[kind]++
			}
		}
	}
	return new(texts.New("why.unlike", "variant", more, "share", units.Percent(math.Abs(by)), "base", less)), checks.MostFirst(kinds)
}

// unequal is how much larger a measure of disturbance is for the variant than for its base. It is 0
// if that may be chance.
func (s Comparer) unequal(p Pair, measure func(*disturbance.Disturbance) float64) float64 {
	var differences []float64
	for _, round := range s.roundsOf(p, s.Rounds) {
		f, b := s.sides(p, s.Rounds, round)
		if f != nil && b != nil && f.Disturbance != nil && b.Disturbance != nil {
			differences = append(differences, measure(f.Disturbance)-measure(b.Disturbance))
		}
	}
	switch {
	case len(differences) < 3:
		return 0
	case stat.AllEqual(differences): // there is no spread to test it by
		return differences[0]
	}
	m, err := stat.PairedMean(differences, 1-unlikeLevel)
	if err != nil || m.P > unlikeLevel {
		return 0
	}
	return m.Estimate
}

// widen makes an effect hold the truth where one variant was disturbed more than the other: both ran on the same CPUs next
// to the same programs. Errors of clocks are not alike: there the ratio may be any quotient of the ends.
func (s Comparer) widen(p Pair, m dataset.Metric, e effect) effect {
	if why, _ := s.uneven(p, m); why == nil || len(e.logs) < 2 || e.lost {
		return e
	}
	below, above := s.reach(p.Variant, m)
	baseBelow, baseAbove := s.reach(p.Base, m)
	low, high := validity.UnlikeRatio(below, above, baseBelow, baseAbove)
	if s.ClockError(p.Variant, m)+s.ClockError(p.Base, m) > 0 {
		low, high = below+baseAbove, above+baseBelow
	}
	if math.IsNaN(low + high) { // both are open
		low, high = math.Inf(1), math.Inf(1)
	}
	e.interval.Low, e.interval.High = e.interval.Low-low, e.interval.High+high
	return e
}

// reach is how far below and above a variant's figure its bounds lie, on the scale of
// logarithms; infinite where they are open.
func (s Comparer) reach(variant string, m dataset.Metric) (below, above float64) {
	f := s.Whole[variant]
	if f == nil || f.Figures[m.Name].Estimate == nil {
		return math.Inf(1), math.Inf(1)
	}
	b, estimate := s.Bounds(variant, m), *f.Figures[m.Name].Estimate
	if below = math.Inf(1); b.Low > 0 {
		below = math.Log(estimate / b.Low)
	}
	return below, math.Log(b.High / estimate)
}

// unevenValidity is the validity of a ratio of variants one of which was disturbed
// more than the other: it is bounded, unless an end is open.
func (s Comparer) unevenValidity(v rundir.Validity, p Pair, m dataset.Metric, why *rundir.Message, causes []string) rundir.Validity {
	as, _ := s.sameClock(p, m)
	e, err := s.effect(p, as, s.Rounds, s.confidence(p))
	if err != nil {
		return v
	}
	wide := s.widen(p, m, e)
	added := max(wide.interval.High-e.interval.High, e.interval.Low-wide.interval.Low)
	allowed := max(validity.WithinMargin*s.Plan.Margin, validity.WithinInterval*(e.interval.High-e.interval.Low)/2)
	if len(e.logs) > 1 && added <= allowed {
		return v
	}
	v.Why = why
	v.State, v.Causes = rundir.StateBounded, causes
	r := wide.ratio()
	if v.Low, v.High = r.Low, r.High; v.Low == nil || v.High == nil {
		v.State, v.Low, v.High = rundir.StateNotIdentified, nil, nil
	}
	return v
}
