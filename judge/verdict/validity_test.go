package verdict

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"dyno/judge/verdict/checks"
	"dyno/judge/verdict/compare"
	"dyno/judge/verdict/dataset"
	"dyno/load/hist"
	"dyno/results/rundir"
	"dyno/results/rundir/series"
)

// figureOfRun finds what is said of a figure.
func figureOfRun(t fataler, run *rundir.Run, figure, variant, base string) rundir.Validity {
	t.Helper()
	i := slices.IndexFunc(run.Validity, func(v rundir.Validity) bool {
		return v.Figure == figure && v.Variant == variant && v.Base == base
	})
	if i < 0 {
		t.Fatal("nothing is said of", figure, "of", variant, "over", base)
	}
	return run.Validity[i]
}

// tenthsOf adds a log of 100 ms intervals to the last trial, of 100 values each: in those of
// the numbers given five are late, as after a stall of 5 ms.
func (b *bench) tenthsOf(tag string, early, late time.Duration, disturbed ...int) {
	n := len(b.trials)
	for i := range 40 {
		h := equal(100, early)
		if slices.Contains(disturbed, i) {
			h = equal(95, early)
			h.RecordN(int64(late), 5)
		}
		b.logs[n] = append(b.logs[n], hist.Interval{Tag: tag, Start: time.Duration(i) * 100 * time.Millisecond, Length: 100 * time.Millisecond, Hist: h})
	}
}

// stallIn adds a stall within some 100 ms intervals of the last trial.
func (b *bench) stallIn(late time.Duration, intervals ...int) {
	if b.stalls == nil {
		b.stalls = map[int][]series.Stall{}
	}
	n := len(b.trials)
	for _, i := range intervals {
		b.stalls[n] = append(b.stalls[n], series.Stall{Due: time.Duration(i)*100*time.Millisecond + 10*time.Millisecond, Late: late, Target: true})
	}
}

// stallsIn adds stalls throughout some 100 ms intervals of the last trial.
func (b *bench) stallsIn(late time.Duration, intervals ...int) {
	b.stallIn(late)
	n := len(b.trials)
	for _, i := range intervals {
		for at := range 10 {
			b.stalls[n] = append(b.stalls[n], series.Stall{Due: time.Duration(i)*100*time.Millisecond + time.Duration(at)*10*time.Millisecond, Late: late, Target: true})
		}
	}
}

func openBench(rounds int, variants ...string) *bench {
	b := newBench(rounds, variants...)
	b.run.Plan.Loop, b.run.Plan.Metric = "open", "response.p99"
	for i := range b.run.Plan.Variants {
		b.run.Plan.Variants[i].Loop, b.run.Plan.Variants[i].Rate = "open", new(1000.)
	}
	return b
}

// The states of a quantile, by how much of the window was disturbed and what it did.
func TestStatesOfALatency(t *testing.T) {
	const ms = time.Millisecond
	stretch := func(from, to int) (list []int) {
		for i := from; i < to; i++ {
			list = append(list, i)
		}
		return list
	}
	for _, c := range []struct {
		name      string
		disturbed []int // intervals with a stall
		stall     time.Duration
		late      []int // intervals with late values
		Quantity  string
		state     string
		low, high float64 // in ms; 0: open
	}{
		{"nothing disturbed", nil, 0, stretch(0, 20), "response.p99", rundir.StateOK, 0, 0},
		{"a stall that moved nothing", []int{5}, 5 * ms, nil, "response.p99", rundir.StateOK, 0, 0},
		{"stalls that moved the tail", stretch(0, 20), 5 * ms, stretch(0, 20), "response.p99", rundir.StateBounded, 1, 20},
		{"stalls too short to be noticed", stretch(0, 20), 40 * time.Microsecond, stretch(0, 20), "response.p99", rundir.StateOK, 0, 0},
		{"the median next to them", stretch(0, 20), 5 * ms, stretch(0, 20), "response.p50", rundir.StateOK, 0, 0},
		{"the longest", stretch(0, 20), 5 * ms, stretch(0, 20), "response.max", rundir.StateOK, 0, 0},
		{"a tail of the target's own", stretch(0, 2), 5 * ms, stretch(20, 40), "response.p99", rundir.StateOK, 0, 0},
		{"all disturbed", stretch(0, 40), 60 * ms, stretch(0, 20), "response.p99", rundir.StateBounded, 1, 20}, // the smallest time recorded is 1 ms
	} {
		t.Run(c.name, func(t *testing.T) {
			b := openBench(1, "v")
			b.run.Plan.Base = ""
			b.measure(1, "v", 1000)
			b.stallIn(c.stall, c.disturbed...)
			for _, tag := range []string{rundir.TagResponse, rundir.TagService, rundir.TagSendLag, rundir.TagGeneratorLag} {
				if tag == rundir.TagResponse || tag == rundir.TagService {
					b.tenthsOf(tag, ms, 20*ms, c.late...)
				} else {
					b.tenthsOf(tag, time.Microsecond, time.Microsecond)
				}
			}
			run := b.judge(t)
			got := figureOfRun(t, run, c.Quantity, "v", "")
			if got.State != c.state {
				t.Fatalf("%+v", got)
			}
			for _, end := range []struct {
				got  *float64
				want float64
			}{{got.Low, c.low}, {got.High, c.high}} {
				if (end.got != nil) != (c.low > 0) || end.got != nil && math.Abs(*end.got*1e3-end.want) > 0.01*end.want {
					t.Errorf("%v … %v, want %v … %v ms", got.Low, got.High, c.low, c.high)
					break
				}
			}
			if !run.Valid {
				t.Errorf("invalid: %s", run.Reason)
			}
			if c.state != rundir.StateOK && (got.Why == nil || len(got.Causes) == 0) {
				t.Errorf("no reason: %+v", got)
			}
		})
	}
}

func TestStatesOfThroughput(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*rundir.Trial)
		state  string
		high   float64 // times the recorded
	}{
		{"undisturbed", func(*rundir.Trial) {}, rundir.StateOK, 0},
		{"little lost", func(t *rundir.Trial) { t.Generator.RunQueueWaitShare = new(0.004) }, rundir.StateOK, 0},
		{"time lost by the generator", func(t *rundir.Trial) { t.Generator.RunQueueWaitShare = new(0.08) }, rundir.StateBounded, 1 / 0.92},
		{"what every wake-up takes", func(t *rundir.Trial) {
			t.Generator.RunQueueWaitShare, t.Generator.TimeslicesPerSecond = new(0.08), new(8000.)
		}, rundir.StateOK, 0},
		{"its wait for the target on the same CPUs", func(t *rundir.Trial) { t.Generator.RunQueueWaitShare, t.Target.ForeignShare = new(0.08), new(0.01) }, rundir.StateOK, 0},
		{"before a target at its limit", func(t *rundir.Trial) { t.Generator.RunQueueWaitShare, t.Target.CPUShare = new(0.08), new(0.998) }, rundir.StateOK, 0},
		{"before one whose only busy thread is", func(t *rundir.Trial) {
			t.Generator.RunQueueWaitShare, t.Target.BusiestThreadShare = new(0.08), new(0.95)
		}, rundir.StateOK, 0},
		{"time stolen from the target", func(t *rundir.Trial) { t.Target.StealShare, t.Target.CPUShare = new(0.05), new(0.94) }, rundir.StateBounded, 1 / 0.95},
		{"other programs on the target's CPUs", func(t *rundir.Trial) { t.Target.ForeignShare = new(0.1) }, rundir.StateBounded, 1 / 0.9},
		{"a generator at its limit", func(t *rundir.Trial) { t.Generator.CPUShare = new(0.99) }, rundir.StateNotIdentified, 0},
		{"both at their limits", func(t *rundir.Trial) { t.Generator.CPUShare, t.Target.BusiestThreadShare = new(0.99), new(0.95) }, rundir.StateOK, 0},
	} {
		b := newBench(1, "v")
		b.run.Plan.Base = ""
		trial := b.measure(1, "v", 1000)
		trial.Target.CPUShare, trial.Generator.CPUShare = new(0.5), new(0.5)
		c.change(trial)
		b.record(latencies(rand.New(rand.NewPCG(1, 1)), 4000, time.Millisecond)...)
		run := b.judge(t)
		got := figureOfRun(t, run, "throughput", "v", "")
		if got.State != c.state || c.high > 0 && math.Abs(*got.High/1000-c.high) > 1e-6 {
			t.Errorf("%s: %+v", c.name, got)
		}
		if c.state == rundir.StateNotIdentified && (got.Low == nil || *got.Low != 1000 || !run.Valid) {
			t.Errorf("%s: %+v, valid %v; want at least what was measured", c.name, got, run.Valid)
		}
	}
}

// What disturbs both alike is in the interval; what disturbs one more bounds their ratio, as
// far as the bounds of the two reach.
func TestRatiosOfDisturbedVariants(t *testing.T) {
	made := func(more func(b *bench, round int)) *rundir.Run {
		b := openBench(8, "a", "b")
		r := rand.New(rand.NewPCG(5, 5))
		for round := 1; round <= 8; round++ {
			for _, v := range []string{"a", "b"} {
				b.measure(round, v, 1000)
				b.stallIn(3*time.Millisecond, r.IntN(40), r.IntN(40))
				if v == "b" {
					more(b, round)
				}
				median := time.Millisecond
				if v == "b" {
					median = 1100 * time.Microsecond
				}
				for i := range 40 {
					h := hist.New()
					for _, x := range latencies(r, 250, median) {
						h.Record(int64(x))
					}
					b.logs[len(b.trials)] = append(b.logs[len(b.trials)], hist.Interval{Tag: rundir.TagResponse, Start: time.Duration(i) * 100 * time.Millisecond, Length: 100 * time.Millisecond, Hist: h})
				}
			}
		}
		return b.judge(t)
	}
	run := made(func(*bench, int) {})
	if got := figureOfRun(t, run, "response.p99", "b", "a"); got.State != rundir.StateOK || !run.Valid || !got.Asked {
		t.Errorf("disturbed alike: %+v, %s", got, run.Reason)
	}
	if c := comparison(t, run, "b", "a", "response.p99"); c.Verdict != rundir.Worse {
		t.Errorf("%+v", c)
	}
	run = made(func(b *bench, round int) { b.stallIn(20*time.Millisecond, 1, 5, 9, 13, 17, 21, 25, 29+round%3) })
	got := figureOfRun(t, run, "response.p99", "b", "a")
	if got.State != rundir.StateBounded || !run.Valid || !strings.Contains(got.Why.English(), "b was disturbed") || *got.Low > 1.1 || *got.High < 1.1 {
		t.Errorf("one disturbed more: %+v, valid %v", got, run.Valid)
	}
	// Nothing is known of b but the smallest time.
	run = made(func(b *bench, _ int) {
		for i := range 40 {
			b.stallsIn(20*time.Millisecond, i)
		}
	})
	got = figureOfRun(t, run, "response.p99", "b", "a")
	if got.State != rundir.StateBounded || !strings.Contains(got.Why.English(), "b was disturbed") {
		t.Errorf("one disturbed all the time: %+v, valid %v", got, run.Valid)
	}
	if c := comparison(t, run, "b", "a", "response.p99"); c.Verdict != rundir.Inconclusive {
		t.Errorf("%+v", c)
	}
}

// If responses ended on arrival for one variant and by reading for the other, only service
// times are compared. They are compared as they were read.
func TestRatiosByTwoClocks(t *testing.T) {
	made := func(ends map[string]*rundir.Ends) *rundir.Run {
		b := newBench(8, "a", "b")
		b.run.Plan.Metric = "service.p50"
		r := rand.New(rand.NewPCG(5, 5))
		for round := 1; round <= 8; round++ {
			for _, v := range []string{"a", "b"} {
				trial := b.measure(round, v, 1000)
				trial.Ends = ends[v]
				for _, tag := range []string{rundir.TagService, rundir.TagServiceRead, rundir.TagFirstByte} {
					median := time.Millisecond
					if tag == rundir.TagServiceRead {
						median = 2 * time.Millisecond
					}
					if v == "b" {
						median += 500 * time.Microsecond
					}
					h := hist.New()
					for _, x := range latencies(r, 1000, median) {
						h.Record(int64(x))
					}
					b.logs[len(b.trials)] = append(b.logs[len(b.trials)], hist.Interval{Tag: tag, Length: 4 * time.Second, Hist: h})
				}
			}
		}
		return b.judge(t)
	}
	ends := func(arrived, read int64) *rundir.Ends {
		e := &rundir.Ends{ByArrival: arrived, ByRead: read}
		e.Complete()
		return e
	}
	for _, c := range []struct {
		name  string
		a, b  *rundir.Ends
		ratio float64
		state string // of the first byte
	}{
		{"the same clock", ends(1000, 0), ends(900, 100), 1.5, rundir.StateOK},
		{"two clocks", ends(1000, 0), ends(100, 900), 1.25, rundir.StateNotIdentified},
		{"clocks that nobody knows", nil, nil, 1.5, rundir.StateOK},
	} {
		run := made(map[string]*rundir.Ends{"a": c.a, "b": c.b})
		if got := comparison(t, run, "b", "a", "service.p50"); math.Abs(*got.Ratio.Estimate-c.ratio) > 0.05 || !run.Valid {
			t.Errorf("%s: %v, %s", c.name, *got.Ratio.Estimate, run.Reason)
		}
		s := compare.New(&dataset.Dataset{Plan: run.Plan, Whole: map[string]*dataset.Stats{}})
		for _, v := range []string{"a", "b"} {
			s.Whole[v] = &dataset.Stats{Variant: rundir.Variant{Ends: map[string]*rundir.Ends{"a": c.a, "b": c.b}[v]}}
		}
		m, _ := dataset.Lookup("first_byte.p50")
		if v := s.RatioValidity(compare.Pair{Variant: "b", Base: "a"}, m); v.State != c.state {
			t.Errorf("%s: the first byte is %+v", c.name, v)
		}
	}
}

// A threshold that the upper end keeps is kept. One that the figure breaks as measured is broken, and says that a
// disturbance may have done it.
func TestThresholdsOfDisturbedFigures(t *testing.T) {
	for _, c := range []struct{ text, outcome, says string }{
		{"response.p99 < 30ms", rundir.Kept, ""},
		{"response.p99 < 10ms", rundir.Broken, "as measured: response.p99: something else may have disturbed 100 % of the requests"},
		{"response.p99 < 100us", rundir.Broken, ""},
		{"throughput > 100/s", rundir.Kept, "decided by the estimate, which has no interval"},
	} {
		b := openBench(1, "v")
		b.run.Plan.Base, b.run.Plan.Metric = "", "throughput"
		b.run.Plan.Thresholds = []string{c.text}
		b.measure(1, "v", 1000)
		var all []int
		for i := range 40 {
			all = append(all, i)
		}
		b.stallIn(60*time.Millisecond, all...)
		b.tenthsOf(rundir.TagResponse, time.Millisecond, 20*time.Millisecond, all...)
		run := b.judge(t)
		if got := run.Thresholds[0]; got.Outcome != c.outcome || got.Detail.English() != c.says || !run.Valid || got.NotIdentified != nil {
			t.Errorf("%s: %+v: %s, valid %v", c.text, got, got.Detail.English(), run.Valid)
		}
	}
}

// Requests that waited for a connection of dyno's say little about the target. Its throughput is at least the
// measured one; its response times and failures are at most the measured ones. The times from the write on are as
// measured.
func TestTooFewConnections(t *testing.T) {
	for _, n := range []int{12, 4000} {
		b := openBench(1, "v")
		b.run.Plan.Base, b.run.Plan.Metric = "", ""
		b.run.Plan.Thresholds = []string{"response.p90 < 1us", "errors.ratio < 1%", "service.p90 < 1us", "response.p90 < 1s"}
		x := b.measure(1, "v", 1000)
		b.record(slices.Repeat([]time.Duration{time.Millisecond}, n)...)
		x.Connections.Requested, x.Connections.Unqueued, x.Times = 1, 0.002, rundir.Times{rundir.TagService: {Mean: new(0.002)}}
		x.Counts.Dropped, x.Counts.Sent, x.Counts.OK = 3000, x.Counts.Sent-3000, x.Counts.OK-3000
		run := b.judge(t)
		if run.Valid || len(Breaking(run)) != 0 {
			t.Errorf("valid %v, %+v", run.Valid, Breaking(run))
		}
		if v := figureOfRun(t, run, "throughput", "v", ""); v.Low == nil || v.High != nil || v.Why.Kind != "found.few_connections" {
			t.Errorf("%+v", v)
		}
		for i, want := range []string{rundir.Undecided, rundir.Undecided, rundir.Broken, rundir.Kept} {
			if got := run.Thresholds[i]; got.Outcome != want && (n > 12 || i < 2) {
				t.Errorf("%d responses, %s: %s, want %s", n, got.Text, got.Outcome, want)
			}
		}
	}
}

// A run without any identified figure is not valid. That holds even if its metric, here a p99,
// has too few values to be known.
func TestNothingIdentified(t *testing.T) {
	for _, dropped := range []int64{0, 3900} {
		b := openBench(1, "v")
		b.run.Plan.Base, b.run.Plan.Metric = "", "response.p99"
		x := b.measure(1, "v", 1000)
		b.record(slices.Repeat([]time.Duration{time.Millisecond}, 12)...)
		x.Counts.Dropped, x.Counts.Unsent = dropped, dropped
		x.Counts.Sent -= dropped
		x.Counts.OK -= dropped
		run := b.judge(t)
		if run.Valid != (dropped == 0) || (run.Reason != nil) != (dropped > 0) {
			t.Errorf("%d not sent: valid %v, %s, %+v", dropped, run.Valid, run.Reason, run.Validity)
		}
	}
}

// A generator that is a little late with some requests in each stretch disturbs those, and
// not all: of the others the figures stand.
func TestSmallDelaysAreCountedByRequest(t *testing.T) {
	for _, c := range []struct {
		name     string
		lag      time.Duration // of 1 in 100 requests
		state    string
		low      float64 // the recorded latencies are 10 to 109 ms, evenly
		Quantity string
	}{
		{"shorter than what is noticed", 2 * time.Millisecond, rundir.StateOK, 0, "response.p99"},
		{"late", 10 * time.Millisecond, rundir.StateOK, 106, "response.p99"},
		{"late, of the median", 10 * time.Millisecond, rundir.StateOK, 57, "response.p50"},
		{"as many late by longer", 100 * time.Millisecond, rundir.StateOK, 106, "response.p99"},
		{"late, of the lowest", 10 * time.Millisecond, rundir.StateBounded, 12, "response.p5"},
	} {
		b := openBench(1, "v")
		b.run.Plan.Base = ""
		b.run.Plan.Thresholds = []string{"response.p5 < 1s"}
		b.measure(1, "v", 1000)
		b.stallIn(0)
		for i := range 40 {
			values, lags := hist.New(), hist.New()
			for v := range 100 {
				values.Record(int64(10*time.Millisecond) + int64(v)*int64(time.Millisecond))
			}
			lags.RecordN(int64(time.Microsecond), 99)
			lags.Record(int64(c.lag))
			for tag, h := range map[string]*hist.Histogram{rundir.TagResponse: values, rundir.TagGeneratorLag: lags} {
				b.logs[1] = append(b.logs[1], hist.Interval{Tag: tag, Start: time.Duration(i) * 100 * time.Millisecond, Length: 100 * time.Millisecond, Hist: h})
			}
		}
		got := figureOfRun(t, b.judge(t), c.Quantity, "v", "")
		if got.State != c.state || c.low > 0 && (got.Low == nil || math.Abs(*got.Low*1e3-c.low) > 1.1) {
			t.Errorf("%s: %+v, low %v, want %v", c.name, got, got.Low, c.low)
		}
		if c.state == rundir.StateBounded && !slices.Contains(got.Causes, checks.FlagGeneratorLag) {
			t.Errorf("%s: by %v", c.name, got.Causes)
		}
	}
}

// counters is a series of two readings, before the window and at its end.
func counters(values map[string]float64) *series.Series {
	s := &series.Series{Columns: []string{series.TimeColumn}, Values: [][]float64{{0, 4}}}
	for name, v := range values {
		s.Columns, s.Values = append(s.Columns, name), append(s.Values, []float64{0, v})
	}
	return s
}

// Programs on the generator's CPUs take nothing from the target, if the readings of the
// target's own CPUs say so. A stall that the sleeper on the target's CPUs noticed is time
// lost.
func TestTimeThatTheTargetLost(t *testing.T) {
	slower := func(foreign float64) float64 { return 1 / (1 - foreign) }
	for _, c := range []struct {
		name     string
		counters map[string]float64
		stalls   []series.Stall
		high     float64 // times the recorded; 0: as it is
	}{
		{"not known where", nil, nil, slower(0.2)},
		{"elsewhere", map[string]float64{"target_cpus_cpu_busy_seconds": 2, "target_cpu_seconds": 2, "target_cpus_cpu_seconds": 4}, nil, 0},
		{"a tenth of it there", map[string]float64{"target_cpus_cpu_busy_seconds": 2.4, "target_cpu_seconds": 2, "target_cpus_cpu_seconds": 4}, nil, slower(0.1)},
		{"more there than in all, by ticks", map[string]float64{"target_cpus_cpu_busy_seconds": 4, "target_cpu_seconds": 2, "target_cpus_cpu_seconds": 4}, nil, slower(0.2)},
		{
			"stalls between two ticks", map[string]float64{"target_cpus_cpu_busy_seconds": 2, "target_cpu_seconds": 2, "target_cpus_cpu_seconds": 4},
			[]series.Stall{
				{Due: time.Second, Late: 95 * time.Millisecond, Target: true},
				{Due: 2 * time.Second, Late: 80 * time.Millisecond, Target: true},
				{Due: 3 * time.Second, Late: 75 * time.Millisecond, Target: true},
				{Due: 2 * time.Second, Late: 70 * time.Millisecond}, // on the generator's
				{Due: 9 * time.Second, Late: 70 * time.Millisecond, Target: true},
			},
			1 / (1 - (0.095+0.080+0.075)/4),
		},
	} {
		b := newBench(1, "v")
		b.run.Plan.Base = ""
		trial := b.measure(1, "v", 1000)
		trial.Target.CPUShare, trial.Target.ForeignShare, trial.Generator.CPUShare = new(0.5), new(0.2), new(0.5)
		trial.Target.StealShare = new(0.) // its CPUs are its own
		b.record(latencies(rand.New(rand.NewPCG(1, 1)), 4000, time.Millisecond)...)
		if c.counters != nil {
			b.series[1] = counters(c.counters)
		}
		if c.stalls != nil {
			b.stalls = map[int][]series.Stall{1: c.stalls}
		}
		got := figureOfRun(t, b.judge(t), "throughput", "v", "")
		if (got.State == rundir.StateOK) != (c.high == 0) || c.high > 0 && (got.High == nil || math.Abs(*got.High/1000-c.high) > 1e-6) {
			t.Errorf("%s: %+v, high %v, want %v", c.name, got, got.High, 1000*c.high)
		}
		if c.high > 0 && len(got.Causes) != 1 {
			t.Errorf("%s: by %q", c.name, got.Causes)
		}
	}
}

// Of what others use of the CPUs, a target feels what it waited for: one that did not wait
// was not disturbed.
func TestForeignTimeThatTheTargetDidNotWaitFor(t *testing.T) {
	for _, c := range []struct {
		waited float64 // seconds of 4
		state  string
	}{{0, rundir.StateOK}, {0.04, rundir.StateBounded}, {4, rundir.StateBounded}} {
		b := openBench(1, "v")
		b.run.Plan.Base = ""
		trial := b.measure(1, "v", 1000)
		trial.Target.ForeignShare = new(0.9)
		b.stallIn(0)
		b.series[1] = counters(map[string]float64{"target_run_queue_wait_seconds": c.waited})
		b.record(latencies(rand.New(rand.NewPCG(1, 1)), 4000, time.Millisecond)...)
		if got := figureOfRun(t, b.judge(t), "response.p99", "v", ""); got.State != c.state || c.waited == 4 && !(*got.Low < *got.High) || c.waited < 1 && c.waited > 0 && !(*got.Low > 0) {
			t.Errorf("%v s: %+v", c.waited, got)
		}
	}
}

// A round is disturbed by the time that something else took from it, however many requests
// waited for that.
func TestTimeTakenDisturbsARound(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(b *bench, trial *rundir.Trial)
		taken  float64
	}{
		{"nothing", func(*bench, *rundir.Trial) {}, 0},
		{"by others, from the target", func(_ *bench, x *rundir.Trial) { x.Target.ForeignShare = new(0.24) }, 0.24},
		{"more of it", func(_ *bench, x *rundir.Trial) { x.Target.ForeignShare = new(0.26) }, 0.26},
		{"by the host, from the generator", func(_ *bench, x *rundir.Trial) { x.Generator.StealShare = new(0.3) }, 0.3},
		{"in long stalls", func(b *bench, _ *rundir.Trial) { b.stallIn(300*time.Millisecond, 1, 11, 21, 31) }, 0.3},
		{"in short ones", func(b *bench, _ *rundir.Trial) { b.stallIn(50*time.Millisecond, 1, 11, 21, 31) }, 0.05},
	} {
		b := newBench(1, "v")
		b.run.Plan.Base = ""
		trial := b.measure(1, "v", 1000)
		b.stallIn(0) // an observer looks for them
		c.change(b, trial)
		b.record(latencies(rand.New(rand.NewPCG(1, 1)), 4000, 30*time.Millisecond)...)
		x := b.judge(t).Trials[0]
		i := slices.IndexFunc(x.Checks, func(k rundir.Check) bool { return k.Kind == checks.FlagDisturbed })
		if got := *x.Checks[i].Measured; math.Abs(got-c.taken) > 0.001 || x.Disturbed != (c.taken > checks.DisturbedBad) {
			t.Errorf("%s: %v of the window, disturbed %v; want %v", c.name, got, x.Disturbed, c.taken)
		}
	}
}

// A bound that cannot be calculated is none: JSON knows no NaN, and a run that cannot be
// written is lost.
func TestBoundsAreNumbers(t *testing.T) {
	b := openBench(1, "v")
	b.run.Plan.Base = ""
	b.measure(1, "v", 1000).Target.ForeignShare = new(0.9)
	b.stallIn(0)
	// The target's own time is not known: it ended before it was read twice.
	b.series[1] = counters(map[string]float64{"target_cpus_cpu_busy_seconds": 3, "target_cpus_cpu_seconds": 4})
	b.record(latencies(rand.New(rand.NewPCG(1, 1)), 4000, time.Millisecond)...)
	run := b.judge(t)
	if _, err := json.Marshal(run); err != nil {
		t.Error(err)
	}
	if got := figureOfRun(t, run, "response.p99", "v", ""); got.State != rundir.StateBounded {
		t.Errorf("others had 90 %% of the CPU: %+v", got)
	}
}
