package stat

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestCleanLevels(t *testing.T) {
	for _, c := range []struct{ q, f, low, high float64 }{
		{0.99, 0, 0.99, 0.99},
		{0.99, 0.005, 0.98995, 0.99497}, // p99 lies between the clean p98.99 and p99.50
		{0.95, 0.01, 0.94949, 0.95960},
		{0.99, 0.01, 0.98990, 1},
		{0.99, 0.02, 0.98980, 1.01020}, // open above
		{0.5, 0.5, 0, 1},
		{0.5, 1, 0, 2},
		{0.5, math.NaN(), 0, 2},
		{0.5, -0.1, 0.5, 0.5},
	} {
		if low, high := CleanLevels(c.q, c.f); math.Abs(low-c.low) > 1e-5 || math.Abs(high-c.high) > 1e-5 {
			t.Errorf("q %v, f %v: %v … %v; want %v … %v", c.q, c.f, low, high, c.low, c.high)
		}
	}
}

// Whatever the disturbed values are, the quantile of all lies between the two.
func TestCleanLevelsHold(t *testing.T) {
	at := func(sorted []float64, level float64) float64 {
		return sorted[min(max(int(math.Ceil(level*float64(len(sorted)))), 1), len(sorted))-1]
	}
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		n := rapid.IntRange(20, 400).Draw(t, "values")
		bad := rapid.IntRange(0, n/2).Draw(t, "disturbed")
		q := rapid.Float64Range(0.02, 0.98).Draw(t, "q")
		shift := rapid.Float64Range(-3, 3).Draw(t, "shift")
		clean, all := make([]float64, 0, n), make([]float64, 0, n)
		for i := range n {
			v := rng.NormFloat64()
			if i >= bad {
				clean = append(clean, v)
			} else {
				v += shift
			}
			all = append(all, v)
		}
		slices.Sort(clean)
		slices.Sort(all)
		low, high := CleanLevels(q, float64(bad)/float64(n))
		got, half := at(all, q), 1e-9 // levels are computed, ranks are whole
		if low > 0 && got < at(clean, low-half) {
			t.Fatalf("quantile %v is below %v", got, at(clean, low-half))
		}
		if high <= 1 && got > at(clean, min(high+half+1/float64(len(clean)), 1)) {
			t.Fatalf("quantile %v is above %v", got, at(clean, high+half))
		}
	})
}
