package validity

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"dyno/load/hist"
)

// A simulated load whose true times are known: some of its requests are delayed, by any time each. Nothing is faster than
// the fastest that was not.
func TestLatencyBoundsHoldTheTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		truly := rapid.SliceOfN(rapid.Int64Range(1e3, 1e9), 1, 200).Draw(t, "truly")
		late := rapid.IntRange(0, len(truly)).Draw(t, "late")
		before, after := hist.New(), hist.New()
		for i, x := range rapid.Permutation(truly).Draw(t, "order") {
			before.Record(x)
			if i < late {
				x += rapid.Int64Range(0, 1e10).Draw(t, "by")
			}
			after.Record(x)
		}
		before.Record(slices.Min(truly))
		after.Record(slices.Min(truly))
		share := float64(late) / float64(before.Count())
		// A bucket is at most 0.2 % wide.
		holds := func(low, truth, high float64) bool { return low <= 1.002*truth && truth <= 1.002*high }
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		if low, truth, high := leastQuantile(after, q, share), leastQuantile(before, q, 0), leastQuantile(after, q, 0); !holds(low, truth, high) {
			t.Errorf("the %v-quantile: %v to %v, truly %v", q, low, high, truth)
		}
		if low, truth, high := leastMean(after, share), before.Mean()/1e9, after.Mean()/1e9; !holds(low, truth, high) {
			t.Errorf("the mean: %v to %v, truly %v", low, high, truth)
		}
	})
}

// A simulated closed loop that truly answers at a rate, and does nothing for some of the time that may have been lost: the
// rest of that time others had a CPU that nobody wanted.
func TestThroughputBoundsHoldTheTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		truth, lost := rapid.Float64Range(1, 1e6).Draw(t, "truth"), rapid.Float64Range(0, 0.99).Draw(t, "lost")
		recorded := truth * (1 - lost*rapid.Float64Range(0, 1).Draw(t, "wanted"))
		if high := mostThroughput(recorded, lost); recorded > truth || high < truth*(1-1e-9) {
			t.Errorf("%v to %v, truly %v", recorded, high, truth)
		}
	})
}

// Simulated answers, some of which are good until they are delayed.
func TestGoodputBoundsHoldTheTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, good := rapid.Float64Range(1, 1e4).Draw(t, "all"), rapid.Float64Range(0, 1).Draw(t, "good")
		delayed := rapid.Float64Range(0, 1).Draw(t, "delayed")
		recorded := max(0, good-delayed*rapid.Float64Range(0, 1).Draw(t, "beyond the goal"))
		if high := mostGoodput(recorded*all, all, delayed); high < good*all*(1-1e-9) || high > all*(1+1e-9) {
			t.Errorf("%v to %v, truly %v", recorded*all, high, good*all)
		}
	})
}

// A simulated target whose account holds some of the time that was stolen from it, and which refilled caches for at most so long.
func TestCPUBoundsHoldTheTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.Float64Range(0, 1)
		truth, foreign, stolen := rapid.Float64Range(1e-7, 1).Draw(t, "truth"), part.Draw(t, "foreign"), rapid.Float64Range(0, 0.9).Draw(t, "stolen")
		own := truth * (1 + refill*foreign*part.Draw(t, "refilled"))
		recorded := own / (1 - stolen*part.Draw(t, "in the account"))
		if low := leastCPU(recorded, stolen, foreign); low > truth*(1+1e-9) || recorded < truth*(1-1e-9) {
			t.Errorf("%v to %v, truly %v", low, recorded, truth)
		}
	})
}

// The more may have been disturbed, the wider the bounds.
func TestBoundsAreMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := hist.New()
		for _, x := range rapid.SliceOfN(rapid.Int64Range(1e3, 1e9), 1, 50).Draw(t, "times") {
			h.Record(x)
		}
		shares := []float64{rapid.Float64Range(0, 0.9).Draw(t, "one"), rapid.Float64Range(0, 0.9).Draw(t, "other")}
		slices.Sort(shares)
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		for name, of := range map[string]func(float64) float64{
			"quantile": func(s float64) float64 { return -leastQuantile(h, q, s) },
			"mean":     func(s float64) float64 { return -leastMean(h, s) }, "throughput": func(s float64) float64 { return mostThroughput(1, s) },
			"stolen": func(s float64) float64 { return -leastCPU(1, s, 0) }, "foreign": func(s float64) float64 { return -leastCPU(1, 0, s) },
		} {
			if less, more := of(shares[0]), of(shares[1]); less > more+1e-9*math.Abs(more) {
				t.Errorf("%s: %v at %v, %v at %v", name, less, shares[0], more, shares[1])
			}
		}
	})
}
