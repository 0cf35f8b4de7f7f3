package main

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"dyno/experiments/subjects/measurement"
)

// A Ticker measures how late the ticks of time.Ticker are, next to goroutines that compute or make garbage.
//
// Figures: ticks; lost_share, of the ticks that were due; late_mean_seconds, late_p95_seconds and
// late_largest_seconds, after the moment when a tick was due; collections of garbage meanwhile.
type Ticker struct {
	Period   time.Duration `yaml:"period" range:"1ms..1m" default:"20ms" doc:"between two ticks"`
	Procs    int           `yaml:"procs" range:"1..1024" default:"1" doc:"GOMAXPROCS"`
	Compute  int           `yaml:"compute" range:"0..1000" doc:"goroutines that compute without a pause"`
	Garbage  int           `yaml:"garbage" range:"0..1000" doc:"goroutines that make garbage without a pause"`
	Duration time.Duration `yaml:"duration" range:"1ms..10m" default:"2s" doc:"how long to measure"`
}

// Run waits for the ticks of the duration.
func (t Ticker) Run(ctx context.Context) (measurement.Result, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(t.Procs))
	var stop atomic.Bool
	var others sync.WaitGroup
	defer others.Wait()
	defer stop.Store(true)
	defer stopAfter(ctx, t.Duration, &stop)()
	for k := range t.Compute + t.Garbage {
		others.Go(func() { work(&stop, k >= t.Compute) })
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	ticker := time.NewTicker(t.Period)
	defer ticker.Stop()
	var late []float64
	var sum, due float64
	for !stop.Load() {
		<-ticker.C
		at := time.Since(began)
		l := (at % t.Period).Seconds()
		late, sum, due = append(late, l), sum+l, float64(at/t.Period)
	}
	runtime.ReadMemStats(&after)
	if err := interrupted(ctx); err != nil {
		return nil, err
	}
	slices.Sort(late)
	n := float64(len(late))
	return measurement.Result{
		"ticks":                n,
		"lost_share":           max(0, 1-n/due),
		"late_mean_seconds":    sum / n,
		"late_p95_seconds":     late[len(late)*95/100],
		"late_largest_seconds": late[len(late)-1],
		"collections":          float64(after.NumGC - before.NumGC),
	}, nil
}

// work computes until it is stopped. If it makes garbage, it keeps some of it for a while.
func work(stop *atomic.Bool, garbage bool) {
	var kept [1024][]*int
	for k, x := 0, 1.0; !stop.Load(); k++ {
		for range 1000 {
			x = x*1.000001 + 1
		}
		if garbage && x > 0 {
			kept[k%len(kept)] = make([]*int, 512)
		}
	}
}
