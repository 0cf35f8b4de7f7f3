package command

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// A sentinel is garbage as soon as it is made: its cleanup follows the next collection.
type sentinel struct{ _ *sentinel }

// PaceGarbage sets the percentage by which the heap grows before it is collected (GOGC), after each collection, from now on.
// It follows from how many bytes were alive: of the heap, and of goroutines' stacks, as Go counts them. Memory that is only
// held to move Go's own percentage would count against GOMEMLIMIT.
func PaceGarbage(percent func(live uint64) int) {
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
