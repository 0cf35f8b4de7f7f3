package upstream

import (
	"math/rand/v2"
	"sync"
	"time"
)

// health is what is known of an upstream. All of it is pure but for the lock.
type health struct {
	failures       int
	cooldown, most time.Duration

	mu      sync.Mutex // guards what follows
	row     int        // failures in a row
	until   time.Time  // not asked before; zero if it is well
	last    time.Duration
	probing bool    // the request that decides is under way
	by      *health // for which tenant it cooled down, since the last good answer; nil is none
}

// set sets what a Config says of it.
func (h *health) set(c Config) {
	h.failures, h.cooldown, h.most = c.Failures, c.Cooldown, c.MaxCooldown
}

// well tells whether it does not cool down, nor waits for the request that decides.
func (h *health) well() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until.IsZero()
}

// over tells whether it may be asked but for the request that decides, and if not, when.
func (h *health) over(now time.Time) (bool, time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !now.Before(h.until), h.until
}

// answers tells whether it may be asked, and whether anybody was answered since it cooled down for one tenant, if it did.
func (h *health) answers(now time.Time) bool {
	if ready, _ := h.ready(now); !ready {
		return false
	}
	h.mu.Lock()
	by := h.by
	h.mu.Unlock()
	if by == nil {
		return true
	}
	ready, _ := by.ready(now)
	return ready
}

// ready tells whether the upstream may be asked, and if not, when.
func (h *health) ready(now time.Time) (ok bool, when time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.until.IsZero() {
		return true, time.Time{}
	}
	return !h.probing && !now.Before(h.until), h.until
}

// begin takes the upstream for a request. It tells whether that decides on its health,
// and false for ok if another came first.
func (h *health) begin(now time.Time) (probe, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.until.IsZero():
		return false, true
	case h.probing || now.Before(h.until):
		return false, false
	}
	h.probing = true
	return true, true
}

// good counts an answer.
func (h *health) good(probe bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if probe {
		h.probing = false
	} else if !h.until.IsZero() {
		return // asked before it failed
	}
	h.row, h.until, h.last, h.by = 0, time.Time{}, 0, nil
}

// failed counts a failure; after is when the upstream wants to be asked again, 0 if it
// does not say. It tells whether it cools down from now on.
func (h *health) failed(probe bool, now time.Time, after time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if probe {
		h.probing = false
	} else if !h.until.IsZero() {
		return false
	}
	h.row++
	if after == 0 && h.row < h.failures {
		return false
	}
	h.cool(now, after)
	return true
}

// failedFor counts that it cools down for a tenant. It tells whether it does so for all from now on: if it did for another
// tenant before, and nobody has got an answer since.
func (h *health) failedFor(tenant *health, probe bool, now time.Time, after time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if probe {
		h.probing = false
	} else if !h.until.IsZero() {
		return false
	}
	if h.by == nil || h.by == tenant {
		h.by = tenant
		return false
	}
	h.cool(now, after)
	return true
}

// cool has it cool down: until it wants to be asked again, or each time for twice as long. The caller holds mu.
func (h *health) cool(now time.Time, after time.Duration) {
	if after > 0 {
		h.until = now.Add(min(after, maxTime))
		return
	}
	h.last = min(max(2*h.last, h.cooldown), h.most)
	h.until = now.Add(h.last)
}

// nothing takes back a request that says nothing about the upstream.
func (h *health) nothing(probe bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if probe {
		h.probing = false
	}
}

// A budget bounds retries: each request adds to it, each retry takes one.
type budget struct {
	ratio, burst float64

	mu   sync.Mutex // guards left
	left float64
}

func (p *Pool) newBudget() *budget {
	return &budget{ratio: p.cfg.RetryRatio, burst: float64(p.cfg.RetryBurst), left: float64(p.cfg.RetryBurst)}
}

func (b *budget) request() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = min(b.left+b.ratio, b.burst)
}

func (b *budget) retry() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// choose returns which of the candidates is to be asked: of those of the lowest
// priority one at random, by weight. There is at least one.
func choose(candidates []*target, random func(n int64) int64) *target {
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

// lockedRandom is a source for several goroutines.
type lockedRandom struct {
	mu sync.Mutex // guards r
	r  *rand.Rand
}

func (l *lockedRandom) Int64N(n int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.Int64N(n)
}
