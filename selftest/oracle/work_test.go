package oracle

import (
	"context"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The burnt time is the share of the busy time, whatever cycles cost and however late burning ends. Only
// the last cycle's excess differs.
func TestSlowdown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := slowdown{share: rapid.Float64Range(0, 2).Draw(t, "share")}
		var now, busy int64
		for range rapid.IntRange(1, 200).Draw(t, "cycles") {
			slept := rapid.Int64Range(0, 1e9).Draw(t, "slept")
			cycle := rapid.Int64Range(0, 1e7).Draw(t, "cycle")
			busy += cycle
			now += slept + cycle
			until := s.end(now, slept)
			late := int64(0)
			if until > now {
				late = rapid.Int64Range(0, 1e5).Draw(t, "late")
				now = until + late
			}
			s.burnt(now)
			// It owes nothing, but may have given too much.
			if want := s.share * float64(busy); float64(s.planted) < want-2 {
				t.Fatalf("burnt %d, want %v at least", s.planted, want)
			}
			if until > now-late && late == 0 && float64(s.planted) > s.share*float64(busy)+2 {
				t.Fatalf("burnt %d, want %v", s.planted, s.share*float64(busy))
			}
		}
		if s.busy != busy {
			t.Fatalf("busy %d, want %d", s.busy, busy)
		}
	})
}

// Each request costs the iterations that were asked for, and the account adds up.
func TestWork(t *testing.T) {
	w := must[*Work](t)(StartWork(t.Context(), Config{}, Workload{Iterations: 1234, Slow: 0.5}))
	c := dial(t, w.Server)
	const requests = 50
	for range requests {
		if _, body, err := c.get(plain); err != nil || len(body) != 64 {
			t.Fatalf("%d bytes, %v", len(body), err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	a := w.Account()
	if a.Iterations != requests*1234 || a.Cycles < 1 || w.Traffic().Answered != requests {
		t.Errorf("%+v, %+v", a, w.Traffic())
	}
	if a.Busy <= 0 || a.Idle < 0 || a.Planted < a.Busy/2-time.Microsecond {
		t.Errorf("%+v: the slowdown is less than half of what was busy", a)
	}
}

func TestWorkValidates(t *testing.T) {
	for _, w := range []Workload{{Iterations: -1}, {Slow: -0.1}, {Slow: math.NaN()}, {Slow: 11}, {Iterations: 1 << 40}} {
		if _, err := StartWork(t.Context(), Config{}, w); err == nil {
			t.Errorf("%+v was accepted", w)
		}
	}
	if n := WorkIterations(20 * time.Microsecond); n < 1 {
		t.Errorf("%d iterations", n)
	}
	if got := SlowRatio(0.25); got != 0.8 {
		t.Errorf("ratio %v, want 0.8", got)
	}
}

func TestBurnEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	burnt := make(chan struct{})
	go func() {
		Burn(ctx, 2)
		close(burnt)
	}()
	cancel()
	select {
	case <-burnt:
	case <-time.After(hang):
		t.Fatal("it burns on")
	}
}
