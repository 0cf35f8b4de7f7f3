package stat

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestQuantileIntervalAgainstSciPy(t *testing.T) {
	for i, c := range readFixture[struct {
		X                             []float64
		Q, Confidence                 float64
		Estimate, Low, High, Coverage decimal
		LowRank, HighRank             int
	}](t, "quantile") {
		before := slices.Clone(c.X)
		e, err := QuantileInterval(c.X, c.Q, c.Confidence)
		if err != nil {
			t.Errorf("case %d: %v", i, err)
			continue
		}
		expect(t, i, "estimate", e.Estimate, c.Estimate)
		expect(t, i, "low", e.Interval.Low, c.Low)
		expect(t, i, "high", e.Interval.High, c.High)
		expect(t, i, "coverage", e.Coverage, c.Coverage)
		if r, err := QuantileRanks(len(c.X), c.Q, c.Confidence); err != nil || r.Low != c.LowRank || r.High != c.HighRank {
			t.Errorf("case %d: %+v, %v, want %d and %d", i, r, err, c.LowRank, c.HighRank)
		}
		if !slices.Equal(c.X, before) {
			t.Errorf("case %d: the caller's values are now %v", i, c.X)
		}
	}
}

// The ranks miss neither side by more than their share, and one further in would.
func TestQuantileRanksAreTight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "n")
		q := rapid.Float64Range(0.01, 0.99).Draw(t, "q")
		confidence := rapid.Float64Range(0.5, 0.999).Draw(t, "confidence")
		r, err := QuantileRanks(n, q, confidence)
		if err != nil {
			t.Fatal(err)
		}
		// P(K < k), term by term.
		under := func(k int) float64 {
			sum, term := 0.0, math.Pow(1-q, float64(n))
			for i := range k {
				sum += term
				term *= float64(n-i) / float64(i+1) * q / (1 - q)
			}
			return sum
		}
		tail := (1 - confidence) / 2
		switch {
		case r.Low < 0 || r.High > n+1 || r.Low >= r.High:
			t.Errorf("%+v of %d", r, n)
		case under(r.Low) > tail+1e-9 || under(r.Low+1) < tail-1e-9:
			t.Errorf("%+v: lower side missed with %v, %v one further in", r, under(r.Low), under(r.Low+1))
		case 1-under(r.High) > tail+1e-9 || 1-under(r.High-1) < tail-1e-9:
			t.Errorf("%+v: upper side missed with %v, %v one further in", r, 1-under(r.High), 1-under(r.High-1))
		case math.Abs(r.Coverage-(under(r.High)-under(r.Low))) > 1e-9:
			t.Errorf("%+v, want coverage %v", r, under(r.High)-under(r.Low))
		}
		mirror, err := QuantileRanks(n, 1-q, confidence)
		if tie := math.Abs(under(r.Low+1)-tail) < 1e-9 || math.Abs(1-under(r.High-1)-tail) < 1e-9; err != nil || !tie && (mirror.Low != n+1-r.High || mirror.High != n+1-r.Low) {
			t.Errorf("%+v, mirrored %+v, %v", r, mirror, err)
		}
	})
}

// How many requests a window needs for its tail (method: about 38,000 for a p99
// to ±10 % of the tail mass, 384,000 for p99.9).
func TestQuantileRanksOfLargeSamples(t *testing.T) {
	for n, q := range map[int]float64{38_000: 0.99, 384_000: 0.999} {
		r, err := QuantileRanks(n, q, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		mass := float64(n) * (1 - q)
		for _, beyond := range []float64{float64(n - r.Low), float64(n - r.High)} {
			if off := math.Abs(beyond/mass - 1); off < 0.095 || off > 0.105 {
				t.Errorf("%d values, quantile %v: %v beyond, %v away from %v", n, q, beyond, off, mass)
			}
		}
	}
}

func TestQuantileRanksUnfit(t *testing.T) {
	_, err := QuantileRanks(0, 0.5, 0.95)
	expectError(t, err, "0, want 1 to")
	for _, q := range []float64{0, 1, -1, math.NaN(), math.Inf(1)} {
		_, err := QuantileRanks(10, q, 0.95)
		expectError(t, err, "quantile")
		_, err = QuantileInterval([]float64{1, 2}, q, 0.95)
		expectError(t, err, "quantile")
	}
}
