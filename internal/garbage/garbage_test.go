package garbage

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestPace: the percentage follows from the live heap, at once and after each collection.
func TestPace(t *testing.T) {
	t.Setenv("GOGC", "")
	const percent = 321
	before := debug.SetGCPercent(100)
	asked := make(chan struct{}, 2)
	Pace(func(uint64) int {
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

func TestRoom(t *testing.T) {
	percent := Room(128 << 20)
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, 3200}, {minHeap, 3200}, {32 << 20, 400}, {64 << 20, 200}, {128 << 20, 100}, {1 << 40, 100},
	} {
		if got := percent(c.live); got != c.want {
			t.Errorf("%d bytes: %d %%, want %d %%", c.live, got, c.want)
		}
	}
}
