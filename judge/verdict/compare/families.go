package compare

import (
	"slices"

	"dyno/internal/units"
	"dyno/judge/verdict/dataset"
	"dyno/results/rundir"
)

// A Pair is two variants that are compared: a variant and its base.
type Pair struct{ Variant, Base, Role string }

// A Family is a set of pairs that answer one question together. Their p-values are
// adjusted for their number, metric by metric.
type Family []Pair

// Families returns the pairs that a plan compares. The control comes first and is a
// family of its own, because it tests the measurement and not a variant.
func Families(plan rundir.Plan) []Family {
	var all []Family
	i := slices.IndexFunc(plan.Variants, func(v rundir.PlanVariant) bool {
		return v.Name == plan.Control && v.AliasOf != ""
	})
	if i >= 0 {
		all = append(all, Family{{plan.Control, plan.Variants[i].AliasOf, rundir.RoleControl}})
	}
	if plan.Ladder != nil {
		return append(all, steps(*plan.Ladder), leftOut(*plan.Ladder))
	}
	var withBase Family
	for _, v := range plan.Variants {
		if plan.Base != "" && v.Name != plan.Base && v.Name != plan.Control {
			withBase = append(withBase, Pair{Variant: v.Name, Base: plan.Base})
		}
	}
	return append(all, append(withBase, otherPairs(plan)...))
}

// otherPairs pairs the variants that are not the base with each other, where the plan asks for
// it: each with those before it. They are of one family with the comparisons with the base,
// because "which of them differ" is one question.
func otherPairs(plan rundir.Plan) (f Family) {
	if !plan.Pairs {
		return nil
	}
	var before []string
	for _, v := range plan.Variants {
		if v.Name == plan.Base || v.Name == plan.Control {
			continue
		}
		for _, other := range before {
			f = append(f, Pair{v.Name, other, rundir.RolePair})
		}
		before = append(before, v.Name)
	}
	return f
}

// compared lists the metrics in which a pair is compared: some of all requests, the primary one,
// and the times of each step of a scenario. A program's plain counts are left out, because it is
// unknown which direction is good. Where all variants are compared with each other, memory is one
// of the metrics. Pairs without the base are compared only in what the question is about: each
// further metric would have a family as large.
func (s Comparer) compared(p Pair) []dataset.Metric {
	var latency string // if the two have different loops, the one that both know
	for _, v := range s.Plan.Variants {
		if (v.Name == p.Variant || v.Name == p.Base) && latency != rundir.TagService {
			latency = v.Latency()
		}
	}
	names := []string{rundir.MetricThroughput, rundir.MetricCPU, rundir.MetricCapacity, s.Plan.PrimaryMetric()}
	if s.Plan.Pairs {
		names = append(names, rundir.MetricMemory)
	}
	if p.Role != rundir.RolePair {
		names = append(names, latency+".p50", latency+".p99")
	}
	var list []dataset.Metric
	for _, m := range s.Metrics() {
		further := m.IsProgram() && m.Dimension() != units.Plain || m.Step != "" && comparesSteps(m.Kind(), latency)
		if slices.Contains(names, m.Name) || further && p.Role != rundir.RolePair {
			list = append(list, m)
		}
	}
	return list
}

// comparesSteps tells whether variants are compared in such a figure of each step.
func comparesSteps(kind, latency string) bool {
	return kind == latency+".p50" || kind == latency+".p99"
}
