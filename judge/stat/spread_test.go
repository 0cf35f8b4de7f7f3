package stat

import (
	"math"
	"testing"
)

// The variance of logarithms from tables of χ²: with 4 degrees of freedom its quantiles are 0.484419
// (2.5 %) and 11.143287 (97.5 %). With 1 they are 0.000982069 and 5.023886.
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
