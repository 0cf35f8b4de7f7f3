// Package wait waits for a time, once or again and again, unless a context ends before.
package wait

import (
	"context"
	"time"
)

// For waits for d, and reports whether ctx has not ended before.
func For(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// Every calls f after each period, until ctx ends. It skips periods that end while f runs.
func Every(ctx context.Context, period time.Duration, f func()) {
	t := time.NewTicker(period)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			f()
		}
	}
}
