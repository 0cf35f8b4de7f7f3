package record

import (
	"testing"

	"dyno/load/engine/clock"
)

// The ends of responses are counted by the outcomes of their stamps.
func TestEndsCount(t *testing.T) {
	var e Ends
	for _, s := range []clock.Stamp{clock.Unstamped, clock.Stamped, clock.Late, clock.Early, clock.Stale} {
		e.count(clock.Reading{Stamp: s})
	}
	if want := (Ends{ByArrival: 1, ByRead: 4, Late: 1, Early: 1, Stale: 1}); e != want {
		t.Errorf("%+v, want %+v", e, want)
	}
}
