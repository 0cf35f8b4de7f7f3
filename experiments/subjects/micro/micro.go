// Command micro has small programs that measure what a load test cannot. Threads and goroutines: hand-offs, the
// memory of a parked one, their largest number. Locks under contention, pinning, models of input and output,
// socket options, and filters of samples.
//
// Each program is a plain configuration with Validate and Run. Run does one measurement
// and returns its figures. The lab repeats it, interleaves it with others and computes
// intervals. Programs set GOMAXPROCS while they run and count everything in the process,
// so only one may run at a time.
//
// Linux only. Threads are goroutines locked to theirs; see thread.go.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// A Result holds the figures of a program, by name. The end of a name gives the unit:
// _seconds, _bytes or _per_second. Without one of these it is a plain number.
type Result map[string]float64

// A Program measures one thing.
type Program interface {
	// Validate reports all faults at once, joined.
	Validate() error
	// Run measures by a configuration that is valid. It fails when the context ends, or the
	// machine refuses the resources it needs.
	Run(ctx context.Context) (Result, error)
}

// The units of concurrency.
const (
	Goroutine = "goroutine"
	Thread    = "thread"
)

// MaxDuration is how long a program may measure.
const MaxDuration = 10 * time.Minute

// oneOf returns a fault unless the value is one of those wanted.
func oneOf(field, value string, wanted ...string) error {
	if slices.Contains(wanted, value) {
		return nil
	}
	return fmt.Errorf("%s: %q: want one of %s", field, value, strings.Join(wanted, ", "))
}

func within(field string, value, low, high int) error {
	if low <= value && value <= high {
		return nil
	}
	return fmt.Errorf("%s: %d: want %d to %d", field, value, low, high)
}

func validDuration(d time.Duration) error {
	if 0 < d && d <= MaxDuration {
		return nil
	}
	return fmt.Errorf("duration: %v: want more than 0, at most %v", d, MaxDuration)
}

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
