package upstream

import (
	"math"
	"sync"
	"time"
)

// A retryBudget bounds retries: each request adds to it, each retry takes one.
type retryBudget struct {
	ratio, burst float64

	mu   sync.Mutex // guards left
	left float64
}

func (p *Pool) newRetryBudget() *retryBudget {
	return &retryBudget{ratio: p.cfg.RetryRatio, burst: float64(p.cfg.RetryBurst), left: float64(p.cfg.RetryBurst)}
}

func (b *retryBudget) request() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = min(b.left+b.ratio, b.burst)
}

func (b *retryBudget) retry() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// A Balance says how requests are divided among deployments of equal priority.
type Balance string

// The ways.
const (
	Weighted Balance = "weight"     // at random, by their weights
	Least    Balance = "least_busy" // to the one with the fewest calls under way for its weight
	Latency  Balance = "latency"    // to the one of two, drawn by weight, whose answers and waiting calls take less time
)

// choose returns one of the candidates of the lowest priority. There is at least one.
func (p *Pool) choose(candidates []*target) *target {
	switch p.cfg.Balance {
	case Least:
		candidates = best(candidates, func(t *target) float64 { return float64(t.places.Held()) / float64(t.Weight) })
	case Latency:
		first, second := drawn(candidates, p.random), drawn(candidates, p.random)
		if second.expected() < first.expected() {
			return second
		}
		return first
	}
	return drawn(candidates, p.random)
}

// best returns those of the lowest priority with the lowest figure.
func best(candidates []*target, figure func(*target) float64) (list []*target) {
	priority, lowest := math.MaxInt, math.Inf(1)
	for _, t := range candidates {
		f := figure(t)
		if t.Priority > priority || t.Priority == priority && f > lowest {
			continue
		}
		if t.Priority < priority || f < lowest {
			list, priority, lowest = nil, t.Priority, f
		}
		list = append(list, t)
	}
	return list
}

// latencyShare is the share of the latest time in the mean of a deployment's times.
const latencyShare = 0.2

// took notes the time until an answer, of a stream until its first event.
func (t *target) took(d time.Duration) {
	for {
		was := t.latency.Load()
		mean := int64(d)
		if was > 0 {
			mean = was + int64(latencyShare*float64(int64(d)-was))
		}
		if t.latency.CompareAndSwap(was, max(mean, 1)) {
			return
		}
	}
}

// expected returns how long an answer would take, if the calls under way came before; 0 is unknown.
func (t *target) expected() float64 {
	return float64(t.latency.Load()) * float64(t.places.Held()+1)
}

// drawn returns one of the candidates of the lowest priority, at random, by weight.
func drawn(candidates []*target, random func(n int64) int64) *target {
	lowest := candidates[0].Priority
	for _, t := range candidates {
		lowest = min(lowest, t.Priority)
	}
	total := int64(0)
	for _, t := range candidates {
		if t.Priority == lowest {
			total += int64(t.Weight)
		}
	}
	at := random(total)
	for _, t := range candidates {
		if t.Priority != lowest {
			continue
		}
		if at -= int64(t.Weight); at < 0 {
			return t
		}
	}
	return candidates[0] // never: the weights add up to the total
}
