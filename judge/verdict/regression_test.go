package verdict

import (
	"testing"

	"dyno/results/rundir"
)

func TestRegressions(t *testing.T) {
	of := func(role, verdict, good string, primary bool, ratio float64) rundir.Comparison {
		return rundir.Comparison{Role: role, Verdict: verdict, Good: good, Primary: primary, Ratio: rundir.Estimate{Estimate: &ratio}}
	}
	for _, c := range []struct {
		name       string
		comparison rundir.Comparison
		want       bool
	}{
		{"slower", of("", rundir.Worse, "higher", true, 0.97), true},
		{"later", of("", rundir.Worse, "lower", true, 1.03), true},
		{"a step", of(rundir.RoleStep, rundir.Worse, "lower", true, 1.03), true},
		{"within the margin", of("", rundir.Worse, "higher", true, 0.985), false},
		{"later within the margin", of("", rundir.Worse, "lower", true, 1.015), false},
		{"better", of("", rundir.Better, "higher", true, 1.3), false},
		{"not shown", of("", rundir.Inconclusive, "higher", true, 0.5), false},
		{"of an invalid run", of("", rundir.Invalid, "higher", true, 0.5), false},
		{"another metric", of("", rundir.Worse, "lower", false, 1.5), false},
		{"the control", of(rundir.RoleControl, rundir.Worse, "higher", true, 0.5), false},
		{"no estimate", rundir.Comparison{Verdict: rundir.Worse, Good: "higher", Primary: true}, false},
	} {
		run := rundir.Run{Plan: rundir.Plan{Margin: 0.02}, Comparisons: []rundir.Comparison{c.comparison}}
		if got := len(Regressions(&run)) == 1; got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A regression that the run could not have detected is distinguished from no regression.
func TestTooImprecise(t *testing.T) {
	for _, c := range []struct {
		verdict    string
		role       string
		detectable *float64
		want       bool
	}{
		{rundir.Inconclusive, "", new(0.23), true},
		{rundir.Inconclusive, rundir.RoleStep, new(0.23), true},
		{rundir.Inconclusive, "", nil, true},
		{"", "", nil, true}, // of one round
		{rundir.Inconclusive, "", new(0.019), false},
		{rundir.Equivalent, "", new(0.23), false},
		{rundir.Better, "", new(0.23), false},
		{rundir.Worse, "", new(0.23), false},
		{rundir.Inconclusive, rundir.RoleControl, new(0.23), false},
		{rundir.Inconclusive, rundir.RolePair, new(0.23), false},
	} {
		paired := rundir.Comparison{Primary: true, Role: c.role, Verdict: c.verdict, Detectable: c.detectable}
		run := rundir.Run{Plan: rundir.Plan{Margin: 0.02}, Comparisons: []rundir.Comparison{paired, {Verdict: rundir.Inconclusive}}}
		if got := len(TooImprecise(&run)) == 1; got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
