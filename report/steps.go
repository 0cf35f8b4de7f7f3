package report

import (
	"fmt"
	"slices"
	"strings"

	"dyno/results/rundir"
)

// steps writes what became of the steps of scenarios, and of the users who carried them out.
func (p *page) steps(variants []rundir.Variant) {
	some := func(v rundir.Variant) bool { return len(v.Steps) > 0 }
	if !slices.ContainsFunc(variants, some) {
		return
	}
	p.section("steps of the scenario")
	t := table{head: []string{"", "good responses", "throughput", "p50", "p99", "max", "errors"}, left: []int{6}}
	for _, v := range variants {
		if len(variants) > 1 && some(v) {
			t.add(v.Name)
		}
		for i := range v.Steps {
			s := &v.Steps[i]
			row := []string{s.Name, whole(s.OK)}
			for _, metric := range []string{"throughput", p.latency(v.Name) + ".p50", p.latency(v.Name) + ".p99", p.latency(v.Name) + ".max"} {
				row = append(row, p.cell(v.Name, rundir.StepMetric(metric, s.Name)))
			}
			t.add(append(row, p.stepErrors(s))...)
		}
	}
	t.raise()
	p.table(t)
	p.stepAnswers(variants)
	for _, v := range variants {
		if v.Users == nil {
			continue
		}
		of := ""
		if len(variants) > 1 {
			of = " of " + v.Name
		}
		p.line("users%s: %s", of, usersOf(v.Users))
		for _, s := range v.Steps {
			if s.Skipped > 0 {
				p.line("skipped%s: step %s, %s times", of, s.Name, whole(s.Skipped))
			}
		}
		for _, m := range v.Users.Misses {
			p.line("extractions%s that found nothing: %s of step %s, %s times", of, m.Variable, m.Step, whole(m.Count))
		}
	}
}

// stepAnswers writes the figures of those steps whose responses are answers of language models.
func (p *page) stepAnswers(variants []rundir.Variant) {
	metrics := []string{"tokens_per_second", "goodput", "first_token.p50", "first_token.p99", "token_time.p50", "token_time.p99"}
	t := table{head: []string{"answers", "tokens/s", "goodput", "first p50", "first p99", "token p50", "token p99"}}
	some := false
	for _, v := range variants {
		if !slices.ContainsFunc(v.Steps, func(s rundir.ScenarioStep) bool { return s.Tokens != nil }) {
			continue
		}
		some = true
		if len(variants) > 1 {
			t.add(v.Name)
		}
		for i := range v.Steps {
			if v.Steps[i].Tokens == nil {
				continue
			}
			row := []string{v.Steps[i].Name}
			for _, metric := range metrics {
				row = append(row, p.cell(v.Name, rundir.StepMetric(metric, v.Steps[i].Name)))
			}
			t.add(row...)
		}
	}
	if some {
		t.raise()
		p.table(t)
	}
}

// mostSteps is how many steps the short report has.
const mostSteps = 6

// shortSteps says in a line what became of the steps.
func (p *page) shortSteps(v *rundir.Variant) string {
	var words []string
	for i := range v.Steps {
		if i == mostSteps {
			words = append(words, fmt.Sprintf("and %d more", len(v.Steps)-i))
			break
		}
		s := &v.Steps[i]
		text := s.Name + " " + whole(s.OK) + " ok"
		if n := s.Failed(); n > 0 {
			text += " and " + whole(n) + " not"
		}
		if s.Skipped > 0 {
			text += ", skipped " + whole(s.Skipped)
		}
		if q := p.clockOf(*v, s); q.P99 != nil {
			text += ", p99 " + Seconds(*q.P99)
		}
		words = append(words, text)
	}
	return strings.Join(words, "; ")
}

// ofStep returns the figures of one step of a variant. They are empty if it has no such step.
func ofStep(v rundir.Variant, step string) rundir.Variant {
	for _, s := range v.Steps {
		if s.Name == step {
			return rundir.Variant{Throughput: rundir.Estimate{Estimate: s.Throughput}, Response: s.Response, Service: s.Service, Tokens: s.Tokens}
		}
	}
	return rundir.Variant{}
}

// ofMax tells whether a metric is the largest of some times.
func ofMax(metric string) bool {
	of, _ := rundir.SplitStep(metric)
	return strings.HasSuffix(of, ".max")
}

// clockOf returns the times of a step by the clock that the loop can know.
func (p *page) clockOf(v rundir.Variant, s *rundir.ScenarioStep) *rundir.Quantiles {
	if p.run.Plan.Variant(v.Name).Loop == "open" {
		return &s.Response
	}
	return &s.Service
}

func (p *page) stepErrors(s *rundir.ScenarioStep) string {
	text := "0"
	if len(s.ByKind) > 0 {
		text = kinds(s.ByKind)
	}
	if s.Dropped > 0 {
		text += ", dropped " + whole(s.Dropped)
	}
	return text
}

func usersOf(u *rundir.Users) string {
	text := whole(u.Started) + " in all, " + whole(u.Iterations) + " iterations in the window"
	if u.Ended > 0 {
		text += ", " + whole(u.Ended) + " came to their end"
	}
	if u.FailedLogins > 0 {
		text += ", " + whole(u.FailedLogins) + " logins failed"
	}
	if u.LoggedOut > 0 {
		text += ", " + whole(u.LoggedOut) + " waited to log in again at the end"
	}
	if u.TurnedAway > 0 {
		text += ", " + whole(u.TurnedAway) + " arrivals found none free and were dropped"
	}
	return text
}
