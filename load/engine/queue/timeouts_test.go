package queue

import (
	"testing"
	"time"
)

// Places expire in the order of their own times. Kinds without one never do.
func TestTimeouts(t *testing.T) {
	timeouts := NewTimeouts([]time.Duration{0, 10, 30, 10, 100}, 100, 8)
	lists := map[int32]uint8{}
	for i, kind := range []int{0, 2, 1, 3, 4} {
		lists[int32(i)] = timeouts.Start(int32(i), kind, int64(i))
	}
	if lists[0] != 0 || lists[4] != 0 || lists[2] != lists[3] || lists[1] == lists[2] {
		t.Errorf("lists %v", lists)
	}
	for _, want := range []struct {
		at    int64
		place int32
	}{{12, 2}, {13, 3}, {31, 1}} {
		if next := timeouts.Next(); next != want.at || timeouts.Expired(next-1) != None {
			t.Fatalf("the next expires at %d, want %d", next, want.at)
		}
		got := timeouts.Expired(want.at)
		if got != want.place {
			t.Fatalf("at %d expires %d, want %d", want.at, got, want.place)
		}
		timeouts.End(got, lists[got])
	}
	if timeouts.Next() != never {
		t.Error("one that has no time expires")
	}
}
