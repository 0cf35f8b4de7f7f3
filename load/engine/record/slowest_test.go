package record

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"dyno/load/engine/clock"
)

// The slowest of many requests are kept, the slowest first, and one of each interval.
func TestSlowest(t *testing.T) {
	c := NewCollector(1, Intervals{Interval: time.Hour})
	r := NewRecorder(c, 0, time.Hour)
	const origin = 1000
	c.Start(origin)
	r.Begin(origin, origin, 1<<60)
	r.Traces([8]byte{1, 2, 3, 4, 5, 6, 7, 8})
	took := rand.New(rand.NewPCG(1, 2)).Perm(1000)
	for i, d := range took {
		x := Request{Intended: origin + 5, Part: Inside, Status: 200}
		if d != 998 { // one without a trace
			x.Trace = uint64(i + 1) //nolint:gosec // small
		}
		r.Succeed(&x, origin+7, NoStep, clock.At(origin+7+int64(d)), false)
	}
	r.End(1<<50, 0)
	c.Stop()
	c.Run()
	var got []time.Duration
	result := NewResult(time.Time{}, 0)
	result.AddWorker(r, &clock.Clock{})
	result.AddIntervals(c)
	for _, x := range result.Slowest {
		got = append(got, x.Service)
	}
	if want := []time.Duration{999, 997, 996, 995, 994, 993, 992, 991, 990, 989}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	x := result.Slowest[0]
	want := [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 14: 0, 15: 0}
	n := slices.Index(took, 999) + 1
	want[14], want[15] = byte(n>>8), byte(n)
	if x.Trace != want || x.Response != 1001 || x.Written != 7 || x.Status != 200 {
		t.Errorf("%+v, want the trace %x", x, want)
	}
	if result.Intervals[0].Slowest != x {
		t.Errorf("%+v", result.Intervals[0].Slowest)
	}
}
