package micro

import (
	"context"
	"time"

	"dyno/experiments/subjects/measurement"
)

// Defer measures a function that ends with a call: by a defer statement, by a closure that is deferred, or in its last line.
//
// Figures: call_seconds, allocations and allocated_bytes, of one call of the function.
type Defer struct {
	Form     string        `yaml:"form" oneof:"last defer closure" default:"last" doc:"how the function makes the call at its end"`
	Duration time.Duration `yaml:"duration" range:"1us..10m" default:"300ms" doc:"how long to measure"`
}

// An audit is what layers call at the end of a request.
type audit struct{ ended int }

//go:noinline
func (a *audit) end() { a.ended++ }

//go:noinline
func (a *audit) last(refused bool) int {
	if refused {
		a.end()
		return 401
	}
	a.end()
	return 200
}

//go:noinline
func (a *audit) deferred(refused bool) int {
	defer a.end()
	if refused {
		return 401
	}
	return 200
}

//go:noinline
func (a *audit) closure(refused bool) (status int) {
	defer func() {
		if status != 0 {
			a.end()
		}
	}()
	if refused {
		return 401
	}
	return 200
}

// Run calls the function for some time.
func (d Defer) Run(ctx context.Context) (measurement.Result, error) {
	a, calls := &audit{}, 0
	call := map[string]func(bool) int{"last": a.last, "defer": a.deferred, "closure": a.closure}[d.Form]
	s, err := repeat(ctx, d.Duration, 1024, func() error {
		calls++
		call(calls%8 == 0)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if a.ended != calls {
		return nil, errWrong
	}
	return s.memory(measurement.Result{"call_seconds": s.each()}), nil
}
