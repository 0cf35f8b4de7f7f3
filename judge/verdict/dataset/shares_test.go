package dataset

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"dyno/results/rundir"
)

// failing makes trials from pairs: the requests that failed, and those that were due.
func failing(pairs ...int64) (trials []*Stats, whole *Stats) {
	var all []*rundir.Trial
	for i := 0; i < len(pairs); i += 2 {
		x := &rundir.Trial{Counts: rundir.Counts{Scheduled: pairs[i+1], Errors: pairs[i]}}
		trials, all = append(trials, ofTrial(x, nil)), append(all, x)
	}
	return trials, summarize("v", all, nil)
}

func shareOf(t interface{ Fatal(...any) }, pairs ...int64) rundir.Estimate {
	trials, whole := failing(pairs...)
	m, ok := Lookup("errors.ratio")
	if !ok {
		t.Fatal("there is no errors.ratio")
	}
	share := float64(whole.Counts.Unanswered()) / float64(whole.Counts.Due())
	e := rundir.Estimate{Estimate: &share}
	if err := byShares(&e, m, trials); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestSharesOnLogits(t *testing.T) {
	for _, c := range []struct {
		name      string
		pairs     []int64
		low, high float64 // the logit ones by hand, with t(0.975, 2) = 4.302653
		method    string
	}{
		// binom.test of R, and binomtest of SciPy.
		{"none of 10", []int64{0, 5, 0, 5}, 0, 0.3084971, rundir.ByClopperPearson},
		{"none of 100", []int64{0, 50, 0, 50}, 0, 0.03621669, rundir.ByClopperPearson},
		{"none of 3000", []int64{0, 1000, 0, 1000, 0, 1000}, 0, 0.001228871, rundir.ByClopperPearson},
		{"all of 1000", []int64{500, 500, 500, 500}, 0.9963179, 1, rundir.ByClopperPearson},
		// p = 0.002, s.e. = 0.001/√3: half = 4.302653 × 5.7735e-4 / (0.002 × 0.998) = 1.244568.
		{"few, unlike", []int64{1, 1000, 2, 1000, 3, 1000}, 5.7698e-4, 6.9080e-3, rundir.ByStudentLogit},
	} {
		e := shareOf(t, c.pairs...)
		if e.Interval != c.method || math.Abs(*e.Low-c.low) > 1e-6 || math.Abs(*e.High-c.high) > 1e-6 {
			t.Errorf("%s: %.6g … %.6g by %s, want %.6g … %.6g by %s", c.name, *e.Low, *e.High, e.Interval, c.low, c.high, c.method)
		}
	}
}

// The interval of a share holds it, and lies between 0 and 1 whatever the trials are.
func TestSharesStayShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var pairs []int64
		for range rapid.IntRange(2, 12).Draw(t, "trials") {
			due := rapid.Int64Range(1, 100_000).Draw(t, "due")
			pairs = append(pairs, rapid.Int64Range(0, due).Draw(t, "failed"), due)
		}
		e := shareOf(t, pairs...)
		if !(*e.Low >= 0 && *e.Low <= *e.Estimate && *e.Estimate <= *e.High && *e.High <= 1) {
			t.Fatalf("%v: %v … %v about %v", pairs, *e.Low, *e.High, *e.Estimate)
		}
	})
}
