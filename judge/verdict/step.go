package verdict

import (
	"fmt"
	"slices"
	"strings"

	"dyno/load/wire"
	"dyno/results/rundir"
)

// Figures of a scenario's steps are called by the metric with the step behind it, such as
// response.p99{step=login}. They are judged as those of all requests are, with one
// difference: a step's times are recorded over the whole window, so that nobody knows
// which of them belong to disturbed stretches. In the worst case all requests of those
// stretches were of this one step.

// stepMetrics lists the metrics that a step has.
func stepMetrics(step string) []metric {
	of := func(f *figures) *rundir.ScenarioStep {
		if i := slices.IndexFunc(f.Steps, func(s rundir.ScenarioStep) bool { return s.Name == step }); i >= 0 {
			return &f.Steps[i]
		}
		return nil
	}
	none := rundir.QuantilesOf(nil)
	clock := func(tag string, get func(*rundir.ScenarioStep) *rundir.Quantiles) []metric {
		return timesOf(tag, rundir.StepTag(tag, step), func(f *figures) *rundir.Quantiles {
			if s := of(f); s != nil {
				return get(s)
			}
			return &none
		})
	}
	// Without answers of language models there are none of these figures.
	answers := func(f *figures) *rundir.Tokens {
		if s := of(f); s != nil {
			return s.Tokens
		}
		return nil
	}
	rate := func(name string, get func(*rundir.Tokens) *float64) metric {
		return metric{name: name, get: func(f *figures) *float64 {
			if t := answers(f); t != nil {
				return get(t)
			}
			return nil
		}}
	}
	tokenClock := func(tag string, get func(*rundir.Tokens) *rundir.Quantiles) []metric {
		return timesOf(tag, rundir.StepTag(tag, step), func(f *figures) *rundir.Quantiles {
			if t := answers(f); t != nil {
				return get(t)
			}
			return &none
		})
	}
	failed := func(f *figures) (total, due float64) {
		s := of(f)
		if s == nil {
			return 0, 0
		}
		// Those that dyno could not send for lack of its own resources do not count.
		n := s.Failed() - s.ByKind[wire.Generator.String()] + s.Dropped
		return float64(n), float64(s.OK + n)
	}
	ratio := func(f *figures) *float64 {
		total, due := failed(f)
		if due == 0 {
			return nil
		}
		share := total / due
		return &share
	}
	all := []metric{{name: rundir.MetricThroughput, get: func(f *figures) *float64 {
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
		metric{name: rundir.MetricErrorRatio, share: failed, upTo: upToOmitted(ratio), get: ratio},
		metric{name: rundir.MetricErrorTotal, fact: true, get: func(f *figures) *float64 {
			if of(f) == nil {
				return nil
			}
			total, _ := failed(f)
			return &total
		}},
	)
	for i := range all {
		all[i].name, all[i].step = rundir.StepMetric(all[i].name, step), step
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

// comparesSteps tells whether variants are compared in such a figure of each step.
func comparesSteps(kind, latency string) bool {
	return kind == latency+".p50" || kind == latency+".p99"
}

// ofSteps lists the metrics of steps that may have figures: those that a report has, and
// those that the plan asks for.
func (s *scene) ofSteps() (all []metric) {
	names := NamesOf(s.plan)
	if len(names.Steps) == 0 {
		return nil
	}
	asked := map[string]bool{s.plan.PrimaryMetric(): true}
	for _, u := range s.uses() {
		asked[u.metric] = true
	}
	for _, step := range names.Steps {
		for _, m := range stepMetrics(step) {
			shown := slices.ContainsFunc(s.plan.Variants, func(v rundir.PlanVariant) bool {
				return slices.Contains(v.Steps, step) && reported(m.kind(), v.Latency())
			})
			if shown || asked[m.name] {
				all = append(all, m)
			}
		}
	}
	return all
}

// uses lists the figures that the plan's thresholds and claims use.
func (s *scene) uses() (all []use) {
	names := NamesOf(s.plan)
	for _, text := range s.plan.Thresholds {
		if e, err := Compile(text, ForThreshold, names); err == nil {
			all = append(all, e.uses...)
		}
	}
	for _, c := range s.plan.Claims {
		for _, text := range []string{c.Holds, c.Direction} {
			if e, err := Compile(text, ForClaim, names); err == nil {
				all = append(all, e.uses...)
			}
		}
	}
	return all
}

// A stepLabel is the {step=NAME} behind a metric, and where it begins in the text.
type stepLabel struct {
	name string
	at   int
}

// takeSteps blanks the labels behind metrics, which the parser does not know, and returns
// them by the position of their metric. Nothing moves, as in takeUnits.
func takeSteps(text []rune) (blanked []rune, found map[int]stepLabel, faults []error) {
	blanked, found = slices.Clone(text), map[int]stepLabel{}
	for i := 0; i < len(text); {
		switch r := text[i]; r {
		case '"', '\'', '`':
			i = skipString(text, i)
		case '{':
			name, end, problem := readLabel(text, i)
			at, ok := pathBefore(blanked, i)
			switch {
			case !ok:
				problem = "want the name of a metric before {, as in response.p99{step=login}"
			case found[at] != stepLabel{}:
				problem = "a second step"
			case problem == "" && strings.HasPrefix(strings.TrimLeft(string(text[end:]), " \t\r\n"), "."):
				problem = "want {step=NAME} behind the whole name of a metric, as in response.p99{step=login}"
			}
			if problem != "" {
				return blanked, found, append(faults, &Error{Column: i + 1, Message: problem})
			}
			found[at] = stepLabel{name, i}
			for ; i < end; i++ {
				blanked[i] = ' '
			}
		default:
			i++
		}
	}
	return blanked, found, nil
}

// readLabel reads the label that begins at i, and returns the position behind it.
func readLabel(text []rune, i int) (step string, end int, problem string) {
	end = i + 1
	for end < len(text) && text[end] != '}' {
		if text[end] == '"' || text[end] == '\'' {
			end = skipString(text, end)
		} else {
			end++
		}
	}
	if end >= len(text) {
		return "", end, "want } behind the name of a step, as in response.p99{step=login}"
	}
	label, name, has := strings.Cut(string(text[i+1:end]), "=")
	label, name = strings.TrimSpace(label), strings.TrimSpace(name)
	if n := len(name); n >= 2 && (name[0] == '"' || name[0] == '\'') && name[n-1] == name[0] {
		name = name[1 : n-1]
	}
	if !has || label != "step" || name == "" {
		return "", end + 1, fmt.Sprintf("want {step=NAME} behind a metric, such as response.p99{step=login}, not %s", quote(string(text[i:end+1])))
	}
	return name, end + 1, ""
}

// pathBefore returns where the words joined by dots begin that end before i.
func pathBefore(text []rune, i int) (start int, ok bool) {
	blanks := func() {
		for i > 0 && (text[i-1] == ' ' || text[i-1] == '\t' || text[i-1] == '\n' || text[i-1] == '\r') {
			i--
		}
	}
	for {
		blanks()
		end := i
		for i > 0 && isWord(text[i-1]) {
			i--
		}
		if i == end {
			return start, ok
		}
		start, ok = i, true
		if blanks(); i == 0 || text[i-1] != '.' {
			return start, ok
		}
		i--
	}
}

// unknownStep says what is wrong with the name of a step.
func unknownStep(step string, known []string) string {
	if len(known) == 0 {
		return "unknown step " + quote(step) + "; the load has no scenario"
	}
	return "unknown step " + quote(step) + meant(step, known)
}

// withoutSteps says that a metric is not counted by steps.
func withoutSteps(name string) string {
	return quote(name) + " is not known of a step; throughput, response, service, errors.ratio and errors.total are, and of answers of language models first_token, token_time, tokens_per_second, prompt_tokens_per_second and goodput"
}
