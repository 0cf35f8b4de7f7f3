package main

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"dyno/experiments/subjects/measurement"
)

// Registers computes with floating-point numbers, which Go keeps in the SSE registers, in goroutines that the
// scheduler interrupts on one CPU. Each repeats one computation, whose result is known.
//
// Figures: computations; wrong, those with another result; interrupted, those during which another began.
type Registers struct {
	Goroutines int           `yaml:"goroutines" range:"1..1000" default:"8" doc:"that compute"`
	Duration   time.Duration `yaml:"duration" range:"1us..10m" default:"2s" doc:"how long to measure"`
}

// Run computes for the duration.
func (r Registers) Run(ctx context.Context) (measurement.Result, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var stop atomic.Bool
	var done, wrong, others, last atomic.Int64
	want := make([]float64, r.Goroutines)
	for k := range want {
		want[k] = compute(k)
	}
	defer stopAfter(ctx, r.Duration, &stop)()
	var all sync.WaitGroup
	for k := range want {
		all.Go(func() {
			for !stop.Load() {
				last.Store(int64(k))
				if math.Float64bits(compute(k)) != math.Float64bits(want[k]) {
					wrong.Add(1)
				}
				if last.Load() != int64(k) {
					others.Add(1)
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	if err := interrupted(ctx); err != nil {
		return nil, err
	}
	return measurement.Result{
		"computations": float64(done.Load()), "wrong": float64(wrong.Load()), "interrupted": float64(others.Load()),
	}, nil
}

// compute returns the end of a long chain in which any lost digit shows. It calls nothing, so the scheduler can only
// interrupt it.
func compute(k int) float64 {
	a, b, c, d := 0.1+float64(k)/1000, 0.2, 0.3, 0.4
	for range 1_000_000 {
		a, b, c, d = 3.9*a*(1-b), 3.8*b*(1-c), 3.7*c*(1-d), 3.6*d*(1-d)
		a, b, c = a-math.Trunc(a), b-math.Trunc(b), c-math.Trunc(c)
	}
	return a + b + c + d
}
