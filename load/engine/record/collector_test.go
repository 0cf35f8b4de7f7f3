package record

import (
	"slices"
	"testing"
	"time"
)

// A worker that was held up writes to one buffer for several intervals. In those that it has no
// buffer of its own for, its connections are open all the same.
func TestConnectionsOfALateWorker(t *testing.T) {
	const second = int64(time.Second)
	var got []int
	c := NewCollector(2, Intervals{Interval: time.Second, OnInterval: func(i Interval) { got = append(got, i.Connections) }})
	take := func(worker int, start, end int64, open int) {
		s := newBuffer(worker)
		s.start, s.end, s.open = start, end, open
		c.take(s)
	}
	take(0, 0, second, 3)
	take(0, second, 2*second, 5)
	take(1, 0, 2*second+1, 2)
	take(0, 2*second, 3*second, 5)
	take(1, 2*second+1, 3*second, 1)
	if want := []int{3 + 2, 5 + 2, 5 + 1}; !slices.Equal(got, want) {
		t.Errorf("connections %v, want %v", got, want)
	}
}
