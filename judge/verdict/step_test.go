package verdict

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dyno/load/hist"
	"dyno/results/rundir"
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
		on := &evaluation{evidence: of, variant: "new"}
		if r := e.holds(on); r.is != yes {
			t.Errorf("%s: %v, %v", text, r.is, r.why)
		}
		if got, _, _ := e.measured(on); (got == nil) != math.IsNaN(measured) || got != nil && math.Abs(*got-measured) > 1e-12 {
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

func TestMetricsOfSteps(t *testing.T) {
	for name, want := range map[string]string{
		"response.p99{step=login}":  "",
		"throughput{step=log-out}":  "",
		"response.p99{step=logn}":   `unknown step "logn"; did you mean login?`,
		"respnse.p99{step=login}":   `unknown metric "respnse.p99"; did you mean response.p99?`,
		"target.rss{step=login}":    `"target.rss" is not known of a step; throughput, response, service, errors.ratio and errors.total are`,
		"program.x{step=login}":     `"program.x" is not known of a step; throughput, response, service, errors.ratio and errors.total are`,
		"response.p99{step=}":       `unknown metric "response.p99{step=}"; want one of`,
		"response.p99{step=login":   `unknown metric "response.p99{step=login"; want one of`,
		"response.p99{name=login}":  `unknown metric "response.p99{name=login}"; want one of`,
		"errors.ratio{step=v2.5ms}": "",
	} {
		err := CheckMetric(name, stepNames().Steps)
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	seen := map[string]bool{}
	for _, m := range stepMetrics("login") {
		if got, ok := lookup(m.name); !ok || got.name != m.name || got.step != "login" || seen[m.name] {
			t.Errorf("%s: found %v as %s of %q, twice %v", m.name, ok, got.name, got.step, seen[m.name])
		}
		seen[m.name] = true
		if of, known := lookup(m.kind()); !known || of.dim() != m.dim() || of.good() != m.good() || of.ranked() != m.ranked() {
			t.Errorf("%s is not as %s", m.name, m.kind())
		}
		if v := m.get(&figures{}); v != nil {
			t.Errorf("%s of nothing is %v", m.name, *v)
		}
	}
	f := &figures{Variant: rundir.Variant{Steps: []rundir.ScenarioStep{
		{Name: "list"}, {Name: "login", OK: 90, Dropped: 4, ByKind: map[string]int64{"status": 5, "timeout": 1, "generator": 30}},
	}}}
	for name, want := range map[string]float64{"errors.total{step=login}": 10, "errors.ratio{step=login}": 0.1, "errors.total{step=list}": 0} {
		if m, ok := lookup(name); !ok || m.get(f) == nil || *m.get(f) != want {
			t.Errorf("%s is not %v", name, want)
		}
	}
	if m, _ := lookup("errors.ratio{step=list}"); m.get(f) != nil {
		t.Error("a share of no requests is known")
	}
}

// withSteps plans a scenario of two steps for all variants.
func (b *bench) withSteps() {
	for i := range b.run.Plan.Variants {
		b.run.Plan.Variants[i].Steps = []string{"login", "list"}
	}
}

// step adds what a step did in the last trial, and its times.
func (b *bench) step(name string, good int64, kinds map[string]int64, service *hist.Histogram) {
	n := len(b.trials)
	t := &b.trials[n-1]
	t.Steps = append(t.Steps, rundir.ScenarioStep{Name: name, OK: good, ByKind: kinds, CompletedInWindow: good})
	if service == nil {
		return
	}
	for _, clock := range []string{rundir.TagResponse, rundir.TagService} {
		b.logs[n] = append(b.logs[n], hist.Interval{Tag: rundir.StepTag(clock, name), Length: 4 * time.Second, Hist: service})
	}
}

// Variants are compared in the times of each step, and a step's metric can be the primary one.
func TestStepsAreCompared(t *testing.T) {
	b := newBench(8, "old", "new")
	b.withSteps()
	b.run.Plan.Metric = "service.p90{step=login}"
	b.run.Plan.Thresholds = []string{"service.p50{step=login} < 5ms", "errors.total{step=list} == 0", "throughput{step=list} > 100/s"}
	b.run.Plan.Claims = []rundir.PlanClaim{{ID: "c", Holds: "ratio(new, old, service.p50{step=list}) > 1.9"}}
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 8 {
		for variant, slower := range map[string]time.Duration{"old": 1, "new": 2} {
			b.measure(round+1, variant, 1000)
			b.record(latencies(r, 4000, time.Millisecond)...)
			b.step("login", 1000, nil, histogramOf(latencies(r, 1000, 4*time.Millisecond)))
			b.step("list", 3000, map[string]int64{"status": 1}, histogramOf(latencies(r, 3000, slower*time.Millisecond)))
		}
	}
	run := b.judge(t)
	var compared []string
	for _, c := range run.Comparisons {
		if _, step := rundir.SplitStep(c.Metric); step != "" {
			compared = append(compared, c.Metric)
		}
		if c.Primary != (c.Metric == b.run.Plan.Metric) {
			t.Errorf("%s is primary: %v", c.Metric, c.Primary)
		}
	}
	want := []string{
		"service.p50{step=login}", "service.p90{step=login}", "service.p99{step=login}", "service.p50{step=list}", "service.p99{step=list}",
	}
	if !slices.Equal(compared, want) {
		t.Errorf("compared in %v, want %v", compared, want)
	}
	if c := comparison(t, run, "new", "old", "service.p50{step=list}"); c.Verdict != rundir.Worse || c.Good != "lower" || c.Ratio.Interval != rundir.ByHodgesLehmann || c.AdjustedP != nil {
		t.Errorf("%+v", c)
	}
	if c := comparison(t, run, "new", "old", "service.p90{step=login}"); c.Verdict == rundir.Worse || !c.Primary {
		t.Errorf("%+v", c)
	}
	for i, want := range []string{rundir.Kept, rundir.Kept, rundir.Broken, rundir.Broken, rundir.Kept, rundir.Kept} {
		if got := run.Thresholds[i]; got.Outcome != want {
			t.Errorf("%+v, want %s", got, want)
		}
	}
	if run.Claims[0].Outcome != rundir.Holds {
		t.Errorf("%+v", run.Claims[0])
	}
	e, ok := run.Variants[0].Intervals["throughput{step=list}"]
	if !ok || *e.Estimate != 750 {
		t.Errorf("throughput %+v", e)
	}
	if e := run.Variants[0].Intervals["service.p99{step=list}"]; e.Interval != rundir.ByWoodruff || e.Low == nil {
		t.Errorf("p99 %+v", e)
	}
	if v := figureOfRun(t, run, "service.p90{step=login}", "new", "old"); v.State != rundir.StateOK || !v.Asked {
		t.Errorf("%+v", v)
	}
	for name := range run.Variants[0].Intervals {
		of, step := rundir.SplitStep(name)
		if step != "" && !reported(of, "service") && name != b.run.Plan.Metric && name != "errors.total{step=list}" {
			t.Errorf("%s was made, and nobody asks for it", name)
		}
	}
	if !run.Valid {
		t.Error(run.Reason)
	}
}

func histogramOf(values []time.Duration) *hist.Histogram {
	h := hist.New()
	for _, v := range values {
		h.Record(int64(v))
	}
	return h
}

// A target that fails all requests of a step is worse in its throughput.
func TestStepThatIsLost(t *testing.T) {
	b := newBench(3, "old", "new")
	b.withSteps()
	b.run.Plan.Metric = "throughput{step=login}"
	for round := range 3 {
		for variant, good := range map[string]int64{"old": 400, "new": 0} {
			b.measure(round+1, variant, 1000)
			b.record(many4000()...)
			b.step("login", good, map[string]int64{"status": 400 - good}, nil)
			b.step("list", 3600, nil, nil)
		}
	}
	run := b.judge(t)
	if c := comparison(t, run, "new", "old", "throughput{step=login}"); c.Verdict != rundir.Worse || c.Good != "higher" {
		t.Errorf("%+v", c)
	}
}

func many4000() []time.Duration { return slices.Repeat([]time.Duration{time.Millisecond}, 4000) }

// A step's interval is of the whole window, and no stretch of it.
func TestStepsAreNoStretches(t *testing.T) {
	b := openBench(1, "v")
	b.run.Plan.Base = ""
	b.withSteps()
	b.measure(1, "v", 1000)
	b.stallIn(5*time.Millisecond, 3)
	b.tenthsOf(rundir.TagResponse, time.Millisecond, time.Millisecond)
	b.step("login", 1000, nil, many(1000, time.Millisecond))
	s, err := take(b.run.Plan, b.sources()[0], false)
	if err != nil {
		t.Fatal(err)
	}
	if d := s.disturbed; d.share > 0.06 || d.share < 0.02 || d.clean[rundir.StepTag(rundir.TagResponse, "login")] != nil {
		t.Errorf("%v of the window is disturbed, %v", d.share, d.clean)
	}
}

// Whatever a disturbance adds to the requests that it meets, and whichever step they are of,
// the undisturbed figures of the step lie within what is said.
func TestBoundsOfStepsHoldTheTruth(t *testing.T) {
	bounded := 0
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3))
		b := openBench(1, "v")
		b.run.Plan.Base = ""
		b.withSteps()
		b.measure(1, "v", 1000)
		disturbed := rapid.Float64Range(0, 0.5).Draw(t, "disturbed")
		delay := rapid.Float64Range(0, 20e6).Draw(t, "ns")
		part := rapid.Float64Range(0.1, 1).Draw(t, "part") // of the requests are of the step
		truth, recorded := hist.New(), hist.New()
		for i := range 40 {
			bad := rng.Float64() < disturbed
			if bad {
				b.stallsIn(3*time.Millisecond, i)
			}
			h := hist.New()
			for k := range 250 {
				true1 := 1e6 * (1 + rng.ExpFloat64())
				v := true1
				late := bad && k < 15
				if late {
					v += delay * rng.Float64()
				}
				h.Record(int64(v))
				if late || rng.Float64() < part { // all that were late are of this step
					truth.Record(int64(true1))
					recorded.Record(int64(v))
				}
			}
			at := time.Duration(i) * 100 * time.Millisecond
			b.logs[1] = append(b.logs[1], hist.Interval{Tag: rundir.TagResponse, Start: at, Length: 100 * time.Millisecond, Hist: h})
		}
		b.step("login", recorded.Count(), nil, recorded)
		b.run.Plan.Thresholds = []string{"response.mean{step=login} < 1s"}
		run := b.judge(t)
		for name, want := range map[string]float64{
			"response.p50{step=login}": float64(truth.Quantile(0.5)), "response.p99{step=login}": float64(truth.Quantile(0.99)),
			"response.mean{step=login}": truth.Mean(), "response.max{step=login}": float64(truth.Max()),
		} {
			if run.Variants[0].Intervals[name].Estimate == nil {
				continue // too few values
			}
			want /= 1e9
			got := figureOfRun(t, run, name, "v", "")
			tolerance := 0.006 * want // a quarter of the margin, and a bucket
			if got.State == rundir.StateOK {
				if m := *run.Variants[0].Intervals[name].Estimate; math.Abs(m-want) > tolerance {
					t.Fatalf("%s is called ok at %v; the truth is %v", name, m, want)
				}
				continue
			}
			bounded++
			if got.State != rundir.StateBounded || want < *got.Low-tolerance || want > *got.High+tolerance {
				t.Fatalf("%s: %v not within %v … %v: %+v", name, want, got.Low, got.High, got)
			}
		}
	})
	if bounded == 0 {
		t.Error("no figure was ever bounded")
	}
}

// Responses of steps have no second clock: by two clocks there is no ratio.
func TestStepsByTwoClocks(t *testing.T) {
	b := newBench(6, "old", "new")
	b.withSteps()
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 6 {
		for _, variant := range []string{"old", "new"} {
			b.measure(round+1, variant, 1000)
			b.record(latencies(r, 4000, time.Millisecond)...)
			share := map[string]float64{"old": 0, "new": 1}[variant]
			b.trials[len(b.trials)-1].Ends = &rundir.Ends{ByArrival: int64(share * 4000), ByRead: int64((1 - share) * 4000), ArrivalShare: &share}
			b.step("login", 4000, nil, many(4000, time.Millisecond))
		}
	}
	run := b.judge(t)
	if v := figureOfRun(t, run, "service.p99{step=login}", "new", "old"); v.State != rundir.StateNotIdentified || !slices.Contains(v.Causes, causeClocks) {
		t.Errorf("%+v", v)
	}
}

// Two finished runs are compared in the times of their steps.
func TestStepsOfTwoRuns(t *testing.T) {
	of := func(steps ...string) *rundir.Variant {
		v := &rundir.Variant{Intervals: map[string]rundir.Estimate{"throughput": {}}}
		for _, name := range steps {
			v.Steps = append(v.Steps, rundir.ScenarioStep{Name: name})
			v.Intervals[rundir.StepMetric("service.p50", name)] = rundir.Estimate{}
		}
		return v
	}
	got := comparedIn(of("login", "gone"), of("new", "login"), "service", "throughput")
	want := []string{"throughput", "service.p50{step=new}", "service.p50{step=login}", "service.p50{step=gone}"}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// The tokens of a step's answers are figures of their own. A disturbance widens them by no less than
// those of all answers.
func TestTokensOfSteps(t *testing.T) {
	b := openBench(1, "v")
	b.run.Plan.Base = ""
	b.withSteps()
	b.measure(1, "v", 1000)
	b.stallIn(5*time.Millisecond, 3)
	b.tenthsOf(rundir.TagResponse, time.Millisecond, time.Millisecond)
	b.tenthsOf(rundir.TagFirstToken, time.Millisecond, time.Millisecond)
	b.step("login", 1000, nil, many(1000, time.Millisecond))
	b.step("list", 1000, nil, many(1000, time.Millisecond))
	answers := &b.trials[0].Steps[1]
	rate, good, throughput := 2000., 200., 250.
	answers.Throughput = &throughput
	answers.Tokens = &rundir.Tokens{Count: 8000, Within: 800, PerSecond: &rate, Goodput: &good}
	all, allGood := 4000., 400.
	b.trials[0].Tokens = &rundir.Tokens{Count: 16000, Within: 1600, PerSecond: &all, Goodput: &allGood}
	for _, clock := range []string{rundir.TagFirstToken, rundir.TagTokenTime} {
		b.logs[1] = append(b.logs[1], hist.Interval{Tag: rundir.StepTag(clock, "list"), Length: 4 * time.Second, Hist: many(1000, time.Millisecond)})
	}
	b.run.Plan.Thresholds = []string{"goodput{step=list} > 100/s", "token_time.p50{step=list} < 2ms", "tokens_per_second{step=list} > 1000/s", "first_token.p99{step=login} < 1s"}
	run := b.judge(t)
	for i, want := range []string{rundir.Kept, rundir.Kept, rundir.Kept} {
		if got := run.Thresholds[i]; got.Outcome != want {
			t.Errorf("%+v, want %s", got, want)
		}
	}
	if got := run.Thresholds[3]; got.Outcome == rundir.Kept {
		t.Errorf("a time that nobody has measured is kept: %+v", got)
	}
	v := figureOfRun(t, run, "goodput{step=list}", "v", "")
	if v.State != rundir.StateBounded || v.High == nil || *v.High <= 200 || *v.High > 250+1e-9 {
		t.Errorf("%+v", v)
	}
}
