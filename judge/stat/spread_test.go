package stat

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// The variance of logarithms from tables of χ²: with 4 degrees of freedom its quantiles are
// 0.484419 (2.5 %) and 11.143287 (97.5 %), with 1 they are 0.000982069 and 5.023886.
func TestCoefficientOfVariationByHand(t *testing.T) {
	of := func(variance float64) float64 { return math.Sqrt(math.Exp(variance) - 1) }
	for _, c := range []struct {
		logs      []float64
		variance  float64
		low, high float64 // quantiles of χ²
	}{
		{[]float64{-0.2, -0.1, 0, 0.1, 0.2}, 0.1 / 4, 11.143287, 0.484419},
		{[]float64{3, 3.02}, 0.0002, 5.023886, 0.000982069},
	} {
		var values []float64
		for _, l := range c.logs {
			values = append(values, math.Exp(l))
		}
		got, err := CoefficientOfVariation(values, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		squares := c.variance * float64(len(values)-1)
		want := Variation{len(values), of(c.variance), Interval{of(squares / c.low), of(squares / c.high)}}
		for _, x := range [][2]float64{{got.Estimate, want.Estimate}, {got.Interval.Low, want.Interval.Low}, {got.Interval.High, want.Interval.High}} {
			if math.Abs(x[0]/x[1]-1) > 1e-5 || got.N != want.N {
				t.Errorf("%v: got %+v, want %+v", c.logs, got, want)
			}
		}
	}
}

// Of many samples of a log-normal distribution, 95 % of the intervals hold its coefficient.
func TestCoefficientOfVariationCovers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const sigma, samples = 0.12, 2000
	held := 0
	for range samples {
		values := make([]float64, 6)
		for i := range values {
			values[i] = 40_000 * math.Exp(sigma*r.NormFloat64())
		}
		got, err := CoefficientOfVariation(values, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		if got.Interval.Contains(math.Sqrt(math.Expm1(sigma * sigma))) {
			held++
		}
	}
	if share := float64(held) / samples; share < 0.935 || share > 0.965 {
		t.Errorf("%.3f of the intervals hold the truth, want 0.95", share)
	}
}

// The unit does not matter, nor does the order, and the estimate is within its interval.
func TestCoefficientOfVariationIsInvariant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(1, 1e6), 2, 12).Draw(t, "values")
		scale := rapid.Float64Range(1e-6, 1e6).Draw(t, "scale")
		got, err := CoefficientOfVariation(values, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		var scaled []float64
		for i := range values {
			scaled = append(scaled, scale*values[len(values)-1-i])
		}
		other, err := CoefficientOfVariation(scaled, 0.95)
		if err != nil || math.Abs(other.Estimate-got.Estimate) > 1e-6*(1+got.Estimate) {
			t.Errorf("scaled by %v: %+v, %v; want %+v", scale, other, err, got)
		}
		if !got.Interval.Contains(got.Estimate) {
			t.Errorf("%v is outside of its interval %v", got.Estimate, got.Interval)
		}
	})
}

func TestCoefficientOfVariationUnfit(t *testing.T) {
	for _, c := range []struct {
		values     []float64
		confidence float64
	}{
		{nil, 0.95}, {[]float64{1}, 0.95}, {[]float64{1, 0}, 0.95}, {[]float64{1, -1}, 0.95}, {[]float64{1, math.NaN()}, 0.95}, {[]float64{1, 2}, 1},
	} {
		if got, err := CoefficientOfVariation(c.values, c.confidence); err == nil {
			t.Errorf("%v at %v: %+v, want an error", c.values, c.confidence, got)
		}
	}
	if got, err := CoefficientOfVariation([]float64{7, 7, 7}, 0.95); err != nil || got.Estimate != 0 || got.Interval != (Interval{}) {
		t.Errorf("equal values: %+v, %v; want no variation", got, err)
	}
}
