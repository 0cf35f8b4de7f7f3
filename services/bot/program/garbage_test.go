package program

import "testing"

// TestGarbage: a small heap has room, and a large one is collected when it has grown by about a fifth.
func TestGarbage(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, 820}, {minLive, 820}, {32 << 20, 120}, {160 << 20, 40}, {1 << 40, garbagePercent},
	} {
		if got := garbage(c.live); got != c.want {
			t.Errorf("%d bytes: %d %%, want %d %%", c.live, got, c.want)
		}
	}
}
