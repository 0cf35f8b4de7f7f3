package expr

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func stepNames() Names {
	return Names{Variants: []string{"old", "new"}, Steps: []string{"login", "log-out", "v2.5ms"}}
}

// A step stands behind its metric, in whatever form the language allows a metric in.
func TestConditionsOnSteps(t *testing.T) {
	of := facts{
		"new response.p99{step=login}":     exactly(0.1),
		"new response.p99":                 exactly(0.2),
		"new throughput{step=log-out}":     exactly(50),
		"new service.max{step=v2.5ms}":     exactly(0.003),
		"new errors.total{step=login}":     exactly(3),
		"new/old service.p50{step=login}":  exactly(0.5),
		"old errors.ratio{step=log-out}":   exactly(0.01),
		"new response.mean{step=log-out}":  exactly(0.05),
		"new response.p999{step=log-out}":  exactly(0.06),
		"new errors.ratio{step=log-out}":   exactly(0.02),
		"new throughput{step=v2.5ms}":      exactly(10),
		"new response.p99{step=v2.5ms}":    exactly(0.4),
		"new/old throughput{step=log-out}": exactly(2),
	}
	for text, measured := range map[string]float64{
		"response.p99{step=login} < 200ms":                               0.1,
		"response.p99 {step=login} < 200ms":                              0.1,
		"response . p99 { step = login }<response.p99":                   0.1,
		`response.p99{step="login"} <= 100ms`:                            0.1,
		"throughput{step=log-out} >= 50/s":                               50,
		"service.max{step=v2.5ms} < 4ms":                                 0.003,
		"errors.total{step='login'} == 3":                                3,
		"ratio(new, old, service.p50{step=login}) < 0.6":                 0.5,
		`ratio("new", "old", throughput{step=log-out}) == 2`:             2,
		`value(old, errors.ratio{step=log-out}) < 2%`:                    0.01,
		"response.p99{step=login} - response.mean{step=log-out} > 1ms":   0.05,
		"errors.ratio{step=log-out} < 1 and 1 < throughput{step=v2.5ms}": math.NaN(),
		"not (response.p99{step=v2.5ms} < 300ms)":                        math.NaN(),
	} {
		e, err := Compile(text, ForThreshold, stepNames())
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		on := &evaluation{Evidence: of, variant: "new"}
		if r := e.holds(on); r.is != yes {
			t.Errorf("%s: %v, %v", text, r.is, r.why)
		}
		if got, _, _ := e.value(on); (got == nil) != math.IsNaN(measured) || got != nil && math.Abs(*got-measured) > 1e-12 {
			t.Errorf("%s measured %v, want %v", text, got, measured)
		}
	}
}

func TestFaultsOfSteps(t *testing.T) {
	for _, c := range []struct {
		text   string
		column int
		want   string
	}{
		{"response.p99{step=logn} < 1s", 13, `unknown step "logn"; did you mean login?`},
		{"response.p99{step=checkout} < 1s", 13, `unknown step "checkout"; want one of login, log-out, v2.5ms`},
		{"respnse.p99{step=login} < 1s", 1, `unknown metric "respnse.p99"; did you mean response.p99?`},
		{"connect.p99{step=login} < 1s", 12, `"connect.p99" is not known of a step; throughput, response, service, errors.ratio and errors.total are`},
		{"program.x{step=login} < 1", 10, `"program.x" is not known of a step`},
		{"response.p99{name=login} < 1s", 13, `want {step=NAME} behind a metric, such as response.p99{step=login}, not "{name=login}"`},
		{"response.p99{step:login} < 1s", 13, "want {step=NAME} behind a metric"},
		{"response.p99{step=} < 1s", 13, "want {step=NAME} behind a metric"},
		{"response.p99{} < 1s", 13, "want {step=NAME} behind a metric"},
		{"response.p99{step=login < 1s", 13, "want } behind the name of a step"},
		{"response.p99{step=login}{step=login} < 1s", 25, "a second step"},
		{"{step=login} < 1s", 1, "want the name of a metric before {"},
		{"(response.p99){step=login} < 1s", 15, "want the name of a metric before {"},
		{"slope(rss{step=login}) < 1%/h", 10, "{step=login} does not stand behind a metric"},
		{"ratio(new{step=login}, old, throughput) < 1", 10, "{step=login} does not stand behind a metric"},
		{"response{step=login}.p99 < 1s", 9, "want {step=NAME} behind the whole name of a metric"},
		{"3{step=login} < 1", 0, "{step=login} does not stand behind a metric"},
	} {
		_, err := Compile(c.text, ForThreshold, stepNames())
		var fault *Error
		if !errors.As(err, &fault) || !strings.Contains(err.Error(), c.want) || c.column != 0 && fault.Column != c.column {
			t.Errorf("%s:\n got %v\nwant column %d: %s", c.text, err, c.column, c.want)
		}
	}
	if _, err := Compile("response.p99{step=login} < 1s", ForThreshold, Names{}); err == nil || !strings.Contains(err.Error(), `unknown step "login"; the load has no scenario`) {
		t.Error(err)
	}
}
