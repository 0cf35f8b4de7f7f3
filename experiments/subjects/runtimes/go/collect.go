package main

import (
	"context"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"dyno/experiments/subjects/measurement"
)

// A Collect keeps many small objects alive, and replaces them at random as fast as one goroutine can. Another one
// sleeps for a millisecond again and again: what it oversleeps is what a request would wait.
//
// Figures: pause_mean_seconds, pause_p99_seconds and pause_max_seconds, for which collections stop the program; the
// same of stall, for what the sleeper oversleeps; collections; operations_per_second.
type Collect struct {
	Objects  int           `yaml:"objects" range:"1..100000000" default:"300000" doc:"how many stay alive, each of 64 bytes"`
	Duration time.Duration `yaml:"duration" range:"1ms..10m" default:"2s" doc:"how long to measure"`
}

type object struct {
	next *object
	_    [56]byte // payload
}

// tick is how long the sleeper means to sleep.
const tick = time.Millisecond

func collected() int64 {
	var s debug.GCStats
	debug.ReadGCStats(&s)
	return s.NumGC
}

// Run fills the table, then replaces objects for some time.
func (c Collect) Run(ctx context.Context) (measurement.Result, error) {
	table := make([]*object, c.Objects)
	for i := range table {
		table[i] = &object{next: table[i/2]}
	}
	runtime.GC()
	before := collected()
	ctx, cancel := context.WithTimeout(ctx, c.Duration)
	defer cancel()
	stalls := make(chan []time.Duration)
	go func() {
		var all []time.Duration
		for ctx.Err() == nil {
			at := time.Now()
			time.Sleep(tick)
			all = append(all, time.Since(at)-tick)
		}
		stalls <- all
	}()
	r := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // to be repeated, not to be secret
	operations := 0
	start := time.Now()
	for ; operations%1024 != 0 || ctx.Err() == nil; operations++ {
		table[r.IntN(len(table))] = &object{next: &object{}}
	}
	took := time.Since(start).Seconds()
	stalled := <-stalls
	var s debug.GCStats
	debug.ReadGCStats(&s)
	collections := s.NumGC - before
	pauses := s.Pause[:min(int(collections), len(s.Pause))] // the latest come first
	runtime.KeepAlive(table)
	result := measurement.Result{"collections": float64(collections), "operations_per_second": float64(operations) / took}
	describe(result, "pause", pauses)
	describe(result, "stall", stalled)
	return result, nil
}

// describe adds the mean, the 99th percentile and the largest of some times.
func describe(result measurement.Result, name string, times []time.Duration) {
	var mean, p99, most float64
	if len(times) > 0 {
		slices.Sort(times)
		for _, t := range times {
			mean += t.Seconds() / float64(len(times))
		}
		p99, most = times[(len(times)*99+99)/100-1].Seconds(), times[len(times)-1].Seconds()
	}
	result[name+"_mean_seconds"], result[name+"_p99_seconds"], result[name+"_max_seconds"] = mean, p99, most
}
