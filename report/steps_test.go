package report

import (
	"strings"
	"testing"

	"dyno/internal/texts"
	"dyno/results/rundir"
)

// scenarioRun is a run of two variants, of which the second has a scenario.
func scenarioRun(loop string) (*page, []rundir.Variant) {
	f := &rundir.Folder{}
	f.Run.Plan.Variants = []rundir.PlanVariant{{Name: "plain", Loop: loop}, {Name: "shop", Loop: loop}}
	f.Run.Variants = []rundir.Variant{{Name: "plain"}, {
		Name: "shop",
		Steps: []rundir.ScenarioStep{
			{
				Name: "login", OK: 50, Throughput: ptr(10.), Response: rundir.Quantiles{Count: 10_000, P50: ptr(0.002), P99: ptr(0.003), Max: ptr(0.004)},
				Service: rundir.Quantiles{Count: 10_000, P50: ptr(0.001), Max: ptr(0.0015)},
			},
			{Name: "list", OK: 1200, ByKind: map[string]int64{"status": 2, "assertion": 7}, Dropped: 3, Skipped: 5},
		},
		Users: &rundir.Users{Started: 51, Iterations: 1100, Ended: 1, FailedLogins: 7, LoggedOut: 2, TurnedAway: 4, Misses: []rundir.Miss{{Step: "list", Variable: "id", Count: 8}}},
		Intervals: map[string]rundir.Estimate{
			"service.p50{step=login}":  {Estimate: ptr(0.001), Low: ptr(0.0009), High: ptr(0.0011), Interval: rundir.ByWoodruff},
			"response.p99{step=login}": {Estimate: ptr(0.003), Interval: rundir.NoInterval},
		},
	}}
	f.Run.Validity = []rundir.Validity{
		{Figure: "response.p50{step=login}", Variant: "shop", State: rundir.StateBounded, Low: ptr(0.001), High: ptr(0.002), Why: new(texts.Verbatim("something"))},
	}
	return newPage(f), f.Run.Variants
}

// Each step has a row, with the clock that the loop can know.
func TestSteps(t *testing.T) {
	for _, c := range []struct {
		loop string
		want []string
	}{
		{"closed", []string{"login 50 10.0/s 1.00 ms ±10% – 1.50 ms 0", "throughput [1] p50 p99 max [3]", "list 1,200 – – – – assertion 7, status 2, dropped 3"}},
		{"open", []string{"login 50 10.0/s ≤2.00 ms 3.00 ms 4.00 ms 0", "throughput [1] p50 [2] p99 [1] max [3]"}},
	} {
		p, variants := scenarioRun(c.loop)
		p.steps(variants)
		var b strings.Builder
		p.Parts[0].WriteText(&b)
		text := words(b.String())
		for _, want := range append(c.want,
			"steps of the scenario", "users of shop: 51 in all, 1,100 iterations in the window, 1 came to their end, 7 logins failed, 2 waited to log in again at the end, 4 arrivals found none free and were dropped",
			"skipped of shop: step list, 5 times",
			"extractions of shop that found nothing: id of step list, 8 times") {
			if !strings.Contains(text, words(want)) {
				t.Errorf("%s loop: %q is not in\n%s", c.loop, want, b.String())
			}
		}
		if strings.Contains(text, "plain") {
			t.Errorf("a variant without a scenario is in\n%s", b.String())
		}
	}
}

func words(s string) string { return strings.Join(strings.Fields(s), " ") }

func TestNoSteps(t *testing.T) {
	p, variants := scenarioRun("closed")
	if p.steps(variants[:1]); len(p.Parts) > 0 {
		t.Errorf("a section of no steps: %q", p.Parts[0].Title)
	}
}

// The figures of all requests come before those of steps.
func TestWholeFirst(t *testing.T) {
	var got []string
	for _, v := range wholeFirst([]rundir.Validity{{Figure: "response.p50{step=a}"}, {Figure: "throughput"}, {Figure: "response.p99{step=a}"}, {Figure: "response.p99"}}) {
		got = append(got, v.Figure)
	}
	if want := "throughput response.p99 response.p50{step=a} response.p99{step=a}"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %s", got, want)
	}
}

// Where a run was judged before steps had intervals, the figures of a step are those of its
// variant's summary.
func TestStepOfAnEarlierRun(t *testing.T) {
	p, variants := scenarioRun("open")
	for metric, want := range map[string]float64{"throughput{step=login}": 10, "response.p99{step=login}": 0.003, "service.max{step=login}": 0.0015} {
		if e := p.Estimate(variants[1], metric); e.Estimate == nil || *e.Estimate != want {
			t.Errorf("%s: %+v, want %v", metric, e, want)
		}
	}
	for _, metric := range []string{"response.p99{step=none}", "response.p42{step=login}", "capacity{step=login}"} {
		if e := p.Estimate(variants[1], metric); e.Estimate != nil {
			t.Errorf("%s: %+v", metric, e)
		}
	}
}

// Steps that a model answers have a table of their tokens.
func TestStepsOfAnswers(t *testing.T) {
	p, variants := scenarioRun("open")
	variants[1].Steps[1].Tokens = &rundir.Tokens{PerSecond: ptr(120.), Goodput: ptr(10.), FirstToken: rundir.Quantiles{Count: 10_000, P50: ptr(0.02), P99: ptr(0.03)}, TokenTime: rundir.Quantiles{Count: 10_000, P50: ptr(0.001)}}
	p.steps(variants)
	var b strings.Builder
	p.Parts[0].WriteText(&b)
	if want := "list 120/s 10.0/s 20.0 ms 30.0 ms 1.00 ms –"; !strings.Contains(words(b.String()), want) {
		t.Errorf("%q is not in\n%s", want, b.String())
	}
}
