package scrape

import (
	"math"
	"slices"
	"sort"
)

// A Histogram is a cumulative one, as Prometheus has them: for each upper bound, how many
// observations were at most that. The last bound is +Inf.
type Histogram struct {
	Upper  []float64 // bounds, ascending, in the unit of the observations
	Counts []float64 // observations up to that bound, so the last one counts all
	Sum    float64   // of the observations
}

// valid tells whether a histogram is well formed.
func (h Histogram) valid() bool {
	n := len(h.Upper)
	return n > 0 && len(h.Counts) == n && math.IsInf(h.Upper[n-1], 1) &&
		slices.IsSorted(h.Upper) && slices.IsSorted(h.Counts) && h.Counts[0] >= 0
}

// Since returns the observations after an earlier reading of the same histogram. It
// returns false where they are not known: other bounds, or counts that went back, as they
// do when the program has restarted.
func (h Histogram) Since(earlier Histogram) (Histogram, bool) {
	if !h.valid() || !slices.Equal(h.Upper, earlier.Upper) || len(earlier.Counts) != len(h.Counts) {
		return Histogram{}, false
	}
	d := Histogram{Upper: h.Upper, Counts: make([]float64, len(h.Counts)), Sum: h.Sum - earlier.Sum}
	for i := range d.Counts {
		d.Counts[i] = h.Counts[i] - earlier.Counts[i]
	}
	return d, d.valid()
}

// Quantile estimates the value that a share q of the observations does not exceed:
// by a straight line within the bucket it falls into, which is as exact as the
// bucket is narrow. In the last bucket, which has no end, it is the bucket's lower
// bound: the true value is larger. Without observations it is NaN.
//
// Prometheus's histogram_quantile has the same rule.
func (h Histogram) Quantile(q float64) float64 {
	if !h.valid() || !(q >= 0 && q <= 1) {
		return math.NaN()
	}
	last := len(h.Counts) - 1
	all := h.Counts[last]
	if all == 0 {
		return math.NaN()
	}
	rank := q * all
	i := sort.Search(last, func(i int) bool { return h.Counts[i] >= rank })
	// An empty bucket holds no observation, also not the one of rank 0.
	for i < last && h.Counts[i] == 0 {
		i++
	}
	lower, below := 0.0, 0.0
	if i > 0 {
		lower, below = h.Upper[i-1], h.Counts[i-1]
	}
	switch {
	case i == last && last == 0:
		return math.NaN() // one bucket for everything
	case i == last:
		return lower
	case i == 0 && h.Upper[0] <= 0:
		return h.Upper[0]
	case h.Counts[i] == below:
		return h.Upper[i]
	}
	return lower + (h.Upper[i]-lower)*(rank-below)/(h.Counts[i]-below)
}
