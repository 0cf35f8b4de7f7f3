package kernel

import "math"

// Waits are counted in buckets like those of HDR histograms: a bucket's width is a sixteenth of the
// power of two below it. below 16 ns exactly, above within 6.25 %. The kernel's side of this is
// tracer.c.
const (
	subBits    = 4
	subBuckets = 1 << subBits
	buckets    = (64 - subBits + 1) * subBuckets
)

// Waits are the waits of threads for a CPU until a reading.
type Waits struct{ counts [buckets]uint64 }

// Since returns the wait, in seconds, that a share q of those after an earlier reading does not
// exceed. It is NaN when there was none, or when either is nil.
func (w *Waits) Since(earlier *Waits, q float64) float64 {
	if w == nil || earlier == nil {
		return math.NaN()
	}
	var between [buckets]uint64
	for i, n := range w.counts {
		between[i] = n - earlier.counts[i]
	}
	return quantile(&between, q)
}

// edges returns the smallest wait of a bucket, and the bucket's width, in ns.
func edges(b int) (low, width float64) {
	if b < 2*subBuckets {
		return float64(b), 1
	}
	shift := b>>subBits - 1
	return math.Ldexp(float64(subBuckets+(b&(subBuckets-1))), shift), math.Ldexp(1, shift)
}

// quantile returns the wait, in seconds, that a share q of the waits does not
// exceed: by rank, evenly spread within a bucket. It is NaN when there was none.
func quantile(counts *[buckets]uint64, q float64) float64 {
	total := uint64(0)
	for _, n := range counts {
		total += n
	}
	if total == 0 {
		return math.NaN()
	}
	rank := max(1, math.Ceil(q*float64(total)))
	before := 0.0
	for b, n := range counts {
		if before+float64(n) >= rank {
			low, width := edges(b)
			return (low + width*(rank-before)/float64(n)) / 1e9
		}
		before += float64(n)
	}
	return math.NaN() // not reached: the ranks end with the total
}
