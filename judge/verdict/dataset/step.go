package dataset

import (
	"slices"

	"dyno/judge/verdict/expr"
	"dyno/results/rundir"
)

// Figures of a scenario's steps have the name of the metric and of the step, such as
// response.p99{step=login}. They are judged as those of all requests are, with one
// difference: a step's times are recorded over the whole window. So it is unknown which
// of them belong to disturbed stretches. In the worst case all requests of those
// stretches were of this one step.

// stepMetrics lists the metrics that a step has.
func stepMetrics(step string) (all []Metric) {
	for _, of := range rundir.Metrics() {
		if m, ok := Lookup(rundir.StepMetric(of.Name, step)); ok {
			all = append(all, m)
		}
	}
	return all
}

// reported tells whether a report has such a figure of each step of a variant. The other
// ones are made where the plan asks for them.
func reported(kind, latency string) bool {
	return slices.Contains([]string{
		rundir.MetricThroughput, latency + ".p50", latency + ".p99", latency + ".max", rundir.MetricErrorRatio,
		rundir.MetricTokenRate, "first_token.p50", "first_token.p99", "token_time.p50", "token_time.p99",
	}, kind)
}

// ofSteps lists the metrics of steps that may have figures: those that a report has, and
// those that the plan asks for.
func (s *Dataset) ofSteps() (all []Metric) {
	names := expr.NamesOf(s.Plan)
	if len(names.Steps) == 0 {
		return nil
	}
	asked := map[string]bool{s.Plan.PrimaryMetric(): true}
	for _, at := range expr.RefsIn(s.Plan) {
		asked[at.Metric] = true
	}
	for _, step := range names.Steps {
		for _, m := range stepMetrics(step) {
			shown := slices.ContainsFunc(s.Plan.Variants, func(v rundir.PlanVariant) bool {
				return slices.Contains(v.Steps, step) && reported(m.Kind(), v.Latency())
			})
			if shown || asked[m.Name] {
				all = append(all, m)
			}
		}
	}
	return all
}

// upToOmitted is the most that an errors.ratio, of all requests or of a step's, can be: the ratio
// if users who waited in vain had sent as much as the others, all in vain.
func (m Metric) upToOmitted(f *Stats) (high float64, ok bool) {
	r := m.Get(f)
	if r == nil || f.Omitted <= 0 || f.Counts.Answered() == 0 {
		return 0, false
	}
	return 1 - (1-*r)*(1-f.Omitted), true
}
