package report

import (
	"fmt"
	"maps"
	"math"
	"time"

	"dyno/internal/texts"
	"dyno/results/rundir"
)

// estimate is a figure with a value for each of n trials. In logarithms, its interval
// reaches equally far to both sides.
func estimate(v, wide float64, n int) rundir.Estimate {
	e := rundir.Estimate{Estimate: &v, Interval: rundir.NoInterval}
	for i := range n {
		e.Values = append(e.Values, v*(1+wide*math.Sin(float64(3*i+2))))
	}
	if n > 1 {
		e.Low, e.High = ptr(v/(1+wide)), ptr(v*(1+wide))
		e.Confidence, e.Interval = 0.95, rundir.ByStudent
	}
	return e
}

// between is a figure with the interval given.
func between(v, low, high float64, method string) rundir.Estimate {
	return rundir.Estimate{Estimate: &v, Low: &low, High: &high, Confidence: 0.95, Interval: method}
}

// quantile is a figure of a merged histogram.
func quantile(v, low, high float64) rundir.Estimate { return between(v, low, high, rundir.ByShare) }

// example is a run that measured variants in a number of rounds, without comparisons.
func example(name, question string, rounds int, variants ...string) *rundir.Folder {
	f := &rundir.Folder{Dir: "runs/example", Run: rundir.Run{
		SchemaVersion: rundir.SchemaVersion, Name: name, Question: question,
		StartedAt: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), FinishedAt: ptr(time.Date(2026, 3, 1, 12, 5, 30, 0, time.UTC)),
		Complete: true, Valid: true, TrialsPlanned: rounds * len(variants), Rounds: rounds,
		Plan: rundir.Plan{
			File: name + ".yaml", Rounds: rounds, Seed: 1, Stop: "fixed", Margin: 0.02, Metric: "throughput", Protocol: "tcp", Loop: "closed",
		},
		Environment: rundir.Environment{
			Hostname: "bench", OS: "linux", Arch: "amd64", Kernel: "6.1.0", CPUModel: "Some CPU @ 2.00GHz", CPUs: 2, Virtualization: "kvm",
			GeneratorCPUs: []int{1}, TargetCPUs: []int{0}, Unavailable: []rundir.Message{texts.Verbatim("system calls: no permission for tracepoints")},
		},
		Command: []string{"dyno", "run", name + ".yaml"}, DynoVersion: "0.2.0",
	}}
	number := 0
	for i, v := range variants {
		f.Run.Plan.Variants = append(f.Run.Plan.Variants, rundir.PlanVariant{Name: v, Loop: "closed", Connections: 100, WarmupSeconds: 2, WindowSeconds: 5})
		f.Run.Variants = append(f.Run.Variants, figuresOf(v, rounds, 4230+100*float64(i), 1.2e-3))
	}
	for round := range rounds {
		for i, v := range variants {
			number++
			t := rundir.Trial{
				Number: number, Round: round + 1, Variant: v, Complete: true, WarmupSeconds: 2, WindowSeconds: 5,
				Throughput:  ptr(f.Run.Variants[i].Figures["throughput"].Values[round]),
				Times:       rundir.Times{"service": quantilesOf(1.2e-3), "response": quantilesOf(1.2e-3 + 4e-6)},
				Target:      rundir.Target{CPUSecondsPerRequest: ptr(21e-6), RSSBytes: ptr(int64(9+i) << 20)},
				Connections: rundir.Connections{Requested: 100, Opened: 102, Failed: 1, Peak: 100},
				Loaded:      &rundir.Loaded{Protocols: map[string]int64{"HTTP/1.1": 102}},
			}
			f.Trials = append(f.Trials, &rundir.TrialFolder{Trial: t, Name: fmt.Sprintf("trials/%04d-%s", number, v)})
			f.Run.Trials = append(f.Run.Trials, rundir.Examined{Number: number, Round: round + 1, Variant: v})
		}
	}
	return f
}

// figuresOf is a variant with figures of every kind.
func figuresOf(name string, trials int, throughput, p50 float64) rundir.Variant {
	v := rundir.Variant{
		Name: name, Trials: trials, Figures: map[string]rundir.Estimate{
			"throughput": estimate(throughput, 0.012, trials), "errors.ratio": {Estimate: ptr(0.)},
			"target.cpu_per_request": {Estimate: ptr(21e-6)}, "target.cpu_share": {Estimate: ptr(0.9)}, "target.rss": {Estimate: ptr(float64(9 << 20))},
			"generator.cpu_per_request": {Estimate: ptr(6.54e-6)}, "generator.cpu_share": {Estimate: ptr(0.31)},
		},
		Counts: rundir.Counts{Scheduled: 160_000, Sent: 160_000, OK: 160_000, CompletedInWindow: 160_000},
	}
	for tag, x := range map[string]float64{"response": p50 + 4e-6, "service": p50, "send_lag": 4e-6} {
		timed(&v, tag, quantilesOf(x))
	}
	if trials < 2 {
		return v
	}
	maps.Copy(v.Figures, map[string]rundir.Estimate{
		"service.p50": quantile(p50, 0.99*p50, 1.01*p50), "service.p99": quantile(3*p50, 2.8*p50, 3.6*p50), "service.p999": quantile(5*p50, 4*p50, 8*p50),
		"response.p50": quantile(p50+4e-6, 0.99*p50, 1.01*p50), "response.p99": quantile(3*p50+4e-6, 2.8*p50, 3.6*p50),
		"send_lag.p50": quantile(4e-6, 3.9e-6, 4.1e-6), "send_lag.p99": quantile(12e-6, 11e-6, 14e-6),
		"target.cpu_per_request": estimate(21e-6, 0.008, trials), "target.cpu_share": estimate(0.9, 0.01, trials),
		"target.rss": estimate(9<<20, 0.03, trials), "generator.cpu_per_request": estimate(6.54e-6, 0.02, trials),
		"generator.cpu_share": estimate(0.31, 0.015, trials),
	})
	return v
}

func quantilesOf(x float64) rundir.Quantiles {
	return rundir.Quantiles{Count: 160_000, Mean: ptr(1.1 * x), P50: ptr(x), P90: ptr(1.7 * x), P99: ptr(3 * x), P999: ptr(5 * x), Max: ptr(9 * x)}
}

// timed gives a variant the figures of times, without intervals.
func timed(v *rundir.Variant, tag string, q rundir.Quantiles) {
	for _, s := range rundir.Summaries() {
		name := tag + "." + s.Name
		delete(v.Figures, name)
		delete(v.Few, name)
		switch x := s.Of(&q); {
		case x == nil:
		case rundir.Few(q.Count, s.Quantile):
			if v.Few == nil {
				v.Few = map[string]float64{}
			}
			v.Few[name] = *x
		default:
			v.Figures[name] = rundir.Estimate{Estimate: x}
		}
	}
}

// failing has requests of a variant fail.
func failing(v *rundir.Variant, byKind map[string]int64) {
	c := &v.Counts
	c.ByKind, c.Errors, c.Timeouts, c.Unfinished = byKind, 0, byKind["timeout"], 0
	for kind, n := range byKind {
		if kind != "timeout" {
			c.Errors += n
		}
	}
	c.OK = c.Scheduled - c.Errors - c.Timeouts
	_, ratio := c.Failures()
	v.Figures["errors.ratio"] = rundir.Estimate{Estimate: ratio}
}

// compared is a comparison with its verdict.
func compared(base, variant, metric, role, verdict string, rounds int, ratio, wide, p float64) rundir.Comparison {
	c := rundir.Comparison{
		Base: base, Variant: variant, Metric: metric, Role: role, Good: "lower", Rounds: rounds, Verdict: verdict,
		Ratio: between(ratio, ratio/(1+wide), ratio*(1+wide), rundir.ByPairedStudent), P: &p, SignFlipP: ptr(0.0078), Detectable: ptr(1.3 * wide),
	}
	if metric == "throughput" {
		c.Good, c.Primary = "higher", true
	} else if metric != "target.cpu_per_request" {
		c.Ratio.Interval = rundir.ByHodgesLehmann
	}
	return c
}

func exampleCompare() *rundir.Folder {
	f := example("relay-models", "Does one goroutine per connection beat a bounded pool?", 8, "pool", "pool.control", "goroutine")
	r := &f.Run
	r.Plan.Base, r.Plan.Control, r.Plan.Variants[1].AliasOf = "pool", "pool.control", "pool"
	r.Variants[1] = figuresOf("pool.control", 8, 4236, 1.198e-3)
	r.Variants[2] = figuresOf("goroutine", 8, 3976, 1.31e-3)
	r.Variants[2].Figures["service.p99"] = quantile(3.67e-3, 3.4e-3, 4.4e-3)
	failing(&r.Variants[2], map[string]int64{"reset": 70, "timeout": 40})
	cpu := compared("pool", "goroutine", "target.cpu_per_request", "", rundir.Equivalent, 8, 1.003, 0.008, 0.41)
	cpu.Equivalence = ptr(between(1.003, 0.997, 1.009, rundir.ByPairedStudent))
	cpu.Equivalence.Confidence = 0.9
	p99 := compared("pool", "goroutine", "service.p99", "", rundir.Inconclusive, 8, 1.02, 0.044, 0.38)
	p99.FurtherRounds = ptr(11)
	r.Comparisons = []rundir.Comparison{
		compared("pool", "pool.control", "throughput", rundir.RoleControl, rundir.Inconclusive, 8, 1.0014, 0.009, 0.71),
		compared("pool", "pool.control", "service.p50", rundir.RoleControl, rundir.Inconclusive, 8, 0.998, 0.011, 0.64),
		compared("pool", "pool.control", "service.p99", rundir.RoleControl, rundir.Inconclusive, 8, 1.01, 0.04, 0.55),
		compared("pool", "pool.control", "target.cpu_per_request", rundir.RoleControl, rundir.Inconclusive, 8, 1.001, 0.007, 0.75),
		compared("pool", "goroutine", "throughput", "", rundir.Worse, 8, 0.94, 0.016, 0.0003),
		compared("pool", "goroutine", "service.p50", "", rundir.Worse, 8, 1.091, 0.02, 0.0078),
		p99, cpu,
	}
	r.Trials[10].Dependence = &rundir.Dependence{BinSeconds: 0.1, Bins: 49, Lag1: 0.61, EffectiveSize: 12.4}
	r.Thresholds = []rundir.Threshold{
		{Text: "service.p99 < 4ms", Variant: "pool", OK: false, Outcome: rundir.Undecided, Measured: ptr(3.6e-3), Low: ptr(3.36e-3), High: ptr(4.32e-3), Detail: new(texts.Verbatim("its interval holds the limit"))},
		{Text: "service.p99 < 4ms", Variant: "pool.control", OK: false, Outcome: rundir.Undecided, Measured: ptr(3.6e-3), Low: ptr(3.36e-3), High: ptr(4.32e-3), Detail: new(texts.Verbatim("its interval holds the limit"))},
		{Text: "service.p99 < 4ms", Variant: "goroutine", OK: false, Outcome: rundir.Undecided, Measured: ptr(3.67e-3), Low: ptr(3.4e-3), High: ptr(4.4e-3), Detail: new(texts.Verbatim("its interval holds the limit"))},
		{Text: "service.p50 < 1ms", Variant: "goroutine", OK: false, Outcome: rundir.Broken, Measured: ptr(1.31e-3), Low: ptr(1.297e-3), High: ptr(1.323e-3)},
		{Text: `ratio(goroutine, pool, throughput) > 0.9`, OK: true, Outcome: rundir.Kept, Measured: ptr(0.94), Low: ptr(0.925), High: ptr(0.955)},
	}
	r.Claims = []rundir.Claim{
		{ID: "R1.1", Says: "the goroutine model has 1.36 times the pool's throughput", Published: "1.36", Measures: "ratio(goroutine, pool, throughput)", Outcome: rundir.Refuted, Measured: ptr(0.94), Low: ptr(0.925), High: ptr(0.955)},
		{ID: "R1.2", Says: "p50 below 2 ms", Holds: "value(goroutine, service.p50) < 2ms", Outcome: rundir.Holds, Measured: ptr(1.31e-3), Low: ptr(1.297e-3), High: ptr(1.323e-3)},
		{ID: "R1.10", Says: "the tail is below 4 ms", Holds: "value(goroutine, service.p99) < 4ms", Outcome: rundir.NotSettled, Measured: ptr(3.67e-3), Low: ptr(3.4e-3), High: ptr(4.4e-3), Detail: new(texts.Verbatim("its interval holds the limit"))},
		{ID: "R1.3", Says: "256 cores are enough", Outcome: rundir.NotTestable, Detail: new(texts.Verbatim("this needs 256 cores"))},
	}
	r.Flags = []rundir.Flag{{Kind: "late_wakeups", Trial: 4, Variant: "pool", Detail: new(texts.Verbatim("0.21 % of sleeps of 1 ms were overslept by more than 1 ms, more than 0.1 %"))}}
	return f
}

// exampleShort has three rounds, which bound no ratio of quantiles.
func exampleShort() *rundir.Folder {
	f := example("relay-models", "", 3, "pool", "pool.control", "goroutine")
	r := &f.Run
	r.Plan.Base, r.Plan.Control, r.Plan.Variants[1].AliasOf, r.Plan.Short = "pool", "pool.control", "pool", true
	unbounded := func(variant, role string, ratio float64) rundir.Comparison {
		c := compared("pool", variant, "service.p99", role, rundir.Inconclusive, 3, ratio, 0, 0.25)
		c.Ratio.Low, c.Ratio.High, c.Detectable, c.SignFlipP = nil, nil, nil, ptr(0.25)
		c.Ratio.Values = []float64{0.95 * ratio, ratio, 1.1 * ratio}
		return c
	}
	faster := compared("pool", "goroutine", "throughput", "", rundir.Better, 3, 2.31, 0.12, 0.004)
	faster.SignFlipP = ptr(0.25)
	r.Variants[2].Figures["throughput"] = estimate(9771, 0.03, 3)
	r.Comparisons = []rundir.Comparison{
		compared("pool", "pool.control", "throughput", rundir.RoleControl, rundir.Inconclusive, 3, 1.004, 0.05, 0.71),
		unbounded("pool.control", rundir.RoleControl, 1.02),
		faster,
		unbounded("goroutine", "", 0.52),
	}
	return f
}

func exampleLadder() *rundir.Folder {
	f := example("events-ladder", "What does each tuning step add?", 12,
		"baseline", "baseline.control", "pooled", "encode-once", "one-write", "without-pooled", "without-encode-once")
	r := &f.Run
	r.Plan.Base, r.Plan.Control, r.Plan.Variants[1].AliasOf = "baseline", "baseline.control", "baseline"
	r.Plan.Ladder = &rundir.PlanLadder{
		Steps:       []string{"baseline", "pooled", "encode-once", "one-write"},
		WithoutStep: map[string]string{"without-pooled": "pooled", "without-encode-once": "encode-once"},
	}
	for i, x := range []float64{4230, 4241, 4400, 9800, 10300, 10150, 4900} {
		r.Variants[i].Figures["throughput"] = estimate(x, 0.011, 12)
	}
	family := func(base, variant, role, verdict string, ratio, wide, p float64) rundir.Comparison {
		c := compared(base, variant, "throughput", role, verdict, 12, ratio, wide, p)
		if role != rundir.RoleControl {
			c.AdjustedP, c.Adjustment = ptr(min(1, 5*p)), "Holm"
		}
		return c
	}
	r.Comparisons = []rundir.Comparison{
		family("baseline", "baseline.control", rundir.RoleControl, rundir.Inconclusive, 1.0026, 0.008, 0.52),
		family("baseline", "pooled", rundir.RoleStep, rundir.Better, 1.04, 0.011, 0.0002),
		family("pooled", "encode-once", rundir.RoleStep, rundir.Better, 2.23, 0.02, 0.000001),
		family("encode-once", "one-write", rundir.RoleStep, rundir.Inconclusive, 1.051, 0.055, 0.07),
		family("baseline", "pooled", "", rundir.Better, 1.04, 0.011, 0.0002),
		family("baseline", "encode-once", "", rundir.Better, 2.317, 0.02, 0.000001),
		family("baseline", "one-write", "", rundir.Better, 2.435, 0.03, 0.000001),
		family("without-pooled", "one-write", rundir.RoleLeftOut, rundir.Equivalent, 1.0148, 0.004, 0.03),
		family("without-encode-once", "one-write", rundir.RoleLeftOut, rundir.Better, 2.1, 0.03, 0.00001),
	}
	r.Comparisons[3].FurtherRounds = ptr(9)
	r.Comparisons[7].Equivalence = ptr(between(1.0148, 1.0115, 1.0181, rundir.ByPairedStudent))
	r.Comparisons[7].Equivalence.Confidence = 0.9
	at := func(i int) (*rundir.Estimate, string) { return &r.Comparisons[i].Ratio, r.Comparisons[i].Verdict }
	r.Ladder = []rundir.Step{{Variant: "baseline"}, {Variant: "pooled"}, {Variant: "encode-once"}, {Variant: "one-write"}}
	for i := 1; i < 4; i++ {
		s := &r.Ladder[i]
		s.Marginal, s.Verdict = at(i)
		s.Total, s.TotalVerdict = at(i + 3)
	}
	r.Ladder[1].LeftOut, r.Ladder[1].LeftOutVerdict = at(7)
	r.Ladder[2].LeftOut, r.Ladder[2].LeftOutVerdict = at(8)
	r.Pilot = &rundir.Pilot{WarmupSeconds: 4.8, Variants: []rundir.PilotVariant{
		{Variant: "baseline", SteadySeconds: 1.1, Steady: true, Series: "throughput"},
		{Variant: "pooled", SteadySeconds: 3.2, Steady: true, Series: "cpu_per_request"},
		{Variant: "encode-once", SteadySeconds: 15, Steady: false, Series: "p50", Detail: new(texts.Verbatim("it was still changing in the second half"))},
	}}
	r.Flags = []rundir.Flag{{Kind: "pilot_not_steady", Variant: "encode-once", Detail: new(texts.Verbatim("the pilot of encode-once was still changing in its second half"))}}
	return f
}

// examplePairs compares four variants with each other.
func examplePairs() *rundir.Folder {
	f := example("languages", "Which languages differ?", 8, "go", "go.control", "rust", "cpp", "node")
	r := &f.Run
	r.Plan.Base, r.Plan.Control, r.Plan.Variants[1].AliasOf, r.Plan.Pairs = "go", "go.control", "go", true
	pair := func(base, variant, metric, role, verdict string, ratio, wide, p float64) {
		c := compared(base, variant, metric, role, verdict, 8, ratio, wide, p)
		c.Ratio.Interval, c.AdjustedP, c.Adjustment = rundir.ByPairedStudent, ptr(min(1, 6*p)), "Holm, of 6"
		switch {
		case role == rundir.RoleControl:
			c.AdjustedP, c.Adjustment = nil, ""
		case metric == "service.p99":
			c.Adjustment = "Holm, of 3"
		case verdict == rundir.Inconclusive:
			c.FurtherRounds = ptr(21)
		case verdict == rundir.Equivalent:
			c.Equivalence = ptr(between(ratio, ratio/1.01, ratio*1.01, rundir.ByPairedStudent))
			c.Equivalence.Confidence = 0.9
		}
		r.Comparisons = append(r.Comparisons, c)
	}
	const memory = "target.rss"
	pair("go", "go.control", "throughput", rundir.RoleControl, rundir.Inconclusive, 1.01, 0.03, 0.4)
	pair("go", "rust", "throughput", "", rundir.Better, 1.44, 0.05, 0.00001)
	pair("go", "rust", "service.p99", "", rundir.Better, 0.7, 0.1, 0.001)
	pair("go", "rust", memory, "", rundir.Better, 0.32, 0.01, 0.0000001)
	pair("go", "cpp", "throughput", "", rundir.Better, 1.27, 0.04, 0.0001)
	pair("go", "cpp", "service.p99", "", rundir.Better, 0.8, 0.1, 0.004)
	pair("go", "cpp", memory, "", rundir.Equivalent, 0.995, 0.02, 0.3)
	pair("go", "node", "throughput", "", rundir.Worse, 0.39, 0.05, 0.00001)
	pair("go", "node", "service.p99", "", rundir.Worse, 2.1, 0.1, 0.0004)
	pair("go", "node", memory, "", rundir.Worse, 6, 0.02, 0.0000001)
	pair("rust", "cpp", "throughput", rundir.RolePair, rundir.Inconclusive, 0.885, 0.17, 0.12)
	pair("rust", "cpp", memory, rundir.RolePair, rundir.Worse, 2.8, 0.01, 0.0000001)
	pair("rust", "node", "throughput", rundir.RolePair, rundir.Worse, 0.27, 0.05, 0.00001)
	pair("rust", "node", memory, rundir.RolePair, rundir.Worse, 19, 0.01, 0.0000001)
	pair("cpp", "node", "throughput", rundir.RolePair, rundir.Worse, 0.31, 0.05, 0.00001)
	pair("cpp", "node", memory, rundir.RolePair, rundir.Invalid, 6.7, 0.01, 0.0000001)
	r.Validity = append(r.Validity, rundir.Validity{Figure: memory, Variant: "node", Base: "cpp", State: rundir.StateNotIdentified, Why: new(texts.Verbatim("it was measured by another clock"))})
	return f
}

func exampleSweep() *rundir.Folder {
	levels := []float64{1, 2, 4, 8, 16, 32, 64}
	var names []string
	for _, l := range levels {
		names = append(names, fmt.Sprintf("connections=%g", l))
	}
	f := example("relay-scaling", "How far does it scale?", 6, names...)
	r := &f.Run
	r.Plan.Sweep = []rundir.Dimension{{Name: "connections", Values: []string{"1", "2", "4", "8", "16", "32", "64"}}}
	s := rundir.Sweep{Variable: "connections", Fixed: map[string]string{"model": "pool"}, Metric: "throughput", Knee: ptr(8.)}
	for i, l := range levels {
		n := l - 1
		x := estimate(1200*l/(1+0.05*n+0.0008*l*n), 0.012, 6)
		r.Variants[i].Figures["throughput"] = x
		r.Plan.Variants[i].Connections = int(l)
		s.Levels = append(s.Levels, rundir.Level{Value: l, Variant: names[i], Figure: x})
	}
	flat := s
	flat.Fixed, flat.Knee = map[string]string{"model": "goroutine"}, nil
	few := rundir.Sweep{
		Variable: "payload", Metric: "service.p99",
		Levels: []rundir.Level{{Value: 64, Figure: quantile(1e-3, 0.9e-3, 1.3e-3)}, {Value: 1024, Figure: quantile(1.4e-3, 1.3e-3, 1.5e-3)}, {Value: 65536}},
	}
	r.Sweeps = []rundir.Sweep{s, flat, few}
	r.Stopped = new(texts.Verbatim("all rounds were measured"))
	return f
}

func exampleCapacity() *rundir.Folder {
	f := example("relay-capacity", "What does it take within its limit?", 5, "pool", "goroutine")
	r := &f.Run
	r.TrialsPlanned, r.Rounds, r.Plan.Loop, r.Plan.Metric = 0, 5, "open", "capacity"
	r.Plan.Capacity = &rundir.PlanCapacity{From: 1000, To: 20000, Resolution: 0.02, Trials: 5, Tolerate: 0.5}
	r.Plan.Base = "pool"
	for i := range r.Variants {
		r.Plan.Variants[i].Loop = "open"
		rate := map[string]rundir.Estimate{"pool": estimate(9200, 0.024, 5), "goroutine": estimate(9950, 0.03, 5)}[r.Variants[i].Name]
		r.Variants[i] = rundir.Variant{Name: r.Variants[i].Name, Figures: map[string]rundir.Estimate{rundir.MetricCapacity: rate}}
	}
	for i := range f.Trials {
		f.Trials[i].Purpose, f.Trials[i].Rate = rundir.PurposeProbe, ptr(1000*float64(i+1))
		r.Trials[i].Purpose, r.Trials[i].Good = rundir.PurposeProbe, ptr(i < 5)
	}
	searches := func(x float64) (list []rundir.Bracket) {
		for i := range 5 {
			low := x * (1 + 0.01*float64(i-2))
			list = append(list, rundir.Bracket{Round: i + 1, Low: &low, High: ptr(1.02 * low), Trials: 14 + i})
		}
		return list
	}
	r.Capacities = []rundir.Capacity{
		{Variant: "pool", Searches: searches(9100), Limit: "response.p99 < 80ms"},
		{Variant: "goroutine", Searches: append(searches(9800)[:4], rundir.Bracket{Round: 5, Low: ptr(20000.), Trials: 6}), Limit: "drops", Detail: new(texts.Verbatim("in round 5 the edge lay beyond the range"))},
	}
	c := compared("pool", "goroutine", "capacity", "", rundir.Better, 5, 1.08, 0.03, 0.003)
	c.Primary, c.Good, c.Ratio.Interval, c.SignFlipP = true, "higher", rundir.ByPairedStudent, ptr(0.0625)
	r.Comparisons = []rundir.Comparison{c}
	r.Thresholds = nil
	return f
}

// exampleSearch is a search from flags, with a load at each of six rates and one that was repeated.
func exampleSearch() *rundir.Folder {
	rates := []float64{800, 1600, 3200, 6400, 4530, 3810, 3810}
	f := example("http", "", len(rates), "default")
	r := &f.Run
	r.TrialsPlanned, r.Rounds = 0, 1
	r.Plan.File, r.Plan.Rounds, r.Plan.Protocol, r.Plan.Loop, r.Plan.Metric = "", 1, "http", "open", "capacity"
	r.Plan.Capacity = &rundir.PlanCapacity{From: 800, To: 819200, Resolution: 0.05, Trials: 1, Tolerate: 0.5}
	r.Plan.Thresholds = []string{"response.p99 < 20ms", "errors.ratio < 0.1%"}
	r.Plan.Variants[0] = rundir.PlanVariant{Name: "default", Loop: "open", Connections: 500, WarmupSeconds: 0.5, WindowSeconds: 2, Request: "GET http://127.0.0.1:8080/"}
	r.Variants[0] = rundir.Variant{Name: "default", Figures: map[string]rundir.Estimate{
		rundir.MetricCapacity: {Estimate: ptr(4154.), Values: []float64{4154}, Interval: rundir.NoInterval},
	}}
	for i, rate := range rates {
		x, t := &r.Trials[i], &f.Trials[i].Trial
		t.Round, x.Round = 1, 1
		t.Purpose, t.Rate, x.Purpose, x.Rate = rundir.PurposeProbe, &rate, rundir.PurposeProbe, &rate
		if i < len(rates)-1 { // the last but one was disturbed
			x.Good = ptr(rate < 4530)
		}
		t.Server, t.Target.CPUSeconds = &rundir.Server{PID: 7, Name: "nginx"}, ptr(1.5)
	}
	decided := func(p99 float64) []rundir.Threshold {
		outcome := rundir.Broken
		if p99 < 0.02 {
			outcome = rundir.Kept
		}
		return []rundir.Threshold{
			{Text: r.Plan.Thresholds[0], Variant: "default", OK: outcome == rundir.Kept, Outcome: outcome, Measured: ptr(p99), Low: ptr(0.7 * p99), High: ptr(p99)},
			{Text: r.Plan.Thresholds[1], Variant: "default", OK: true, Outcome: rundir.Kept, Measured: ptr(0.)},
		}
	}
	r.Capacities = []rundir.Capacity{{
		Variant: "default", Limit: r.Plan.Thresholds[0],
		Searches: []rundir.Bracket{{Round: 1, Low: ptr(3810.), High: ptr(4530.), Trials: len(rates), AtLow: decided(0.0182), AtHigh: decided(0.0371)}},
	}}
	r.Thresholds = nil
	r.Command = []string{"dyno", "capacity", "http://127.0.0.1:8080/", "--slo", "p99 < 20ms, errors.ratio < 0.1%"}
	return f
}

func exampleSoak() *rundir.Folder {
	f := example("relay-soak", "Does its memory stay bounded?", 1, "goroutine")
	r := &f.Run
	r.Plan.Soak, r.Plan.Metric = true, "throughput"
	r.Plan.Variants[0].WindowSeconds = 1800
	r.Trends = []rundir.Trend{
		{Variant: "goroutine", Trial: 1, Metric: "rss", Slope: between(0.031/3600, 0.024/3600, 0.039/3600, rundir.ByTheilSen), Growth: ptr(0.0155), P: ptr(0.00004), Values: 1800},
		{Variant: "goroutine", Trial: 1, Metric: "goroutines", Slope: between(0.0004/3600, -0.002/3600, 0.003/3600, rundir.ByTheilSen), Growth: ptr(0.0002), P: ptr(0.63), Values: 1800},
		{Variant: "goroutine", Trial: 1, Metric: "descriptors", Slope: between(0, 0, 0, rundir.ByTheilSen), Growth: ptr(0.), Values: 1800, Detail: new(texts.Verbatim("the same throughout"))},
		{Variant: "goroutine", Trial: 1, Metric: "threads", Values: 3, Detail: new(texts.Verbatim("3 values are too few for a trend"))},
	}
	r.Thresholds = []rundir.Threshold{
		{Text: "slope(rss) < 5%/30min", Variant: "goroutine", OK: true, Outcome: rundir.Kept, Measured: ptr(8.6e-6), Low: ptr(6.7e-6), High: ptr(1.08e-5)},
	}
	return f
}

func exampleProgram() *rundir.Folder {
	f := example("hand-off", "Is a goroutine's switch cheaper than a thread's?", 8, "thread", "thread.control", "goroutine")
	r := &f.Run
	r.Plan.Protocol, r.Plan.Loop, r.Plan.Metric, r.Plan.Base, r.Plan.Control = "program", "", "program.switch_seconds", "thread", "thread.control"
	for i, seconds := range []float64{1.41e-6, 1.409e-6, 212e-9} {
		v := &r.Variants[i]
		*v = rundir.Variant{Name: v.Name, Trials: 8, Figures: map[string]rundir.Estimate{
			"program.switch_seconds": estimate(seconds, 0.02, 8), "program.context_switches": estimate(float64(2-i), 0.0001, 8), "program.resident_bytes": estimate(float64(int64(3)<<20), 0.2, 8),
		}}
		for _, t := range f.Trials {
			if t.Variant == v.Name {
				t.Throughput, t.Times, t.Target = nil, nil, rundir.Target{}
				t.Measures = map[string]float64{"switch_seconds": seconds, "context_switches": float64(2 - i), "resident_bytes": 3 << 20, "ops_per_second": 1 / seconds}
			}
		}
		r.Plan.Variants[i].Loop = ""
	}
	of := func(variant, role, verdict string, ratio, wide, p float64) rundir.Comparison {
		c := compared("thread", variant, r.Plan.Metric, role, verdict, 8, ratio, wide, p)
		c.Primary, c.Ratio.Interval = true, rundir.ByPairedStudent
		return c
	}
	r.Comparisons = []rundir.Comparison{
		of("thread.control", rundir.RoleControl, rundir.Inconclusive, 0.9993, 0.008, 0.83),
		of("goroutine", "", rundir.Better, 0.1504, 0.02, 0.00000001),
	}
	r.Claims = []rundir.Claim{{
		ID: "R1.2/switch", Says: "a goroutine's switch takes a fifth of a thread's", Holds: "ratio(thread, goroutine, throughput) >= 5",
		Outcome: rundir.Holds, Measured: ptr(6.65), Low: ptr(6.52), High: ptr(6.78),
	}}
	return f
}

// exampleInvalid has a control that differs, rounds left out for noise, flags of
// many trials, and verdicts that are none.
func exampleInvalid() *rundir.Folder {
	f := exampleCompare()
	r := &f.Run
	r.Valid, r.Name = false, "relay-noisy"
	for i := range r.Comparisons {
		r.Comparisons[i].Verdict = rundir.Invalid
		c := r.Comparisons[i]
		r.Validity = append(r.Validity, rundir.Validity{
			Figure: c.Metric, Variant: c.Variant, Base: c.Base, State: rundir.StateNotIdentified, Asked: c.Primary && c.Role == "", Causes: []string{"generator_limit"},
			Why: &rundir.Message{Kind: "why.alike"},
		})
		r.Comparisons[i].Rounds = 6
	}
	r.Comparisons[0].Ratio = between(1.031, 1.012, 1.05, rundir.ByPairedStudent)
	r.Comparisons[0].P = ptr(0.004)
	r.Comparisons[4].AllRounds = ptr(between(0.91, 0.82, 1.01, rundir.ByPairedStudent))
	r.Flags = []rundir.Flag{{Kind: "control_differs", Variant: "pool.control", Detail: new(texts.Verbatim("pool.control has 1.031 times the throughput of pool, though they are the same"))}}
	for i := 1; i <= 9; i++ {
		r.Flags = append(r.Flags, rundir.Flag{Kind: "generator_limit", Trial: i, Variant: "pool", Disturbs: true, Detail: new(texts.Verbatim("the generator was busy or waiting for a CPU in 99 % of the window, and the target in 71 %"))})
	}
	for _, kind := range []string{"foreign_cpu", "memory_pressure", "io_pressure", "unfinished", "dependent", "steal"} {
		r.Flags = append(r.Flags, rundir.Flag{Kind: kind, Trial: 10, Variant: "pool.control", Detail: new(texts.Verbatim("more than is allowed"))})
	}
	r.Flags = append(r.Flags, rundir.Flag{Kind: "plateau", Detail: new(texts.Verbatim("throughput stands still over the last three levels")), Disturbs: true})
	for i := 6; i < 12; i++ {
		r.Trials[i].Excluded = true
	}
	share := map[string]string{"share": "0.62%"}
	r.Validity = append(r.Validity,
		rundir.Validity{Figure: "throughput", Variant: "pool", State: rundir.StateNotIdentified, Low: ptr(4180.), Asked: true, Causes: []string{"generator_limit"}, Why: &rundir.Message{Kind: "why.generator"}},
		rundir.Validity{Figure: "service.p99", Variant: "pool", State: rundir.StateBounded, Low: ptr(3.1e-3), High: ptr(4.4e-3), Asked: true, Causes: []string{"steal"}, Why: &rundir.Message{Kind: "why.disturbed", Values: share}},
		rundir.Validity{Figure: "service.p50", Variant: "pool", State: rundir.StateRelative, Causes: []string{"steal"}, Why: &rundir.Message{Kind: "why.disturbed", Values: share}},
		rundir.Validity{Figure: "service.p50", Variant: "goroutine", State: rundir.StateOK})
	return f
}

// exampleNoRoom is so disturbed that it shows nothing.
func exampleNoRoom() *rundir.Folder {
	f := exampleCompare()
	r := &f.Run
	r.Valid, r.Name, r.NoRoom, r.Flags, r.Thresholds = false, "relay-disturbed", new(texts.New("no_room.disturbed")), nil, nil
	r.Reason = new(texts.Because("reason.unidentified", *r.NoRoom))
	for i := range r.Trials {
		r.Trials[i].Disturbed = true
		r.Flags = append(r.Flags, rundir.Flag{Kind: "foreign_cpu", Trial: r.Trials[i].Number, Variant: r.Trials[i].Variant, Disturbs: true, Detail: new(texts.Verbatim("other programs used 48 % of the CPUs"))})
	}
	for i := range r.Comparisons {
		if c := &r.Comparisons[i]; c.Role != rundir.RoleControl {
			c.Verdict, c.FurtherRounds = rundir.Invalid, nil
			r.Validity = append(r.Validity, rundir.Validity{
				Figure: c.Metric, Variant: c.Variant, Base: c.Base, State: rundir.StateNotIdentified, TooDisturbed: true, Asked: c.Primary,
				Why: new(texts.New(rundir.TooDisturbed)), Causes: []string{"foreign_cpu"},
			})
		}
	}
	for i := range r.Claims[:3] {
		c := &r.Claims[i]
		c.Outcome, c.Low, c.High, c.Detail = rundir.NotSettled, nil, nil, r.NoRoom
	}
	r.Validity = append(r.Validity, rundir.Validity{
		Figure: "throughput", Variant: "pool", State: rundir.StateBounded, TooDisturbed: true, Low: r.Variants[0].Figures["throughput"].Low, High: ptr(9600.),
		Why: new(texts.New("why.lost", "share", "56 %")), Causes: []string{"foreign_cpu"},
	})
	return f
}

// exampleIncomplete ended while its first round was under way.
func exampleIncomplete() *rundir.Folder {
	f := example("relay-models", "Does one goroutine per connection beat a bounded pool?", 8, "pool", "goroutine")
	r := &f.Run
	r.Complete, r.Valid, r.Reason, r.Rounds, r.Plan.Base = false, false, new(texts.Verbatim("interrupted")), 0, "pool"
	for i := range r.Plan.Variants {
		r.Plan.Variants[i].Started = true
	}
	f.Trials, r.Trials = f.Trials[:2], r.Trials[:2]
	f.Trials[1].Complete, f.Trials[1].Error = false, "the target ended with exit code 1"
	f.Incomplete = []rundir.Message{
		texts.Verbatim("interrupted"), texts.New("incomplete.failed", "trial", "trials/0002-goroutine", "error", "the target ended with exit code 1\npanic: oh"),
		texts.New("incomplete.missing", "n", "14", "of", "16"),
	}
	r.Variants = []rundir.Variant{figuresOf("pool", 1, 4230, 1.2e-3), {Name: "goroutine"}}
	r.Flags = []rundir.Flag{
		{Kind: "no_complete_trial", Variant: "goroutine", Detail: new(texts.Verbatim("no trial of goroutine was completed")), Disturbs: true},
		{Kind: "incomplete", Trial: 2, Variant: "goroutine", Detail: new(texts.Verbatim("the target ended with exit code 1")), Disturbs: true},
	}
	r.Thresholds = []rundir.Threshold{
		{Text: "service.p99 < 5ms", Variant: "pool", OK: true, Outcome: rundir.Kept, Measured: ptr(3.6e-3), Detail: new(texts.Verbatim("one trial: no interval"))},
		{Text: "service.p99 < 5ms", Variant: "goroutine", Outcome: rundir.Undecided, Detail: new(texts.Verbatim("no complete trial of goroutine"))},
	}
	return f
}

func exampleQuick() *rundir.Folder {
	f := example("http://127.0.0.1:8080/", "", 1, "target")
	r := &f.Run
	r.Plan.Protocol, r.Plan.File = "http", ""
	c := &r.Variants[0].Counts
	c.OK, c.Errors, c.Timeouts, c.Unfinished = c.OK-9, 6, 2, 1
	c.ByStatus = map[string]int64{"200": c.OK, "503": 6}
	c.ByKind = map[string]int64{"status": 6, "timeout": 2, "unfinished": 1}
	_, ratio := c.Failures()
	r.Variants[0].Figures["errors.ratio"] = rundir.Estimate{Estimate: ratio}
	f.Trials[0].Failures = map[string]int64{"status 503": 6, "no complete response in 1s": 2, "under way at the end": 1}
	r.Command = []string{"dyno", "http", "-c", "100", "-H", "X-Name: it's", "http://127.0.0.1:8080/"}
	return f
}

// placed has a run's target, and a service of one variant, on agents' machines.
func placed(f *rundir.Folder) *rundir.Folder {
	for i := range f.Run.Variants {
		v := &f.Run.Variants[i]
		v.Placed = append(v.Placed, rundir.Placement{Process: rundir.PlacedTarget, Agent: "t", Address: "10.0.0.9:7300", CPUs: 8, ClockError: 41e-6})
		if i > 0 {
			v.Placed = append(v.Placed, rundir.Placement{Process: "back", Agent: "s", Address: "10.0.0.8:7300", CPUs: 1, ClockError: 41e-6})
		}
	}
	return f
}

// carried has a run's load carried by agents, one of which began late.
func carried(f *rundir.Folder) *rundir.Folder {
	for i := range f.Run.Variants {
		for n, name := range []string{"a", "b", "c", "d"} {
			f.Run.Variants[i].Agents = append(f.Run.Variants[i].Agents, rundir.Agent{
				Name: name, Address: fmt.Sprintf("10.0.0.%d:7300", n+1), Trials: f.Run.Rounds, Share: 0.25, Work: int64(40_000 - 500*n),
				ClockOffset: []float64{3.1e-3, -12e-6, 0, 4}[n], ClockError: 41e-6, StartDeviation: []float64{22e-6, 31e-6, 1.4e-3, 18e-6}[n],
				Generator: rundir.Generator{CPUSecondsPerRequest: ptr(6.5e-6 + 1e-7*float64(i+n)), Workers: 1},
			})
		}
	}
	f.Run.Flags = append(f.Run.Flags, rundir.Flag{
		Kind: "start_skew", About: rundir.AboutGenerator, Trial: 1, Variant: f.Run.Variants[0].Name, Agent: "c",
		Detail: new(texts.New("found.start_skew", "skew", "1.38ms", "error", "82µs", "limit", "1ms", "agent", "c", "deviation", "1.4ms", "within", "41µs")),
	})
	return f
}

// exampleScenario has users who carry out a scenario, of which a model answers one step.
func exampleScenario() *rundir.Folder {
	f := example("shop", "", 8, "plain", "shop")
	v := &f.Run.Variants[1]
	times := quantilesOf(1.2e-3)
	v.Steps = []rundir.ScenarioStep{
		{Name: "login", OK: 50},
		{
			Name: "list", OK: 1200, ByKind: map[string]int64{"status": 2, "assertion": 7}, Dropped: 3, Skipped: 5,
			Tokens: &rundir.Tokens{},
		},
	}
	v.Users = &rundir.Users{Count: 50, Started: 51, Iterations: 1100, Ended: 1, FailedLogins: 7, LoggedOut: 2, TurnedAway: 4, Misses: []rundir.Miss{{Step: "list", Variable: "id", Count: 8}}}
	v.Tokens = &rundir.Tokens{Count: 100, Within: 9}
	for metric, x := range map[string]float64{
		"tokens_per_second": 1200, "prompt_tokens_per_second": 300, "goodput": 4.5, "throughput{step=login}": 10, "tokens_per_second{step=list}": 120, "goodput{step=list}": 10,
	} {
		v.Figures[metric] = rundir.Estimate{Estimate: &x}
	}
	for _, tag := range []string{"first_token", "token_time", "first_message", "message_gap", "message"} {
		timed(v, tag, times)
	}
	timedOfStep := func(step, tag string, q rundir.Quantiles) {
		x := rundir.Variant{Figures: map[string]rundir.Estimate{}}
		timed(&x, tag, q)
		for metric, e := range x.Figures {
			v.Figures[rundir.StepMetric(metric, step)] = e
		}
		for metric, few := range x.Few {
			v.Few = map[string]float64{rundir.StepMetric(metric, step): few}
		}
	}
	timedOfStep("login", "response", times)
	timedOfStep("login", "service", times)
	timedOfStep("list", "service", rundir.Quantiles{Count: 20, P99: ptr(0.003)})
	timedOfStep("list", "first_token", times)
	timedOfStep("list", "token_time", times)
	v.Figures["service.p50{step=login}"] = quantile(0.001, 0.0009, 0.0011)
	f.Run.Validity = []rundir.Validity{
		{Figure: "service.p99{step=login}", Variant: "shop", State: rundir.StateBounded, Low: ptr(0.001), High: ptr(0.002), Why: new(texts.Verbatim("something"))},
		{Figure: "throughput", Variant: "shop", State: rundir.StateRelative, Why: new(texts.Verbatim("something"))},
	}
	return f
}

// streamed gives a run subscribers, to whom events are published at a rate.
func streamed(f *rundir.Folder) *rundir.Folder {
	r := &f.Run
	r.Plan.Protocol, r.Plan.Loop, r.Plan.Metric = "sse", "open", "delivery.p99"
	for i := range r.Variants {
		r.Plan.Variants[i].Loop, r.Plan.Variants[i].Rate, r.Plan.Variants[i].Subscribers = "open", ptr(50.), 1000
		v := &r.Variants[i]
		for _, tag := range []string{"delivery", "event_gap", "first_event", "opening"} {
			timed(v, tag, quantilesOf(*v.Known("service.p50")))
		}
		v.Streams = &rundir.Streams{
			Requested: 1000, Opened: 1003, Reconnects: 3, Ended: 3, Peak: 1000, Delivered: 250_000, DeliveredBytes: 25_000_000, AllDelivered: 350_000,
			Lost: int64(i),
		}
		if v.Trials > 1 {
			v.Figures["delivery.p50"], v.Figures["delivery.p99"] = v.Figures["service.p50"], v.Figures["service.p99"]
		}
	}
	for i := range f.Trials {
		s := *r.Variants[0].Streams
		f.Trials[i].Streams, f.Trials[i].Times["delivery"] = &s, quantilesOf(1.2e-3)
	}
	return f
}

func exampleStream() *rundir.Folder {
	f := streamed(exampleQuick())
	r := &f.Run
	r.Name = "http://127.0.0.1:8080/events"
	r.Plan.Loop, r.Plan.Variants[0].Loop, r.Plan.Variants[0].Rate, r.Plan.Variants[0].Connections = "stream", "stream", nil, 0
	v := &r.Variants[0]
	v.Counts, f.Trials[0].Failures = rundir.Counts{}, map[string]int64{"subscriber: reset: the peer reset the connection": 3}
	delete(v.Figures, "errors.ratio")
	v.Streams.Slow = &rundir.SlowStreams{Opened: 10, Delivered: 800, Ended: 4, Missing: 5}
	v.Streams.Gaps, v.Streams.Announced = 2, 40
	r.Command = []string{"dyno", "sse", "-c", "1000", "http://127.0.0.1:8080/events"}
	return f
}

// examples are runs of every kind, by name.
func examples() map[string]*rundir.Folder {
	open := exampleQuick()
	open.Run.Plan.Variants[0].Loop, open.Run.Plan.Variants[0].Rate = "open", ptr(4000.)
	mixed := exampleCompare()
	mixed.Run.Plan.Variants[2].Loop, mixed.Run.Plan.Variants[2].Rate = "open", ptr(4000.)
	return map[string]*rundir.Folder{
		"compare": exampleCompare(), "short": exampleShort(), "ladder": exampleLadder(), "sweep": exampleSweep(),
		"capacity": exampleCapacity(), "search": exampleSearch(), "soak": exampleSoak(), "program": exampleProgram(), "invalid": exampleInvalid(), "no-room": exampleNoRoom(),
		"pairs": examplePairs(), "incomplete": exampleIncomplete(), "quick": exampleQuick(), "quick-open": open, "mixed": mixed,
		"streams": streamed(example("hub", "", 8, "one", "two")), "quick-stream": exampleStream(),
		"scenario": exampleScenario(), "agents": placed(carried(exampleCompare())), "quick-agents": carried(exampleQuick()),
	}
}
