package oracle

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"
)

// Bounds of a Workload.
const (
	maxIterations = 1 << 32 // some seconds
	maxSlow       = 10
)

// A Workload is what a Work server does for a request.
type Workload struct {
	// Iterations of a fixed loop that each request costs. WorkIterations says how
	// many take how long.
	Iterations int64

	// Slow is a planted slowdown: for each second that the server is busy, it burns this
	// many seconds more. 0.05 is a slowdown by 5 %. From 0 to 10.
	Slow float64

	// Hot is the share of the server's busy time, before a slowdown, that goes to a separate function,
	// planted. It comes on top of the rest: h/(1−h) times as much again. 0.03 makes 3 % of the CPU time
	// that function's. From 0 to 0.5.
	Hot float64
}

// HotFunction is the name of the function that Workload.Hot runs, without its package.
const HotFunction = "planted"

// Validate reports every fault of the workload, or nil.
func (w Workload) Validate() error {
	var faults []error
	if w.Iterations < 0 || w.Iterations > maxIterations {
		faults = append(faults, fmt.Errorf("oracle: iterations: %d: must be between 0 and %d", w.Iterations, int64(maxIterations)))
	}
	if !(w.Slow >= 0 && w.Slow <= maxSlow) {
		faults = append(faults, fmt.Errorf("oracle: slow: %v: must be a share between 0 and %d, as 0.05", w.Slow, maxSlow))
	}
	if !(w.Hot >= 0 && w.Hot <= 0.5) {
		faults = append(faults, fmt.Errorf("oracle: hot: %v: must be a share between 0 and 0.5, as 0.03", w.Hot))
	}
	return errors.Join(faults...)
}

// SlowRatio returns the throughput of a saturated Work server slowed by a share, relative to one that
// is not.
func SlowRatio(share float64) float64 { return 1 / (1 + share) }

// An Account is what a Work server has spent its time on. Busy time is all time
// in which the server's thread did not sleep, but for the planted slowdown.
type Account struct {
	Iterations int64         // burnt for requests
	Cycles     int64         // wake-ups, or cycles of the loop while it did not sleep
	Busy       time.Duration // reading, working and writing, in the kernel as well
	Planted    time.Duration // burnt by slowdown and hot function: their shares of Busy, to within one clock reading
	Idle       time.Duration // asleep between the first request and the last
}

// A Work server computes for each request, so its CPU limits a closed loop. It can be slowed down by an
// exactly known share.
//
// After each cycle of its loop (wait, read, work, write) it burns Slow times what the cycle took.
// Everything that a cycle costs is covered: its system calls, the interrupts and the network's work in
// its context. Other threads' use of its CPU is included too, since a cycle is timed by the wall clock.
// Kernels may leave interrupts out of a thread's CPU time (CONFIG_IRQ_TIME_ACCOUNTING). If burning
// takes too long in one cycle, it takes less in the next. So the time that is left for requests is 1/(1
// + Slow) of the whole.
//
// Not covered is time asleep, when there is no request: it would absorb the
// slowdown. The ratio of throughputs is SlowRatio only if the server is
// saturated. Account.Idle tells: its share of the whole must be close to 0. Not
// covered either is that a slower server finds more requests at each cycle and
// looks for them less often. With n requests a cycle and a look of half a
// microsecond that is 0.5 µs/n of a request's time.
type Work struct {
	*Server

	load Workload

	// Guarded by Server.mu.
	slow    slowdown
	hot     slowdown
	account Account
	served  int64  // Traffic.Received at the end of the last cycle
	asleep  int64  // since the last request
	state   uint64 // of the loop that is burnt, so that it cannot be left out
}

// StartWork starts a server that works for each request.
func StartWork(ctx context.Context, config Config, load Workload) (*Work, error) {
	if err := errors.Join(config.validateHTTP(), load.Validate()); err != nil {
		return nil, err
	}
	s, err := listen(config)
	if err != nil {
		return nil, err
	}
	w := &Work{Server: s, load: load, slow: slowdown{share: load.Slow}, hot: slowdown{share: load.Hot / (1 - load.Hot)}, state: 1}
	answer := s.answerer()
	s.policy.request = func(c *conn) {
		w.state = spin(w.state, w.load.Iterations)
		w.account.Iterations += w.load.Iterations
		answer(c)
	}
	s.policy.afterCycle = w.endCycle
	s.run(ctx)
	return w, nil
}

// Account returns what the server has spent its time on so far.
func (w *Work) Account() Account {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.account
	a.Busy, a.Planted = time.Duration(w.hot.busy), time.Duration(w.slow.planted+w.hot.planted)
	return a
}

// endCycle ends a cycle of the loop; the server slept for a part of it.
func (w *Work) endCycle(slept int64) {
	w.account.Cycles++
	if w.served > 0 {
		w.asleep += slept
	}
	if w.traffic.Received > w.served {
		w.served = w.traffic.Received
		w.account.Idle += time.Duration(w.asleep)
		w.asleep = 0
	}
	now := w.now()
	until := w.hot.end(now, slept)
	for now < until {
		w.state = planted(w.state)
		now = w.now()
	}
	w.hot.burnt(now)
	until = w.slow.end(now, slept)
	for now < until {
		now = w.now()
	}
	w.slow.burnt(now)
	w.hot.ended = now
}

// planted computes for about a microsecond, between two readings of the clock: a
// profile must see this function and not the clock.
//
//go:noinline
func planted(x uint64) uint64 {
	for range 700 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// A slowdown owes a share of all time that was busy. Times are nanoseconds of
// one clock.
type slowdown struct {
	share   float64
	ended   int64 // the last cycle, with what it burnt
	debt    float64
	from    int64 // when burning began
	busy    int64
	planted int64
}

// end takes the end of a cycle, and the part that was slept. It returns until when to burn.
func (s *slowdown) end(now, slept int64) (until int64) {
	busy := max(0, now-s.ended-slept)
	s.busy += busy
	s.debt += s.share * float64(busy)
	s.from = now
	return now + int64(s.debt)
}

// burnt takes the time at which burning has ended.
func (s *slowdown) burnt(now int64) {
	s.planted += now - s.from
	s.debt -= float64(now - s.from)
	s.ended = now
}

// spin runs a loop of dependent steps (Marsaglia's xorshift) that no compiler can
// shorten.
func spin(x uint64, iterations int64) uint64 {
	for range iterations {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// WorkIterations returns how many iterations of a Workload take about so long on
// this CPU. It takes some 50 ms. The fastest of several tries counts: the others
// were disturbed.
func WorkIterations(d time.Duration) int64 {
	const iterations, tries = 1 << 21, 10
	fastest := time.Duration(math.MaxInt64)
	x := uint64(1)
	for range tries {
		began := time.Now()
		x = spin(x, iterations)
		fastest = min(fastest, time.Since(began))
	}
	if x == 0 {
		panic("oracle: xorshift has reached 0, which it cannot from any other number")
	}
	return max(1, int64(float64(d)/float64(max(1, fastest))*iterations))
}

// Burn uses up the CPU time of a number of threads until the context ends: a noisy
// neighbour.
func Burn(ctx context.Context, threads int) {
	var wait sync.WaitGroup
	for range threads {
		wait.Go(func() {
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			for x := uint64(1); ctx.Err() == nil && x != 0; {
				x = spin(x, 1<<16)
			}
		})
	}
	wait.Wait()
}
