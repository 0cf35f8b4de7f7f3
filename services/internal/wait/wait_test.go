package wait

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestFor: a wait ends at its time, or with its context.
func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		if !For(ctx, 2*time.Second) || time.Since(began) != 2*time.Second {
			t.Errorf("after %v", time.Since(began))
		}
		if For(ctx, 2*time.Second) || time.Since(began) != 3*time.Second {
			t.Errorf("with its context, after %v", time.Since(began))
		}
	})
}

// TestEvery: a slow call delays the next one, and misses none but those that it covers.
func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 9500*time.Millisecond)
		defer cancel()
		began, calls := time.Now(), []time.Duration(nil)
		Every(ctx, time.Second, func() {
			if calls = append(calls, time.Since(began)); len(calls) == 3 {
				time.Sleep(3500 * time.Millisecond)
			}
		})
		if len(calls) != 7 || calls[3] != 6500*time.Millisecond || calls[4] != 7*time.Second || time.Since(began) != 9500*time.Millisecond {
			t.Errorf("%v, and the end after %v", calls, time.Since(began))
		}
	})
}
