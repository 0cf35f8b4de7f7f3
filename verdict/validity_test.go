package verdict

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dyno/hist"
	"dyno/rundir"
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
		h := many(100, early)
		if slices.Contains(disturbed, i) {
			h = many(95, early)
			h.RecordN(int64(late), 5)
		}
		b.logs[n] = append(b.logs[n], hist.Interval{Tag: tag, Start: time.Duration(i) * 100 * time.Millisecond, Length: 100 * time.Millisecond, Hist: h})
	}
}

// stallIn adds a stall within some 100 ms intervals of the last trial.
func (b *bench) stallIn(late time.Duration, intervals ...int) {
	if b.stalls == nil {
		b.stalls = map[int][]rundir.Stall{}
	}
	n := len(b.trials)
	for _, i := range intervals {
		b.stalls[n] = append(b.stalls[n], rundir.Stall{Due: time.Duration(i)*100*time.Millisecond + 10*time.Millisecond, Late: late})
	}
}

func openBench(rounds int, variants ...string) *bench {
	b := newBench(rounds, variants...)
	b.run.Plan.Loop, b.run.Plan.Metric = "open", "response.p99"
	for i := range b.run.Plan.Variants {
		b.run.Plan.Variants[i].Loop, b.run.Plan.Variants[i].Rate = "open", ptr(1000.)
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
		figure    string
		state     string
		low, high float64 // in ms; 0: open
	}{
		{"nothing disturbed", nil, 0, stretch(0, 20), "response.p99", rundir.StateOK, 0, 0},
		{"a stall that moved nothing", []int{5}, 5 * ms, nil, "response.p99", rundir.StateOK, 0, 0},
		{"stalls that moved the tail", stretch(0, 20), 5 * ms, stretch(0, 20), "response.p99", rundir.StateBounded, 1, 20},
		{"stalls too short to be noticed", stretch(0, 20), 40 * µs, stretch(0, 20), "response.p99", rundir.StateOK, 0, 0},
		{"the median beside them", stretch(0, 20), 5 * ms, stretch(0, 20), "response.p50", rundir.StateOK, 0, 0},
		{"the longest", stretch(0, 20), 5 * ms, stretch(0, 20), "response.max", rundir.StateBounded, 1, 20},
		{"a tail of the target's own in clean stretches", stretch(0, 4), 5 * ms, stretch(20, 40), "response.p99", rundir.StateOK, 0, 0},
		{"all disturbed", stretch(0, 40), 60 * ms, stretch(0, 20), "response.p99", rundir.StateBounded, 0, 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := openBench(1, "v")
			b.run.Plan.Base = ""
			b.measure(1, "v", 1000)
			b.stallIn(c.stall, c.disturbed...)
			for _, tag := range []string{tagResponse, tagService, tagSendLag, tagGeneratorLag} {
				if tag == tagResponse || tag == tagService {
					b.tenthsOf(tag, ms, 20*ms, c.late...)
				} else {
					b.tenthsOf(tag, µs, µs)
				}
			}
			run := b.judge(t)
			got := figureOfRun(t, run, c.figure, "v", "")
			if got.State != c.state {
				t.Fatalf("%+v", got)
			}
			for _, end := range []struct {
				got  *float64
				want float64
			}{{got.Low, c.low}, {got.High, c.high}} {
				if (end.got != nil) != (c.state != rundir.StateOK) || end.got != nil && math.Abs(*end.got*1e3-end.want) > 0.01*end.want {
					t.Errorf("%v … %v, want %v … %v ms", got.Low, got.High, c.low, c.high)
					break
				}
			}
			if !run.Valid {
				t.Errorf("invalid: %s", run.Reason)
			}
			if c.state != rundir.StateOK && (got.Why == "" || len(got.Causes) == 0) {
				t.Errorf("no reason: %+v", got)
			}
		})
	}
}

// Whatever a disturbance adds to the requests that it meets, the undisturbed quantile lies
// within what is said.
func TestBoundsHoldTheTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3))
		b := openBench(1, "v")
		b.run.Plan.Base = ""
		b.measure(1, "v", 1000)
		share := rapid.Float64Range(0, 0.9).Draw(t, "disturbed")
		delay := rapid.Float64Range(0, 20e6).Draw(t, "ns")
		truth := hist.New()
		for i := range 40 {
			bad := rng.Float64() < share
			if bad {
				b.stallIn(3*time.Millisecond, i)
			}
			h := hist.New()
			for k := range 250 {
				v := 1e6 * (1 + rng.ExpFloat64())
				truth.Record(int64(v))
				if bad && k < 15 { // of 250 in 100 ms, what a stall of 3 ms and its queue meet
					v += delay * rng.Float64()
				}
				h.Record(int64(v))
			}
			at := time.Duration(i) * 100 * time.Millisecond
			b.logs[1] = append(b.logs[1], hist.Interval{Tag: tagResponse, Start: at, Length: 100 * time.Millisecond, Hist: h})
		}
		run := b.judge(t)
		for name, q := range map[string]float64{"response.p50": 0.5, "response.p90": 0.9, "response.p99": 0.99} {
			got, want := figureOfRun(t, run, name, "v", ""), float64(truth.Quantile(q))/1e9
			tolerance := 0.006 * want // a quarter of the margin, and a bucket
			if got.State == rundir.StateOK {
				if m := *run.Variants[0].Intervals[name].Estimate; math.Abs(m-want) > tolerance {
					t.Fatalf("%s is called ok at %v; the truth is %v", name, m, want)
				}
				continue
			}
			if got.Low != nil && want < *got.Low-tolerance || got.High != nil && want > *got.High+tolerance {
				t.Fatalf("%s: %v not within %+v", name, want, got)
			}
		}
	})
}

// In a closed loop a late generator leaves the target less to do: the recorded tail is no
// upper end any more.
func TestClosedLoopsAreBoundedFromAboveToo(t *testing.T) {
	for _, c := range []struct {
		connections int
		state       string
	}{{1, rundir.StateBounded}, {50, rundir.StateNotIdentified}} {
		b := newBench(1, "v")
		b.run.Plan.Base, b.run.Plan.Metric = "", "service.p99"
		b.run.Plan.Variants[0].Connections = c.connections
		b.measure(1, "v", 1000).Target.CPUShare = ptr(0.5)
		b.stallIn(5*time.Millisecond, 3, 9)
		r := rand.New(rand.NewPCG(1, 1))
		b.record(latencies(r, 4000, time.Millisecond)...)
		for i := range b.logs[1] { // as if each interval were 100 ms
			b.logs[1][i].Start, b.logs[1][i].Length = b.logs[1][i].Start/10, b.logs[1][i].Length/10
		}
		b.trials[0].WindowSeconds = 0.4
		got := figureOfRun(t, b.judge(t), "service.p99", "v", "")
		if got.State != c.state || (got.High == nil) != (c.state == rundir.StateNotIdentified) {
			t.Errorf("%d connections: %+v", c.connections, got)
		}
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
		{"little lost", func(t *rundir.Trial) { t.Generator.RunQueueWaitShare = ptr(0.004) }, rundir.StateOK, 0},
		{"time lost by the generator", func(t *rundir.Trial) { t.Generator.RunQueueWaitShare = ptr(0.04) }, rundir.StateBounded, 1 / 0.96},
		{"what every wake-up takes", func(t *rundir.Trial) {
			t.Generator.RunQueueWaitShare, t.Generator.TimeslicesPerSecond = ptr(0.04), ptr(4000.)
		}, rundir.StateOK, 0},
		{"the same before a target at its limit", func(t *rundir.Trial) { t.Generator.RunQueueWaitShare, t.Target.CPUShare = ptr(0.04), ptr(0.95) }, rundir.StateOK, 0},
		{"time stolen from the target", func(t *rundir.Trial) { t.Target.StealShare, t.Target.CPUShare = ptr(0.05), ptr(0.94) }, rundir.StateBounded, 1 / 0.95},
		{"other programs on the target's CPUs", func(t *rundir.Trial) { t.Target.ForeignShare = ptr(0.1) }, rundir.StateBounded, 1 / 0.9},
		{"a generator at its limit", func(t *rundir.Trial) { t.Generator.CPUShare = ptr(0.99) }, rundir.StateNotIdentified, 0},
	} {
		b := newBench(1, "v")
		b.run.Plan.Base = ""
		trial := b.measure(1, "v", 1000)
		trial.Target.CPUShare, trial.Generator.CPUShare = ptr(0.5), ptr(0.5)
		c.change(trial)
		b.record(latencies(rand.New(rand.NewPCG(1, 1)), 4000, time.Millisecond)...)
		run := b.judge(t)
		got := figureOfRun(t, run, "throughput", "v", "")
		if got.State != c.state || c.high > 0 && math.Abs(*got.High/1000-c.high) > 1e-6 {
			t.Errorf("%s: %+v", c.name, got)
		}
		if c.state == rundir.StateNotIdentified && (got.Low == nil || *got.Low != 1000 || run.Valid) {
			t.Errorf("%s: %+v, valid %v; want at least what was measured", c.name, got, run.Valid)
		}
	}
}

// What disturbs both alike is in the interval; what disturbs one leaves no verdict.
func TestRatiosOfDisturbedVariants(t *testing.T) {
	made := func(more func(round int) []int) *rundir.Run {
		b := openBench(8, "a", "b")
		r := rand.New(rand.NewPCG(5, 5))
		for round := 1; round <= 8; round++ {
			for _, v := range []string{"a", "b"} {
				b.measure(round, v, 1000)
				b.stallIn(3*time.Millisecond, r.IntN(40), r.IntN(40))
				if v == "b" {
					b.stallIn(20*time.Millisecond, more(round)...)
				}
				median := time.Millisecond
				if v == "b" {
					median = 1100 * µs
				}
				for i := range 40 {
					h := hist.New()
					for _, x := range latencies(r, 250, median) {
						h.Record(int64(x))
					}
					b.logs[len(b.trials)] = append(b.logs[len(b.trials)], hist.Interval{Tag: tagResponse, Start: time.Duration(i) * 100 * time.Millisecond, Length: 100 * time.Millisecond, Hist: h})
				}
			}
		}
		return b.judge(t)
	}
	run := made(func(int) []int { return nil })
	if got := figureOfRun(t, run, "response.p99", "b", "a"); got.State != rundir.StateOK || !run.Valid || !got.Asked {
		t.Errorf("disturbed alike: %+v, %s", got, run.Reason)
	}
	if c := comparison(t, run, "b", "a", "response.p99"); c.Verdict != rundir.Worse {
		t.Errorf("%+v", c)
	}
	run = made(func(round int) []int { return []int{1, 5, 9, 13, 17, 21, 25, 29 + round%3} })
	got := figureOfRun(t, run, "response.p99", "b", "a")
	if got.State != rundir.StateNotIdentified || run.Valid || !strings.Contains(got.Why, "b was disturbed") {
		t.Errorf("one disturbed more: %+v, valid %v", got, run.Valid)
	}
	if c := comparison(t, run, "b", "a", "response.p99"); c.Verdict != rundir.Invalid {
		t.Errorf("%+v", c)
	}
}

// A threshold that the upper end keeps is kept, and one that it cannot decide because
// nothing bounds the figure makes the run invalid.
func TestThresholdsOfDisturbedFigures(t *testing.T) {
	for _, c := range []struct {
		text, outcome string
		valid         bool
	}{
		{"response.p99 < 30ms", rundir.Kept, true},
		{"response.p99 < 10ms", rundir.Undecided, false},
		{"response.p99 < 100us", rundir.Undecided, false},
		{"throughput > 100/s", rundir.Kept, true},
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
		b.tenthsOf(tagResponse, 20*time.Millisecond, 20*time.Millisecond)
		run := b.judge(t)
		if got := run.Thresholds[0]; got.Outcome != c.outcome || run.Valid != c.valid || (got.NotIdentified == "") != c.valid {
			t.Errorf("%s: %+v, valid %v", c.text, got, run.Valid)
		}
	}
}
