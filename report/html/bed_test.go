package html

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	pprof "github.com/google/pprof/profile"

	"dyno/internal/leak"
	"dyno/internal/race"
	"dyno/internal/texts"
	"dyno/judge/verdict"
	"dyno/load/hist"
	"dyno/results/rundir"
	"dyno/results/rundir/series"
)

func TestMain(m *testing.M) {
	// The race detector's run time sleeps a second before it exits.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	leak.Main(m)
}

func ptr[T any](v T) *T { return &v }

// A recipe says what a synthetic trial looks like.
type recipe struct {
	round    int
	variant  string
	purpose  string
	seconds  int           // of the window
	interval time.Duration // of latency.hlog
	p50      float64       // seconds
	rate     float64       // a second
	columns  int           // of series.csv, beyond the time
	profile  *pprof.Profile
	probe    float64 // its rate
	events   bool    // subscribers were there, too

	but func(*rundir.Trial) // what is otherwise about the trial
}

// must ends a test by an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// columnsOf are the columns of a synthetic series.
var columnsOf = []string{
	"target_cpu_seconds", "target_rss_bytes", "target_voluntary_switches", "target_involuntary_switches", "runtime_heap_bytes",
	"runtime_gc_pause_seconds", "kernel_syscalls_total", "generator_cpu_seconds", "target_threads", "target_descriptors", "app_queue_length",
}

// folder writes a run folder and reads it back.
func folder(t testing.TB, run *rundir.Run, recipes []recipe) *rundir.Folder {
	t.Helper()
	dir := t.TempDir() + "/run"
	run.SchemaVersion = rundir.SchemaVersion
	w, err := rundir.Create(dir, run)
	must(t, err)
	random := rand.New(rand.NewPCG(1, 2))
	for i, r := range recipes {
		number := i + 1
		tw, err := w.Trial(number, r.variant)
		must(t, err)
		trial := &rundir.Trial{
			Number: number, Round: r.round, Variant: r.variant, Purpose: r.purpose, Complete: true, WarmupSeconds: 2, WindowSeconds: float64(r.seconds),
			Throughput: &r.rate, Counts: rundir.Counts{CompletedInWindow: int64(r.rate) * int64(r.seconds)},
			Target: rundir.Target{CPUSecondsPerRequest: ptr(20e-6), CPUSeconds: ptr(20e-6 * r.rate * float64(r.seconds))},
		}
		if r.probe > 0 {
			trial.Rate = &r.probe
		}
		if r.but != nil {
			r.but(trial)
		}
		if r.interval > 0 {
			record(t, tw, r, random)
		}
		if r.profile != nil {
			f, err := tw.Create("cpu.pb.gz")
			must(t, err)
			must(t, r.profile.Write(f))
			trial.Profiles = []rundir.Profile{{Kind: "cpu", File: "cpu.pb.gz", By: "sampling", Seconds: float64(r.seconds)}}
		}
		must(t, tw.Finish(trial))
	}
	must(t, w.Finish(run))
	f, err := rundir.Open(dir)
	must(t, err)
	return f
}

// record writes a trial's latency.hlog and series.csv.
func record(t testing.TB, tw *rundir.TrialWriter, r recipe, random *rand.Rand) {
	t.Helper()
	f, err := tw.Create(rundir.LatencyFile)
	must(t, err)
	log, err := hist.NewLogWriter(f, time.Unix(1_790_000_000, 0))
	must(t, err)
	for at := 2 * time.Second; at < time.Duration(2+r.seconds)*time.Second; at += r.interval {
		h := hist.New()
		slow := 1 + 0.3*math.Sin(at.Seconds()/20)
		for range 150 {
			ns := int64(r.p50 * slow * 1e9 * math.Exp(0.5*random.NormFloat64()))
			if random.IntN(500) == 0 {
				ns *= 8
			}
			h.RecordN(ns, max(1, int64(r.rate*r.interval.Seconds()/150)))
		}
		lag := hist.New()
		lag.RecordN(900, h.Count())
		for _, tag := range []string{"response", "service", "first_byte"} {
			must(t, log.Write(hist.Interval{Tag: tag, Start: at, Length: r.interval, Hist: h}))
		}
		if r.events {
			must(t, log.Write(hist.Interval{Tag: "delivery", Start: at, Length: r.interval, Hist: h}))
			must(t, log.Write(hist.Interval{Tag: "event_gap", Start: at, Length: r.interval, Hist: h}))
		}
		must(t, log.Write(hist.Interval{Tag: "send_lag", Start: at, Length: r.interval, Hist: lag}))
		must(t, log.Write(hist.Interval{Tag: "generator_lag", Start: at, Length: r.interval, Hist: lag}))
	}
	s, err := tw.Create(rundir.SeriesFile)
	must(t, err)
	names := columnsOf[:r.columns]
	var b strings.Builder
	fmt.Fprintf(&b, "%s,%s\n", series.TimeColumn, strings.Join(names, ","))
	for sec := range r.seconds + 3 {
		x := float64(sec)
		values := []float64{0.8 * x, 20e6 + 1e5*x, 900 * x, 12 * x, 9e6 + 3e6*math.Mod(x, 7), 0.002 * x, 4000 * x, 0.4 * x, 8, 120, 5 + 4*math.Sin(x/9)}
		fmt.Fprintf(&b, "%d", sec)
		for _, v := range values[:r.columns] {
			fmt.Fprintf(&b, ",%g", v*(1+0.001*random.Float64()))
		}
		b.WriteByte('\n')
	}
	_, err = io.WriteString(s, b.String())
	must(t, err)
}

// stacks makes a profile of CPU time; a stack is written with its root first.
func stacks(samples map[string]int64) *pprof.Profile {
	p := &pprof.Profile{
		SampleType: []*pprof.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &pprof.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: 1e6,
	}
	functions := map[string]*pprof.Location{}
	for stack, n := range samples {
		s := &pprof.Sample{Value: []int64{n, n * 1e6}}
		for name := range strings.SplitSeq(stack, ";") {
			if functions[name] == nil {
				id := uint64(len(functions) + 1)
				f := &pprof.Function{ID: id, Name: name, SystemName: name}
				p.Function = append(p.Function, f)
				functions[name] = &pprof.Location{ID: id, Line: []pprof.Line{{Function: f}}}
				p.Location = append(p.Location, functions[name])
			}
			s.Location = append([]*pprof.Location{functions[name]}, s.Location...)
		}
		p.Sample = append(p.Sample, s)
	}
	return p
}

// many are stacks of a program as large as a server: 6,000 samples, 24 deep, of which
// some thousands differ.
func many(seed uint64) map[string]int64 {
	random := rand.New(rand.NewPCG(seed, 3))
	samples := map[string]int64{}
	for range 6_000 {
		var b strings.Builder
		b.WriteString("runtime.goexit")
		at := 0
		for depth := range 23 {
			at = 3*at + int(3*math.Pow(random.Float64(), 12))
			fmt.Fprintf(&b, ";service/package%d.function%d", depth, at%400)
		}
		samples[b.String()]++
	}
	return samples
}

// hourVariants is how many variants hour has. With the race detector more of the same shows
// nothing more, and takes a minute.
func hourVariants() int {
	if race.Enabled {
		return 2
	}
	return 8
}

// hour is a run of an hour: several variants, ten series each, and a profile of each.
func hour(t testing.TB) *rundir.Folder {
	t.Helper()
	run := &rundir.Run{
		Name: "an hour", Question: "Does it hold for an hour?", StartedAt: time.Unix(1_790_000_000, 0).UTC(), FinishedAt: ptr(time.Unix(1_790_003_600, 0).UTC()),
		Complete: true, Valid: true, TrialsPlanned: hourVariants(), Rounds: 1, Plan: rundir.Plan{Rounds: 1, Protocol: "tcp", Loop: "closed", Metric: "throughput", Profile: &rundir.PlanProfile{Kinds: []string{"cpu"}}},
	}
	var recipes []recipe
	for i := range hourVariants() {
		name := fmt.Sprintf("variant-%d", i+1)
		rate := 20_000 + 3000*float64(i)
		run.Plan.Variants = append(run.Plan.Variants, rundir.PlanVariant{Name: name, Loop: "closed", Connections: 100, WarmupSeconds: 2, WindowSeconds: 450})
		run.Variants = append(run.Variants, rundir.Variant{Name: name, Trials: 1, Figures: map[string]rundir.Estimate{"throughput": {Estimate: &rate, Values: []float64{rate}}}})
		recipes = append(recipes, recipe{round: 1, variant: name, seconds: 450, interval: time.Second, p50: 1e-3 + 2e-4*float64(i), rate: rate, columns: 10})
		if i > 0 {
			ratio := rundir.Estimate{Estimate: ptr(rate / 20_000)}
			run.Comparisons = append(run.Comparisons, rundir.Comparison{Base: "variant-1", Variant: name, Metric: "throughput", Primary: true, Good: "higher", Rounds: 1, Ratio: ratio, Verdict: rundir.Inconclusive})
		}
	}
	for i := range hourVariants() {
		recipes = append(recipes, recipe{round: 1, variant: run.Plan.Variants[i].Name, purpose: rundir.PurposeProfile, seconds: 30, rate: 20_000, profile: stacks(many(uint64(i)))})
	}
	return folder(t, run, recipes)
}

// audience is a sweep with subscribers whose base is compared with its control alone,
// in rounds too few for anything: the ends of the intervals are far out.
func audience(t testing.TB) *rundir.Folder {
	t.Helper()
	e := func(v float64) rundir.Estimate {
		return rundir.Estimate{Estimate: &v, Low: ptr(0.9 * v), High: ptr(1.1 * v), Confidence: 0.95, Interval: rundir.ByShare}
	}
	run := &rundir.Run{
		Name: "audience", Question: "What does one more publisher cost?", StartedAt: time.Unix(1_790_000_000, 0).UTC(), FinishedAt: ptr(time.Unix(1_790_000_060, 0).UTC()),
		Complete: true, Valid: true, TrialsPlanned: 8, Rounds: 2,
		Plan: rundir.Plan{Rounds: 2, Protocol: "sse", Loop: "closed", Metric: "throughput", Control: "one.control", Profile: &rundir.PlanProfile{Kinds: []string{"cpu"}}},
		Comparisons: []rundir.Comparison{{
			Base: "one", Variant: "one.control", Metric: "throughput", Role: rundir.RoleControl, Primary: true, Good: "higher", Rounds: 2, Detectable: ptr(69.7), Verdict: rundir.Inconclusive,
			Ratio: rundir.Estimate{Estimate: ptr(1.58), Low: ptr(8.76e-6), High: ptr(285293.), Confidence: 0.95, Interval: rundir.ByStudent},
		}},
	}
	var recipes []recipe
	for i, n := range []string{"one", "one.control", "four"} {
		rate := 20_000 + 3000*float64(i)
		run.Plan.Variants = append(run.Plan.Variants, rundir.PlanVariant{Name: n, Loop: "closed", Connections: 1, Subscribers: 1000, WarmupSeconds: 2, WindowSeconds: 10})
		run.Variants = append(run.Variants, rundir.Variant{
			Name: n, Trials: 2,
			Streams: &rundir.Streams{Requested: 1000, Opened: 2000, Peak: 1000, AllDelivered: 400_000},
			Figures: map[string]rundir.Estimate{
				"throughput": e(rate), "delivery.p50": e(1e-3), "delivery.p99": e(5e-3), "event_gap.p50": e(2e-3), "event_gap.p99": e(9e-3), "first_event.p50": e(0.1), "opening.p50": e(0.03),
				"opening.p99": {Estimate: ptr(0.05)}, "target.cpu_per_request": e(9e-6),
			},
		})
		for round := range 2 {
			recipes = append(recipes, recipe{round: round + 1, variant: n, seconds: 10, interval: 250 * time.Millisecond, p50: 1e-3, rate: rate, columns: 8, events: true})
		}
		recipes = append(recipes, recipe{round: 1, variant: n, purpose: rundir.PurposeProfile, seconds: 5, rate: 1000, profile: stacks(map[string]int64{"main.main;main.fanout": 300, "main.main;syscall.write": 200})})
	}
	last := run.Variants[2].Streams
	last.Lost, last.Gaps, last.Reconnects, last.Unstamped, last.Untracked = 3, 17, 40, 4, 5
	last.Slow = &rundir.SlowStreams{Opened: 10, Delivered: 1234, Missing: 6, Ended: 2}
	return folder(t, run, recipes)
}

// sound is a trial with which all is well, but for what is said of it.
func sound(but func(*rundir.Trial)) func(*rundir.Trial) {
	return func(x *rundir.Trial) {
		n := x.Counts.CompletedInWindow
		x.Counts.Scheduled, x.Counts.Sent, x.Counts.OK = n, n, n
		x.Conservation.OK = true
		x.Connections = rundir.Connections{Requested: 10, Opened: 10, Peak: 10, Served: 10}
		x.Machine = rundir.Machine{StealShare: ptr(0.), ForeignShare: ptr(0.), LateWakeupShare: ptr(0.), MemoryStall: ptr(0.), IOStall: ptr(0.)}
		x.Target.CPUShare, x.Generator.CPUShare, x.Generator.RunQueueWaitShare = ptr(0.6), ptr(0.4), ptr(0.)
		if but != nil {
			but(x)
		}
	}
}

// judgement is a folder with its verdict.
func judgement(t testing.TB, run *rundir.Run, recipes []recipe) *rundir.Folder {
	t.Helper()
	run.StartedAt, run.Complete = time.Unix(1_790_000_000, 0).UTC(), true
	f := folder(t, run, recipes)
	must(t, verdict.Judge(f))
	must(t, f.Rewrite())
	f, err := rundir.Open(f.Dir)
	must(t, err)
	return f
}

// compared is a closed-loop comparison in which something is wrong with each trial but the
// last.
func compared(t testing.TB) *rundir.Folder {
	t.Helper()
	names := []string{"pool", "pool.control", "goroutine"}
	stopped := texts.New("stopped.pair", "variant", "goroutine", "base", "pool", "metric", "throughput").
		With("why", texts.New("stopped.narrow", "half", "0.005", "n", "3", "want", "0.0099"))
	run := &rundir.Run{
		Name: "compared", TrialsPlanned: 9, Stopped: &stopped,
		Plan: rundir.Plan{
			Rounds: 5, Base: names[0], Control: names[1], Metric: "throughput", Margin: 0.02, Protocol: "tcp", Loop: "closed", Seed: 3,
			Thresholds: []string{"service.p99 < 4ms", "errors.ratio < 0.1%", "value(goroutine, target.syscalls_per_request) < 3", "slope(rss) < 5%/h"},
			Claims: []rundir.PlanClaim{
				{ID: "C1", Says: "a goroutine for each connection is faster", Holds: "ratio(goroutine, pool, throughput) > 1.02"},
				{ID: "C2", Says: "its tail is as short", Holds: "value(goroutine, service.p99) < 2 * value(pool, service.p99)"},
				{ID: "C3", Says: "the pool needs few calls", Holds: "value(pool, target.syscalls_per_request) < 3"},
				{ID: "C4", Says: "256 cores are enough", NotTestable: "there are two here"},
			},
		},
	}
	hooks := texts.New("unavailable.ebpf", "error", "operation not permitted")
	run.Environment.AddUnavailable(&texts.Error{Message: texts.New("unavailable.observer.help", "observer", "kernel").With("why", hooks).With("help", texts.New("help.bpf"))})
	for _, n := range names {
		v := rundir.PlanVariant{Name: n, Variables: map[string]string{"command": "./server --model " + n}, Loop: "closed", Connections: 10, WarmupSeconds: 2, WindowSeconds: 10}
		if n == names[1] {
			v.AliasOf, v.Variables = names[0], map[string]string{"command": "./server --model " + names[0]}
		}
		run.Plan.Variants = append(run.Plan.Variants, v)
	}
	wrong := []func(*rundir.Trial){
		func(x *rundir.Trial) {
			x.Machine = rundir.Machine{StealShare: ptr(0.3), ForeignShare: ptr(0.2), LateWakeupShare: ptr(0.01), MemoryStall: ptr(0.2), IOStall: ptr(0.05)}
		},
		func(x *rundir.Trial) {
			x.Conservation = rundir.Conservation{Detail: "sent 9 is not ok 8 + errors 0 + timeouts 0 + unfinished 0"}
		},
		func(x *rundir.Trial) {
			x.Complete, x.Fault, x.PlannedSeconds = false, rundir.FaultTarget, 10
			x.Error = "trial 3, variant goroutine: target goroutine: ended by itself: exit status 9; last output:\npanic: no more memory"
		},
		func(x *rundir.Trial) {
			x.Generator.CPUShare, x.Generator.RunQueueWaitShare, x.Target.CPUShare = ptr(0.99), ptr(0.2), ptr(0.5)
		},
		func(x *rundir.Trial) {
			x.Connections.Opened, x.Connections.Served, x.Connections.Unanswered = 8, 5, 3
			x.Counts.OK, x.Counts.Unfinished = x.Counts.OK-90, 90
			x.Silence = rundir.Silence{Longest: 4, From: 5}
		},
		func(x *rundir.Trial) {
			x.Counts.OK, x.Counts.CompletedInWindow, x.Counts.Timeouts, x.Throughput = 0, 0, x.Counts.Sent, ptr(0.)
			x.Silence = rundir.Silence{Longest: 10, Ending: 10, Last: ptr(1.5)}
		},
		func(x *rundir.Trial) {
			x.Counts.Generator = 5
			x.Failures = map[string]int64{"generator: socket: too many open files": 5}
		},
		func(x *rundir.Trial) { x.Silence = rundir.Silence{Longest: 3, Ending: 3, Last: ptr(9.), Failing: 40} },
		nil,
	}
	var recipes []recipe
	for round := range 3 {
		for i, n := range names {
			recipes = append(recipes, recipe{round: round + 1, variant: n, seconds: 10, interval: 250 * time.Millisecond, p50: 1e-3, rate: 20_000 + 500*float64(i), columns: 11, but: sound(wrong[len(recipes)])})
		}
	}
	return judgement(t, run, recipes)
}

// swept is a sweep with a soak's trends, whose last levels are flat.
func swept(t testing.TB) *rundir.Folder {
	t.Helper()
	run := &rundir.Run{Name: "swept", TrialsPlanned: 3, Plan: rundir.Plan{
		Rounds: 1, Metric: "throughput", Margin: 0.02, Protocol: "tcp", Loop: "closed", Soak: true, Sweep: []rundir.Dimension{{Name: "connections", Values: []string{"10", "20", "40"}}},
	}}
	var recipes []recipe
	for i, n := range run.Plan.Sweep[0].Values {
		name := "connections=" + n
		run.Plan.Variants = append(run.Plan.Variants, rundir.PlanVariant{Name: name, Variables: map[string]string{"connections": n}, Loop: "closed", Connections: 10 << i, WarmupSeconds: 2, WindowSeconds: 10})
		recipes = append(recipes, recipe{round: 1, variant: name, seconds: 10 - 4*i, interval: 250 * time.Millisecond, p50: 1e-3, rate: 20_000 + 50*float64(i), columns: 11, but: sound(func(x *rundir.Trial) {
			x.Generator.CPUShare, x.Target.CPUShare = ptr(0.93), ptr(0.5)
		})})
	}
	return judgement(t, run, recipes)
}

// searched is a search for the capacity within a p99, which rises beyond 4,000 a second.
func searched(t testing.TB) *rundir.Folder {
	t.Helper()
	run := &rundir.Run{Name: "searched", Plan: rundir.Plan{
		Rounds: 2, Metric: "capacity", Margin: 0.02, Protocol: "http", Loop: "open", Thresholds: []string{"errors.ratio < 1%", "service.p99 < 10ms"},
		Capacity: &rundir.PlanCapacity{From: 1000, To: 16000, Resolution: 0.1, Trials: 1},
		Variants: []rundir.PlanVariant{{Name: "only", Loop: "open", Connections: 10, WarmupSeconds: 2, WindowSeconds: 5}},
	}}
	var recipes []recipe
	for round := 1; round <= 2; round++ {
		for _, rate := range []float64{1000, 2000, 4000, 8000, 5657, 4757, 4362} {
			p50 := 1e-3
			if rate > 4000 {
				p50 = 20e-3
			}
			recipes = append(recipes, recipe{round: round, variant: "only", purpose: rundir.PurposeProbe, seconds: 5, interval: 250 * time.Millisecond, probe: rate, rate: rate, p50: p50, columns: 11, but: sound(nil)})
		}
	}
	return judgement(t, run, recipes)
}

// opened is an open loop with a late generator and dropped requests. The trial of one
// variant is incomplete.
func opened(t testing.TB) *rundir.Folder {
	t.Helper()
	rate := 1000.
	run := &rundir.Run{Name: "opened", TrialsPlanned: 3, Plan: rundir.Plan{
		Rounds: 2, Metric: "response.p99", Margin: 0.02, Protocol: "http", Loop: "open", Thresholds: []string{"response.p99 < 2ms", "respnse.p99 < 2ms"},
		Variants: []rundir.PlanVariant{{Name: "steady", Loop: "open", Connections: 10, Rate: &rate, WarmupSeconds: 2, WindowSeconds: 10}, {Name: "never", Loop: "open", Connections: 10, Rate: &rate, WarmupSeconds: 2, WindowSeconds: 10}},
	}}
	late := func(x *rundir.Trial) {
		x.Counts.Dropped, x.Counts.Sent, x.Generator.CPUShare, x.Generator.RunQueueWaitShare = 50, x.Counts.Sent-80, ptr(0.9), ptr(0.3)
	}
	return judgement(t, run, []recipe{
		{round: 1, variant: "steady", seconds: 10, interval: 250 * time.Millisecond, p50: 1e-3, rate: rate, columns: 11, but: sound(late)},
		{round: 2, variant: "steady", seconds: 1, interval: time.Second, p50: 1e-3, rate: 20, columns: 11, but: sound(nil)},
		{round: 1, variant: "never", seconds: 1, rate: rate, but: func(x *rundir.Trial) { x.Complete = false }},
	})
}

// hostile is text that would do something if it were taken for HTML.
const hostile = `</script><script>window.hit=1</script><img src=x onerror="window.hit=2"><!--`

// everything is a run with something in every section, whose texts are hostile.
func everything(t testing.TB) *rundir.Folder {
	t.Helper()
	e := func(v, wide float64) rundir.Estimate {
		return rundir.Estimate{Estimate: &v, Low: ptr(v / (1 + wide)), High: ptr(v * (1 + wide)), Confidence: 0.95, Values: []float64{v * 0.98, v * 1.01, v}, Interval: rundir.ByStudent}
	}
	names := []string{"baseline", "baseline.control", "pooled", "encode " + hostile, "one-write"}
	run := &rundir.Run{
		Name: "ladder " + hostile, Question: "What does each step add? " + hostile, StartedAt: time.Unix(1_790_000_000, 0).UTC(), FinishedAt: ptr(time.Unix(1_790_000_600, 0).UTC()),
		Complete: true, Valid: true, TrialsPlanned: 30, Rounds: 2, Stopped: new(texts.Verbatim("the interval is narrow enough " + hostile)),
		Plan: rundir.Plan{
			File: "javascript:alert(1)", Source: "name: x\n" + hostile, Rounds: 2, Seed: 7, Margin: 0.02, Metric: "throughput", Base: "baseline", Control: "baseline.control", Protocol: "http", Loop: "open",
			Set: map[string]string{"a": hostile}, Ladder: &rundir.PlanLadder{Steps: []string{names[0], names[2], names[3], names[4]}}, Profile: &rundir.PlanProfile{Kinds: []string{"cpu"}, By: "sampling", Rounds: 1},
		},
		Environment: rundir.Environment{
			Hostname: "secret-host", OS: "linux", Arch: "amd64", Kernel: "6.1.0", CPUModel: hostile, CPUs: 2, MemoryBytes: ptr(int64(8 << 30)), GoVersion: "go1.26",
			GeneratorCPUs: []int{1}, TargetCPUs: []int{0}, Unavailable: []rundir.Message{texts.Verbatim("system calls: " + hostile)},
		},
		Flags: []rundir.Flag{
			{Kind: "late_wakeups", Trial: 1, Variant: "baseline", Detail: new(texts.Verbatim("0.2 % of sleeps " + hostile))}, {Kind: "late_wakeups", Trial: 3, Variant: names[3], Detail: new(texts.Verbatim("again"))},
			{Kind: "start_skew", Trial: 1, Variant: "baseline", Agent: hostile, Detail: new(texts.New("found.agent", "agent", hostile).With("found", texts.Verbatim("late")))},
			{Kind: hostile, Detail: new(texts.Verbatim(hostile))},
		},
		Claims: []rundir.Claim{
			{ID: "R4.1", Says: "pooling helps " + hostile, Holds: `ratio("pooled", "baseline", throughput) > 1.02`, Outcome: rundir.Holds, Measured: ptr(1.04), Low: ptr(1.03), High: ptr(1.05)},
			{ID: "R4.2", Says: "below 4 ms", Holds: `value("pooled", response.p99) < 4ms`, Outcome: rundir.Inconclusive, Measured: ptr(3.9e-3), Low: ptr(3.5e-3), High: ptr(4.4e-3), Detail: new(texts.Verbatim(hostile))},
			{ID: "R4.3", Says: "twice as much", Outcome: rundir.Refuted, Measured: ptr(1.1)},
			{ID: "R4.4", Says: "256 cores", Outcome: rundir.NotTestable, Detail: new(texts.Verbatim("this needs 256 cores"))},
		},
		Notes: []rundir.Message{texts.Verbatim(hostile)}, Command: []string{"dyno", "run", hostile}, DynoVersion: "0.9 " + hostile,
		Trends: []rundir.Trend{{Variant: "baseline", Trial: 1, Metric: "rss", Slope: e(1e-5, 0.2), P: ptr(0.01)}},
		Capacities: []rundir.Capacity{{Variant: "baseline", Limit: "response.p99 < 4ms", Searches: []rundir.Bracket{
			{Round: 1, Low: ptr(5000.), High: ptr(5300.), Trials: 6}, {Round: 2, Low: ptr(5100.), Trials: 5},
		}}},
	}
	above, lacks := texts.New("edge.above", "above", "1", "n", "2"), texts.New("lacks.figure", "metric", "response.p99", "variant", "pooled")
	run.Capacities[0].Detail = &above
	run.Capacities = append(run.Capacities, rundir.Capacity{Variant: "pooled", LimitBecause: &lacks})
	throughputs := []float64{4230, 4236, 4400, 9800, 10300}
	for i, n := range names {
		run.Plan.Variants = append(run.Plan.Variants, rundir.PlanVariant{Name: n, Loop: "open", Connections: 100, WarmupSeconds: 2, WindowSeconds: 20, TraceURL: "javascript:alert(1)//{id}"})
		cpu, p99 := e(20e-6-2e-6*float64(i), 0.02), e(3e-3, 0.1)
		run.Variants = append(run.Variants, rundir.Variant{Name: n, Trials: 2, Figures: map[string]rundir.Estimate{
			"throughput":   e(throughputs[i], 0.012),
			"response.p50": e(1e-3, 0.02), "response.p99": p99, "response.p999": {Estimate: ptr(6e-3), Low: ptr(5e-3), Interval: rundir.ByShare}, "target.cpu_per_request": cpu,
			"target.rss": e(9<<20, 0.03), "target.user_share": e(0.2, 0.03), "target.connection_reuse_ratio": e(0.99, 0.001), "target.syscalls_per_second": e(2e5, 0.02), "errors.ratio": {Estimate: ptr(0.)},
		}, Agents: []rundir.Agent{
			{Name: "a", Address: "10.0.0.2:7300", ClockOffset: 3e-3, ClockError: 40e-6, StartDeviation: 20e-6, Share: 0.5, Work: 5000, Generator: rundir.Generator{CPUSecondsPerRequest: ptr(7e-6 + 1e-6*float64(i))}},
			{Name: hostile, Address: hostile, ClockOffset: -3, ClockError: 1e-3, StartDeviation: 2e-3, Share: 0.5, Work: 4000},
		}})
		run.Thresholds = append(run.Thresholds, rundir.Threshold{Text: "errors.ratio < 0.1%", Variant: n, OK: true, Outcome: rundir.Kept, Measured: ptr(0.)})
	}
	for i, rate := range map[int]rundir.Estimate{0: e(5200, 0.04), 2: e(5100, 0.05)} {
		run.Variants[i].Figures[rundir.MetricCapacity] = rate
	}
	run.Variants[0].Figures["program.x_seconds"], run.Variants[0].Figures["program."+hostile] = e(1e-6, 0.1), e(3, 0.2)
	run.Thresholds = append(run.Thresholds, rundir.Threshold{Text: "response.p99 < 2ms", Variant: "baseline", Outcome: rundir.Broken, Measured: ptr(3e-3), Low: ptr(2.7e-3), High: ptr(3.3e-3), Detail: new(texts.Verbatim(hostile))})
	compare := func(base, variant, role, verdict, metric string, ratio, wide float64) {
		run.Comparisons = append(run.Comparisons, rundir.Comparison{
			Base: base, Variant: variant, Metric: metric, Role: role, Primary: metric == "throughput", Good: "higher", Rounds: 12, Ratio: e(ratio, wide), P: ptr(0.003), AdjustedP: ptr(0.01), Adjustment: "Holm", Detectable: ptr(0.02), Verdict: verdict,
		})
	}
	compare(names[0], names[1], rundir.RoleControl, rundir.Inconclusive, "throughput", 1.001, 0.008)
	compare(names[0], names[2], rundir.RoleStep, rundir.Better, "throughput", 1.04, 0.01)
	compare(names[2], names[3], rundir.RoleStep, rundir.Better, "throughput", 2.23, 0.03)
	compare(names[3], names[4], rundir.RoleStep, rundir.Inconclusive, "throughput", 1.05, 0.06)
	compare(names[0], names[2], "", rundir.Better, "throughput", 1.04, 0.01)
	compare(names[0], names[3], "", rundir.Better, "throughput", 2.32, 0.03)
	compare(names[0], names[4], "", rundir.Better, "throughput", 2.43, 0.03)
	compare(names[0], names[4], "", rundir.Worse, "response.p99", 1.3, 0.05)
	compare(names[0], names[2], "", rundir.Equivalent, "response.p99", 1.003, 0.01)
	run.Comparisons[4].AllRounds = ptr(e(1.02, 0.05))
	run.Pilot = &rundir.Pilot{WarmupSeconds: 2}
	run.Ladder = []rundir.Step{
		{Variant: names[0]},
		{Variant: names[2], Marginal: ptr(e(1.04, 0.01)), Verdict: rundir.Better, Total: ptr(e(1.04, 0.01)), TotalVerdict: rundir.Better, LeftOut: ptr(e(1.01, 0.02))},
		{Variant: names[3], Marginal: ptr(e(2.23, 0.03)), Verdict: rundir.Better, Total: ptr(e(2.32, 0.03)), TotalVerdict: rundir.Better},
		{Variant: names[4], Marginal: ptr(e(1.05, 0.06)), Verdict: rundir.Inconclusive, Total: ptr(e(2.43, 0.04)), TotalVerdict: rundir.Better},
	}
	sweep := rundir.Sweep{Variable: "connections " + hostile, Metric: "throughput", Knee: ptr(200.)}
	for i, n := range names {
		sweep.Levels = append(sweep.Levels, rundir.Level{Value: 100 * math.Pow(2, float64(i)), Variant: n, Figure: e(throughputs[i], 0.03)})
	}
	run.Sweeps = []rundir.Sweep{sweep}
	var recipes []recipe
	for round := 1; round <= 2; round++ {
		for i, n := range names {
			recipes = append(recipes, recipe{round: round, variant: n, seconds: 10, interval: 250 * time.Millisecond, p50: 1e-3 / (1 + 0.2*float64(i)), rate: throughputs[i], columns: 11, but: func(x *rundir.Trial) {
				x.Slowest = []rundir.Slow{{TraceID: hostile, Response: 6e-3, Service: 5e-3, Status: hostile}}
				x.Target.SyscallsPerRequest, x.Target.Syscalls = ptr(2.5), map[string]float64{"epoll_wait": 0.5, hostile: 2}
			}})
		}
		for i, n := range names {
			recipes = append(recipes, recipe{round: round, variant: n, purpose: rundir.PurposeProfile, seconds: 5, rate: 1000, profile: stacks(map[string]int64{
				"main.main;main.serve;main.encode": 300 - 40*int64(i), "main.main;main.serve;syscall.write": 200, "main.main;main.serve;runtime.mallocgc;runtime.gcStart": 90 - 10*int64(i),
				"main.main;main.serve;" + hostile: 60,
			})})
		}
		for _, rate := range []float64{4000, 6000, 5000, 5500, 5250} {
			recipes = append(recipes, recipe{round: round, variant: names[0], purpose: rundir.PurposeProbe, seconds: 1, probe: rate, rate: rate})
			run.Trials = append(run.Trials, rundir.Examined{Number: len(recipes), Round: round, Variant: names[0], Purpose: rundir.PurposeProbe, Rate: ptr(rate), Good: ptr(rate < 5200)})
		}
	}
	for i := range 5 {
		run.Trials = append(run.Trials, rundir.Examined{Number: i + 1, Round: 1, Variant: names[i], Checks: []rundir.Check{
			{Kind: "steal", Measured: ptr(0.001 * float64(i)), Limit: ptr(0.01), Unit: "ratio", Outcome: rundir.CheckOK},
			{Kind: hostile, Outcome: rundir.CheckUnknown, Detail: new(texts.Verbatim(hostile))},
		}})
	}
	return folder(t, run, recipes)
}
