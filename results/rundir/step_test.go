package rundir

import "testing"

// The name of a step's metric can be taken apart again, and no other name can.
func TestStepMetric(t *testing.T) {
	for _, c := range []struct{ metric, step, name string }{
		{"response.p99", "login", "response.p99{step=login}"},
		{"throughput", "log-out.2_a+b", "throughput{step=log-out.2_a+b}"},
		{"errors.ratio", "{step=x}", "errors.ratio{step={step=x}}"},
	} {
		if got := StepMetric(c.metric, c.step); got != c.name {
			t.Errorf("%s of step %s is %s, want %s", c.metric, c.step, got, c.name)
		}
		if metric, step := SplitStep(c.name); metric != c.metric || step != c.step {
			t.Errorf("%s: %q, %q", c.name, metric, step)
		}
	}
	for _, name := range []string{"", "response.p99", "response.p99{step=}", "response.p99{step=login", "response.p99{name=login}", "program.a}"} {
		if metric, step := SplitStep(name); metric != name || step != "" {
			t.Errorf("%q: %q of step %q", name, metric, step)
		}
	}
}
