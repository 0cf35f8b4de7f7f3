package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"dyno/experiments/subjects/measurement"

	"golang.org/x/sys/unix"
)

// A Pin measures threads that are woken often and work on shared memory. Each is bound to one CPU, or left to
// the scheduler. Tokens go round a ring of threads: one for each CPU, but at most one for two threads. A thread
// that gets a token adds up a block of the memory and passes the token on. Bound threads share a CPU with
// neighbours on the ring where they can. Four threads on two CPUs pass tokens to the same CPU every other time,
// as a random placement would.
//
// Figures: ops_per_second, tokens handoffs on; migrations, how often the kernel
// moved one of the threads to another CPU (nr_migrations in /proc/PID/sched);
// migrations_per_second; ops; cpus.
type Pin struct {
	Pinned   bool          `yaml:"pinned" doc:"bind each thread to one CPU"`
	Threads  int           `yaml:"threads" range:"2..256" default:"4" doc:"how many"`
	Duration time.Duration `yaml:"duration" range:"1us..10m" default:"1s" doc:"how long to measure"`
}

const (
	block       = 4 << 10  // bytes that an operation adds up
	workingSet  = 64 << 10 // bytes that the threads share
	maxThreads  = 256
	wordsInSet  = workingSet / 8
	wordsInTurn = block / 8
)

// Run measures for the duration. With one CPU there is nowhere to migrate to, and
// it fails.
func (p Pin) Run(ctx context.Context) (measurement.Result, error) {
	cpus, err := allowedCPUs()
	if err != nil {
		return nil, err
	}
	if len(cpus) < 2 {
		return nil, fmt.Errorf("one CPU is allowed, number %d; it takes two to migrate", cpus[0])
	}
	defer holding(p.Threads)()
	var stop atomic.Bool
	shared := make([]atomic.Uint64, wordsInSet)
	handoffs := make([]futex, p.Threads) // how many tokens are there
	ops, moved := make([]int64, p.Threads), make([]int64, p.Threads)
	tokens := min(len(cpus), p.Threads/2) // some thread always waits
	for i := range tokens {
		handoffs[i*p.Threads/tokens].post()
	}
	c := newCrew()
	for i := range p.Threads {
		cpu := anyCPU
		if p.Pinned {
			cpu = cpus[i*len(cpus)/p.Threads]
		}
		c.add(cpu, func() error {
			before, err := migrations()
			for over := false; !over; ops[i]++ {
				handoffs[i].take()
				from := int(ops[i]) * wordsInTurn % wordsInSet
				var sum uint64
				for k := range wordsInTurn {
					sum += shared[from+k].Load()
				}
				shared[from].Store(sum)
				over = stop.Load()
				handoffs[(i+1)%p.Threads].post() // the last time too: it lets the next one see that it is over
			}
			after, err2 := migrations()
			moved[i] = after - before
			return errors.Join(err, err2)
		})
	}
	defer stopAfter(ctx, p.Duration, &stop)()
	elapsed, err := c.run()
	if err := errors.Join(err, interrupted(ctx)); err != nil {
		return nil, err
	}
	var done, moves int64
	for i := range p.Threads {
		done, moves = done+ops[i], moves+moved[i]
	}
	return measurement.Result{
		"ops_per_second":        float64(done) / elapsed.Seconds(),
		"ops":                   float64(done),
		"migrations":            float64(moves),
		"migrations_per_second": float64(moves) / elapsed.Seconds(),
		"cpus":                  float64(len(cpus)),
	}, nil
}

// migrations is how often the calling thread was moved so far.
func migrations() (int64, error) {
	v, err := field(fmt.Sprintf("/proc/self/task/%d/sched", unix.Gettid()), "se.nr_migrations")
	return int64(v), err
}
