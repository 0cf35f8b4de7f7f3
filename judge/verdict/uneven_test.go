package verdict

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dyno/internal/units"
	"dyno/judge/verdict/checks"
	"dyno/results/rundir"
)

// closedPair measures two variants of a closed loop in rounds. Each lost a share of the
// time that the target could have worked in. Without that loss its throughput would have
// been the truth.
func closedPair(rounds int, truth map[string]float64, lost func(variant string, round int) float64) *bench {
	b := newBench(rounds, "a", "b")
	r := rand.New(rand.NewPCG(3, 3))
	for round := 1; round <= rounds; round++ {
		for _, v := range []string{"a", "b"} {
			x := lost(v, round)
			t := b.measure(round, v, truth[v]*(1-x)*math.Exp(0.002*r.NormFloat64()))
			t.Target.CPUShare, t.Target.StealShare, t.Generator.CPUShare = new(0.9*(1-x)), new(x), new(0.4)
			b.record(latencies(r, 40, time.Millisecond)...)
		}
	}
	return b
}

// A variant that lost more time than its base did less for that reason, and how much less
// is unknown. So the ratio is bounded, and claims beyond the bounds are still decided.
func TestRatioOfUnequalLosses(t *testing.T) {
	more := func(variant string, round int) float64 {
		if variant == "b" {
			return 0.07 + 0.001*float64(round)
		}
		return 0.01 + 0.001*float64(round%3)
	}
	for _, c := range []struct {
		name    string
		b       float64 // what b would do undisturbed; a does 1000
		verdict string
	}{
		{"as fast", 1000, rundir.Inconclusive},
		{"a little slower", 990, rundir.Worse},
		{"faster, in spite of it", 1400, rundir.Better},
		{"much slower", 700, rundir.Worse},
	} {
		b := closedPair(8, map[string]float64{"a": 1000, "b": c.b}, more)
		b.run.Plan.Claims = []rundir.PlanClaim{
			{ID: "far", Says: "far", Holds: `ratio("b", "a", throughput) >= 1.8`},
			{ID: "near", Says: "near", Holds: `ratio("b", "a", throughput) >= ` + units.FourDigits(c.b/1000)},
		}
		run := b.judge(t)
		v, x := figureOfRun(t, run, "throughput", "b", "a"), comparison(t, run, "b", "a", "throughput")
		if v.State != rundir.StateBounded || !strings.Contains(v.Why.English(), "b was disturbed in") || !slices.Contains(v.Causes, checks.FlagSteal) && len(v.Causes) > 0 {
			t.Errorf("%s: %+v", c.name, v)
			continue
		}
		if truth := c.b / 1000; *v.Low > truth || *v.High < truth || *v.Low != *x.Ratio.Low || *v.High != *x.Ratio.High {
			t.Errorf("%s: %v to %v, and the ratio from %v to %v", c.name, *v.Low, *v.High, *x.Ratio.Low, *x.Ratio.High)
		}
		if x.Verdict != c.verdict || x.FurtherRounds != nil {
			t.Errorf("%s: %s, further rounds %v", c.name, x.Verdict, x.FurtherRounds)
		}
		if far := run.Claims[0]; far.Outcome != rundir.Refuted {
			t.Errorf("%s: %+v", c.name, far)
		}
		near := run.Claims[1]
		if near.Outcome != rundir.NotSettled || near.NotIdentified != nil || !strings.Contains(near.Detail.English(), "b was disturbed in") {
			t.Errorf("%s: %+v", c.name, near)
		}
		if !run.Valid {
			t.Errorf("%s: not valid: %s", c.name, run.Reason)
		}
	}
}

// Next to a program that takes half of the CPUs, one variant lost a little more time than the other. The ratio is off
// by that difference, and not by all that was lost.
func TestRatioNextToAHog(t *testing.T) {
	lost := func(v string, round int) float64 {
		if v == "b" {
			return 0.52 + 0.003*float64(round%3)
		}
		return 0.47 + 0.003*float64(round%3)
	}
	for _, truth := range []float64{0.7, 0.85, 1.3} {
		b := closedPair(6, map[string]float64{"a": 1000, "b": 1000 * truth}, lost)
		b.run.Plan.Claims = []rundir.PlanClaim{{ID: "size", Says: "size", Holds: `ratio("b", "a", throughput) > 1.1`}}
		run := b.judge(t)
		v := figureOfRun(t, run, "throughput", "b", "a")
		if v.State != rundir.StateBounded || *v.Low > truth || *v.High < truth || *v.High > 1.2**v.Low {
			t.Errorf("%v: %+v", truth, v)
		}
		want := rundir.Refuted
		if truth > 1 {
			want = rundir.Holds
		}
		if c := run.Claims[0]; c.Outcome != want || !run.Valid {
			t.Errorf("%v: %+v, valid %v", truth, c, run.Valid)
		}
	}
}

// Losses that are alike cost both as much, and are in the interval.
func TestRatioOfEqualLosses(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	run := closedPair(8, map[string]float64{"a": 1000, "b": 900}, func(string, int) float64 { return 0.05 + 0.002*r.Float64() }).judge(t)
	if v := figureOfRun(t, run, "throughput", "b", "a"); v.State != rundir.StateOK {
		t.Errorf("%+v", v)
	}
	if x := comparison(t, run, "b", "a", "throughput"); x.Verdict != rundir.Worse || x.Ratio.Low == nil || *x.Ratio.Low < 0.88 {
		t.Errorf("%+v", x.Ratio)
	}
}

// The bounds hold the ratio without losses, whatever share of the time either variant
// lost, and whatever the loss cost.
func TestBoundsOfRatiosHoldTheTruth(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: simulates thousands of experiments")
	}
	rapid.Check(t, func(t *rapid.T) {
		share := rapid.Float64Range(0, 0.3)
		of := map[string]float64{"a": share.Draw(t, "a"), "b": share.Draw(t, "b")}
		truth := map[string]float64{"a": 1000, "b": 1000 * rapid.Float64Range(0.5, 2).Draw(t, "truth")}
		b := closedPair(8, truth, func(v string, round int) float64 { return of[v] + 0.0005*float64(round) })
		v := figureOfRun(t, b.judge(t), "throughput", "b", "a")
		if v.State != rundir.StateBounded { // as much was lost of both
			if math.Abs(of["a"]-of["b"]) > 0.01 {
				t.Fatalf("%+v", v)
			}
			return
		}
		if want := truth["b"] / truth["a"]; *v.Low > want || *v.High < want {
			t.Errorf("%v to %v, want %v within", *v.Low, *v.High, want)
		}
	})
}
