// Command micro has small programs that measure what a load test cannot. Threads and goroutines: hand-offs, the
// memory of a parked one, their largest number. Locks under contention, pinning, models of input and output,
// socket options, and filters of samples.
//
// Each program is a struct whose tags declare its flags. Run does one measurement and returns its figures. The lab repeats it, interleaves it with others and computes
// intervals. Programs set GOMAXPROCS while they run and count everything in the process,
// so only one may run at a time.
//
// Linux only. Threads are goroutines locked to theirs; see thread.go.
package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// The units of concurrency.
const (
	Goroutine = "goroutine"
	Thread    = "thread"
)

// stopAfter sets stop after a duration, or when the context ends. Release must be
// called in the end.
func stopAfter(ctx context.Context, d time.Duration, stop *atomic.Bool) (release func()) {
	limited, cancel := context.WithTimeout(ctx, d)
	unregister := context.AfterFunc(limited, func() { stop.Store(true) })
	return func() {
		unregister()
		cancel()
	}
}

// interrupted returns why a measurement was cut short, or nil.
func interrupted(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("cut short: %w", context.Cause(ctx))
}

var errNothing = errors.New("nothing was done in the time given: measure for longer")
