package poll

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"dyno/internal/leak"
	"dyno/observe"
)

func TestMain(m *testing.M) { leak.Main(m) }

// observed returns the newest reading of a poller with one value.
func observed(p *Poller) (value, at float64, err error) {
	row := []float64{-1, -1}
	err = p.Observe(row)
	return row[0], row[1], err
}

// Readings come at once and every period, with their time; after a
// failed one nothing is known, and why.
func TestReadings(t *testing.T) {
	broken := errors.New("broken")
	synctest.Test(t, func(t *testing.T) {
		n := 0.0
		p := Start(1, time.Second, time.Second, func(_ context.Context, row []float64) error {
			if n++; n == 3 {
				return broken
			}
			row[0] = n
			return nil
		})
		defer p.Close()
		for _, want := range []struct {
			value, at float64
			err       error
		}{{1, 0, nil}, {2, 1, nil}, {math.NaN(), 2, broken}, {4, 3, nil}} {
			synctest.Wait()
			value, at, err := observed(p)
			if value != want.value && !(math.IsNaN(value) && math.IsNaN(want.value)) || at != want.at || !errors.Is(err, want.err) {
				t.Errorf("%v at %v, %v; want %v", value, at, err, want)
			}
			time.Sleep(time.Second)
		}
	})
}

// A reading that hangs ends at its time limit; until then the one before it
// stands, and observing does not wait.
func TestSlowReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		p := Start(1, time.Second, 10*time.Second, func(ctx context.Context, row []float64) error {
			if n++; n > 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			row[0] = 7
			return nil
		})
		defer p.Close()
		time.Sleep(10500 * time.Millisecond)
		if v, _, err := observed(p); v != 7 || err != nil {
			t.Errorf("while the second hangs: %v, %v", v, err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if v, _, err := observed(p); !math.IsNaN(v) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after its limit: %v, %v", v, err)
		}
	})
}

func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0.0
		p := Start(1, time.Hour, time.Minute, func(_ context.Context, row []float64) error {
			n++
			row[0] = n
			time.Sleep(5 * time.Second)
			return nil
		})
		start := time.Now()
		if err := p.Refresh(t.Context()); err != nil { // after the one under way
			t.Error(err)
		}
		if v, at, _ := observed(p); v != 2 || at != 5 || time.Since(start) != 10*time.Second {
			t.Errorf("%v at %v after %v", v, at, time.Since(start))
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Refresh(soon); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a second to go: %v", err)
		}
		p.Close()
		if err := p.Refresh(t.Context()); err == nil {
			t.Error("a closed poller was refreshed")
		}
	})
}

// Close ends a reading under way.
func TestClose(t *testing.T) {
	reading := make(chan struct{})
	p := Start(1, time.Hour, time.Hour, func(ctx context.Context, _ []float64) error {
		close(reading)
		<-ctx.Done()
		return ctx.Err()
	})
	<-reading
	if v, at, err := observed(p); !math.IsNaN(v) || !math.IsNaN(at) || err != nil {
		t.Errorf("before the first reading: %v at %v, %v", v, at, err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// burn uses CPU time.
func burn(t *testing.T, d time.Duration) {
	before, err := observe.ThreadTime()
	for now := before; err == nil && now < before+d; {
		now, err = observe.ThreadTime()
	}
	if err != nil {
		t.Error(err)
	}
}

// The cost of readings is counted, and bounded: one of 5 ms is followed by none for half a second,
// unless it is asked for.
func TestCost(t *testing.T) {
	const cost = 5 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		n := 0
		p := Start(0, 10*time.Millisecond, time.Minute, func(context.Context, []float64) error {
			n++
			burn(t, cost)
			return nil
		})
		defer p.Close()
		time.Sleep(rest*cost - 1)
		synctest.Wait()
		if n != 1 {
			t.Errorf("%d readings within %v", n, rest*cost)
		}
		if err := p.Refresh(t.Context()); err != nil || n != 2 {
			t.Errorf("refreshed: %d readings, %v", n, err)
		}
		if s := p.CPUSeconds(); s < (2 * cost).Seconds() {
			t.Errorf("%v s", s)
		}
	})
}
