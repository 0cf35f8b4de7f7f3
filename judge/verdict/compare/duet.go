package compare

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/judge/stat"
	"dyno/judge/verdict/dataset"
	"dyno/judge/verdict/validity"
	"dyno/results/rundir"
)

// A duet measures two variants at once. What disturbs both does not change their ratio. But
// each also disturbs the other. So only the ratio is known, and only if each disturbs the
// other equally. Three checks test that.
const (
	// duetLevel is the level of the tests by which a duet is refused: they refuse one
	// sound duet in a hundred.
	duetLevel = 0.01
	// A neighbour's load may not change what the base does by neighbourLimit or more. Two
	// that share one CPU get half of it each, a factor of two: such a neighbour has no
	// CPU of its own. A smaller change is the cost of shared caches, memory and the
	// threads of one core, and affects both.
	neighbourLimit = 1.8
)

// neverAtOnce tells whether two variants of a duet were never measured at once.
func (s Comparer) neverAtOnce(p Pair) bool {
	return s.Plan.Duet != nil && p.Variant != s.Plan.Base && p.Base != s.Plan.Base
}

// sides returns the trials of a pair in one of the given rounds; nil where there is none.
func (s Comparer) sides(p Pair, rounds dataset.ByRound, round int) (variant, base *dataset.Stats) {
	if s.neverAtOnce(p) {
		return nil, nil
	}
	return rounds[s.KeyOf(p.Variant, p.Base)][round], rounds[s.KeyOf(p.Base, p.Variant)][round]
}

// roundsOf are the rounds in which there is a trial of the pair's variant.
func (s Comparer) roundsOf(p Pair, rounds dataset.ByRound) []int {
	return slices.Sorted(maps.Keys(rounds[s.KeyOf(p.Variant, p.Base)]))
}

// duetFault says why a duet cannot compare a pair in a metric; empty if it can. The
// control's own ratio is always shown.
func (s Comparer) duetFault(p Pair, m dataset.Metric) *rundir.Message {
	switch {
	case s.Plan.Duet == nil:
		return nil
	case s.neverAtOnce(p):
		return new(texts.New("why.duet.apart", "variant", p.Variant, "other", p.Base, "base", s.Plan.Base))
	case p.Variant == s.Plan.Control || p.Base == s.Plan.Control:
		return nil
	}
	if p.Variant == s.Plan.Base {
		p.Variant, p.Base = p.Base, p.Variant
	}
	return cmp.Or(s.controlFault(m), s.idleFault(p), s.neighbourFault(p, m))
}

// controlFault says by how much the base differs from itself in a duet.
func (s Comparer) controlFault(m dataset.Metric) *rundir.Message {
	control := Pair{Variant: s.Plan.Control, Base: s.Plan.Base, Role: rundir.RoleControl}
	var logs []float64
	var second []bool
	for _, round := range s.roundsOf(control, s.Rounds) {
		f, b := s.sides(control, s.Rounds, round)
		if l, ok := logOver(m, f, b); ok {
			logs, second = append(logs, l), append(second, f.CPUSet == 1)
		}
	}
	if by := s.significant(logs, second); by != 0 {
		return new(texts.New("why.duet.control", "base", s.Plan.Base, "share", units.Percent(math.Abs(math.Expm1(by))), "metric", m.Name))
	}
	return nil
}

// neighbourFault says by how much a variant's load disturbs its neighbour more, or less,
// than the base's own load does: the ratio is wrong by as much. In each round it compares the
// base next to the variant with the base next to the control. The control repeats the base.
func (s Comparer) neighbourFault(p Pair, m dataset.Metric) *rundir.Message {
	control := Pair{Variant: s.Plan.Control, Base: s.Plan.Base}
	var logs []float64
	var swapped []bool
	for _, round := range s.roundsOf(p, s.Rounds) {
		_, base := s.sides(p, s.Rounds, round)
		f, b := s.sides(control, s.Rounds, round)
		over, ok := logOver(m, base, b)
		under, known := logOver(m, f, b)
		if ok && known { // next to itself: the mean of both halves of the control
			logs, swapped = append(logs, over-under/2), append(swapped, base.CPUSet == 1)
		}
	}
	if by := s.significant(logs, swapped); by != 0 {
		return new(texts.New("why.duet.neighbour", "variant", p.Variant, "base", p.Base, "share", units.Percent(math.Abs(math.Expm1(by))), "metric", m.Name))
	}
	return nil
}

// significant returns the mean of log ratios that should be zero. It returns 0 unless the mean
// is significant at duetLevel, and beyond WithinMargin of the plan's margin.
func (s Comparer) significant(logs []float64, second []bool) float64 {
	if len(logs) < 3 || stat.AllEqual(logs) && logs[0] == 0 {
		return 0
	}
	m, err := stat.Exchanged(logs, second, 1-duetLevel)
	if err != nil || m.P > duetLevel || math.Abs(m.Estimate) <= validity.WithinMargin*s.Plan.Margin {
		return 0
	}
	return m.Estimate
}

// idleFault says by which factor a neighbour's load changes the base's figure, if this
// shows that the two share CPUs. It compares with trials in which only the base has load:
// the variant next to it was started, and is idle.
func (s Comparer) idleFault(p Pair) *rundir.Message {
	name := rundir.MetricThroughput
	if loop := s.Plan.Variant(p.Base); loop.Loop != "closed" {
		name = loop.Latency() + ".p50"
	}
	m, ok := dataset.Lookup(name)
	if !ok {
		return nil
	}
	var logs []float64
	both := false // there is a round in which neither was dead
	for _, round := range s.roundsOf(p, s.Rounds) {
		f, b := s.sides(p, s.Rounds, round)
		both = both || f != nil && b != nil && !f.Lost && !b.Lost
		if l, ok := logOver(m, s.IdleBase[p.Variant][round], b); ok {
			logs = append(logs, l)
		}
	}
	switch {
	case len(logs) == 0 && both:
		return new(texts.New("why.duet.unchecked", "base", p.Base, "variant", p.Variant))
	case len(logs) == 0:
		return nil
	}
	// Each of the measurements must show it: a single one may have met a disturbance.
	if by := math.Exp(max(slices.Min(logs), -slices.Max(logs))); by >= neighbourLimit {
		return new(texts.New("why.duet.idle", "variant", p.Variant, "metric", m.Name, "base", p.Base, "factor", fmt.Sprintf("%.2g", by)))
	}
	return nil
}

// logOver is the logarithm of one figure over another; not ok if there is none.
func logOver(m dataset.Metric, over, under *dataset.Stats) (l float64, ok bool) {
	if over == nil || under == nil || over.Lost || under.Lost {
		return 0, false
	}
	a, b := m.Get(over), m.Get(under)
	if a == nil || b == nil || !(*a > 0 && *b > 0) {
		return 0, false
	}
	return math.Log(*a) - math.Log(*b), true
}
