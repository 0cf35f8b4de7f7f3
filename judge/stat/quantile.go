package stat

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/stat/distuv"
)

// Ranks are the order statistics that bound a quantile, counted from 1, the
// smallest. Low 0 and High n+1 mean that the sample does not bound it there.
type Ranks struct {
	Low, High int
	Coverage  float64 // the chance that the quantile lies between: at least what was asked for
}

// QuantileRanks returns between which of n independent values the q-quantile of
// their distribution lies, 0 < q < 1. How many of them lie below it is binomial,
// whatever the distribution, and either side is missed with half of what the
// confidence leaves (David, Nagaraja: Order statistics, 7.1). The values
// themselves are not needed: a histogram can be asked for those ranks.
//
// Values that depend on each other, as latencies in one window do, are worth
// fewer than there are: give their effective number.
func QuantileRanks(n int, q, confidence float64) (Ranks, error) {
	if err := checkConfidence(confidence); err != nil {
		return Ranks{}, err
	}
	if n < 1 || int64(n) > 1<<53 {
		return Ranks{}, fmt.Errorf("%w: %d, want 1 to 2⁵³", ErrTooFew, n)
	}
	if !(q > 0 && q < 1) {
		return Ranks{}, fmt.Errorf("quantile %v: want more than 0 and less than 1", q)
	}
	below := distuv.Binomial{N: float64(n), P: q}
	tail := (1 - confidence) / 2
	atMost := func(k int) float64 { return below.CDF(float64(k)) }        // P(K ≤ k)
	moreThan := func(k int) float64 { return below.Survival(float64(k)) } // P(K > k)
	// The quantile lies under value Low when fewer than Low values lie below it.
	low := sort.Search(n, func(k int) bool { return atMost(k) > tail })
	high := 1 + sort.Search(n, func(k int) bool { return moreThan(k) <= tail })
	missed := moreThan(high - 1)
	if low > 0 {
		missed += atMost(low - 1)
	}
	return Ranks{Low: low, High: high, Coverage: 1 - missed}, nil
}

// A QuantileEstimate is a quantile of a sample with its interval.
type QuantileEstimate struct {
	Estimate float64  // in the unit of the values
	Interval Interval // its ends are infinite if so few values cannot bound them
	Coverage float64  // the chance that the interval holds the true value: at least what was asked for
}

// QuantileInterval estimates the q-quantile, 0 < q < 1, of what independent
// values are drawn from; 0.5 is the median. The interval reaches from one of the
// values to another and assumes nothing about their distribution. See
// QuantileRanks.
func QuantileInterval(values []float64, q, confidence float64) (QuantileEstimate, error) {
	r, err := QuantileRanks(len(values), q, confidence)
	if err = errors.Join(checkValues(values, 1), err); err != nil {
		return QuantileEstimate{}, err
	}
	sorted := slices.Sorted(slices.Values(values))
	e := QuantileEstimate{Estimate: interpolate(sorted, q), Interval: Interval{math.Inf(-1), math.Inf(1)}, Coverage: r.Coverage}
	if r.Low > 0 {
		e.Interval.Low = sorted[r.Low-1]
	}
	if r.High <= len(sorted) {
		e.Interval.High = sorted[r.High-1]
	}
	return e, nil
}
