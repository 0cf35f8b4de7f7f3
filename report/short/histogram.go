package short

import (
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"dyno/load/hist"
	"dyno/report/figure"
	"dyno/report/judged"
	"dyno/results/rundir"
)

// longestBar is how many characters the longest bar has.
const longestBar = 40

// Histogram draws the latencies of the run's only variant. Each step of 1, 2, 5, 10, … between the shortest and the
// longest has a bar. The bar counts responses that took longer than the step before, and at most the step.
func Histogram(w io.Writer, f *rundir.Folder) error {
	p := judged.Of(f)
	all := hist.New()
	for _, t := range f.Measured() {
		h, err := t.Latency(p.Clock(t.Variant))
		if err != nil && !t.Unrecorded(err) {
			return fmt.Errorf("histogram: %w", err)
		}
		if h != nil {
			all.Merge(h)
		}
	}
	if all.Count() == 0 {
		return nil
	}
	type step struct {
		label string
		count int64
	}
	var steps []step
	most, below := int64(0), int64(0)
	for _, upTo := range stepsBetween(all.Min(), all.Max()) {
		upToHere := all.CountAtOrBelow(upTo)
		steps = append(steps, step{"≤ " + figure.Duration(upTo), upToHere - below})
		most, below = max(most, upToHere-below), upToHere
	}
	var b strings.Builder
	b.WriteByte('\n')
	for _, s := range steps {
		bar := strings.Repeat("■", int(math.Ceil(longestBar*float64(s.count)/float64(most))))
		label := strings.Repeat(" ", max(0, 10-utf8.RuneCountInString(s.label))) + s.label
		fmt.Fprintf(&b, "  %s  %-*s  %s\n", label, longestBar, bar, figure.Whole(s.count))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("histogram: %w", err)
	}
	return nil
}

// stepsBetween returns the times 1, 2, 5, 10, … in nanoseconds. The first is the lowest that is not below low, and the
// last the lowest that is not below high.
func stepsBetween(low, high int64) (steps []int64) {
	for decade := int64(1); ; decade *= 10 {
		for _, n := range []int64{1, 2, 5} {
			if n*decade >= low {
				steps = append(steps, n*decade)
			}
			if n*decade >= high {
				return steps
			}
		}
	}
}
