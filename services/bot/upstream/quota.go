package upstream

import (
	"sync"
	"time"
)

// A quota bounds an amount per minute. The amount of a minute may be used at once; it comes back evenly. A nil quota
// has no bound.
type quota struct {
	most float64

	mu   sync.Mutex // guards what follows
	left float64
	at   time.Time // when left was that
}

func newQuota(perMinute int64) *quota {
	if perMinute == 0 {
		return nil
	}
	return &quota{most: float64(perMinute), left: float64(perMinute)}
}

// ready reports whether n can be used, and if not, when. More than the quota can be used when it is full.
func (q *quota) ready(n int64, now time.Time) (bool, time.Time) {
	if q == nil {
		return true, time.Time{}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	missing := min(float64(n), q.most) - q.fill(now)
	return missing <= 0, now.Add(time.Duration(missing / q.most * float64(time.Minute)))
}

// use takes n from the quota; a negative n gives back.
func (q *quota) use(n int64, now time.Time) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.left = min(q.fill(now)-float64(n), q.most)
}

// remains returns what can be used now; nil without a bound. Before an answer has told its tokens, it may be negative.
func (q *quota) remains(now time.Time) *int64 {
	if q == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	left := int64(q.fill(now))
	return &left
}

// fill adds what has come back since the last call.
func (q *quota) fill(now time.Time) float64 {
	if !q.at.IsZero() && now.After(q.at) {
		q.left = min(q.left+now.Sub(q.at).Seconds()/60*q.most, q.most)
	}
	if q.at.IsZero() || now.After(q.at) {
		q.at = now
	}
	return q.left
}
