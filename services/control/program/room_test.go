package program

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
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

// TestRoom: the percentage follows what is alive, up and down, collection after collection.
// How many collections some garbage takes would say less: one that the machine delays lets
// the heap grow meanwhile. The process is one of its own, since nothing takes room away again.
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
	const mib = 1 << 20
	for _, c := range []struct {
		alive, least, most int // MiB; percent
	}{
		{0, 1000, 3200}, {32, 250, 400}, {64, 150, 200}, {256, 100, 100}, {32, 250, 400}, {0, 1000, 3200},
	} {
		kept = make([]byte, c.alive*mib)
		got := percent()
		for end := time.Now().Add(20 * time.Second); got < c.least || got > c.most; got = percent() {
			if time.Now().After(end) {
				t.Fatalf("%d MiB alive: %d %%, want %d to %d %%", c.alive, got, c.least, c.most)
			}
			runtime.GC()
			runtime.Gosched() // the adjustment follows the collection
		}
	}
	runtime.KeepAlive(kept)
}

var kept []byte

// percent is the percentage by which the heap grows now.
func percent() int {
	now := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(now)
	return int(now[0].Value.Uint64()) //nolint:gosec // at most maxPercent
}
