package hist

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"time"
)

// ticks is how many percentiles a spectrum has from one halving of the distance
// to 100 % to the next; five is HdrHistogram's default.
const ticks = 5

// WriteHgrm writes the percentile spectrum as HdrHistogram's plotter reads it,
// values in the given unit (time.Millisecond, say). A percentile's value is
// the high end of its bucket, but never more than Max.
func WriteHgrm(w io.Writer, h *Histogram, unit time.Duration) error {
	if unit <= 0 {
		return fmt.Errorf("hgrm: unit %v, want more than 0", unit)
	}
	in := func(ns float64) float64 { return ns / float64(unit) }
	b := bufio.NewWriter(w) // keeps the first error until Flush
	fmt.Fprintf(b, "%12s %14s %10s %14s\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)")

	var sum int64
	level := 0. // the next percentile to write
	for i, n := range h.nonzero() {
		_, high := bounds(i)
		value := in(float64(min(high, h.max)))
		sum += n
		for reached := 100 * float64(sum) / float64(h.count); level <= reached; {
			fmt.Fprintf(b, "%12.3f %2.12f %10d %14.2f\n", value, level/100, sum, 100/(100-level))
			halvings := math.Floor(math.Log2(100/(100-level))) + 1
			next := level + 100/(ticks*math.Exp2(halvings))
			// The last bucket reaches every level, and one row of it is enough;
			// short of 100 % by a rounding, steps become too small to take.
			if sum == h.count || next == level {
				break
			}
			level = next
		}
	}
	if h.count > 0 {
		fmt.Fprintf(b, "%12.3f %2.12f %10d\n", in(float64(h.max)), 1., h.count)
	}
	fmt.Fprintf(b, "#[Mean    = %12.3f, StdDeviation   = %12.3f]\n", in(h.Mean()), in(h.StdDev()))
	fmt.Fprintf(b, "#[Max     = %12.3f, Total count    = %12d]\n", in(float64(h.max)), h.count)
	fmt.Fprintf(b, "#[Buckets = %12d, SubBuckets     = %12d]\n", doublings+1, subBuckets)
	if err := b.Flush(); err != nil {
		return fmt.Errorf("hgrm: %w", err)
	}
	return nil
}
