package verdict

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dyno/judge/verdict/validity"
	"dyno/load/hist"
	"dyno/results/rundir"
)

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
	t.Steps = append(t.Steps, rundir.ScenarioStep{Name: name, OK: good, ByKind: kinds, CompletedInWindow: good, Throughput: new(float64(good) / t.WindowSeconds)})
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
	e, ok := run.Variants[0].Figures["throughput{step=list}"]
	if !ok || *e.Estimate != 750 {
		t.Errorf("throughput %+v", e)
	}
	if e := run.Variants[0].Figures["service.p99{step=list}"]; e.Interval != rundir.ByShare || e.Low == nil {
		t.Errorf("p99 %+v", e)
	}
	if v := figureOfRun(t, run, "service.p90{step=login}", "new", "old"); v.State != rundir.StateOK || !v.Asked {
		t.Errorf("%+v", v)
	}
	for name := range run.Variants[0].Figures {
		of, step := rundir.SplitStep(name)
		if step != "" && !slices.Contains([]string{"throughput", "service.p50", "service.p99", "service.max", "errors.ratio"}, of) && name != b.run.Plan.Metric && name != "errors.total{step=list}" {
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

// The bounds hold the undisturbed figures of all requests and of the step. It does not
// matter how long a disturbance delays requests, and to which step they belong.
func TestBoundsHoldTheTruth(t *testing.T) {
	bounded := 0
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3))
		b := openBench(1, "v")
		b.run.Plan.Base = ""
		b.withSteps()
		b.measure(1, "v", 1000)
		disturbed := rapid.Float64Range(0, 0.9).Draw(t, "disturbed")
		delay := rapid.Float64Range(0, 20e6).Draw(t, "ns")
		part := rapid.Float64Range(0.1, 1).Draw(t, "part") // of the requests are of the step
		all, truth, recorded := hist.New(), hist.New(), hist.New()
		for i := range 40 {
			bad := rng.Float64() < disturbed
			if bad {
				b.stallsIn(3*time.Millisecond, i)
			}
			h := hist.New()
			for k := range 250 {
				true1 := 1e6 * (1 + rng.ExpFloat64())
				all.Record(int64(true1))
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
			"response.mean{step=login}": truth.Mean(),
			"response.p50":              float64(all.Quantile(0.5)), "response.p90": float64(all.Quantile(0.9)), "response.p99": float64(all.Quantile(0.99)),
		} {
			if run.Variants[0].Figures[name].Estimate == nil {
				continue // too few values
			}
			want /= 1e9
			got := figureOfRun(t, run, name, "v", "")
			tolerance := 0.006 * want // a bucket
			m := *run.Variants[0].Figures[name].Estimate
			if got.State == rundir.StateOK && math.Abs(m-want) > validity.WithinLatency*m+tolerance {
				t.Fatalf("%s is called ok at %v; the truth is %v", name, m, want)
			}
			if got.Low == nil {
				got.Low, got.High = &m, &m
			}
			if got.State == rundir.StateBounded {
				bounded++
			}
			if want < *got.Low-tolerance || want > *got.High+tolerance {
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
			b.step("login", 4000, nil, equal(4000, time.Millisecond))
		}
	}
	run := b.judge(t)
	if v := figureOfRun(t, run, "service.p99{step=login}", "new", "old"); v.State != rundir.StateNotIdentified || !slices.Contains(v.Causes, "clocks") {
		t.Errorf("%+v", v)
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
	b.step("login", 1000, nil, equal(1000, time.Millisecond))
	b.step("list", 1000, nil, equal(1000, time.Millisecond))
	answers := &b.trials[0].Steps[1]
	rate, good, throughput := 2000., 200., 250.
	answers.Throughput = &throughput
	answers.Tokens = &rundir.Tokens{Count: 8000, Within: 800, PerSecond: &rate, Goodput: &good}
	all, allGood := 4000., 400.
	b.trials[0].Tokens = &rundir.Tokens{Count: 16000, Within: 1600, PerSecond: &all, Goodput: &allGood}
	for _, clock := range []string{rundir.TagFirstToken, rundir.TagTokenTime} {
		b.logs[1] = append(b.logs[1], hist.Interval{Tag: rundir.StepTag(clock, "list"), Length: 4 * time.Second, Hist: equal(1000, time.Millisecond)})
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
	if v.High == nil || *v.High <= 200 || *v.High > 250+1e-9 {
		t.Errorf("%+v", v)
	}
}
