// Package health makes the checks of instances: when, how many at once, and how many results in a row change an
// instance's health. Who checks what is the caller's to say, and so is what becomes of a change.
//
//	c := health.New(health.Config{AtOnce: 256, Changed: func(path string) { … }})
//	go c.Run(ctx)
//	c.Set(path, instance, true)
//	results := c.Results(path)
//
// To read the source: track.go has when a check's health changes, health.go when checks are made, and probe.go how.
package health

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"reflect"
	"sync"
	"time"

	"dyno/services/control/resource"
)

// Config says how a Checker works.
type Config struct {
	AtOnce int
	// Commands is the folder of programs that checks may run; without one they run none.
	Commands string
	// Changed is told that the results of an instance have changed. It must not block.
	Changed func(path string)

	probe func(context.Context, *Target) (resource.Health, string) // tests replace it
}

// A Target is a check of an instance.
type Target struct {
	Check   *resource.Check
	Address string
	Port    int
}

// A Checker makes checks. Its methods may be called from any goroutine.
type Checker struct {
	cfg   Config
	slots chan struct{} // one for each check in progress
	poke  chan struct{} // capacity 1: the first due time may have changed

	mu        sync.Mutex // guards what follows
	instances map[string]*checked
	due       queue
	made      uint64
	late      time.Duration // how late the last check began
}

// checked is an instance whose checks are made.
type checked struct {
	path  string
	at    *resource.Instance // its address and checks
	tasks []*task
}

// A task is one check of an instance.
type task struct {
	*checked
	target  Target
	track   track
	next    time.Time
	index   int  // in the queue; -1 is not in it
	ended   bool // the instance has other checks, or is checked elsewhere
	settled bool // it has its place in the interval
}

// New returns a Checker that makes no checks until Run.
func New(cfg Config) *Checker {
	if cfg.probe == nil {
		p := newProber(cfg.Commands)
		cfg.probe = p.probe
	}
	return &Checker{cfg: cfg, slots: make(chan struct{}, cfg.AtOnce), poke: make(chan struct{}, 1), instances: map[string]*checked{}}
}

// soon is the time within which an instance is checked first.
const soon = time.Second

// Set begins to check an instance, soon, or goes on with another form of it. Its stored results are where checks begin.
func (c *Checker) Set(path string, i *resource.Instance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.instances[path]
	if old != nil && old.at.Address == i.Address && old.at.Port == i.Port && reflect.DeepEqual(old.at.Checks, i.Checks) {
		old.at = i
		return
	}
	c.remove(path)
	now := time.Now()
	one := &checked{path: path, at: i}
	for n := range i.Checks {
		check := &i.Checks[n]
		t := &task{checked: one, target: Target{check, i.Address, or(check.Port, i.Port)}, track: begin(check, i.Results)}
		t.next = now.Add(rand.N(min(check.Period(), soon)))
		one.tasks = append(one.tasks, t)
		heap.Push(&c.due, t)
	}
	c.instances[path] = one
	c.wake()
}

func or(given, otherwise int) int {
	if given == 0 {
		return otherwise
	}
	return given
}

// Remove ends the checks of an instance, if there are any.
func (c *Checker) Remove(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(path)
}

func (c *Checker) remove(path string) {
	one := c.instances[path]
	if one == nil {
		return
	}
	delete(c.instances, path)
	for _, t := range one.tasks {
		t.ended = true
		if t.index >= 0 {
			heap.Remove(&c.due, t.index)
		}
	}
}

// Results returns the results of an instance's checks that have one; ok is false if it is not checked here.
func (c *Checker) Results(path string) (results []resource.CheckResult, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.instances[path]
	if one == nil {
		return nil, false
	}
	for _, t := range one.tasks {
		if t.track.result.Health != "" {
			results = append(results, t.track.result)
		}
	}
	return results, true
}

// Counts returns how many instances are checked, how many checks were made, and how late the last one began.
func (c *Checker) Counts() (instances int, made uint64, late time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.instances), c.made, c.late
}

func (c *Checker) wake() {
	select {
	case c.poke <- struct{}{}:
	default:
	}
}

// Run makes the checks until ctx ends. It waits for those in progress.
func (c *Checker) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		t, wait := c.pop(time.Now())
		if t == nil {
			timer.Reset(wait)
			select {
			case <-ctx.Done():
				return
			case <-c.poke:
			case <-timer.C:
			}
			continue
		}
		select {
		case <-ctx.Done():
			return
		case c.slots <- struct{}{}:
		}
		all.Go(func() {
			defer func() { <-c.slots }()
			c.make(ctx, t)
		})
	}
}

// pop returns a check that is due, or for how long there is none.
func (c *Checker) pop(now time.Time) (*task, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.due) == 0 {
		return nil, time.Hour
	}
	if wait := c.due[0].next.Sub(now); wait > 0 {
		return nil, wait
	}
	return heap.Pop(&c.due).(*task), 0
}

// make makes a check, and says when it is due again.
func (c *Checker) make(ctx context.Context, t *task) {
	began := time.Now()
	within, cancel := context.WithTimeout(ctx, t.target.Check.Limit())
	health, output := c.cfg.probe(within, &t.target)
	cancel()
	if ctx.Err() != nil {
		return // it was broken off: that says nothing of the instance
	}
	c.mu.Lock()
	c.made++
	c.late = began.Sub(t.next)
	if t.ended {
		c.mu.Unlock()
		return
	}
	changed, sure := t.track.note(health, output, time.Now())
	// A replica that checked in place of this one may have stored another health.
	changed = changed || sure && begin(t.target.Check, t.at.Results).result.Health != t.track.result.Health
	t.next = began.Add(t.pause(sure))
	heap.Push(&c.due, t)
	c.mu.Unlock()
	c.wake()
	if changed {
		c.cfg.Changed(t.path)
	}
}

// pause returns the time from the start of a check to that of the next. An instance that may have failed is asked
// again soon. After their first check, instances, which may be many at once, are spread over an interval.
func (t *task) pause(sure bool) time.Duration {
	period := t.target.Check.Period()
	switch {
	case !sure:
		return period / suspicion
	case !t.settled:
		t.settled = true
		return rand.N(period)
	}
	return period
}

// suspicion is how many times as often a check is made while its result differs from the health so far.
const suspicion = 10

// queue has the check first that is due first.
type queue []*task

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].next.Before(q[j].next) }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i]; q[i].index, q[j].index = i, j }
func (q *queue) Push(x any)        { t := x.(*task); t.index = len(*q); *q = append(*q, t) }
func (q *queue) Pop() any {
	old := *q
	t := old[len(old)-1]
	t.index = -1
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return t
}
