package stat

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// The distribution equals the sum of its terms.
func TestAtMostIsTheSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 400).Draw(t, "n")
		k := rapid.IntRange(-1, n).Draw(t, "k")
		p := rapid.Float64Range(0.0001, 0.9999).Draw(t, "p")
		sum := 0.0
		for i := 0; i <= k; i++ {
			all, _ := math.Lgamma(float64(n + 1))
			hit, _ := math.Lgamma(float64(i + 1))
			miss, _ := math.Lgamma(float64(n - i + 1))
			sum += math.Exp(all - hit - miss + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
		}
		if got := AtMost(float64(k), float64(n), p); math.Abs(got-sum) > 1e-9 {
			t.Errorf("at most %d of %d at %v: %v, want %v", k, n, p, got, sum)
		}
		if got := AtLeast(float64(k+1), float64(n), p); math.Abs(got-(1-sum)) > 1e-9 {
			t.Errorf("at least %d: %v, want %v", k+1, got, 1-sum)
		}
	})
}

// At its ends, what was seen has just the chance of an error.
func TestShareIntervalEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := float64(rapid.IntRange(1, 100_000).Draw(t, "n"))
		k := math.Floor(n * rapid.Float64Range(0, 1).Draw(t, "share"))
		i := ShareInterval(k, n, 0.05)
		if !i.Contains(k / n) {
			t.Errorf("%v of %v: %+v", k, n, i)
		}
		if got := AtMost(k, n, i.High); k < n && math.Abs(got-0.05) > 1e-6 {
			t.Errorf("%v of %v: at the high end %v it has the chance %v", k, n, i.High, got)
		}
		if got := AtLeast(k, n, i.Low); k > 0 && math.Abs(got-0.05) > 1e-6 {
			t.Errorf("%v of %v: at the low end %v it has the chance %v", k, n, i.Low, got)
		}
	})
}

func TestSettling(t *testing.T) {
	for _, c := range []struct {
		share, p float64
		want     int64
	}{
		{0, 0.01, 299}, {0, 0.05, 59}, {0, 0.5, 5}, {0, 0.001, 2995}, {1, 0.5, 5}, {1, 0.01, 1},
		{0.01, 0.01, 0}, {4. / 40, 1 - 0.9, 0}, {0.5, 0, 0}, {0.5, 1, 0},
	} {
		if got := Settling(c.share, c.p, 0.05); got != c.want {
			t.Errorf("%v against %v: %d, want %d", c.share, c.p, got, c.want)
		}
	}
}

// Trials that differ say less than as many independent requests, and never more. Trials that are alike, and a single one,
// count whole.
func TestEffectiveSize(t *testing.T) {
	for _, c := range []struct {
		parts, wholes []float64
		least, most   float64
	}{
		{[]float64{3}, []float64{100}, 100, 100},
		{[]float64{10, 100}, []float64{100, 1000}, 1100, 1100},
		{[]float64{0, 0, 0}, []float64{100, 100, 100}, 300, 300},
		{[]float64{0, 0, 40}, []float64{1000, 1000, 1000}, 10, 30}, // three trials; one has all
		{[]float64{0, 40}, []float64{1000, 1000}, 0.1, 3},
	} {
		if got := EffectiveSize(c.parts, c.wholes, 0.025); got < c.least-1e-9 || got > c.most+1e-9 {
			t.Errorf("%v of %v: %v", c.parts, c.wholes, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		var parts, wholes []float64
		all := 0.0
		for range rapid.IntRange(1, 9).Draw(t, "trials") {
			whole := rapid.IntRange(1, 1_000_000).Draw(t, "whole")
			parts, wholes = append(parts, float64(rapid.IntRange(0, whole).Draw(t, "part"))), append(wholes, float64(whole))
			all += float64(whole)
		}
		if got := EffectiveSize(parts, wholes, 0.05); !(got > 0 && got <= all) {
			t.Errorf("%v of %v: %v", parts, wholes, got)
		}
	})
}
