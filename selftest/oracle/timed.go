package oracle

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// maxLog bounds the records a server keeps; later requests are served and
// counted, but not recorded.
const maxLog = 1 << 21

// A Record is what happened to one request, in nanoseconds.
type Record struct {
	Arrival  int64 // when its last byte had been read, since the server's start
	Planned  int64 // from Arrival to when its answer was due
	Injected int64 // from Arrival to just before its answer was written; -1 if there was none
}

// A Timed server answers each request at a time that is known when it arrives.
// Its answers carry two header fields: X-Truth-Seq, the request's number in
// order of arrival, from 0; and X-Truth-Ns, the nanoseconds from its arrival to
// just before the answer was written, 19 digits.
type Timed struct {
	*Server

	due func(arrival int64) int64 // when to answer

	// Guarded by Server.mu.
	log      []Record // in order of arrival
	arrivals int
}

// StartDelay starts a server that answers each request independently of all others. The delay after its
// arrival is drawn from the distribution.
func StartDelay(ctx context.Context, config Config, delay Distribution, seed uint64) (*Timed, error) {
	random := seeded(seed)
	return startTimed(ctx, config, delay.Validate(), independent(delay, random))
}

// StartQueue starts a server with one first-come, first-served queue and a number of workers. A worker
// takes a time drawn from the distribution for each request. One worker and Exponential service is
// M/M/1 if the arrivals are Poisson. Workers are a calculation rather than threads: a request's answer
// is due when the queue says so, and a late answer delays no other. The queue is bounded by
// Config.Connections, since a connection carries one request at a time.
func StartQueue(ctx context.Context, config Config, workers int, service Distribution, seed uint64) (*Timed, error) {
	err := service.Validate()
	if workers < 1 || workers > 1<<16 {
		return nil, errors.Join(err, fmt.Errorf("oracle: workers: %d: must be between 1 and %d", workers, 1<<16))
	}
	return startTimed(ctx, config, err, queue(workers, service, seeded(seed)))
}

// independent returns the rule of StartDelay.
func independent(delay Distribution, random *rand.Rand) func(int64) int64 {
	return func(arrival int64) int64 {
		return arrival + int64(delay.Quantile(random.Float64()))
	}
}

// queue returns the rule of StartQueue. Arrivals must not decrease.
func queue(workers int, service Distribution, random *rand.Rand) func(int64) int64 {
	free := make([]int64, workers) // when each worker will be
	return func(arrival int64) int64 {
		first := 0
		for i := range free {
			if free[i] < free[first] {
				first = i
			}
		}
		free[first] = max(arrival, free[first]) + int64(service.Quantile(random.Float64()))
		return free[first]
	}
}

func startTimed(ctx context.Context, config Config, fault error, due func(int64) int64) (*Timed, error) {
	if err := errors.Join(config.validateHTTP(), fault); err != nil {
		return nil, err
	}
	s, err := listen(config)
	if err != nil {
		return nil, err
	}
	t := &Timed{Server: s, due: due}
	s.policy.request, s.policy.due = t.request, t.reply
	s.run(ctx)
	return t, nil
}

func (t *Timed) request(c *conn) {
	c.arrival = t.now()
	c.seq = t.arrivals
	t.arrivals++
	at := t.due(c.arrival)
	if c.seq < maxLog {
		t.log = append(t.log, Record{Arrival: c.arrival, Planned: at - c.arrival, Injected: -1})
	}
	t.after(at, c)
}

func (t *Timed) reply(c *conn) {
	injected := t.now() - c.arrival
	if c.seq < maxLog {
		t.log[c.seq].Injected = injected
	}
	t.answer(c, "X-Truth-Seq: "+strconv.Itoa(c.seq)+"\r\n", fieldNs("X-Truth-Ns", injected))
	t.finish(c)
}

// Log returns the records in order of arrival, at most the first 2,097,152.
func (t *Timed) Log() []Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]Record(nil), t.log...)
}

// Clock returns the time that a Record's Arrival counts from. It carries a
// monotonic reading.
func (t *Timed) Clock() time.Time { return t.start }
