package verdict

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dyno/hist"
	"dyno/rundir"
)

// record returns a histogram of values.
func record(values ...time.Duration) *hist.Histogram {
	h := hist.New()
	for _, v := range values {
		h.Record(int64(v))
	}
	return h
}

// equal returns a histogram of n equal values.
func equal(n int64, v time.Duration) *hist.Histogram {
	h := hist.New()
	h.RecordN(int64(v), n)
	return h
}

// openPlan is one variant, open at 1,000/s for 10 s after a warm-up of 2 s.
func openPlan() rundir.PlanVariant {
	return rundir.PlanVariant{Name: "v", Loop: "open", Rate: ptr(1000.), WarmupSeconds: 2, WindowSeconds: 10}
}

// healthy is a trial of openPlan that raises no flag, with its log.
func healthy() (rundir.Trial, []hist.Interval) {
	t := rundir.Trial{
		Number: 1, Round: 1, Variant: "v", Complete: true, WarmupSeconds: 2, WindowSeconds: 10,
		Throughput:   ptr(1000.),
		Conservation: rundir.Conservation{OK: true},
		Counts:       rundir.Counts{Scheduled: 10000, Sent: 10000, OK: 10000, CompletedInWindow: 10000},
		Generator:    rundir.Generator{CPUShare: ptr(0.3)},
		Machine:      rundir.Machine{StealShare: ptr(0.001)},
	}
	var log []hist.Interval
	for i := range 10 {
		at := time.Duration(2+i) * time.Second
		for _, x := range []struct {
			tag string
			v   time.Duration
		}{
			{tagResponse, 2 * time.Millisecond}, {tagService, 2 * time.Millisecond},
			{tagSendLag, 10 * time.Microsecond}, {tagGeneratorLag, 10 * time.Microsecond},
		} {
			log = append(log, hist.Interval{Tag: x.tag, Start: at, Length: time.Second, Hist: equal(1000, x.v)})
		}
	}
	return t, log
}

// replace gives every interval of a tag a share of slow values.
func replace(log []hist.Interval, tag string, slow int64, v, fast time.Duration) {
	for i := range log {
		if log[i].Tag == tag {
			log[i].Hist = equal(1000-slow, fast)
			log[i].Hist.RecordN(int64(v), slow)
		}
	}
}

func TestFlags(t *testing.T) {
	type change func(*rundir.Trial, *rundir.PlanVariant, []hist.Interval)
	const µs = time.Microsecond
	for _, c := range []struct {
		name   string
		change change
		want   string // kinds, ! for invalid
	}{
		{"healthy", func(*rundir.Trial, *rundir.PlanVariant, []hist.Interval) {}, ""},
		// The median response is 2 ms, so the limit of the p99 is 100 µs, and that of the p99.9 200 µs.
		{"lag at the limit", func(_ *rundir.Trial, _ *rundir.PlanVariant, l []hist.Interval) {
			replace(l, tagGeneratorLag, 20, 99*µs, 10*µs)
		}, ""},
		{"lag beyond it", func(_ *rundir.Trial, _ *rundir.PlanVariant, l []hist.Interval) {
			replace(l, tagGeneratorLag, 20, 102*µs, 10*µs)
		}, "generator_lag!"},
		{"lag in a closed loop", func(_ *rundir.Trial, p *rundir.PlanVariant, l []hist.Interval) {
			p.Loop, p.Rate = "closed", nil
			replace(l, tagGeneratorLag, 20, 102*µs, 10*µs)
		}, ""},
		{"a long tail of lag", func(_ *rundir.Trial, _ *rundir.PlanVariant, l []hist.Interval) {
			replace(l, tagGeneratorLag, 2, 250*µs, 10*µs)
		}, "generator_lag_tail!"},
		{"a long tail of lag in a closed loop", func(_ *rundir.Trial, p *rundir.PlanVariant, l []hist.Interval) {
			p.Loop, p.Rate = "closed", nil
			replace(l, tagGeneratorLag, 2, 250*µs, 10*µs)
		}, "generator_lag_tail"},
		{"connections short", func(_ *rundir.Trial, _ *rundir.PlanVariant, l []hist.Interval) {
			replace(l, tagSendLag, 20, time.Millisecond, 10*µs)
		}, "connection_limit"},
		{"a log without the generator's lag", func(_ *rundir.Trial, _ *rundir.PlanVariant, l []hist.Interval) {
			replace(l, tagSendLag, 20, time.Millisecond, 10*µs)
			for i := range l {
				if l[i].Tag == tagGeneratorLag {
					l[i].Tag = "something_else"
				}
			}
		}, "generator_lag! generator_lag_tail!"},
		{"few requests", func(_ *rundir.Trial, _ *rundir.PlanVariant, l []hist.Interval) {
			for i := range l {
				l[i].Hist = equal(9, time.Millisecond)
			}
		}, "lag_not_checked"},
		{"drops", func(t *rundir.Trial, _ *rundir.PlanVariant, _ []hist.Interval) {
			t.Counts.Sent, t.Counts.Dropped = 9950, 50
		}, "drops!"},
		{"many drops", func(t *rundir.Trial, _ *rundir.PlanVariant, _ []hist.Interval) {
			t.Counts.Sent, t.Counts.Dropped = 9890, 110
		}, "drops! achieved_rate!"},
		{"too slow, but within chance", func(t *rundir.Trial, _ *rundir.PlanVariant, _ []hist.Interval) {
			t.Counts.Scheduled, t.Counts.Sent = 9710, 9710
		}, ""},
		{"too slow", func(t *rundir.Trial, _ *rundir.PlanVariant, _ []hist.Interval) {
			t.Counts.Scheduled, t.Counts.Sent = 9690, 9690
		}, "achieved_rate!"},
		{"too fast", func(t *rundir.Trial, _ *rundir.PlanVariant, _ []hist.Interval) {
			t.Counts.Scheduled, t.Counts.Sent = 10310, 10310
		}, "achieved_rate!"},
		{"stages have no rate", func(t *rundir.Trial, p *rundir.PlanVariant, l []hist.Interval) {
			p.Rate = nil
			t.Counts.Scheduled, t.Counts.Sent = 5000, 5000
			l[0].Hist = equal(9000, 2*time.Millisecond)
		}, ""},
		{"busy generator", func(t *rundir.Trial, _ *rundir.PlanVariant, _ []hist.Interval) {
			t.Generator.CPUShare = ptr(0.76)
		}, "generator_cpu!"},
		{"busy generator in a closed loop", func(t *rundir.Trial, p *rundir.PlanVariant, _ []hist.Interval) {
			p.Loop, p.Rate = "closed", nil
			t.Generator.CPUShare = ptr(0.99)
		}, ""},
		{"a generator without a CPU", func(t *rundir.Trial, _ *rundir.PlanVariant, _ []hist.Interval) {
			t.Generator.RunQueueWaitShare = ptr(0.011)
		}, "run_queue_wait!"},
		{"a generator without a CPU in a closed loop", func(t *rundir.Trial, p *rundir.PlanVariant, _ []hist.Interval) {
			p.Loop, p.Rate = "closed", nil
			t.Generator.RunQueueWaitShare = ptr(0.011)
		}, "run_queue_wait"},
		{"a generator nearly always with a CPU", func(t *rundir.Trial, _ *rundir.PlanVariant, _ []hist.Interval) {
			t.Generator.RunQueueWaitShare = ptr(0.009)
		}, ""},
		{"nothing known of the machine", func(t *rundir.Trial, _ *rundir.PlanVariant, _ []hist.Interval) {
			t.Generator.CPUShare, t.Machine.StealShare = nil, nil
		}, ""},
		{"steal", func(t *rundir.Trial, _ *rundir.PlanVariant, _ []hist.Interval) {
			t.Machine.StealShare = ptr(0.02)
		}, "steal"},
		{"much steal", func(t *rundir.Trial, _ *rundir.PlanVariant, _ []hist.Interval) {
			t.Machine.StealShare = ptr(0.04)
		}, "steal!"},
		{"conservation", func(t *rundir.Trial, _ *rundir.PlanVariant, _ []hist.Interval) {
			t.Conservation = rundir.Conservation{}
		}, "conservation!"},
		{"incomplete", func(t *rundir.Trial, _ *rundir.PlanVariant, l []hist.Interval) {
			t.Complete, t.Error = false, "the target died"
			replace(l, tagGeneratorLag, 20, time.Second, 10*µs)
		}, "incomplete!"},
		{"slower in the second half", func(_ *rundir.Trial, _ *rundir.PlanVariant, l []hist.Interval) {
			for i := range l {
				if l[i].Tag == tagResponse && l[i].Start >= 8*time.Second {
					l[i].Hist = equal(900, 2*time.Millisecond)
				}
			}
		}, "not_steady"},
		{"slightly slower, within chance", func(_ *rundir.Trial, _ *rundir.PlanVariant, l []hist.Interval) {
			for i := range l {
				if l[i].Tag == tagResponse && l[i].Start >= 8*time.Second {
					l[i].Hist = equal(970, 2*time.Millisecond)
				}
			}
		}, ""},
		{"slightly slower in a closed loop, where chance has no part", func(_ *rundir.Trial, p *rundir.PlanVariant, l []hist.Interval) {
			p.Loop, p.Rate = "closed", nil
			for i := range l {
				if l[i].Tag == tagResponse && l[i].Start >= 8*time.Second {
					l[i].Hist = equal(970, 2*time.Millisecond)
				}
			}
		}, "not_steady"},
		{"the first interval lacks what was under way", func(_ *rundir.Trial, _ *rundir.PlanVariant, l []hist.Interval) {
			l[0].Hist = equal(100, 2*time.Millisecond)
		}, ""},
		{"slow responses come late", func(_ *rundir.Trial, p *rundir.PlanVariant, l []hist.Interval) {
			p.Loop, p.Rate = "closed", nil
			replace(l, tagResponse, 20, 2900*time.Millisecond, 2*time.Millisecond)
			l[4].Hist, l[8].Hist = equal(700, 2*time.Millisecond), equal(700, 2*time.Millisecond)
		}, ""},
		{"too few intervals to tell", func(t *rundir.Trial, p *rundir.PlanVariant, l []hist.Interval) {
			t.WarmupSeconds, t.WindowSeconds = 8, 4
			p.Rate = ptr(2500.)
			l[4*9].Hist = equal(1, 2*time.Millisecond)
		}, ""},
		{"what ends after the window does not count", func(t *rundir.Trial, p *rundir.PlanVariant, l []hist.Interval) {
			t.WindowSeconds = 9
			p.Rate = ptr(10000. / 9)
			l[4*9].Hist = equal(1, 2*time.Millisecond)
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			trial, log := healthy()
			plan := openPlan()
			c.change(&trial, &plan, log)
			var got []string
			for _, f := range examine(&trial, plan, merged(log), log) {
				kind := f.Kind
				if f.Invalid {
					kind += "!"
				}
				got = append(got, kind)
				if f.Trial != 1 || f.Variant != "v" || f.Detail == "" || !ours(f.Kind) {
					t.Errorf("flag %+v", f)
				}
			}
			if g := strings.Join(got, " "); g != c.want {
				t.Errorf("flags %q, want %q", g, c.want)
			}
		})
	}
}

// bench is a run of two variants in rounds with random figures.
func bench(r *rand.Rand, rounds int) (rundir.Run, []rundir.Trial, map[int][]hist.Interval) {
	run := rundir.Run{Plan: rundir.Plan{Base: "a", Rounds: rounds, Loop: "closed", Variants: []rundir.PlanVariant{
		{Name: "a", Loop: "closed"}, {Name: "b", Loop: "closed"},
	}}}
	ask(&run.Plan)
	var trials []rundir.Trial
	logs := map[int][]hist.Interval{}
	for round := 1; round <= rounds; round++ {
		for _, v := range []string{"a", "b"} {
			n := len(trials) + 1
			values := 1000 + r.Int64N(2000)
			trials = append(trials, rundir.Trial{
				Number: n, Round: round, Variant: v, Complete: true, WindowSeconds: 4,
				Throughput:   ptr(float64(values) / 4),
				Conservation: rundir.Conservation{OK: true},
				Counts: rundir.Counts{
					Scheduled: values + 7, Sent: values + 7, OK: values, Errors: 4, Timeouts: 2, Unfinished: 1,
					ByKind:   map[string]int64{"reset": 4, "timeout": 2, "unfinished": 1},
					ByStatus: map[string]int64{"200": values},
				},
				Connections: rundir.Connections{Requested: 10, Opened: 10 + r.Int64N(5)},
				Target:      rundir.Target{CPUSecondsPerRequest: ptr(r.Float64() * 1e-5), RSSBytes: ptr(r.Int64N(1 << 20))},
			})
			for at := range 4 {
				h := hist.New()
				for range 50 {
					h.RecordN(r.Int64N(1e7), values/200)
				}
				logs[n] = append(logs[n], hist.Interval{Tag: tagResponse, Start: time.Duration(at) * time.Second, Length: time.Second, Hist: h})
			}
		}
	}
	return run, trials, logs
}

func reader(logs map[int][]hist.Interval) logReader {
	return func(trial int) ([]hist.Interval, error) { return logs[trial], nil }
}

// ask puts conditions into the plan.
func ask(p *rundir.Plan) {
	p.Thresholds = []string{"response.p50 < 1s", "ratio(b, a, throughput) > 0", "response.p999 < 1ns", "nonsense"}
	p.Claims = []rundir.PlanClaim{
		{ID: "C1", Says: "more than nothing", Holds: "ratio(b, a, throughput) > 0"},
		{ID: "C2", Holds: "ratio(b, a, throughput) > 1000", Direction: "ratio(b, a, throughput) > 0"},
		{ID: "C3", Holds: "ratio(b, a, throughput) > 1000", Direction: "ratio(b, a, throughput) > 999"},
		{ID: "C4", Holds: "ratio(b, a, throughput) > 1000"},
		{ID: "C5", Holds: "ratio(b, a, throughput) > 0", NotTestable: "needs 64 cores"},
		{ID: "C6", Holds: "ratio(b, a, connect.p50) > 0"},
		{ID: "C7", Holds: "ratio(b, c, throughput) > 0"},
		{ID: "C8", Holds: "ratio(b, a, throughput) < 0 or 1 < 0", Direction: "value(b, first_byte.p50) > 0s"},
	}
}

func TestJudge(t *testing.T) {
	run, trials, logs := bench(rand.New(rand.NewPCG(1, 2)), 3)
	if err := judge(&run, trials, reader(logs)); err != nil {
		t.Fatal(err)
	}
	if !run.Valid || len(run.Variants) != 2 || run.Variants[1].Name != "b" {
		t.Fatalf("valid %v, variants %+v, flags %+v", run.Valid, run.Variants, run.Flags)
	}
	a, b := run.Variants[0], run.Variants[1]

	values := []float64{*trials[0].Throughput, *trials[2].Throughput, *trials[4].Throughput}
	if diff := cmp.Diff(rundir.Estimate{Estimate: median(values), Values: values, Interval: "none claimed"}, a.Throughput); diff != "" {
		t.Error(diff)
	}
	if a.Trials != 3 || a.Target.RSSBytes == nil || *a.Target.RSSBytes != *rounded(median([]float64{
		float64(*trials[0].Target.RSSBytes), float64(*trials[2].Target.RSSBytes), float64(*trials[4].Target.RSSBytes)})) {
		t.Errorf("%d trials, target %+v", a.Trials, a.Target)
	}
	if want := map[string]int64{"reset": 12, "timeout": 6}; b.Errors.Total != 18 || cmp.Diff(want, b.Errors.ByKind) != "" {
		t.Errorf("errors %+v, want 18, %v", b.Errors, want)
	}
	if want := 18 / float64(b.Counts.Sent); *b.Errors.Ratio != want || b.Counts.ByKind["unfinished"] != 3 {
		t.Errorf("error ratio %v, want %v; counts %+v", *b.Errors.Ratio, want, b.Counts)
	}
	if b.Response.P99 == nil || b.Response.P999 != nil || b.Connect.P50 != nil || b.Connect.Max != nil {
		t.Errorf("response %+v, connect %+v: want a p99 but no p99.9 of fewer than 10,000 values, and nothing of none", b.Response, b.Connect)
	}

	var metrics []string
	for _, c := range run.Comparisons {
		metrics = append(metrics, c.Metric)
		if c.Base != "a" || c.Variant != "b" || c.P != nil || c.Verdict != "" || c.Ratio.Low != nil || c.Ratio.Interval != rundir.NoInterval || len(c.Ratio.Values) != 3 {
			t.Errorf("comparison %+v", c)
		}
	}
	if diff := cmp.Diff(compared(), metrics); diff != "" {
		t.Error(diff)
	}
	ratio := *median([]float64{*trials[1].Throughput / *trials[0].Throughput, *trials[3].Throughput / *trials[2].Throughput, *trials[5].Throughput / *trials[4].Throughput})
	if *run.Comparisons[0].Ratio.Estimate != ratio {
		t.Errorf("ratio %v, want %v", *run.Comparisons[0].Ratio.Estimate, ratio)
	}

	var outcomes []string
	for _, c := range run.Claims {
		outcomes = append(outcomes, fmt.Sprint(c.ID, " ", c.Outcome, " ", c.Measured != nil && *c.Measured == ratio, " ", c.Detail))
	}
	if diff := cmp.Diff([]string{
		"C1 holds true ",
		"C2 holds in direction only true ",
		"C3 does not hold true ",
		"C4 does not hold true ",
		"C5 not testable here false needs 64 cores",
		"C6 inconclusive false connect.p50 is known of both b and a in no round: not observed, or too few values",
		`C7 inconclusive false holds: column 10: unknown variant "c"; want one of a, b`,
		"C8 inconclusive false first_byte.p50 of b is not known: not observed, or too few values",
	}, outcomes); diff != "" {
		t.Error(diff)
	}

	var thresholds []string
	for _, x := range run.Thresholds {
		thresholds = append(thresholds, fmt.Sprint(x.Text, " ", x.Variant, " ", x.OK, " ", x.Measured != nil, " ", strings.Split(x.Detail, ";")[0]))
	}
	if diff := cmp.Diff([]string{
		"response.p50 < 1s a true true ",
		"response.p50 < 1s b true true ",
		"ratio(b, a, throughput) > 0  true true ",
		"response.p999 < 1ns a false false response.p999 of a is not known: not observed, or too few values",
		"response.p999 < 1ns b false false response.p999 of b is not known: not observed, or too few values",
		`nonsense  false false column 1: "nonsense" is not a condition`,
	}, thresholds); diff != "" {
		t.Error(diff)
	}
}

func TestOrderDoesNotMatterAndJudgingTwiceNeither(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		run, trials, logs := bench(r, rapid.IntRange(1, 4).Draw(t, "rounds"))
		trials[r.IntN(len(trials))].Complete = false
		trials[0].Flags = []rundir.Flag{{Kind: "observer", Detail: "no counters"}, {Kind: FlagDrops, Invalid: true}}
		run.Flags = []rundir.Flag{{Kind: "placement", Detail: "shared CPU"}}
		again := run
		if err := judge(&run, trials, reader(logs)); err != nil {
			t.Fatal(err)
		}
		before := slices.Clone(trials)
		r.Shuffle(len(trials), func(i, j int) { trials[i], trials[j] = trials[j], trials[i] })
		for range 2 {
			if err := judge(&again, trials, reader(logs)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(run, again); diff != "" {
				t.Fatal(diff)
			}
		}
		slices.SortFunc(trials, func(a, b rundir.Trial) int { return a.Number - b.Number })
		if diff := cmp.Diff(before, trials); diff != "" {
			t.Fatalf("the trials were changed: %s", diff)
		}
		kinds := map[string]int{}
		for _, f := range run.Flags {
			kinds[f.Kind]++
		}
		if kinds["observer"] != 1 || kinds["placement"] != 1 || kinds[FlagDrops] != 0 || kinds[FlagIncomplete] != 1 || run.Valid {
			t.Errorf("flags %v, valid %v", run.Flags, run.Valid)
		}
	})
}

// The quantiles of a variant are those of one histogram that recorded the values
// of all its trials.
func TestQuantilesAreOfMergedHistograms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run := rundir.Run{Plan: rundir.Plan{Variants: []rundir.PlanVariant{{Name: "v", Loop: "closed"}}}}
		all := hist.New()
		logs := map[int][]hist.Interval{}
		var trials []rundir.Trial
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		for n := 1; n <= rapid.IntRange(1, 4).Draw(t, "trials"); n++ {
			trials = append(trials, rundir.Trial{Number: n, Round: n, Variant: "v", Complete: true, Conservation: rundir.Conservation{OK: true}})
			for range rapid.IntRange(0, 4).Draw(t, "intervals") {
				h := hist.New()
				scale := 1 + r.Float64()*float64(time.Millisecond)*float64(n*n)
				for range r.IntN(100) {
					v, count := int64(r.ExpFloat64()*scale), r.Int64N(100)
					h.RecordN(v, count)
					all.RecordN(v, count)
				}
				logs[n] = append(logs[n], hist.Interval{Tag: tagService, Length: time.Second, Hist: h})
			}
		}
		if err := judge(&run, trials, reader(logs)); err != nil {
			t.Fatal(err)
		}
		got := run.Variants[0].Service
		if got.Count != all.Count() {
			t.Fatalf("%d values, want %d", got.Count, all.Count())
		}
		for _, q := range []struct {
			name   string
			q      float64
			needed int64
			got    *float64
		}{
			{"p50", 0.5, 20, got.P50}, {"p90", 0.9, 100, got.P90}, {"p99", 0.99, 1000, got.P99}, {"p999", 0.999, 10000, got.P999}, {"max", 1, 1, got.Max},
		} {
			if (q.got != nil) != (all.Count() >= q.needed) {
				t.Errorf("%s of %d values: known %v", q.name, all.Count(), q.got != nil)
			}
			if q.got != nil && *q.got != seconds(float64(all.Quantile(q.q))) {
				t.Errorf("%s is %v, want %v", q.name, *q.got, seconds(float64(all.Quantile(q.q))))
			}
		}
	})
}

func TestMerged(t *testing.T) {
	first, second := record(1, 5, time.Minute), record(5, 7)
	got := merged([]hist.Interval{{Tag: "x", Hist: first}, {Tag: "y", Hist: second}, {Tag: "x", Hist: second}})
	if !got["x"].Equal(record(1, 5, 5, 7, time.Minute)) || !got["y"].Equal(second) || !first.Equal(record(1, 5, time.Minute)) {
		t.Errorf("merged: x %d values, y %d", got["x"].Count(), got["y"].Count())
	}
}

func TestVariantWithoutTrials(t *testing.T) {
	run, trials, logs := bench(rand.New(rand.NewPCG(1, 2)), 1)
	if err := judge(&run, trials[:1], reader(logs)); err != nil {
		t.Fatal(err)
	}
	want := []rundir.Flag{{Kind: FlagNoTrials, Variant: "b", Detail: "no trial of b was completed", Invalid: true}}
	if diff := cmp.Diff(want, run.Flags); diff != "" || run.Valid {
		t.Errorf("valid %v, flags %s", run.Valid, diff)
	}
	if b := run.Variants[1]; b.Trials != 0 || b.Throughput.Estimate != nil || b.Errors.Ratio != nil || b.Response.P50 != nil {
		t.Errorf("figures of nothing: %+v", b)
	}
	if len(run.Comparisons) != 0 || run.Claims[0].Outcome != rundir.Inconclusive {
		t.Errorf("comparisons %+v, claims %+v", run.Comparisons, run.Claims)
	}
}

func TestJudgeFails(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		change func([]rundir.Trial)
		log    logReader
		want   string
	}{
		"log":     {func([]rundir.Trial) {}, func(int) ([]hist.Interval, error) { return nil, broken }, "trial 1: latency log: broken"},
		"variant": {func(t []rundir.Trial) { t[1].Variant = "z" }, nil, `trial 2: variant "z" is not in the plan`},
	} {
		t.Run(name, func(t *testing.T) {
			run, trials, logs := bench(rand.New(rand.NewPCG(1, 2)), 2)
			c.change(trials)
			if c.log == nil {
				c.log = reader(logs)
			}
			before := run
			err := judge(&run, trials, c.log)
			if err == nil || err.Error() != c.want {
				t.Errorf("error %v, want %s", err, c.want)
			}
			if diff := cmp.Diff(before, run); diff != "" {
				t.Errorf("the run was changed: %s", diff)
			}
		})
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   *float64
	}{
		{nil, nil}, {[]float64{3}, ptr(3.)}, {[]float64{3, 1}, ptr(2.)}, {[]float64{9, 1, 2}, ptr(2.)}, {[]float64{4, 1, 3, 2}, ptr(2.5)},
	} {
		before := slices.Clone(c.values)
		if diff := cmp.Diff(c.want, median(c.values)); diff != "" || !slices.Equal(before, c.values) {
			t.Errorf("median of %v: %s", c.values, diff)
		}
	}
}
