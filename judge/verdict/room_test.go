package verdict

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"dyno/judge/verdict/checks"
	"dyno/results/rundir"
)

// aRoom is a run of two variants and a control that has judged ratios and claims.
type aRoom struct {
	control, ratio [3]float64 // estimate and ends; an infinite end is open
	p              float64    // of the control
	rounds         int
	disturbed      bool
	claim          string // its outcome; empty: none
	ratioState     string // with a verdict unless it is not identified
}

func (r aRoom) run() *rundir.Run {
	estimate := func(of [3]float64) rundir.Estimate {
		e := rundir.Estimate{Estimate: &of[0], Interval: rundir.ByPairedStudent}
		e.SetInterval(of[1], of[2], 0.95, rundir.ByPairedStudent)
		return e
	}
	run := &rundir.Run{Rounds: r.rounds, Plan: rundir.Plan{Margin: 0.02, Base: "a", Variants: []rundir.PlanVariant{{Name: "a"}, {Name: "b"}, {Name: "a.control", AliasOf: "a"}}}}
	run.Comparisons = []rundir.Comparison{
		{Base: "a", Variant: "a.control", Metric: "throughput", Role: rundir.RoleControl, Primary: true, Rounds: r.rounds, Ratio: estimate(r.control), P: &r.p, Equivalence: &rundir.Estimate{}, Verdict: rundir.Inconclusive},
		{Base: "a", Variant: "b", Metric: "throughput", Primary: true, Rounds: r.rounds, Ratio: estimate(r.ratio), Verdict: rundir.Worse},
	}
	run.Validity = []rundir.Validity{{Figure: "throughput", Variant: "b", Base: "a", State: r.ratioState}}
	if r.ratioState == rundir.StateBounded {
		run.Validity[0].Low, run.Validity[0].High = run.Comparisons[1].Ratio.Low, run.Comparisons[1].Ratio.High
	}
	if r.claim != "" {
		run.Claims = []rundir.Claim{{ID: "1", Outcome: r.claim, Measured: new(r.ratio[0]), Low: new(r.ratio[1]), High: new(r.ratio[2])}}
	}
	for n := range 10 {
		run.Trials = append(run.Trials, rundir.Examined{Number: n + 1, Disturbed: r.disturbed})
		run.Flags = append(run.Flags, rundir.Flag{Kind: checks.FlagForeignCPU, Trial: n + 1, Disturbs: r.disturbed})
	}
	return run
}

// A run gives no verdict if its control differs, or has an interval as wide as a factor of two. A run whose
// disturbances hide everything that it was made for gives none either.
func TestNoRoom(t *testing.T) {
	fine, same := [3]float64{0.8, 0.78, 0.82}, [3]float64{1, 0.98, 1.02}
	wide := [3]float64{0.9, 0.4, 2.1}
	for name, c := range map[string]struct {
		room aRoom
		want string
	}{
		"quiet":                     {aRoom{same, fine, 0.9, 8, false, rundir.Refuted, rundir.StateOK}, ""},
		"disturbed and clear":       {aRoom{same, fine, 0.9, 8, true, rundir.Refuted, rundir.StateOK}, ""},
		"control differs":           {aRoom{[3]float64{1.1, 1.05, 1.15}, fine, 0.001, 8, false, rundir.Holds, rundir.StateOK}, "no_room.differs"},
		"control differs by chance": {aRoom{[3]float64{1.1, 1.01, 1.2}, fine, 0.03, 8, false, rundir.Holds, rundir.StateOK}, ""},
		"control differs by little": {aRoom{[3]float64{1.01, 1.005, 1.015}, fine, 0.001, 8, false, rundir.Holds, rundir.StateOK}, ""},
		"control is wide":           {aRoom{[3]float64{1, 0.22, 4.45}, fine, 0.9, 6, false, rundir.Refuted, rundir.StateOK}, "no_room.wide"},
		"wide of disturbances":      {aRoom{[3]float64{1, 0.22, 4.45}, fine, 0.9, 4, true, rundir.Refuted, rundir.StateOK}, "no_room.wide"},
		"wide of few rounds":        {aRoom{[3]float64{1, 0.22, 4.45}, fine, 0.9, 3, true, rundir.Refuted, rundir.StateOK}, ""},
		"open":                      {aRoom{[3]float64{1, 0.5, math.Inf(1)}, fine, 0.9, 8, false, rundir.Refuted, rundir.StateOK}, "no_room.wide"},
		"all is wide":               {aRoom{same, wide, 0.9, 8, true, rundir.NotSettled, rundir.StateOK}, "no_room.disturbed"},
		"all is bounded widely":     {aRoom{same, wide, 0.9, 8, true, "", rundir.StateBounded}, "no_room.disturbed"},
		"wide, and a claim holds":   {aRoom{same, wide, 0.9, 8, true, rundir.Holds, rundir.StateOK}, ""},
		"wide on a quiet machine":   {aRoom{same, wide, 0.9, 8, false, rundir.NotSettled, rundir.StateOK}, ""},
	} {
		run := c.room.run()
		markTooDisturbed(run)
		leaveRoom(run)
		got := ""
		if run.NoRoom != nil {
			got = run.NoRoom.Kind
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
			continue
		}
		if withdrawn := run.Comparisons[1].Verdict == rundir.Invalid; withdrawn != (got != "") {
			t.Errorf("%s: verdict %s", name, run.Comparisons[1].Verdict)
		}
		if got != "" && len(run.Claims) > 0 && (run.Claims[0].Outcome != rundir.NotSettled || run.Claims[0].Low != nil) {
			t.Errorf("%s: %+v", name, run.Claims[0])
		}
	}
}

// One comparison that is too wide has no verdict although others have, and its claim shows no interval.
func TestOneTooWide(t *testing.T) {
	run := aRoom{[3]float64{1, 0.98, 1.02}, [3]float64{0.9, 0.4, 2.1}, 0.9, 8, true, rundir.NotSettled, rundir.StateOK}.run()
	run.Claims = append(run.Claims, rundir.Claim{ID: "2", Outcome: rundir.Refuted, Measured: new(0.5), Low: new(0.1), High: new(0.9)})
	markTooDisturbed(run)
	leaveRoom(run)
	if v := run.Validity[0]; run.NoRoom != nil || v.State != rundir.StateNotIdentified || !v.TooDisturbed || v.Why == nil || v.Why.Kind != rundir.TooDisturbed {
		t.Errorf("%v: %+v", run.NoRoom, v)
	}
	if c := run.Claims[0]; c.Low != nil || c.High != nil || c.Detail == nil || c.Detail.Kind != rundir.TooDisturbed {
		t.Errorf("%+v", c)
	}
	if c := run.Claims[1]; c.Outcome != rundir.Refuted || c.Low == nil {
		t.Errorf("what is decided stays: %+v", c)
	}
}

// An interval inside another one that says something says something.
func TestTooWideIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.Float64Range(1e-6, 1e6).Draw(t, "low")
		high := low * rapid.Float64Range(1, 5).Draw(t, "factor")
		inner := low + (high-low)*rapid.Float64Range(0, 1).Draw(t, "part")
		if tooWide(&inner, &high) && !tooWide(&low, &high) || tooWide(&low, &inner) && !tooWide(&low, &high) {
			t.Fatal(low, inner, high)
		}
		if !tooWide(&low, nil) || !tooWide(nil, &high) || tooWide(&low, &low) || tooWide(nil, nil) {
			t.Fatal("open ends are wide, and a single value is not")
		}
	})
}
