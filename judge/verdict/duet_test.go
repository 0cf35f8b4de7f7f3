package verdict

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"dyno/judge/stat"
	"dyno/results/rundir"
)

// A madeDuet says what the halves of a made-up duet do.
type madeDuet struct {
	rounds  int
	ratio   float64 // of b over a
	control float64 // of a.control over a
	second  float64 // what the second CPU set does, over the first
	peer    float64 // what b's load leaves of its neighbour, over what a's does
	idle    float64 // a next to b without load, over a next to b with load; 0: no such trial
	noise   float64 // of the machine, from pair to pair
	own     float64 // of each half
}

func soundDuet() madeDuet {
	return madeDuet{rounds: 8, ratio: 1, control: 1, second: 1.05, peer: 1, idle: 1.3, noise: 0.1, own: 0.002}
}

// bench makes the run up.
func (d madeDuet) bench(r *rand.Rand) *bench {
	b := newBench(d.rounds, "a", "a.control", "b")
	b.run.Plan.Duet = &rundir.PlanDuet{}
	half := func(round int, variant, with string, set int, v float64) *rundir.Trial {
		t := b.measure(round, variant, v*math.Pow(d.second, float64(set))*math.Exp(d.own*r.NormFloat64()))
		t.Duet = &rundir.Duet{Peer: with, Trial: t.Number + 1, CPUSet: set, Shared: true}
		return t
	}
	for round := 1; round <= d.rounds; round++ {
		set := round % 2
		machine := 1000 * math.Exp(d.noise*r.NormFloat64())
		half(round, "a", "b", set, machine*d.peer)
		half(round, "b", "a", 1-set, machine*d.ratio)
		machine = 1000 * math.Exp(d.noise*r.NormFloat64())
		half(round, "a", "a.control", set, machine)
		half(round, "a.control", "a", 1-set, machine*d.control)
		if round <= 2 && d.idle > 0 {
			half(round, "a", "b", set, machine*d.idle).Purpose = rundir.PurposeIdle
		}
	}
	return b
}

// A difference of 5 % shows through noise of 10 %, and a place that is 5 % better.
func TestDuetFindsWhatNoiseHides(t *testing.T) {
	d := soundDuet()
	d.ratio = 0.95
	r := rand.New(rand.NewPCG(1, 2))
	b := d.bench(r)
	run := b.judge(t)
	c := comparison(t, run, "b", "a", "throughput")
	if c.Verdict != rundir.Worse || c.Rounds != 8 || math.Abs(*c.Ratio.Estimate-0.95) > 0.005 || *c.Ratio.High-*c.Ratio.Low > 0.02 {
		t.Errorf("%s over %d rounds: %v, %v to %v", c.Verdict, c.Rounds, *c.Ratio.Estimate, *c.Ratio.Low, *c.Ratio.High)
	}
	if v := figureOfRun(t, run, "throughput", "b", "a"); v.State != rundir.StateOK {
		t.Errorf("the ratio is %s: %s", v.State, v.Why)
	}
	for _, variant := range []string{"a", "b"} {
		if v := figureOfRun(t, run, "throughput", variant, ""); v.State != rundir.StateRelative || v.Low != nil || v.High != nil {
			t.Errorf("throughput of %s is %s", variant, v.State)
		}
	}
	if !run.Valid || run.Rounds != 8 || run.Variants[0].Trials != 16 {
		t.Errorf("valid: %v (%s), %d rounds, %d trials of the base", run.Valid, run.Reason, run.Rounds, run.Variants[0].Trials)
	}
	if c := comparison(t, run, "a.control", "a", "throughput"); !stat.Ends(c.Ratio.Low, c.Ratio.High).Contains(1) {
		t.Errorf("control: %v", *c.Ratio.Estimate)
	}
	// Without partners the same trials say nothing.
	b.run.Plan.Duet = nil
	for i := range b.trials {
		b.trials[i].Duet = nil
		if b.trials[i].Purpose != "" {
			b.trials[i].Complete = false
		}
	}
	if c := comparison(t, b.judge(t), "b", "a", "throughput"); c.Verdict != rundir.Inconclusive {
		t.Errorf("unpaired: %s, %v to %v", c.Verdict, *c.Ratio.Low, *c.Ratio.High)
	}
}

// A duet whose checks fail gives no verdict, and says why.
func TestDuetRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*madeDuet)
		want   string // none: it is not refused
	}{
		{"sound", func(*madeDuet) {}, ""},
		{"its control differs", func(d *madeDuet) { d.control = 0.97 }, "fails its control: two copies of a at the same time differ by 3"},
		{"its control differs by next to nothing", func(d *madeDuet) { d.control, d.own = 0.998, 0.0005 }, ""},
		{"the neighbour's load matters", func(d *madeDuet) { d.peer, d.noise = 0.9, 0.01 }, "the load of b does not disturb its neighbour as that of a does: a next to it differs by 9"},
		{"one CPU for both", func(d *madeDuet) { d.idle, d.noise = 2, 0.01 }, "changes throughput of a by a factor of "},
		{"some of the caches", func(d *madeDuet) { d.idle, d.noise = 1.5, 0.01 }, ""},
		{"nobody looked", func(d *madeDuet) { d.idle = 0 }, "the idle-neighbour check was not made"},
		{"three rounds", func(d *madeDuet) { d.rounds, d.control, d.own, d.second = 3, 0.9, 0.0005, 1 }, "fails its control"},
	} {
		d := soundDuet()
		d.ratio = 0.9
		c.change(&d)
		run := d.bench(rand.New(rand.NewPCG(5, 6))).judge(t)
		k, v := comparison(t, run, "b", "a", "throughput"), figureOfRun(t, run, "throughput", "b", "a")
		if c.want == "" {
			if k.Verdict != rundir.Worse || v.State != rundir.StateOK || !run.Valid {
				t.Errorf("%s: %s, %s: %s", c.name, k.Verdict, v.State, v.Why)
			}
			continue
		}
		if k.Verdict != rundir.Invalid || v.State != rundir.StateNotIdentified || !strings.Contains(v.Why.English(), c.want) || run.Valid || !strings.Contains(run.Reason.English(), c.want) {
			t.Errorf("%s: %s, %s: %s; the run: %v, %s", c.name, k.Verdict, v.State, v.Why, run.Valid, run.Reason)
		}
		if own := figureOfRun(t, run, "throughput", "b", ""); own.State != rundir.StateNotIdentified {
			t.Errorf("%s: throughput of b is %s", c.name, own.State)
		}
	}
}

// Sound duets are refused about once in a hundred for each of two tests, and their
// intervals hold the truth.
func TestDuetCovers(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: simulates thousands of experiments")
	}
	const runs = 400
	refused, held := 0, 0
	r := rand.New(rand.NewPCG(7, 8))
	d := soundDuet()
	d.ratio, d.own = 0.95, 0.02
	for range runs {
		run := d.bench(r).judge(t)
		c := comparison(t, run, "b", "a", "throughput")
		if c.Verdict == rundir.Invalid {
			refused++
		}
		if stat.Ends(c.Ratio.Low, c.Ratio.High).Contains(0.95) {
			held++
		}
	}
	if share := float64(held) / runs; share < 0.92 || share > 0.98 {
		t.Errorf("%v of the intervals hold the truth", share)
	}
	if refused > runs/20 {
		t.Errorf("%d of %d sound duets were refused", refused, runs)
	}
}

// Two variants that were never measured at once have no ratio. An absolute threshold is kept only as measured.
func TestDuetHasNothingElse(t *testing.T) {
	b := soundDuet().bench(rand.New(rand.NewPCG(1, 1)))
	b.run.Plan.Claims = []rundir.PlanClaim{
		{ID: "apart", Holds: `ratio(b, "a.control", throughput) > 0.5`},
		{ID: "backwards", Holds: "ratio(a, b, throughput) > 0.9"},
	}
	b.run.Plan.Thresholds = []string{"throughput > 100/s", "throughput > 100000/s", "errors.ratio < 1%"}
	run := b.judge(t)
	for i, want := range []string{rundir.NotSettled, rundir.Holds} {
		if c := run.Claims[i]; c.Outcome != want {
			t.Errorf("claim %s: %s (%s), want %s", c.ID, c.Outcome, c.Detail, want)
		}
	}
	for _, th := range run.Thresholds {
		want := map[string]string{"throughput > 100/s": rundir.KeptAsMeasured, "throughput > 100000/s": rundir.Undecided, "errors.ratio < 1%": rundir.Kept}[th.Text]
		if th.Outcome != want {
			t.Errorf("threshold %s of %s: %s, want %s: %s %s", th.Text, th.Variant, th.Outcome, want, th.Detail, th.NotIdentified)
		}
	}
	if run.Valid {
		t.Error("what was asked for is not identified, and the run is valid")
	}
}

// A variant that loses every round is worse than a base that does not. The duet's own
// checks are not needed for that.
func TestDuetWithADeadVariant(t *testing.T) {
	d := soundDuet()
	d.idle = 0
	b := d.bench(rand.New(rand.NewPCG(1, 1)))
	for i := range b.trials {
		if t := &b.trials[i]; t.Variant == "b" {
			t.Complete, t.Fault, t.Error, t.PlannedSeconds = false, rundir.FaultTarget, "exit status 3", 4
			t.Throughput = new(0.)
		}
	}
	if c := comparison(t, b.judge(t), "b", "a", "throughput"); c.Verdict != rundir.Worse {
		t.Errorf("%s", c.Verdict)
	}
}
