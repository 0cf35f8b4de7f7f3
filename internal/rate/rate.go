// Package rate limits how often clients may do something.
package rate

import (
	"container/list"
	"sync"
	"time"
)

// A Limiter has a bucket of tokens for each client. It remembers a bounded number of
// clients: beyond that, those that were not heard for longest are forgotten, and have a
// full bucket when they come back. Its methods may be called from any goroutine.
type Limiter struct {
	rate  float64 // a second, unless the client has its own
	burst float64
	max   int

	mu      sync.Mutex // guards what follows
	buckets map[string]*list.Element
	recent  list.List // of *bucket, the last heard first
}

type bucket struct {
	client string
	tokens float64
	at     time.Duration
}

// NewLimiter returns a Limiter; with rate 0, clients without a rate of their own are not limited.
func NewLimiter(rate float64, burst, clients int) *Limiter {
	return &Limiter{rate: rate, burst: float64(burst), max: clients, buckets: map[string]*list.Element{}}
}

// Allow takes a token from a client's bucket. If there is none, it returns the time until the next one.
// rate and burst are the client's own; 0 is the Limiter's. now is by a clock that does not jump.
func (l *Limiter) Allow(client string, rate float64, burst int, now time.Duration) (ok bool, after time.Duration) {
	most := float64(burst)
	if rate == 0 {
		rate = l.rate
	}
	if most == 0 {
		most = l.burst
	}
	if rate == 0 {
		return true, 0
	}
	most = max(most, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.buckets[client]
	if e == nil {
		if len(l.buckets) == l.max {
			oldest := l.recent.Back()
			delete(l.buckets, oldest.Value.(*bucket).client)
			l.recent.Remove(oldest)
		}
		e = l.recent.PushFront(&bucket{client, most, now})
		l.buckets[client] = e
	}
	l.recent.MoveToFront(e)
	b := e.Value.(*bucket)
	b.tokens = min(most, b.tokens+rate*max(0, (now-b.at).Seconds()))
	b.at = max(b.at, now)
	if b.tokens < 1 {
		return false, time.Duration((1 - b.tokens) / rate * float64(time.Second))
	}
	b.tokens--
	return true, 0
}
