package main

import (
	"context"
	"errors"
	"time"

	"dyno/experiments/subjects/measurement"
)

// Units measures how many units can be parked at once. It parks more and more
// until it comes to a bound: the one it was given, the machine's limits on threads
// or half of the memory that was available. It stops short of the limits, since
// the runtime ends the process when the kernel refuses a thread.
//
// Figures: units, parked in the end; bound, the one it was given: units below it
// are what the machine permits; start_seconds, to make one unit and to park it.
type Units struct {
	Unit  string `yaml:"unit" oneof:"goroutine thread" default:"goroutine" doc:"what is measured"`
	Bound int    `yaml:"bound" range:"0..2000000" otherwise:"100000 goroutines or 20000 threads" doc:"the number to stop at"`
}

// batch is how many units are parked between two looks at the memory.
const batch = 500

// Run parks units until there is a bound, and releases them.
func (u Units) Run(ctx context.Context) (measurement.Result, error) {
	if err := interrupted(ctx); err != nil {
		return nil, err
	}
	if u.Bound == 0 {
		u.Bound = map[string]int{Goroutine: 100_000, Thread: 20_000}[u.Unit]
	}
	most := u.Bound
	if u.Unit == Thread {
		limit, err := threadLimit()
		if err != nil {
			return nil, err
		}
		// A twentieth is left for what else may need a thread meanwhile.
		most = min(most, limit.threads-limit.threads/20)
		defer allowThreads(most)()
	}
	memory, err := available()
	if err != nil {
		return nil, err
	}
	l, err := newLot(u.Unit)
	if err != nil {
		return nil, err
	}
	defer l.leave()
	var busy time.Duration
	for l.units < most {
		began := time.Now()
		l.park(min(batch, most-l.units))
		busy += time.Since(began)
		left, err := available()
		if err := errors.Join(err, interrupted(ctx)); err != nil {
			return nil, err
		}
		if left < memory/2 {
			break
		}
	}
	if l.units == 0 {
		return nil, errors.New("the machine permits no further thread")
	}
	return measurement.Result{
		"units":         float64(l.units),
		"bound":         float64(u.Bound),
		"start_seconds": busy.Seconds() / float64(l.units),
	}, nil
}
