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
	"dyno/results/rundir"
)

// A variant that lost every round is worse, and one that lost some is never equivalent. No
// figure is left that JSON has no number for.
func TestLostRounds(t *testing.T) {
	for _, c := range []struct {
		name     string
		rounds   int
		lost     func(round int, variant string) bool
		verdict  string // of the throughput of b; none: there is no ratio
		estimate float64
		low      float64
		reasons  int
	}{
		{"none", 8, func(int, string) bool { return false }, rundir.Equivalent, 1, 0.99, 0},
		{"all of eight", 8, func(_ int, v string) bool { return v == "b" }, rundir.Worse, 0, 0, 1},
		{"all of three", 3, func(_ int, v string) bool { return v == "b" }, rundir.Worse, 0, 0, 1},
		{"the only one", 1, func(_ int, v string) bool { return v == "b" }, rundir.Worse, 0, 0, 1},
		{"one of eight", 8, func(r int, v string) bool { return v == "b" && r == 3 }, rundir.Inconclusive, 1, 0, 1},
		{"seven of eight", 8, func(r int, v string) bool { return v == "b" && r != 3 }, rundir.Worse, 0, 0, 1},
		{"both in one", 8, func(r int, _ string) bool { return r == 3 }, rundir.Equivalent, 1, 0.98, 0},
		{"the base in one", 8, func(r int, v string) bool { return v == "a" && r == 3 }, rundir.Inconclusive, 1, 0.98, 0},
		{"the base in all", 8, func(_ int, v string) bool { return v == "a" }, "", 0, 0, 0},
	} {
		b := newBench(c.rounds, "a", "b")
		for round := 1; round <= c.rounds; round++ {
			for i, v := range []string{"a", "b"} {
				x := b.measure(round, v, 1000+float64((round*7+i*3)%5))
				b.record(latencies(rand.New(rand.NewPCG(uint64(round), uint64(i))), 2000, 2e6)...)
				if c.lost(round, v) {
					x.Counts = rundir.Counts{Scheduled: 10, Sent: 10, Unfinished: 10}
					*x.Throughput = 0
					b.logs[x.Number] = nil
				}
			}
		}
		run := b.judge(t)
		if _, err := json.Marshal(run); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := len(LostRounds(run)); got != c.reasons {
			t.Errorf("%s: reasons %q", c.name, LostRounds(run))
		}
		at := slices.IndexFunc(run.Comparisons, func(x rundir.Comparison) bool { return x.Metric == rundir.MetricThroughput })
		if at < 0 {
			if c.verdict != "" || len(run.Notes) == 0 {
				t.Errorf("%s: no comparison, notes %q", c.name, run.Notes)
			}
			continue
		}
		x := run.Comparisons[at]
		if x.Verdict != c.verdict || math.Abs(*x.Ratio.Estimate-c.estimate) > 0.01 || x.Ratio.Low == nil || math.Abs(*x.Ratio.Low-c.low) > 0.02 {
			t.Errorf("%s: %s, %v from %v (%s); want %s, %v from %v", c.name, x.Verdict, *x.Ratio.Estimate, *x.Ratio.Low, x.Ratio.Interval, c.verdict, c.estimate, c.low)
		}
		if worse := len(Regressions(run)) > 0; worse != (c.verdict == rundir.Worse) {
			t.Errorf("%s: regressions %+v", c.name, Regressions(run))
		}
		// Of times, a lost round is one as long as the window.
		if c.name == "all of eight" {
			p99 := comparison(t, run, "b", "a", "service.p99")
			if p99.Verdict != rundir.Worse || *p99.Ratio.Estimate < 4/0.1 || p99.Ratio.High != nil {
				t.Errorf("%s: p99 %+v", c.name, p99)
			}
		}
	}
}

// A trial whose agent was lost counts neither for its target nor against it. Its round is measured again. The missing
// load is the generator's fault.
func TestVoidTrials(t *testing.T) {
	b := newBench(1, "a", "b")
	for attempt, throughput := range []float64{9000, 1000} {
		for i, v := range []string{"a", "b"} {
			x := b.measure(1, v, throughput)
			b.record(latencies(rand.New(rand.NewPCG(1, uint64(i))), 2000, 2e6)...)
			if attempt == 0 && v == "b" {
				x.Complete, x.Fault, x.Error, x.Throughput, x.Counts = false, rundir.FaultAgent, "trial 2, variant b: agent c is gone", nil, rundir.Counts{}
				delete(b.logs, x.Number)
			}
		}
	}
	run := b.judge(t)
	for _, v := range run.Variants {
		if v.Trials != 1 || *v.Known("throughput") != 1000 {
			t.Errorf("%s: %d trials, %v", v.Name, v.Trials, *v.Known("throughput"))
		}
	}
	if run.Rounds != 1 || len(run.Trials) != 4 || len(LostRounds(run)) > 0 || strings.Contains(kinds(run.Flags), checks.FlagIncomplete) {
		t.Errorf("%d rounds, %d trials, lost %q, flags %s", run.Rounds, len(run.Trials), LostRounds(run), kinds(run.Flags))
	}
	void := run.Trials[1]
	at := slices.IndexFunc(void.Checks, func(c rundir.Check) bool { return c.Kind == checks.FlagIncomplete })
	if !void.Replaced || void.Lost || at < 0 || void.Checks[at].About != rundir.AboutGenerator || void.Checks[at].Detail.Values["error"] != "agent c is gone" {
		t.Errorf("%+v", void)
	}
}

// Responses that are larger than the generator takes make the run invalid, without a fault of
// the target.
func TestRunWithResponsesTooLarge(t *testing.T) {
	b := newBench(1, "a")
	x := b.measure(1, "a", 0)
	x.Counts = rundir.Counts{Scheduled: 20, Sent: 20, Errors: 20, ByKind: map[string]int64{"limit": 20}}
	x.Failures = map[string]int64{"limit: message of 5000000 bytes": 20}
	b.record(time.Millisecond)
	if run := b.judge(t); run.Valid || !strings.Contains(run.Reason.English(), "message of 5000000 bytes") || len(Breaking(run)) > 0 {
		t.Errorf("valid %v, %q, %v", run.Valid, run.Reason, Breaking(run))
	}
}
