package program

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

func TestRoomy(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, 3200}, {minHeap, 3200}, {32 << 20, 400}, {64 << 20, 200}, {128 << 20, 100}, {1 << 40, 100},
	} {
		if got := roomy(c.live); got != c.want {
			t.Errorf("%d bytes: %d %%, want %d %%", c.live, got, c.want)
		}
	}
}

// TestRoom: a small heap is collected once it has grown by room, time after time. The process
// is one of its own, since nothing takes room away again.
func TestRoom(t *testing.T) {
	const inside = "DYNO_TEST_ROOM"
	if os.Getenv(inside) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRoom$")
		cmd.Env = append(os.Environ(), inside+"=1", "GOGC=")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	collector{}.set()
	const piece, pieces = 1 << 20, 2000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range pieces {
		garbage = make([]byte, piece)
	}
	runtime.ReadMemStats(&after)
	// Without room it would be one for every 4 MiB.
	if n := after.NumGC - before.NumGC; n < pieces*piece/room/2 || n > pieces*piece/room*2 {
		t.Errorf("%d collections of %d MiB", n, pieces)
	}
}

var garbage []byte
