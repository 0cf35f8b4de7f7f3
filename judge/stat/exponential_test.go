package stat

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// exponentialGaps returns n gaps of mean 1.
func exponentialGaps(seed uint64, n int) []float64 {
	rng := newRNG(seed)
	xs := make([]float64, n)
	for i := range xs {
		xs[i] = rng.ExpFloat64()
	}
	return xs
}

func TestExponentialFixtures(t *testing.T) {
	for _, c := range readSeries[struct {
		Name      string
		Values    []float64
		Statistic float64
		PLimit    float64 `json:"p_limit"`
	}](t, "exponential.json") {
		t.Run(c.Name, func(t *testing.T) {
			before := slices.Clone(c.Values)
			test, err := ExponentialGaps(c.Values)
			if err != nil {
				t.Fatal(err)
			}
			near(t, "statistic", test.Statistic, c.Statistic, 1e-9)
			if c.PLimit > 1e-3 {
				near(t, "p", test.P, c.PLimit, 0.1)
			} else if c.PLimit > 1e-9 { // the integral has no more digits
				if ratio := test.P / c.PLimit; ratio < 0.8 || ratio > 1.3 {
					t.Errorf("p %v, in the limit %v", test.P, c.PLimit)
				}
			} else if test.P > 1e-9 {
				t.Errorf("p %v", test.P)
			}
			if !slices.Equal(before, c.Values) {
				t.Error("the caller's values have changed")
			}
		})
	}
}

// Stephens' critical values.
func TestExponentialTable(t *testing.T) {
	for p, a := range map[float64]float64{0.25: 0.736, 0.20: 0.816, 0.15: 0.916, 0.10: 1.062, 0.05: 1.321, 0.025: 1.591, 0.01: 1.959, 0.005: 2.244} {
		near(t, "p", exponentialP(a), p, 0.04)
	}
	last := 1.0
	for a := 0.0; a < 100; a += 0.01 {
		p := exponentialP(a)
		if !(p >= 0 && p <= last) {
			t.Fatalf("p %v at %v after %v", p, a, last)
		}
		last = p
	}
}

func TestExponentialSize(t *testing.T) {
	for _, n := range []int{5, 20, 500} {
		positive := 0
		const repeats = 2000
		for seed := range uint64(repeats) {
			test, err := ExponentialGaps(exponentialGaps(seed, n))
			if err != nil {
				t.Fatal(err)
			}
			if test.P <= 0.05 {
				positive++
			}
		}
		if share := float64(positive) / repeats; share < 0.035 || share > 0.065 {
			t.Errorf("%d gaps: %v positive", n, share)
		}
	}
}

// Constant arrivals with a little jitter are what a broken Poisson schedule is.
func TestExponentialFindsConstantArrivals(t *testing.T) {
	for seed := range uint64(50) {
		gaps := affine(gaussian(seed, 100), 0.05, 1)
		if test, err := ExponentialGaps(gaps); err != nil || test.P > 1e-6 {
			t.Errorf("%+v, %v", test, err)
		}
	}
}

func TestExponentialInOtherUnits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gaps := rapid.SliceOfNDistinct(rapid.IntRange(1, 1_000_000), 5, 50, rapid.ID).Draw(t, "gaps")
		xs := make([]float64, len(gaps))
		for i, g := range gaps {
			xs[i] = float64(g)
		}
		scale := rapid.Float64Range(1e-9, 1e9).Draw(t, "scale")
		a, errA := ExponentialGaps(xs)
		ys := affine(xs, scale, 0)
		slices.Reverse(ys)
		b, errB := ExponentialGaps(ys)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if math.Abs(a.Statistic-b.Statistic) > 1e-9*(1+a.Statistic) || a.P < 0 || a.P > 1 {
			t.Fatalf("%+v, in other units and backwards %+v", a, b)
		}
	})
}

func TestExponentialRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		gaps []float64
		want string
	}{
		"none":     {nil, "too few values: 0, want at least 5"},
		"nan":      {[]float64{1, 2, 3, math.NaN(), 5}, "value 3 is NaN"},
		"zero":     {[]float64{1, 2, 3, 4, 0}, "value 4 is 0: want above 0"},
		"negative": {[]float64{1, -2, 3, 4, 5}, "value 1 is -2"},
		"constant": {[]float64{2, 2, 2, 2, 2}, ErrConstant.Error()},
		"span":     {[]float64{5e-324, 1e150, 1e150, 1e150, 1e150}, "span"},
	} {
		if _, err := ExponentialGaps(c.gaps); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
