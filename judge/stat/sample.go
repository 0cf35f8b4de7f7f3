package stat

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	gonum "gonum.org/v1/gonum/stat"
)

// ErrTooFew says that more values are needed for an answer.
var ErrTooFew = errors.New("too few values")

// largest is the greatest magnitude of a value: its square can still be summed.
const largest = 1e150

// An Interval reaches from Low to High, both included, in the unit of the estimate. An end that the
// data do not bound is infinite.
type Interval struct{ Low, High float64 }

// Contains tells whether the interval holds x. One with a NaN holds nothing.
func (i Interval) Contains(x float64) bool { return i.Low <= x && x <= i.High }

// Within tells whether the whole interval lies inside another.
func (i Interval) Within(o Interval) bool { return o.Contains(i.Low) && o.Contains(i.High) }

// Ends returns an interval; a nil end is unbounded.
func Ends(low, high *float64) Interval {
	i := Interval{Low: math.Inf(-1), High: math.Inf(1)}
	if low != nil {
		i.Low = *low
	}
	if high != nil {
		i.High = *high
	}
	return i
}

// AllEqual tells whether there is no more than one value.
func AllEqual(values []float64) bool {
	for _, v := range values {
		if v != values[0] {
			return false
		}
	}
	return true
}

// AllPositive tells whether all values have a logarithm.
func AllPositive(values []float64) bool {
	for _, v := range values {
		if !(v > 0) {
			return false
		}
	}
	return true
}

// Typical is the value that represents several trials: their geometric mean, so that the ratio of two
// variants' figures is that of their comparison. If one of them is zero, it is the mean. It returns nil
// if there are none.
func Typical(values []float64) *float64 {
	switch {
	case len(values) == 0:
		return nil
	case AllEqual(values): // exactly, then
		return new(values[0])
	case AllPositive(values):
		return new(math.Exp(Average(Logs(values))))
	}
	return new(Average(values))
}

// Average returns the arithmetic mean of values.
func Average(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// Logs returns the natural logarithms of positive values.
func Logs(values []float64) []float64 {
	l := make([]float64, len(values))
	for i, v := range values {
		l[i] = math.Log(v)
	}
	return l
}

// Median returns the middle of a sample, or the mean of the middle two.
func Median(values []float64) (float64, error) {
	if err := checkValues(values, 1); err != nil {
		return math.NaN(), err
	}
	return medianOf(values), nil
}

// medianOf is the median of values that were checked. It leaves them in their order.
func medianOf(values []float64) float64 { return middle(slices.Sorted(slices.Values(values))) }

// middle returns the median of sorted values.
func middle(sorted []float64) float64 {
	at := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[at]
	}
	return sorted[at-1] + (sorted[at]-sorted[at-1])/2
}

// Correlation is Pearson's of two samples, as far as both reach; 0 if there is none.
func Correlation(a, b []float64) float64 {
	n := min(len(a), len(b))
	if r := gonum.Correlation(a[:n], b[:n], nil); n > 2 && !math.IsNaN(r) {
		return r
	}
	return 0
}

// checkValues refuses what cannot be computed with.
func checkValues(values []float64, least int) error {
	if len(values) < least {
		return fmt.Errorf("%w: %d, want at least %d", ErrTooFew, len(values), least)
	}
	for i, x := range values {
		if !(math.Abs(x) <= largest) { // NaN too
			return fmt.Errorf("value %d is %v: want a number of at most %v in magnitude", i, x, float64(largest))
		}
	}
	return nil
}

// checkMargin refuses a margin that divides nothing from nothing.
func checkMargin(margin float64) error {
	if !(margin > 0 && margin <= 1) {
		return fmt.Errorf("margin %v: want more than 0 and at most 1, such as 0.02 for 2 %%", margin)
	}
	return nil
}

// newRNG returns the source of random numbers of a seed.
func newRNG(seed uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
}
