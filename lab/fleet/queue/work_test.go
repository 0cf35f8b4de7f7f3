package queue

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestGuard: a worker ends a run before its lease may end, and itself if the run does not end.
func TestGuard(t *testing.T) {
	const lease = 10 * time.Second
	pause := func(d time.Duration) { <-time.After(d) } // of a bubble's clock
	fine := func(context.Context) error { return nil }
	for name, c := range map[string]struct {
		renewed time.Duration // for so long the lease is renewed
		check   func(context.Context) error
		run     func(ctx context.Context)
		cause   error
		took    time.Duration // at most
		aborted time.Duration // 0: it was not
	}{
		"ends by itself":    {time.Hour, fine, func(context.Context) { pause(time.Minute) }, nil, time.Minute, 0},
		"ends in order":     {time.Minute, fine, func(ctx context.Context) { <-ctx.Done(); pause(time.Second) }, errLease, time.Minute + lease - abortMargin, 0},
		"does not end":      {time.Minute, fine, func(context.Context) { pause(2 * time.Minute) }, errLease, 2 * time.Minute, time.Minute + lease - abortMargin},
		"taken":             {time.Hour, func(context.Context) error { return errTaken }, func(ctx context.Context) { <-ctx.Done() }, errTaken, checkPeriod, 0},
		"nobody can say so": {time.Minute, func(context.Context) error { return errors.New("no server answers") }, func(context.Context) { pause(time.Minute) }, nil, time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				until := func() time.Time { return began.Add(min(time.Since(began), c.renewed) + lease) }
				var aborted time.Duration
				cause := guard(t.Context(), until, c.check, func() { aborted = time.Since(began) }, c.run)
				if took := time.Since(began); !errors.Is(cause, c.cause) || took > c.took {
					t.Errorf("%v after %v; want %v after %v at most", cause, took, c.cause, c.took)
				}
				if (aborted == 0) != (c.aborted == 0) || aborted > c.aborted+guardPeriod {
					t.Errorf("aborted after %v, want %v", aborted, c.aborted)
				}
			})
		})
	}
}
