package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"dyno/experiments/subjects/measurement"
)

// How tasks are carried out.
const (
	Each       = "each"       // each by a goroutine of its own
	Pooled     = "pool"       // by workers, which are started when tasks wait
	Collecting = "collecting" // by such workers, which call runtime.GC before each task, as report R0 prints it
)

// A Tasks keeps many tasks in flight. A task decodes a policy, waits as for a disk, and encodes the policy again.
//
// The pool is that of report R0. A worker is started when more than Grow tasks wait, up to Workers. A worker without a
// task for as long as Idle ends. With the default, a trial of R0-tasks.yaml is too short for that. The report says that
// runtime.GC before a task makes the stack of its goroutine smaller.
//
// Figures: mean_seconds and p99_seconds, from when a task was handed over until its end; tasks_per_second;
// collections_per_second; pause_per_task_seconds, for which the collector stopped all goroutines; rss_bytes, the most
// resident memory; workers, the most at once, 0 without a pool.
type Tasks struct {
	Kind     string        `yaml:"kind" oneof:"each pool collecting" default:"each" doc:"who carries out a task: a goroutine of its own, a pool, or a pool that collects garbage before each task"`
	InFlight int           `yaml:"in_flight" range:"1..1000000" default:"10000" doc:"tasks at once"`
	Workers  int           `yaml:"workers" range:"1..1000000" default:"1024" doc:"the most workers of a pool"`
	Grow     int           `yaml:"grow" range:"0..1000000" default:"16" doc:"a pool starts a worker when more tasks than this wait"`
	Idle     time.Duration `yaml:"idle" range:"1ms..1h" default:"30s" doc:"a worker without a task for this long ends"`
	Wait     time.Duration `yaml:"wait" range:"0..1m" default:"2ms" doc:"how long a task waits, as for a disk"`
	Duration time.Duration `yaml:"duration" range:"1ms..10m" default:"3s" doc:"how long tasks are handed over"`
}

// policy is what a task decodes and encodes.
const policy = `{"name":"p1","rules":[{"match":{"services":["checkout"],"methods":["POST"],"path_prefix":"/v1/orders"},"action":"limit","limit":{"requests_per_second":500,"burst":50}},{"action":"allow"}]}`

// A pool has workers that take tasks from a queue.
type workers struct {
	tasks      chan func()
	most, grow int
	idle       time.Duration
	collect    bool
	running    atomic.Int64
	peak       int64 // only hand writes it
	ended      sync.WaitGroup
}

// hand hands a task over, from one goroutine. The queue has room for all tasks in flight.
func (w *workers) hand(task func()) {
	w.tasks <- task
	if n := w.running.Load(); n == 0 || len(w.tasks) > w.grow && n < int64(w.most) {
		w.peak = max(w.peak, w.running.Add(1))
		w.ended.Go(w.work)
	}
}

// work carries out tasks until there are none for the idle time.
func (w *workers) work() {
	for timer := time.NewTimer(w.idle); ; timer.Reset(w.idle) {
		select {
		case task, open := <-w.tasks:
			if !open {
				return
			}
			if w.collect {
				runtime.GC()
			}
			task()
		case <-timer.C:
			w.running.Add(-1)
			return
		}
	}
}

// Run hands tasks over for the duration, and waits for all.
func (t Tasks) Run(ctx context.Context) (measurement.Result, error) {
	pool := &workers{tasks: make(chan func(), t.InFlight), most: t.Workers, grow: t.Grow, idle: t.Idle, collect: t.Kind == Collecting}
	hand := pool.hand
	if t.Kind == Each {
		hand = func(task func()) { go task() }
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var (
		mu    sync.Mutex // guards times
		times []float64
	)
	rss := 0.0
	places := make(chan struct{}, t.InFlight)
	began := time.Now()
	looked := began
	for ctx.Err() == nil && time.Since(began) < t.Duration {
		places <- struct{}{}
		at := time.Now()
		hand(func() {
			t.carryOut()
			took := time.Since(at).Seconds()
			mu.Lock()
			times = append(times, took)
			mu.Unlock()
			<-places
		})
		if at.Sub(looked) > 10*time.Millisecond {
			looked = at
			r, err := resident()
			if err != nil {
				return nil, err
			}
			rss = max(rss, r)
		}
	}
	for range t.InFlight {
		places <- struct{}{}
	}
	took := time.Since(began).Seconds()
	runtime.ReadMemStats(&after)
	close(pool.tasks)
	pool.ended.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	slices.Sort(times)
	sum := 0.0
	for _, one := range times {
		sum += one
	}
	n := float64(len(times))
	return measurement.Result{
		"mean_seconds":           sum / n,
		"p99_seconds":            times[int(math.Ceil(0.99*n))-1],
		"tasks_per_second":       n / took,
		"collections_per_second": float64(after.NumGC-before.NumGC) / took,
		"pause_per_task_seconds": float64(after.PauseTotalNs-before.PauseTotalNs) / 1e9 / n,
		"rss_bytes":              rss,
		"workers":                float64(pool.peak),
	}, nil
}

// carryOut is a task.
func (t Tasks) carryOut() {
	var document map[string]any
	if err := json.Unmarshal([]byte(policy), &document); err != nil {
		panic(err) // the text is this program's own
	}
	time.Sleep(t.Wait)
	if _, err := json.Marshal(document); err != nil {
		panic(err)
	}
}

// resident is the resident memory of this process, in bytes.
func resident() (float64, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	var size, pages float64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		return 0, fmt.Errorf("/proc/self/statm: %w", err)
	}
	return pages * float64(os.Getpagesize()), nil
}
