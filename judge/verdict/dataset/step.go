package dataset

import (
	"slices"

	"dyno/judge/verdict/expr"
	"dyno/load/wire"
	"dyno/results/rundir"
)

// Figures of a scenario's steps have the name of the metric and of the step, such as
// response.p99{step=login}. They are judged as those of all requests are, with one
// difference: a step's times are recorded over the whole window, so that nobody knows
// which of them belong to disturbed stretches. In the worst case all requests of those
// stretches were of this one step.

// stepMetrics lists the metrics that a step has.
func stepMetrics(step string) []Metric {
	of := func(f *Stats) *rundir.ScenarioStep {
		if i := slices.IndexFunc(f.Steps, func(s rundir.ScenarioStep) bool { return s.Name == step }); i >= 0 {
			return &f.Steps[i]
		}
		return nil
	}
	none := rundir.QuantilesOf(nil)
	clock := func(tag string, get func(*rundir.ScenarioStep) *rundir.Quantiles) []Metric {
		return timesOf(tag, rundir.StepTag(tag, step), func(f *Stats) *rundir.Quantiles {
			if s := of(f); s != nil {
				return get(s)
			}
			return &none
		})
	}
	// Without answers of language models there are none of these figures.
	answers := func(f *Stats) *rundir.Tokens {
		if s := of(f); s != nil {
			return s.Tokens
		}
		return nil
	}
	rate := func(name string, get func(*rundir.Tokens) *float64) Metric {
		return Metric{Name: name, Get: func(f *Stats) *float64 {
			if t := answers(f); t != nil {
				return get(t)
			}
			return nil
		}}
	}
	tokenClock := func(tag string, get func(*rundir.Tokens) *rundir.Quantiles) []Metric {
		return timesOf(tag, rundir.StepTag(tag, step), func(f *Stats) *rundir.Quantiles {
			if t := answers(f); t != nil {
				return get(t)
			}
			return &none
		})
	}
	failed := func(f *Stats) (total, due float64) {
		s := of(f)
		if s == nil {
			return 0, 0
		}
		// Those that dyno could not send for lack of its own resources do not count.
		n := s.Failed() - s.ByKind[wire.Generator.String()] + s.Dropped
		return float64(n), float64(s.OK + n)
	}
	ratio := func(f *Stats) *float64 {
		total, due := failed(f)
		if due == 0 {
			return nil
		}
		return new(total / due)
	}
	all := []Metric{{Name: rundir.MetricThroughput, Get: func(f *Stats) *float64 {
		if s := of(f); s != nil {
			return s.Throughput
		}
		return nil
	}}}
	all = append(all,
		rate(rundir.MetricTokenRate, func(t *rundir.Tokens) *float64 { return t.PerSecond }),
		rate(rundir.MetricPromptRate, func(t *rundir.Tokens) *float64 { return t.PromptPerSecond }),
		rate(rundir.MetricGoodput, func(t *rundir.Tokens) *float64 { return t.Goodput }))
	all = append(all, clock(rundir.TagResponse, func(s *rundir.ScenarioStep) *rundir.Quantiles { return &s.Response })...)
	all = append(all, clock(rundir.TagService, func(s *rundir.ScenarioStep) *rundir.Quantiles { return &s.Service })...)
	all = append(all, tokenClock(rundir.TagFirstToken, func(t *rundir.Tokens) *rundir.Quantiles { return &t.FirstToken })...)
	all = append(all, tokenClock(rundir.TagTokenTime, func(t *rundir.Tokens) *rundir.Quantiles { return &t.TokenTime })...)
	all = append(all,
		Metric{Name: rundir.MetricErrorRatio, Share: failed, upTo: upToOmitted(ratio), Get: ratio},
		Metric{Name: rundir.MetricErrorTotal, Get: func(f *Stats) *float64 {
			if of(f) == nil {
				return nil
			}
			total, _ := failed(f)
			return &total
		}},
	)
	for i := range all {
		all[i].Name, all[i].Step = rundir.StepMetric(all[i].Name, step), step
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
func upToOmitted(ratio func(*Stats) *float64) func(*Stats) (high float64, ok bool) {
	return func(f *Stats) (float64, bool) {
		r := ratio(f)
		if r == nil || f.Omitted <= 0 || f.Counts.Answered() == 0 {
			return 0, false
		}
		return 1 - (1-*r)*(1-f.Omitted), true
	}
}
