package report

import (
	"slices"
	"strings"

	"dyno/report/figure"
	"dyno/report/layout"
	"dyno/results/rundir"
)

// steps writes what became of the steps of scenarios, and of the users who carried them out.
func (p *page) steps(variants []rundir.Variant) {
	some := func(v rundir.Variant) bool { return len(v.Steps) > 0 }
	if !slices.ContainsFunc(variants, some) {
		return
	}
	p.Section("steps of the scenario")
	t := layout.Table{Head: []string{"", "good responses", "throughput", "p50", "p99", "max", "errors"}, Left: []int{6}}
	for _, v := range variants {
		if len(variants) > 1 && some(v) {
			t.Add(v.Name)
		}
		for i := range v.Steps {
			s := &v.Steps[i]
			row := []string{s.Name, figure.Whole(s.OK)}
			for _, metric := range []string{"throughput", p.Clock(v.Name) + ".p50", p.Clock(v.Name) + ".p99", p.Clock(v.Name) + ".max"} {
				row = append(row, p.cell(v.Name, rundir.StepMetric(metric, s.Name)))
			}
			t.Add(append(row, p.stepErrors(s))...)
		}
	}
	t.Raise()
	p.Table(t)
	p.stepAnswers(variants)
	for _, v := range variants {
		if v.Users == nil {
			continue
		}
		of := ""
		if len(variants) > 1 {
			of = " of " + v.Name
		}
		p.Line("users%s: %s", of, usersOf(v.Users))
		for _, s := range v.Steps {
			if s.Skipped > 0 {
				p.Line("skipped%s: step %s, %s times", of, s.Name, figure.Whole(s.Skipped))
			}
		}
		for _, m := range v.Users.Misses {
			p.Line("extractions%s that found nothing: %s of step %s, %s times", of, m.Variable, m.Step, figure.Whole(m.Count))
		}
	}
}

// stepAnswers writes the figures of those steps whose responses are answers of language models.
func (p *page) stepAnswers(variants []rundir.Variant) {
	metrics := []string{"tokens_per_second", "goodput", "first_token.p50", "first_token.p99", "token_time.p50", "token_time.p99"}
	t := layout.Table{Head: []string{"answers", "tokens/s", "goodput", "first p50", "first p99", "token p50", "token p99"}}
	some := false
	for _, v := range variants {
		if !slices.ContainsFunc(v.Steps, func(s rundir.ScenarioStep) bool { return s.Tokens != nil }) {
			continue
		}
		some = true
		if len(variants) > 1 {
			t.Add(v.Name)
		}
		for i := range v.Steps {
			if v.Steps[i].Tokens == nil {
				continue
			}
			row := []string{v.Steps[i].Name}
			for _, metric := range metrics {
				row = append(row, p.cell(v.Name, rundir.StepMetric(metric, v.Steps[i].Name)))
			}
			t.Add(row...)
		}
	}
	if some {
		t.Raise()
		p.Table(t)
	}
}

// ofMax tells whether a metric is the largest of some times.
func ofMax(metric string) bool {
	of, _ := rundir.SplitStep(metric)
	return strings.HasSuffix(of, ".max")
}

func (p *page) stepErrors(s *rundir.ScenarioStep) string {
	text := "0"
	if len(s.ByKind) > 0 {
		text = kinds(s.ByKind)
	}
	if s.Dropped > 0 {
		text += ", dropped " + figure.Whole(s.Dropped)
	}
	return text
}

func usersOf(u *rundir.Users) string {
	text := figure.Whole(u.Started) + " in all, " + figure.Whole(u.Iterations) + " iterations in the window"
	if u.Ended > 0 {
		text += ", " + figure.Whole(u.Ended) + " came to their end"
	}
	if u.FailedLogins > 0 {
		text += ", " + figure.Whole(u.FailedLogins) + " logins failed"
	}
	if u.LoggedOut > 0 {
		text += ", " + figure.Whole(u.LoggedOut) + " waited to log in again at the end"
	}
	if u.TurnedAway > 0 {
		text += ", " + figure.Whole(u.TurnedAway) + " arrivals found none free and were dropped"
	}
	return text
}

// stages writes what was measured in each part of the window.
func (p *page) stages(variants []rundir.Variant) {
	some := func(v rundir.Variant) bool { return len(v.Stages) > 0 }
	if !slices.ContainsFunc(variants, some) {
		return
	}
	p.Section("stages of the window")
	t := layout.Table{Head: []string{"", "throughput", "p50", "p99", "in flight", "generator's lag p99", "failed"}}
	for i := range variants {
		v := &variants[i]
		if len(variants) > 1 && some(*v) {
			t.Add(v.Name)
		}
		for n := range v.Stages {
			s := &v.Stages[n]
			times := s.Times[p.Clock(v.Name)]
			t.Add(figure.Stage(&s.Planned, p.Run.Plan.Variant(v.Name).Loop), figure.Maybe(s.Throughput, func(x float64) string { return figure.PerSecond(x) + "/s" }),
				figure.Maybe(times.P50, figure.Seconds), figure.Maybe(times.P99, figure.Seconds), figure.Maybe(s.InFlight, figure.Digits),
				figure.Maybe(s.Times[rundir.TagGeneratorLag].P99, figure.Seconds), figure.Whole(s.Failed))
		}
	}
	t.Raise()
	p.Table(t)
}
