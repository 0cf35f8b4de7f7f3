package compare

import (
	"math"
	"slices"
	"strings"

	"dyno/internal/texts"
	"dyno/judge/verdict/checks"
	"dyno/judge/verdict/dataset"
	"dyno/judge/verdict/validity"
	"dyno/results/rundir"
)

// Validities returns what may be said of each variant's figures, and of each comparison.
func (s Comparer) Validities(comparisons []rundir.Comparison) []rundir.Validity {
	list := []rundir.Validity{}
	for _, v := range s.Plan.Variants {
		list = append(list, s.OfVariant(v.Name)...)
	}
	for _, c := range comparisons {
		if m, ok := dataset.Lookup(c.Metric); ok {
			list = append(list, s.RatioValidity(Pair{Variant: c.Variant, Base: c.Base, Role: c.Role}, m))
		}
	}
	return list
}

// RatioValidity returns what may be said of a comparison. A disturbance of both variants
// alike is in its interval already. A disturbance of one variant more than the other bounds
// it. A generator that was the limit of either makes it meaningless.
func (s Comparer) RatioValidity(p Pair, m dataset.Metric) rundir.Validity {
	v := rundir.Validity{Figure: m.Name, Variant: p.Variant, Base: p.Base, State: rundir.StateOK}
	bad := func(why *rundir.Message, causes ...string) rundir.Validity {
		v.State, v.Causes = rundir.StateNotIdentified, causes
		v.Why = why
		return v
	}
	if why := s.duetFault(p, m); why != nil {
		return bad(why)
	}
	trials := slices.Concat(s.InOrder(p.Variant), s.InOrder(p.Base))
	if kinds := validity.Biasing(trials, checks.BiasAll); len(kinds) > 0 {
		return bad(validity.WhyBiased(trials, kinds[0]), kinds...)
	}
	if m.IsThroughput() {
		kinds := validity.Biasing(trials, checks.BiasThroughput)
		kinds = slices.DeleteFunc(kinds, func(k string) bool { return !checks.LimitsGenerator(k) })
		if slices.Contains(s.GeneratorLimited, p.Variant) || slices.Contains(s.GeneratorLimited, p.Base) {
			kinds = append(kinds, checks.FlagPlateau)
		}
		if len(kinds) > 0 {
			return bad(new(texts.New("why.alike")), kinds...)
		}
	}
	if validity.LatencyTag(m) != "" {
		if _, same := s.sameClock(p, m); !same {
			return bad(new(texts.New("why.clocks", "variant", p.Variant, "base", p.Base)), checks.CauseClocks)
		}
	}
	if why, causes := s.uneven(p, m); why != nil {
		return s.unevenValidity(v, p, m, why, causes)
	}
	return v
}

// otherClock tells whether most of one variant's responses ended at their arrival, and
// most of the other's at the read. The generator's read delay is then in one side of the
// ratio only.
func (s Comparer) otherClock(p Pair, m dataset.Metric) bool {
	if tag := validity.LatencyTag(m); tag == rundir.TagConnect || tag == rundir.TagHandshake || tag == rundir.TagOpening {
		return false // a connection that opens bears no stamp
	}
	ends := func(variant string) *rundir.Ends {
		if f := s.Whole[variant]; f != nil {
			return f.Ends
		}
		return nil
	}
	a, b := ends(p.Variant), ends(p.Base)
	return a != nil && b != nil && a.ArrivalShare != nil && b.ArrivalShare != nil && math.Abs(*a.ArrivalShare-*b.ArrivalShare) > 0.5
}

// sameClock returns a metric that ends the responses of both variants by the same clock,
// if there is one. For the service time, the read is always recorded.
func (s Comparer) sameClock(p Pair, m dataset.Metric) (alike dataset.Metric, same bool) {
	if !s.otherClock(p, m) {
		return m, true
	}
	if validity.LatencyTag(m) != rundir.TagService || m.Step != "" {
		return m, false
	}
	alike, same = dataset.Lookup(rundir.TagServiceRead + strings.TrimPrefix(m.Name, rundir.TagService))
	alike.Name = m.Name
	return alike, same
}
