package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"dyno/experiments/subjects/measurement"
	"dyno/lab/fleet/queue"
)

// A Sustained submits tasks to a queue, a batch a second, and workers (dyno queue work) run them. A task is an experiment:
// a program that ends at once, or a load of 100 ms on a server that is started for it.
//
// It fails if a task does. Figures: tasks, all that were submitted; tasks_per_second that ended within the time; waiting at its end; wait_median_seconds and
// wait_p99_seconds, from submission to begin; whole_p99_seconds, from submission to end; cpu_per_task_seconds, of all
// processes, and of the workers with what they start, of the control plane and of this program each.
type Sustained struct {
	Kind     string        `yaml:"kind" oneof:"program load" default:"program" doc:"what a task does"`
	Rate     int           `yaml:"rate" range:"1..1000" default:"15" doc:"tasks a second"`
	Workers  int           `yaml:"workers" range:"1..64" default:"2" doc:"how many"`
	Duration time.Duration `yaml:"duration" range:"1s..24h" default:"20s" doc:"how long to submit"`
}

var plans = map[string]string{
	"program": "name: task\ntarget: {protocol: program, start: [/bin/echo, '{\"done\": 1}']}\n" +
		"design: {rounds: 1, remeasure: false, quiet_wait: 0, metric: program.done}\n",
	"load": "name: task\ntarget: {protocol: tcp, start: [dyno, serve, echo, --tcp, \"127.0.0.1:{{port}}\"]}\n" +
		"load: {open: {rate: 100/s}, warmup: 0, window: 100ms}\nobserve: {kernel: none}\ndesign: {rounds: 1, remeasure: false, quiet_wait: 0}\n",
}

// Run measures once.
func (s Sustained) Run(ctx context.Context) (_ measurement.Result, err error) {
	dyno, err := exec.LookPath("dyno")
	if err == nil {
		dyno, err = filepath.Abs(dyno)
	}
	if err != nil {
		return nil, err
	}
	b, err := newBench(ctx)
	if err != nil {
		return nil, err
	}
	var workers []*process
	end := sync.OnceValues(func() (workersCPU, controlCPU time.Duration) {
		for _, w := range workers {
			workersCPU += w.stop()
		}
		return workersCPU, b.close()
	})
	defer end()
	for n := range s.Workers {
		w, err := start(ctx, b.dir, []string{"DYNO_CONTROL_PLANE=" + b.url}, dyno,
			"queue", "work", "--results", "runs", "--name", "w"+strconv.Itoa(n), "--command", dyno, "--command", "/bin/echo")
		if err != nil {
			return nil, err
		}
		workers = append(workers, w)
	}
	ended := map[string]queue.Task{}
	var mu sync.Mutex // guards ended
	following, stop := context.WithCancel(ctx)
	followed := make(chan error, 1)
	go func() {
		followed <- b.queue.Follow(following, func(tasks []queue.Task) {
			mu.Lock()
			defer mu.Unlock()
			for _, t := range tasks {
				if t.State == queue.Done || t.State == queue.Failed {
					ended[t.ID] = t
				}
			}
		})
	}()
	began, submitted, err := s.submit(ctx, b)
	over := began.Add(s.Duration)
	if err == nil {
		err = s.drain(ctx, func() bool { mu.Lock(); defer mu.Unlock(); return len(ended) == submitted })
	}
	stop()
	err = errors.Join(err, <-followed)
	if err != nil || ctx.Err() != nil {
		return nil, errors.Join(err, context.Cause(ctx))
	}
	workersCPU, controlCPU := end()
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return nil, err
	}
	ownCPU := time.Duration(own.Utime.Nano() + own.Stime.Nano())
	var waits, wholes []float64
	inTime, failed := 0, 0
	for _, t := range ended {
		r := t.Latest()
		waits, wholes = append(waits, r.Began.Sub(t.Submitted).Seconds()), append(wholes, r.Ended.Sub(t.Submitted).Seconds())
		if r.Ended.Before(over) {
			inTime++
		}
		if t.State == queue.Failed {
			failed++
		}
	}
	if failed > 0 {
		for _, t := range ended {
			if t.State == queue.Failed {
				return nil, fmt.Errorf("%d of %d tasks failed, such as: %s", failed, submitted, t.Latest().Message)
			}
		}
	}
	sorted(waits)
	sorted(wholes)
	per := func(d time.Duration) float64 { return d.Seconds() / float64(submitted) }
	return measurement.Result{
		"tasks_per_second": float64(inTime) / s.Duration.Seconds(), "tasks": float64(submitted), "waiting": float64(submitted - inTime),
		"wait_median_seconds": quantile(waits, 0.5), "wait_p99_seconds": quantile(waits, 0.99), "whole_p99_seconds": quantile(wholes, 0.99),
		"cpu_per_task_seconds": per(workersCPU + controlCPU + ownCPU), "workers_cpu_per_task_seconds": per(workersCPU),
		"control_cpu_per_task_seconds": per(controlCPU), "submitter_cpu_per_task_seconds": per(ownCPU),
	}, nil
}

// submit submits a batch each second.
func (s Sustained) submit(ctx context.Context, b *bench) (began time.Time, submitted int, err error) {
	began = time.Now()
	batches := int(s.Duration / time.Second)
	for n := range batches {
		select {
		case <-time.After(time.Until(began.Add(time.Duration(n) * time.Second))):
		case <-ctx.Done():
			return began, submitted, nil
		}
		var all []*queue.Submission
		for range s.Rate {
			all = append(all, &queue.Submission{
				Task: queue.Task{Name: "task"},
				Plan: queue.Plan{File: filepath.Join(b.dir, "task.yaml"), Folder: b.dir, Source: plans[s.Kind]},
			})
		}
		if err := b.queue.Submit(ctx, all, func(*queue.Task) { submitted++ }); err != nil {
			return began, submitted, err
		}
	}
	return began, submitted, nil
}

// drain waits until all tasks have ended.
func (s Sustained) drain(ctx context.Context, isOver func() bool) error {
	return retry(ctx, func() error {
		if !isOver() {
			return errors.New("tasks have not ended in time: the workers are slower than the rate")
		}
		return nil
	})
}
