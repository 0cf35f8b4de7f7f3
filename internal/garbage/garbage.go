// Package garbage sets how often Go collects garbage, by the size of the live heap.
package garbage

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// A sentinel is garbage as soon as it is made: its cleanup follows the next collection.
type sentinel struct{ _ *sentinel }

// Pace sets the percentage by which the heap grows before it is collected (GOGC), after each collection, from now on.
// It follows from how many bytes were alive: of the heap, and of goroutines' stacks, as Go counts them. Memory that is only
// held to move Go's own percentage would count against GOMEMLIMIT. Where the environment sets GOGC, nothing is changed.
func Pace(percent func(live uint64) int) {
	if os.Getenv("GOGC") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}}
	last := 0
	var adjust func(struct{})
	adjust = func(struct{}) {
		metrics.Read(live)
		if p := percent(live[0].Value.Uint64() + live[1].Value.Uint64()); p != last {
			last = p
			debug.SetGCPercent(p)
		}
		runtime.AddCleanup(&sentinel{}, adjust, struct{}{})
	}
	adjust(struct{}{})
}

// Go's own settings.
const (
	usualPercent = 100
	minHeap      = 4 << 20 // for each 100 %, before the first collection
)

// Room returns the percentage by which a heap with a number of live bytes grows by bytes. Go's own
// percentage is the minimum.
func Room(bytes uint64) func(live uint64) int {
	return func(live uint64) int {
		return max(usualPercent, int(bytes*100/max(live, minHeap))) //nolint:gosec // at most bytes*100/minHeap
	}
}
