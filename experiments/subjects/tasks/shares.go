package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"dyno/experiments/subjects/measurement"
	"dyno/lab/fleet/queue"
)

// Shares has two tenants of a queue whose tasks sleep, one of weight 3 and one of weight 1. Both have more tasks than
// workers can take while it lasts. A third one has a bound of one running task.
//
// Figures: share_ratio, tasks of the first started for one of the second; most_running, of the third's tasks at once.
type Shares struct {
	Workers  int           `yaml:"workers" range:"1..64" default:"2" doc:"how many"`
	Task     time.Duration `yaml:"task" range:"1ms..1m" default:"50ms" doc:"how long a task takes"`
	Duration time.Duration `yaml:"duration" range:"1s..10m" default:"10s" doc:"how long to measure"`
}

// Run measures once.
func (s Shares) Run(ctx context.Context) (_ measurement.Result, err error) {
	b, err := newBench(ctx)
	if err != nil {
		return nil, err
	}
	defer b.close()
	for name, weight := range map[string]int{"three": 3, "one": 1, "bounded": 1} {
		_, err := b.queue.SetTenant(ctx, name, func(t *queue.Tenant) {
			t.Weight = weight
			if name == "bounded" {
				t.MaxRunning = 1
			}
		})
		if err != nil {
			return nil, err
		}
	}
	var all []*queue.Submission
	for range 2 + int(s.Duration/s.Task)*s.Workers/2 {
		for _, name := range []string{"one", "three", "bounded"} {
			all = append(all, &queue.Submission{Task: queue.Task{Name: "task", Tenant: name}})
		}
	}
	if err := b.queue.Submit(ctx, all, func(*queue.Task) {}); err != nil {
		return nil, fmt.Errorf("measure for a shorter time, or with longer tasks: %w", err)
	}
	var mu sync.Mutex // guards started, running and most
	started, running, most := map[string]int{}, map[string]int{}, map[string]int{}
	run := func(ctx context.Context, t *queue.Task) queue.Outcome {
		mu.Lock()
		started[t.Tenant]++
		running[t.Tenant]++
		most[t.Tenant] = max(most[t.Tenant], running[t.Tenant])
		mu.Unlock()
		select {
		case <-time.After(s.Task):
		case <-ctx.Done():
		}
		mu.Lock()
		running[t.Tenant]--
		mu.Unlock()
		return queue.Outcome{Done: true}
	}
	limited, cancel := context.WithTimeout(ctx, s.Duration)
	defer cancel()
	if err := work(limited, b, s.Workers, run); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if started["one"] == 0 {
		return nil, errors.New("no task of a tenant has started: measure for longer")
	}
	return measurement.Result{"share_ratio": float64(started["three"]) / float64(started["one"]), "most_running": float64(most["bounded"]), "tasks": float64(started["one"] + started["three"] + started["bounded"])}, nil
}

// work runs workers of the queue in this process, until ctx ends.
func work(ctx context.Context, b *bench, workers int, run func(context.Context, *queue.Task) queue.Outcome) error {
	var ends sync.WaitGroup
	errs := make([]error, workers)
	for n := range workers {
		w := queue.Worker{
			Queue: b.queue, Name: fmt.Sprintf("w%d", n), Has: func(string) bool { return false },
			Prepare: func(context.Context, *queue.Task, queue.Plan) (func(context.Context, *queue.Task) queue.Outcome, func() error, error) {
				return run, func() error { return nil }, nil
			},
			Waiting: func(context.Context, string) error { return nil },
			Abort:   func() { os.Exit(1) }, Logger: slog.New(slog.DiscardHandler),
		}
		ends.Go(func() { errs[n] = w.Work(ctx) })
	}
	ends.Wait()
	return errors.Join(errs...)
}
