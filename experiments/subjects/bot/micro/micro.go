// Package micro measures single pieces of the gateway, of which report R2 makes claims: the
// layers around a route, JSON libraries, caches, and ways to write rows. A load test of
// the whole gateway shows what they matter to it.
//
// Each program is a struct whose tags declare its flags. Run does one measurement.
// Allocations are counted of the whole process, so only one may run at a time.
package micro

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"dyno/experiments/subjects/measurement"
)

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
func (s spent) memory(r measurement.Result) measurement.Result {
	r["allocations"] = float64(s.mallocs) / float64(s.ops)
	r["allocated_bytes"] = float64(s.bytes) / float64(s.ops)
	return r
}

var errWrong = errors.New("the result is wrong")
