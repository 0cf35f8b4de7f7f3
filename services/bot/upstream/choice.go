package upstream

import "sync"

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

// choose returns one of the candidates of the lowest priority, at random, by weight. There is at least one.
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
