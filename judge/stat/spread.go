package stat

import (
	"fmt"
	"math"

	gonum "gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// A Variation is how much values vary around their mean, as a share of it.
type Variation struct {
	N        int     // values
	Estimate float64 // the coefficient of variation
	Interval Interval
}

// CoefficientOfVariation returns the standard deviation of values over their mean, with an interval. It
// takes the values to be log-normal and independent. With s, the standard deviation of their
// logarithms, the coefficient is √(exp(s²) − 1); for a small spread this is s. The interval is exact
// under that assumption: it is the interval of the logarithms' variance. That is (n − 1)·s² over the
// quantiles of χ² with n − 1 degrees of freedom. Unlike the interval of a mean, it does not become
// right with many values if their tails are heavier: it is then too narrow (Box: Non-normality and
// tests on variances, 1953).
//
// It needs two values, all above zero. Values that are all equal vary by nothing.
func CoefficientOfVariation(values []float64, confidence float64) (Variation, error) {
	if err := checkValues(values, 2); err != nil {
		return Variation{}, err
	}
	logs := make([]float64, len(values))
	for i, v := range values {
		if v <= 0 {
			return Variation{}, fmt.Errorf("value %d is %v: want values above zero", i, v)
		}
		logs[i] = math.Log(v)
	}
	free := float64(len(values) - 1)
	squares := free * gonum.Variance(logs, nil)
	of := func(variance float64) float64 { return math.Sqrt(math.Expm1(variance)) }
	chi := distuv.ChiSquared{K: free}
	return Variation{
		N:        len(values),
		Estimate: of(squares / free),
		Interval: Interval{of(squares / chi.Quantile((1+confidence)/2)), of(squares / chi.Quantile((1-confidence)/2))},
	}, nil
}
