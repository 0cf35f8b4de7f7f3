package stat

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// A ShapeTest is the outcome of a test of fit.
type ShapeTest struct {
	// Statistic is the modified statistic, comparable with published tables.
	Statistic float64
	// P is the p-value: how often gaps that have the shape fit as badly.
	P float64
}

// ExponentialGaps tests whether gaps between arrivals, in any unit, are
// exponential with a rate estimated from them, as those of a Poisson process are:
// the Anderson-Darling statistic, which heeds the tails, modified for the number
// of gaps as A²(1 + 0.6/n). At least five gaps, all above 0: give gaps that the
// clock rounded to 0 half a tick. It fails with ErrConstant when all are equal.
//
// Only the shape is tested, not the order: gaps that depend on each other pass (see
// MeasureDependence). With very many gaps even the rounding of the clock shows.
//
// P is Stephens' approximation, good to about a tenth of itself from 0.96 down to
// 0.0025 and continued beyond by the tail of the limiting distribution.
//
// Stephens in D'Agostino and Stephens, Goodness-of-Fit Techniques (1986), chapter 4:
// exponential distribution, origin known, scale unknown.
func ExponentialGaps(gaps []float64) (ShapeTest, error) {
	if err := checkSeries("exponential gaps", gaps, 5); err != nil {
		return ShapeTest{}, err
	}
	for i, g := range gaps {
		if g <= 0 {
			return ShapeTest{}, fmt.Errorf("exponential gaps: value %d is %v: want above 0", i, g)
		}
	}
	sorted := slices.Sorted(slices.Values(gaps))
	if sorted[0] == sorted[len(sorted)-1] {
		return ShapeTest{}, fmt.Errorf("exponential gaps: %w", ErrConstant)
	}
	mean := meanOf(sorted)
	n := float64(len(sorted))
	sum := 0.0
	for i, g := range sorted {
		below := math.Log(-math.Expm1(-g / mean))   // ln F of the i-th smallest
		above := -sorted[len(sorted)-1-i] / mean    // ln(1 − F) of the i-th largest
		sum += float64(2*i+1) / n * (below + above) // small terms, so that n may be large
	}
	a := (-n - sum) * (1 + 0.6/n)
	if math.IsNaN(a) || math.IsInf(a, 0) {
		return ShapeTest{}, errors.New("exponential gaps: they span more than a float64 holds")
	}
	return ShapeTest{Statistic: a, P: exponentialP(a)}, nil
}

// exponentialP returns the p-value of a modified statistic.
func exponentialP(a float64) float64 {
	const (
		tabled = 2.534  // the largest critical value, at 0.0025
		lambda = 0.2313 // the largest weight of the limiting sum of χ², each of one degree
	)
	switch {
	case a <= 0.282:
		return 1 - math.Exp(-12.2204+67.459*a-110.3*a*a)
	case a <= 0.505:
		return 1 - math.Exp(-6.1327+20.218*a-18.663*a*a)
	case a <= 0.950:
		return math.Exp(0.9209 - 3.353*a + 0.300*a*a)
	case a <= tabled:
		return math.Exp(0.731 - 3.009*a + 0.15*a*a)
	}
	// The parabola would turn up. Far out the sum is ruled by its largest weight
	// (Zolotarev 1961), so the curve goes on as χ² with that weight does.
	tail := func(a float64) float64 { return math.Erfc(math.Sqrt(a / (2 * lambda))) }
	return exponentialP(tabled) * tail(a) / tail(tabled)
}
