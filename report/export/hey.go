package export

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"dyno/results/rundir"
)

// hey writes what hey prints. Times are in seconds.
func hey(w io.Writer, l *load) error {
	var b strings.Builder
	h := l.good
	seconds := func(name string, v float64) { fmt.Fprintf(&b, "  %s:\t%4.4f secs\n", name, v) }
	b.WriteString("\nSummary:\n")
	seconds("Total", l.seconds)
	seconds("Slowest", float64(h.Max())/1e9)
	seconds("Fastest", float64(h.Min())/1e9)
	seconds("Average", h.Mean()/1e9)
	fmt.Fprintf(&b, "  Requests/sec:\t%4.4f\n  \n", l.perSecond())
	if total, mean, known := l.received(); known && total > 0 {
		fmt.Fprintf(&b, "  Total data:\t%d bytes\n  Size/request:\t%d bytes\n", total, int64(mean))
	}
	b.WriteString("\nResponse time histogram:\n")
	if h.Count() > 0 {
		bounds, counts := buckets(h)
		most := slices.Max(counts)
		for i, n := range counts {
			fmt.Fprintf(&b, "  %4.3f [%d]\t|%s\n", bounds[i]/1e9, n, strings.Repeat("■", int((n*40+most/2)/most)))
		}
	}
	b.WriteString("\n\nLatency distribution:\n")
	for _, percent := range []int{10, 25, 50, 75, 90, 95, 99} {
		// hey leaves out what lies beyond all times, too.
		if q := float64(percent) / 100; rundir.IsKnown(h.Count(), q) {
			fmt.Fprintf(&b, "  %d%% in %4.4f secs\n", percent, float64(h.Quantile(q))/1e9)
		}
	}
	if h := l.firstByte; h.Count() > 0 || l.good.Count() == 0 { // or it was not measured
		fmt.Fprintf(&b, "\nDetails (average, fastest, slowest):\n  resp wait:\t%4.4f secs, %4.4f secs, %4.4f secs\n",
			h.Mean()/1e9, float64(h.Min())/1e9, float64(h.Max())/1e9)
	}
	b.WriteString("\nStatus code distribution:\n")
	statuses := l.statuses()
	for _, code := range slices.Sorted(maps.Keys(statuses)) {
		fmt.Fprintf(&b, "  [%s]\t%d responses\n", code, statuses[code])
	}
	if failures := l.failures(); len(failures) > 0 {
		b.WriteString("\nError distribution:\n")
		for _, kind := range slices.Sorted(maps.Keys(failures)) {
			fmt.Fprintf(&b, "  [%d]\t%s\n", failures[kind], kind)
		}
	}
	b.WriteString("\n")
	_, err := io.WriteString(w, b.String())
	return err
}
