package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"dyno/experiments/subjects/measurement"
)

// A Pipeline measures jobs that go over a channel to workers, and their results over another one back. Then it waits
// for values of tasks that take a while, with a timeout: a select over the task's channel and a timer.
//
// Figures: jobs_per_second; wrong, results that are not twice their job; early, waits that timed out although the task
// would have sent; waited_seconds, how long a wait took whose task never sends.
type Pipeline struct {
	Workers int           `yaml:"workers" range:"1..10000" default:"3" doc:"goroutines that take jobs"`
	Buffer  int           `yaml:"buffer" range:"0..1000000" default:"100" doc:"jobs and results that a channel holds; 0: each hand-over waits"`
	Jobs    int           `yaml:"jobs" range:"1..100000000" default:"1000000" doc:"how many"`
	Waits   int           `yaml:"waits" range:"1..1000" default:"5" doc:"how many tasks to wait for"`
	Task    time.Duration `yaml:"task" range:"0s..1m" default:"100ms" doc:"how long such a task takes"`
	Timeout time.Duration `yaml:"timeout" range:"1us..1m" default:"200ms" doc:"how long to wait for it"`
}

// Run measures once.
func (p Pipeline) Run(ctx context.Context) (measurement.Result, error) {
	elapsed, wrong := p.carry(ctx)
	early := 0
	for range p.Waits {
		if _, ok := p.wait(ctx, true); !ok {
			early++
		}
	}
	waited, ok := p.wait(ctx, false)
	if err := interrupted(ctx); err != nil {
		return nil, err
	}
	if ok {
		return nil, fmt.Errorf("a value came of a task that sends none")
	}
	return measurement.Result{
		"jobs_per_second": float64(p.Jobs) / elapsed.Seconds(), "wrong": float64(wrong),
		"early": float64(early), "waited_seconds": waited.Seconds(),
	}, nil
}

// carry sends all jobs through the workers.
func (p Pipeline) carry(ctx context.Context) (elapsed time.Duration, wrong int) {
	type result struct{ job, double int }
	jobs, results := make(chan int, p.Buffer), make(chan result, p.Buffer)
	var workers sync.WaitGroup
	for range p.Workers {
		workers.Go(func() {
			for job := range jobs {
				results <- result{job, 2 * job}
			}
		})
	}
	began := time.Now()
	go func() {
		defer close(jobs)
		for job := range p.Jobs {
			if job%1024 == 0 && ctx.Err() != nil {
				return
			}
			jobs <- job
		}
	}()
	go func() {
		workers.Wait()
		close(results)
	}()
	for r := range results {
		if r.double != 2*r.job {
			wrong++
		}
	}
	return time.Since(began), wrong
}

// wait waits for the value of a task, and reports whether it came in time.
func (p Pipeline) wait(ctx context.Context, sends bool) (waited time.Duration, ok bool) {
	value := make(chan int, 1) // a task that is late must be able to end
	began := time.Now()
	if sends {
		go func() {
			select {
			case <-time.After(p.Task):
				value <- 42
			case <-ctx.Done():
			}
		}()
	}
	select {
	case v := <-value:
		ok = v == 42
	case <-time.After(p.Timeout):
	case <-ctx.Done():
	}
	return time.Since(began), ok
}
