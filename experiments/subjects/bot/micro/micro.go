// Package micro measures single pieces of the gateway, of which report R2 makes claims: the
// layers around a route, JSON libraries, caches, and ways to write rows. A load test of
// the whole gateway shows what they matter to it.
//
// Each program is a plain configuration with Validate and Run. Run does one measurement.
// Allocations are counted of the whole process, so only one may run at a time.
package micro

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// A Result holds the figures of a program, by name. The end of a name gives the unit:
// _seconds, _bytes or _per_second. Without one of these it is a plain number.
type Result map[string]float64

// A Program measures one thing.
type Program interface {
	// Validate reports all faults at once, joined.
	Validate() error
	// Run measures. It fails when the context ends.
	Run(ctx context.Context) (Result, error)
}

// MaxDuration is how long a program may measure.
const MaxDuration = 10 * time.Minute

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

// A spent is what operations took.
type spent struct {
	ops     int
	elapsed time.Duration
	mallocs uint64
	bytes   uint64
}

// repeat does an operation for a while, n times between two looks at the clock.
func repeat(ctx context.Context, d time.Duration, many int, op func() error) (spent, error) {
	if err := op(); err != nil { // what is made once is made
		return spent{}, err
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began, s := time.Now(), spent{}
	for s.elapsed < d {
		for range many {
			if err := op(); err != nil {
				return spent{}, err
			}
		}
		s.ops += many
		s.elapsed = time.Since(began)
		if ctx.Err() != nil {
			return spent{}, fmt.Errorf("cut short: %w", context.Cause(ctx))
		}
	}
	runtime.ReadMemStats(&after)
	s.mallocs, s.bytes = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
	return s, nil
}

func (s spent) each() float64 { return s.elapsed.Seconds() / float64(s.ops) }

// memory adds what an operation allocates.
func (s spent) memory(r Result) Result {
	r["allocations"] = float64(s.mallocs) / float64(s.ops)
	r["allocated_bytes"] = float64(s.bytes) / float64(s.ops)
	return r
}

// valid joins faults with why a measurement may not begin.
func valid(ctx context.Context, p Program) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("cut short: %w", context.Cause(ctx))
	}
	return nil
}

var errWrong = errors.New("the result is wrong")
