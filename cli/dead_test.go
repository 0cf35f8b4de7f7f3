package cli

import (
	"slices"
	"testing"

	"dyno/internal/exit"
	"dyno/internal/texts"
	"dyno/judge/verdict/checks"
	"dyno/results/rundir"
)

// Failures of the target are reported first, except for a requested regression and a
// threshold.
func TestUnansweredComesFirst(t *testing.T) {
	dead := rundir.Flag{Kind: checks.FlagNoAnswers, Trial: 2, Variant: "b", About: rundir.AboutTarget, Breaks: true, Detail: new(texts.Verbatim("nothing came"))}
	noise := rundir.Flag{Kind: checks.FlagSteal, Trial: 1, About: rundir.AboutMachine}
	plan := rundir.Plan{Base: "a", Variants: []rundir.PlanVariant{{Name: "a"}, {Name: "b"}}}
	for _, c := range []struct {
		name       string
		run        rundir.Run
		regression bool
		code       int
	}{
		{"nothing found", rundir.Run{Valid: true, Plan: plan}, true, exit.Done},
		{"dead", rundir.Run{Valid: true, Plan: plan, Flags: []rundir.Flag{dead}}, false, exit.Target},
		{"dead on a noisy machine", rundir.Run{Plan: plan, Flags: []rundir.Flag{noise, dead}}, false, exit.Target},
		{"noisy only", rundir.Run{Plan: plan, Flags: []rundir.Flag{noise}}, false, exit.Invalid},
		{"a threshold broken by it", rundir.Run{Plan: plan, Flags: []rundir.Flag{dead}, Thresholds: []rundir.Threshold{{Outcome: rundir.Broken}}}, false, exit.Threshold},
		{"a threshold that was not measured", rundir.Run{Plan: plan, Flags: []rundir.Flag{dead}, Thresholds: []rundir.Threshold{{Outcome: rundir.Undecided}}}, false, exit.Threshold},
		{"a threshold kept", rundir.Run{Plan: plan, Flags: []rundir.Flag{dead}, Thresholds: []rundir.Threshold{{Outcome: rundir.Kept, OK: true}}}, false, exit.Target},
		{"a round lost", rundir.Run{Plan: plan, Flags: []rundir.Flag{dead}, Trials: []rundir.Examined{
			{Round: 1, Variant: "a"}, {Round: 1, Variant: "b", Lost: true},
		}}, true, exit.Regression},
		{"a round lost by both", rundir.Run{Plan: plan, Flags: []rundir.Flag{dead}, Trials: []rundir.Examined{
			{Round: 1, Variant: "a", Lost: true}, {Round: 1, Variant: "b", Lost: true},
		}}, true, exit.Target},
		{"no rate of the range is good, by a threshold", rundir.Run{
			Plan:  rundir.Plan{Thresholds: []string{"response.p99 < 1s"}, Capacity: &rundir.PlanCapacity{}},
			Flags: []rundir.Flag{{Kind: checks.FlagBelowRange, Variant: "a", Breaks: true}}, Capacities: []rundir.Capacity{{Variant: "a", Limit: "response.p99 < 1s"}},
		}, false, exit.Threshold},
	} {
		code := exit.Done
		if err := judged(&c.run, gate{regression: c.regression}); err != nil {
			code, _ = classify(err)
		}
		if code != c.code {
			t.Errorf("%s: exit code %d, want %d", c.name, code, c.code)
		}
	}
}

// The log of a target is named only where dyno has started it.
func TestLogOfTheTarget(t *testing.T) {
	run := rundir.Run{
		Plan:  rundir.Plan{Variants: []rundir.PlanVariant{{Name: "a", Started: true}, {Name: "b"}}},
		Flags: []rundir.Flag{{Kind: checks.FlagNoAnswers, Trial: 1, Breaks: true, Detail: new(texts.Verbatim("nothing came"))}},
	}
	for variant, want := range map[string]string{"a": "the log of the target is in the trial's folder", "b": ""} {
		run.Flags[0].Variant = variant
		if _, hint := classify(unanswered(&run, gate{})); hint != want {
			t.Errorf("%s: hint %q, want %q", variant, hint, want)
		}
	}
}

// Thresholds that are undecided for the same reason stand together.
func TestThresholdsWithOneReason(t *testing.T) {
	of := func(text, variant, why string) rundir.Threshold {
		return rundir.Threshold{Text: text, Variant: variant, Outcome: rundir.Undecided, Detail: new(texts.Verbatim(why))}
	}
	run := rundir.Run{Thresholds: []rundir.Threshold{
		of("a < 1", "x", "nobody looked"), of("a < 1", "y", "nobody looked"), of("b < 1", "x", "nobody saw"), of("c < 1", "x", "nobody looked"),
		{Text: "d < 1", Outcome: rundir.Undecided}, {Text: "e < 1", Outcome: rundir.Undecided}, {Text: "f < 1", Outcome: rundir.Broken, Detail: new(texts.Verbatim("nobody looked"))},
	}}
	for outcome, want := range map[string][]string{
		rundir.Undecided: {"a < 1, c < 1: nobody looked", "b < 1: nobody saw", "d < 1", "e < 1"},
		rundir.Broken:    {"f < 1"},
	} {
		if got := thresholds(&run, outcome); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", outcome, got, want)
		}
	}
}
