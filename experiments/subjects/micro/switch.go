package main

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"dyno/experiments/subjects/measurement"

	"golang.org/x/sys/unix"
)

// A Switch measures a hand-off: one unit wakes another and waits for it in turn.
//
// Goroutines pass a value over unbuffered channels and share one P. Threads wait for each other by futex, the
// primitive of mutexes and condition variables. They share one CPU, so each hand-off is a switch on it. A pipe
// or an eventfd would add the work of a file. The figure is what a program pays to switch: the wake-up, the wait
// and the switch itself.
//
// Figures: switch_seconds per one-way hand-off; context_switches_per_handoff as the kernel counted them
// (getrusage): near 1 for threads, near 0 for goroutines; cpu_per_handoff_seconds, which other programs disturb
// less than the elapsed time; handoffs.
type Switch struct {
	Unit     string        `yaml:"unit" oneof:"goroutine thread" default:"goroutine" doc:"what is measured"`
	Duration time.Duration `yaml:"duration" range:"1us..10m" default:"1s" doc:"how long to measure"`
}

// Run measures for the duration.
func (s Switch) Run(ctx context.Context) (measurement.Result, error) {
	measure := switchGoroutines
	if s.Unit == Thread {
		measure = switchThreads
	}
	handoffs, elapsed, spent, err := measure(ctx, s.Duration)
	if err := errors.Join(err, interrupted(ctx)); err != nil {
		return nil, err
	}
	if handoffs == 0 {
		return nil, errNothing
	}
	return measurement.Result{
		"switch_seconds":               elapsed.Seconds() / float64(handoffs),
		"context_switches_per_handoff": float64(spent.switches) / float64(handoffs),
		"cpu_per_handoff_seconds":      spent.cpu.Seconds() / float64(handoffs),
		"handoffs":                     float64(handoffs),
	}, nil
}

func switchGoroutines(ctx context.Context, d time.Duration) (handoffs int64, elapsed time.Duration, spent usage, err error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var stop atomic.Bool
	ping, pong := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(pong)
		for range ping {
			pong <- struct{}{}
		}
	}()
	before, err := used(unix.RUSAGE_SELF)
	defer stopAfter(ctx, d, &stop)()
	began := time.Now()
	for !stop.Load() {
		ping <- struct{}{}
		<-pong
		handoffs += 2
	}
	elapsed = time.Since(began)
	after, err2 := used(unix.RUSAGE_SELF)
	close(ping)
	<-pong // the other one has ended
	return handoffs, elapsed, after.less(before), errors.Join(err, err2)
}

func switchThreads(ctx context.Context, d time.Duration) (handoffs int64, elapsed time.Duration, spent usage, err error) {
	cpus, err := allowedCPUs()
	if err != nil {
		return 0, 0, usage{}, err
	}
	defer holding(2)()
	var stop atomic.Bool
	var turn futex
	var passed [2]int64
	var each [2]usage
	c := newCrew()
	for me := range uint32(2) {
		other := 1 - me
		c.add(cpus[0], func() error {
			before, err := used(unix.RUSAGE_THREAD)
			for over := false; !over; passed[me]++ {
				turn.waitWhile(other)
				over = stop.Load() // the other one has the turn then, and finds the same
				turn.set(other)
			}
			after, err2 := used(unix.RUSAGE_THREAD)
			each[me] = after.less(before)
			return errors.Join(err, err2)
		})
	}
	defer stopAfter(ctx, d, &stop)()
	elapsed, err = c.run()
	spent = usage{each[0].cpu + each[1].cpu, each[0].switches + each[1].switches}
	return passed[0] + passed[1], elapsed, spent, err
}
