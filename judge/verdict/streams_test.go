package verdict

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"dyno/judge/verdict/checks"
	"dyno/load/hist"
	"dyno/results/rundir"
)

// streaming makes the last trial one with subscribers, to which events took a time.
func (b *bench) streaming(delivered int64, took time.Duration) *rundir.Trial {
	t := &b.trials[len(b.trials)-1]
	t.Streams = &rundir.Streams{Requested: 100, Opened: 100, Peak: 100, Delivered: delivered, AllDelivered: delivered}
	h := hist.New()
	h.RecordN(int64(took), 1000)
	for _, tag := range []string{rundir.TagDelivery, rundir.TagEventGap} {
		b.logs[t.Number] = append(b.logs[t.Number], hist.Interval{Tag: tag, Length: 4 * time.Second, Hist: h})
	}
	return t
}

func streamBench() *bench {
	b := newBench(8, "a", "b")
	b.run.Plan.Metric = ""
	b.run.Plan.Loop = "open"
	for i := range b.run.Plan.Variants {
		v := &b.run.Plan.Variants[i]
		v.Loop, v.Subscribers, v.Rate = "open", 100, new(10.)
	}
	for round := 1; round <= 8; round++ {
		for i, v := range []string{"a", "b"} {
			x := b.measure(round, v, 1000)
			x.Counts = rundir.Counts{Scheduled: 40, Sent: 40, OK: 40, CompletedInWindow: 40}
			x.Observed = map[string]float64{"hub_hits": float64(i + 1)}
			b.streaming(4000, time.Duration(i+1)*time.Millisecond)
		}
	}
	return b
}

// Events are what a load with subscribers is judged by: their delivery is compared,
// and what became of them adds up over trials.
func TestStreams(t *testing.T) {
	b := streamBench()
	b.trials[2].Streams.Lost = 3
	b.trials[4].Streams.Slow = &rundir.SlowStreams{Missing: 7}
	b.run.Plan.Thresholds = []string{"streams.lost == 0", "delivery.p99 < 5ms"}
	b.run.Plan.Claims = []rundir.PlanClaim{
		{ID: "1", Holds: "ratio(b, a, delivery.p50) > 1.5"},
		{ID: "2", Holds: "value(b, observed.hub_hits) == 2"},
	}
	run := b.judge(t)
	c := comparison(t, run, "b", "a", "delivery.p99")
	if !c.Primary || c.Good != "lower" || c.Verdict != rundir.Worse || math.Abs(*c.Ratio.Estimate-2) > 0.01 {
		t.Errorf("%+v", c)
	}
	a := run.Variants[0].Streams
	if a == nil || a.Delivered != 32000 || a.Lost != 3 || a.Requested != 100 || run.Variants[0].Known("delivery.max") == nil || a.Slow == nil || a.Slow.Missing != 7 {
		t.Fatalf("%+v", a)
	}
	for i, want := range []string{rundir.Broken, rundir.Kept, rundir.Kept, rundir.Kept} {
		if got := run.Thresholds[i]; got.Outcome != want {
			t.Errorf("%s of %s: %s, want %s", got.Text, got.Variant, got.Outcome, want)
		}
	}
	for _, c := range run.Claims {
		if c.Outcome != rundir.Holds {
			t.Errorf("claim %s: %s (%s)", c.ID, c.Outcome, c.Detail)
		}
	}
}

// With fewer subscribers than planned each event cost the target less.
func TestSubscribersAreChecked(t *testing.T) {
	for _, c := range []struct {
		peak, closed int64
		outcome      string
	}{{100, 0, rundir.CheckOK}, {99, 0, rundir.CheckBroken}, {99, 1, rundir.CheckOK}} {
		b := streamBench()
		b.trials[0].Streams.Peak, b.trials[0].Streams.Closed = c.peak, c.closed
		run := b.judge(t)
		found := ""
		for _, check := range run.Trials[0].Checks {
			if check.Kind == checks.FlagSubscribers {
				found = check.Outcome
			}
		}
		if found != c.outcome {
			t.Errorf("%d of 100, %d told to stay away: %q, want %q", c.peak, c.closed, found, c.outcome)
		}
	}
}

// Times of delivery between machines are known up to the errors of their clocks, and so is their ratio. How
// long a machine waited between two events, its own clock tells.
func TestDeliveryBetweenMachines(t *testing.T) {
	b := streamBench()
	for _, x := range b.trials {
		x.Streams.DeliveryError = 400e-6
	}
	run := b.judge(t)
	for _, c := range []struct {
		figure, variant, base, state string
		low, high                    float64
	}{
		{"delivery.p50", "a", "", rundir.StateBounded, 0.6e-3, 1.4e-3},
		{"delivery.p50", "b", "", rundir.StateBounded, 1.6e-3, 2.4e-3},
		{"delivery.p50", "b", "a", rundir.StateBounded, 1.6 / 1.4, 2.4 / 0.6},
		{"event_gap.p50", "a", "", rundir.StateOK, 0, 0},
	} {
		at := slices.IndexFunc(run.Validity, func(v rundir.Validity) bool {
			return v.Figure == c.figure && v.Variant == c.variant && v.Base == c.base
		})
		if at < 0 {
			t.Errorf("nothing is said of %s of %s", c.figure, c.variant)
			continue
		}
		v := run.Validity[at]
		near := func(got *float64, want float64) bool { return got != nil && math.Abs(*got-want) <= 0.02*want }
		switch {
		case v.State != c.state, c.state == rundir.StateBounded && (!near(v.Low, c.low) || !near(v.High, c.high) || !slices.Contains(v.Causes, rundir.CauseAgentClocks) || !strings.Contains(v.Why.English(), "may be off by 400 µs together")):
			t.Errorf("%+v", v)
		}
	}
}
