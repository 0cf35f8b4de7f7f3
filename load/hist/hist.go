// Package hist records latencies and keeps them, exactly mergeable, in the files
// that HdrHistogram's tools read.
//
// A Histogram has the layout of Gil Tene's HdrHistogram: values in nanoseconds
// from 0 to one hour, with three significant digits. Quantiles come from merged
// histograms, never from averages of quantiles; merging adds counts, so nothing
// is lost by recording per worker and per interval and merging later.
//
// A LogWriter writes intervals, tagged response, service and so on, as an .hlog;
// WriteHgrm writes one histogram's percentile spectrum as an .hgrm.
package hist

import (
	"iter"
	"math"
	"math/bits"
	"time"
)

// The layout. Buckets are one ns wide up to 2048 ns, two up to 4096, and so on:
// 1024 for each doubling, so that none is wider than a thousandth of its values.
const (
	digits         = 3
	subBucketBits  = 11 // 2048 is the first power of two with single units to 2·10³
	subBuckets     = 1 << subBucketBits
	halfSubBuckets = subBuckets / 2

	// Highest is the largest value that is distinguished from larger ones, in ns.
	// Values up to the end of its bucket, a second more, are equivalent to it.
	Highest = int64(time.Hour)

	// An hour is between 2048<<30 and 2048<<31 ns.
	doublings = 31
	top       = doublings*halfSubBuckets + int(Highest>>doublings) // index(Highest)
	buckets   = top + 1
)

// index returns the bucket of a value. That of a negative one is far above top.
func index(ns int64) int {
	shift := uint(bits.Len64(uint64(ns)|(subBuckets-1)) - subBucketBits)
	return int(shift)*halfSubBuckets + int(uint64(ns)>>(shift&63))
}

// bounds returns the lowest and the highest value of a bucket.
func bounds(i int) (low, high int64) {
	shift := max(i/halfSubBuckets-1, 0)
	low = int64(i-shift*halfSubBuckets) << shift
	return low, low + 1<<shift - 1
}

// middle returns the value that stands for a bucket in sums.
func middle(i int) float64 {
	low, high := bounds(i)
	return float64(low + (high-low+1)/2)
}

// A Histogram counts values. One goroutine may use it at a time.
//
// It takes 267 kB while it records, but only touched pages are real. A Clone takes a few kB: a byte or
// two for each bucket that is not empty.
type Histogram struct {
	// The counts are in one of two forms. Counting needs the dense one, a count
	// for each bucket; it is nil until then. Clones have the packed one, the
	// payload of HdrHistogram's V2 encoding: see pack.
	counts []int64
	packed []byte

	count    int64
	min, max int64 // exact; MaxInt64 and 0 when empty
}

// New returns an empty histogram.
func New() *Histogram {
	return &Histogram{counts: make([]int64, buckets), min: math.MaxInt64}
}

// Record counts one value, in ns. It does not allocate.
//
// A value above Highest counts in the highest bucket; Max and the quantile 1 still
// tell what it was. A negative one is a fault of the clock or the caller: it counts
// as 0.
func (h *Histogram) Record(ns int64) {
	// One check against the slice's length serves the dense form, values out of range, and the bounds
	// check.
	i := index(ns)
	if uint(i) >= uint(len(h.counts)) {
		h.add(ns, 1)
		return
	}
	h.counts[i]++
	h.count++
	h.min = min(h.min, ns)
	h.max = max(h.max, ns)
}

// RecordN counts n equal values, in ns. It does nothing if n is not positive.
func (h *Histogram) RecordN(ns, n int64) {
	if n > 0 {
		h.add(ns, n)
	}
}

func (h *Histogram) add(ns, n int64) {
	h.unpack()
	ns = max(ns, 0)
	i := min(index(ns), top)
	h.counts[i] += n
	h.count += n
	h.min = min(h.min, ns)
	h.max = max(h.max, ns)
}

// touched returns the first and the last bucket that is not empty. For an empty histogram it returns an
// empty range.
func (h *Histogram) touched() (first, last int) {
	if h.count == 0 {
		return 0, -1
	}
	return min(index(h.min), top), min(index(h.max), top)
}

// Merge adds o, which stays as it is. The result is exactly what recording
// all values into one histogram would have given.
func (h *Histogram) Merge(o *Histogram) {
	if o.count == 0 {
		return
	}
	h.unpack()
	if o.counts != nil {
		first, last := o.touched()
		into := h.counts[first : last+1]
		for i, n := range o.counts[first : last+1] {
			into[i] += n
		}
	} else {
		for i, n := range o.nonzero() {
			h.counts[i] += n
		}
	}
	h.count += o.count
	h.min = min(h.min, o.min)
	h.max = max(h.max, o.max)
}

// Without returns the values that are not in o, all of whose values h has. Its lowest and its highest value are exact
// unless o has others of their bucket.
func (h *Histogram) Without(o *Histogram) *Histogram {
	rest := New()
	gone := map[int]int64{}
	for i, n := range o.nonzero() {
		gone[i] = n
	}
	for i, n := range h.nonzero() {
		if n -= gone[i]; n > 0 {
			low, high := bounds(i)
			rest.add(max(low, h.min), n)
			rest.max = min(high, h.max)
		}
	}
	return rest
}

// Reset makes the histogram empty. It clears what was touched, not the whole.
func (h *Histogram) Reset() {
	if h.counts != nil {
		first, last := h.touched()
		clear(h.counts[first : last+1])
	}
	*h = Histogram{counts: h.counts, min: math.MaxInt64}
}

// Clone returns a copy in compact form. All methods work on it; those that add
// values make it full-sized first.
func (h *Histogram) Clone() *Histogram {
	c := *h
	c.counts = nil
	if h.counts != nil {
		c.packed = h.pack()
	}
	return &c // a packed form is never written to, so two may share it
}

// unpack gives the histogram its dense form.
func (h *Histogram) unpack() {
	if h.counts != nil {
		return
	}
	counts := make([]int64, buckets)
	for i, n := range h.nonzero() {
		counts[i] = n
	}
	h.counts, h.packed = counts, nil
}

// nonzero yields the buckets that are not empty, in ascending order, with their
// counts.
func (h *Histogram) nonzero() iter.Seq2[int, int64] {
	return func(yield func(int, int64) bool) {
		if h.counts == nil {
			for i, n := range runs(h.packed) {
				if n > 0 && !yield(i, n) {
					return
				}
			}
			return
		}
		first, last := h.touched()
		for i := first; i <= last; i++ {
			if n := h.counts[i]; n != 0 && !yield(i, n) {
				return
			}
		}
	}
}

// Count returns the number of values.
func (h *Histogram) Count() int64 { return h.count }

// Min returns the lowest value, exactly; 0 when empty.
func (h *Histogram) Min() int64 {
	if h.count == 0 {
		return 0
	}
	return h.min
}

// Max returns the highest value, exactly; 0 when empty.
func (h *Histogram) Max() int64 { return h.max }

// Mean returns the mean, each value taken as the middle of its bucket, but never
// outside of Min and Max; 0 when empty.
func (h *Histogram) Mean() float64 {
	return min(max(h.middleMean(), float64(h.Min())), float64(h.Max()))
}

// middleMean takes each value as the middle of its bucket.
func (h *Histogram) middleMean() float64 {
	if h.count == 0 {
		return 0
	}
	var sum float64
	for i, n := range h.nonzero() {
		sum += middle(i) * float64(n)
	}
	return sum / float64(h.count)
}

// StdDev returns the standard deviation of all values as a population, each
// taken as the middle of its bucket; 0 when empty.
func (h *Histogram) StdDev() float64 {
	if h.count == 0 {
		return 0
	}
	mean := h.middleMean()
	var sum float64
	for i, n := range h.nonzero() {
		sum += (middle(i) - mean) * (middle(i) - mean) * float64(n)
	}
	return math.Sqrt(sum / float64(h.count))
}

// Quantile returns the value at the share q of all values, counted from the
// lowest: the highest value equivalent to the one of rank q·Count, rounded to
// nearest, as HdrHistogram does; but never more than Max. Quantile(0) is Min and
// Quantile(1) is Max; q outside 0 to 1 is taken as the nearer. It is 0 when empty.
func (h *Histogram) Quantile(q float64) int64 {
	rank := q*float64(h.count) + 0.5
	switch {
	case h.count == 0:
		return 0
	case !(q > 0): // NaN too
		return h.min
	case rank >= float64(h.count):
		return h.max
	}
	left := max(int64(rank), 1)
	for i, n := range h.nonzero() {
		if left -= n; left <= 0 {
			_, high := bounds(i)
			return min(high, h.max)
		}
	}
	return h.max
}

// CountAtOrBelow returns how many values are at or below ns, or equivalent to it:
// in the same bucket.
func (h *Histogram) CountAtOrBelow(ns int64) int64 {
	if ns < 0 {
		return 0
	}
	last := index(ns)
	var sum int64
	for i, n := range h.nonzero() {
		if i > last {
			break
		}
		sum += n
	}
	return sum
}

// Each calls f for each bucket that is not empty, in ascending order, until f returns false. It passes
// the count and both bounds, which belong to the bucket.
func (h *Histogram) Each(f func(low, high, count int64) bool) {
	for i, n := range h.nonzero() {
		low, high := bounds(i)
		if !f(low, high, n) {
			return
		}
	}
}
