package command

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestPaceGarbage: the percentage is what follows from what is alive, at once and after each
// collection.
func TestPaceGarbage(t *testing.T) {
	const percent = 321
	before := debug.SetGCPercent(100)
	asked := make(chan struct{}, 2)
	PaceGarbage(func(uint64) int {
		select {
		case asked <- struct{}{}:
		default: // long after this test
		}
		return percent
	})
	if got := debug.SetGCPercent(before); got != percent {
		t.Errorf("%d %%", got)
	}
	<-asked
	runtime.GC()
	<-asked
}
