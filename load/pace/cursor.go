package pace

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// A Cursor walks one worker's share of a schedule, in order. It is for one
// goroutine at a time, and its methods do not allocate.
type Cursor struct {
	schedule *Schedule
	stage    int    // positions only grow, so earlier stages are done with
	skip     uint64 // arrivals from the one returned last to the next
	workers  uint64
	index    uint64 // of the arrival at pos, once started
	started  bool
	pos      fixed // where Λ is at the arrival
	rng      rand.PCG
}

// Split returns worker's share, 0 ≤ worker < workers: the arrivals whose index,
// modulo workers, is worker. The union of all shares is the schedule, whatever
// the number of workers. Split panics if there is no such worker.
func (s *Schedule) Split(worker, workers int) *Cursor {
	if worker < 0 || worker >= workers {
		panic(fmt.Sprintf("pace: worker %d of %d", worker, workers))
	}
	return &Cursor{
		schedule: s,
		skip:     uint64(worker),
		workers:  uint64(workers),
		rng:      NewRNG(s.seed, scheduleStream),
	}
}

// Next returns the index and the intended start of the worker's next arrival; ok
// is false when there is none, and stays so. Starts never decrease. An endless
// schedule ends where time.Duration does, after 292 years.
//
// Constant arrivals cost the same however many workers there are. Poisson arrivals are a sum, so each
// worker also draws the others' arrivals: about 30 ns each.
func (c *Cursor) Next() (index uint64, at time.Duration, ok bool) {
	stages := c.schedule.stages
	if c.stage == len(stages) {
		return 0, 0, false
	}
	c.advance()
	for ; c.stage < len(stages); c.stage++ {
		st := &stages[c.stage]
		if t, ok := st.at(c.pos); ok {
			return c.index, st.begin + time.Duration(t), true
		}
	}
	return 0, 0, false
}

// advance moves to the worker's next arrival.
func (c *Cursor) advance() {
	c.index += c.skip
	if c.schedule.process == Constant {
		c.pos = fixed{hi: c.index}
	} else {
		gaps := c.skip
		if !c.started {
			gaps++ // arrival 0 is one gap after 0
		}
		for range gaps {
			c.pos = c.pos.plus(exponential(&c.rng))
		}
	}
	c.started = true
	c.skip = c.workers
}
