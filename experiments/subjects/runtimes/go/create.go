package main

import (
	"context"
	"runtime"
	"sync"
	"time"

	"dyno/experiments/subjects/measurement"
)

// A Create starts batches of goroutines on one CPU. None runs before all of its batch are started.
//
// Figures: operation_seconds, what the statement go takes; run_seconds, what a goroutine takes from its start to its end.
type Create struct {
	Units    int           `yaml:"units" range:"1..1000000" default:"1000" doc:"how many goroutines a batch has"`
	Duration time.Duration `yaml:"duration" range:"1ms..10m" default:"200ms" doc:"how long to measure"`
}

// Run starts batches for some time. The first one makes stacks that later ones use again.
func (c Create) Run(ctx context.Context) (measurement.Result, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var created, ran time.Duration
	batches := -1
	for start := time.Now(); batches < 1 || time.Since(start) < c.Duration; batches++ {
		var g sync.WaitGroup
		g.Add(c.Units)
		began := time.Now()
		for range c.Units {
			go g.Done()
		}
		all := time.Now()
		g.Wait()
		if batches >= 0 {
			created += all.Sub(began)
			ran += time.Since(began)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	n := float64(batches * c.Units)
	return measurement.Result{"operation_seconds": created.Seconds() / n, "run_seconds": ran.Seconds() / n}, nil
}
