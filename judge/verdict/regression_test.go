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
