package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"dyno/internal/exit"
	"dyno/internal/texts"
	"dyno/judge/verdict"
	"dyno/judge/verdict/checks"
	"dyno/results/rundir"
)

// mostSeen bounds how many findings one sentence joins.
const mostSeen = 3

// unanswered returns the error of a run in which a target did not do what was asked: it
// could not be reached, ended, or answered only some requests or none. If the user asked
// about regressions or thresholds and the target failed one, that error comes first. It
// returns nil for a run without such a finding.
func unanswered(run *rundir.Run, g gate) error {
	findings := verdict.Breaking(run)
	if len(findings) == 0 {
		return nil
	}
	if g.isClosed() {
		if err := g.pass(slices.Concat(worse(run), verdict.LostRounds(run)), nil); err != nil {
			return err
		}
	}
	broken := thresholds(run, rundir.Broken)
	// In a search, thresholds only classify rates.
	for _, c := range run.Capacities {
		if slices.ContainsFunc(findings, func(f rundir.Flag) bool { return f.Kind == checks.FlagBelowRange && f.Variant == c.Variant }) &&
			slices.Contains(run.Plan.Thresholds, c.Limit) {
			broken = append(broken, c.Limit)
		}
	}
	if c := run.Plan.Capacity; c != nil && run.Plan.Source == "" && len(broken) > 0 {
		return exit.With(exit.Threshold, fmt.Errorf("threshold broken: %s, at %g requests a second, the lowest rate of the search", strings.Join(broken, "; "), c.From), "a lower --from")
	}
	if open := thresholds(run, rundir.Undecided); len(broken) == 0 && len(open) > 0 {
		return exit.With(exit.Threshold, fmt.Errorf("threshold not measured: %s; %s", strings.Join(open, "; "), seen(findings)), "")
	}
	if len(broken) > 0 {
		return exit.With(exit.Threshold, fmt.Errorf("threshold broken: %s; %s", strings.Join(broken, "; "), seen(findings)), "")
	}
	hint := ""
	if slices.ContainsFunc(findings, func(f rundir.Flag) bool { return run.Plan.Variant(f.Variant).Started }) {
		hint = "the log of the target is in the trial's folder"
	}
	return exit.With(exit.Target, errors.New(seen(findings)), hint)
}

// seen says in one sentence what was found, beginning with the first trial that has a
// finding.
func seen(findings []rundir.Flag) string {
	first := findings[0]
	var said []string
	trials := map[int]bool{}
	for _, f := range findings {
		trials[f.Trial] = true
		// A window without answers needs no further detail.
		again := f.Kind == checks.FlagStalled && first.Kind == checks.FlagNoAnswers
		if f.Trial == first.Trial && len(said) < mostSeen && !again {
			said = append(said, f.Detail.English())
		}
	}
	text := strings.Join(said, ": ")
	switch others := len(trials) - 1; {
	case others > 1:
		text = fmt.Sprintf("%s; and %d more trials", text, others)
	case others == 1:
		text += "; and one more trial"
	}
	return text
}

// worse returns the comparisons that are a regression.
func worse(run *rundir.Run) []string {
	var found []string
	for _, c := range verdict.Regressions(run) {
		found = append(found, fmt.Sprintf("%s of %s is %.3g times that of %s", c.Metric, c.Variant, *c.Ratio.Estimate, c.Base))
	}
	return found
}

// remark says on standard error what a run that is judged, with an error or without, must not leave
// unsaid.
func (a *app) remark(run *rundir.Run, g gate, err error) {
	if m := verdict.MostlyDisturbed(run); m != nil && g.isClosed() {
		a.warn(m.In(texts.English))
	}
	if code, _ := classify(err); g.isClosed() && code != exit.Regression {
		for _, text := range inconclusive(run) {
			a.warn(text)
		}
	}
	if err == nil {
		a.remarkFailures(run)
	}
}

// remarkFailures says on standard error that requests failed in a run that ends well: no threshold limits their number.
// Of several variants it names the one in which most did.
func (a *app) remarkFailures(run *rundir.Run) {
	of := func(v *rundir.Variant) string {
		if len(run.Variants) > 1 {
			return " of " + v.Name
		}
		return ""
	}
	for i := range run.Variants {
		if v := &run.Variants[i]; v.Users != nil && v.Users.LoggedOut > 0 {
			a.warn(fmt.Sprintf("%d users%s could not log in", v.Users.LoggedOut, of(v)))
		}
	}
	if most := verdict.MostFailing(run); most != nil {
		a.warn(fmt.Sprintf("%.3g %% of the requests%s failed, %d of %d", 100**most.Known(rundir.MetricErrorRatio), of(most), most.Counts.Unanswered(), most.Counts.Due()))
		fmt.Fprintln(a.stderr, "hint: a threshold, such as errors.ratio < 1%, makes that an error")
	}
}

// thresholds returns those with an outcome, each with what there is to say of it. Those with the same reason stand
// together, before it.
func thresholds(run *rundir.Run, outcome string) (list []string) {
	var reasons []string // of the list's entries
	listed := map[string]bool{}
	for _, t := range run.Thresholds {
		reason := ""
		if t.Detail != nil && outcome != rundir.Broken {
			reason = ": " + t.Detail.English()
		}
		if t.Outcome != outcome || listed[t.Text+reason] {
			continue
		}
		listed[t.Text+reason] = true
		if i := slices.Index(reasons, reason); i >= 0 && reason != "" {
			list[i] += ", " + t.Text
		} else {
			list, reasons = append(list, t.Text), append(reasons, reason)
		}
	}
	for i := range list {
		list[i] += reasons[i]
	}
	return list
}
