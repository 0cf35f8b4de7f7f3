package memory

import (
	"context"
	"errors"
	"maps"
	"time"

	"dyno/services/bot/store"
)

// Coordinator is a store.Coordinator of one process.
type Coordinator struct {
	sessions sessions
	limits   limits
}

// NewCoordinator returns an empty Coordinator. It remembers the numbers of turns of a bounded number of sessions; for
// others it is store.Unknown.
func NewCoordinator(sessions int) *Coordinator {
	c := &Coordinator{}
	c.sessions.most, c.sessions.held = sessions, map[string]*session{}
	c.limits.accounts = map[string]*account{}
	return c
}

// Begin is store.Coordinator's.
func (c *Coordinator) Begin(_ context.Context, l *store.Lock, r *store.Reservation) (int64, error) {
	turns := int64(store.Unknown)
	if l != nil {
		var err error
		if turns, err = c.sessions.acquire(l); err != nil {
			return 0, err
		}
	}
	if r != nil {
		if err := c.limits.reserve(r); err != nil {
			if l != nil {
				_ = c.sessions.release(l, turns) // it was locked just now
			}
			return 0, err
		}
	}
	return turns, nil
}

// Extend is store.Coordinator's.
func (c *Coordinator) Extend(_ context.Context, l *store.Lock) error { return c.sessions.extend(l) }

// End is store.Coordinator's.
func (c *Coordinator) End(_ context.Context, l *store.Lock, turns int64, r *store.Reservation, used store.Cost) error {
	var errs [2]error
	if r != nil {
		errs[0] = c.limits.settle(r, used)
	}
	if l != nil {
		errs[1] = c.sessions.release(l, turns)
	}
	return errors.Join(errs[:]...)
}

// Correct is store.Coordinator's.
func (c *Coordinator) Correct(_ context.Context, key string, list []store.Limit, at time.Time, more store.Cost) error {
	_, all := c.limits.lock(key, list)
	defer unlock(all)
	for _, a := range all {
		a.add(store.Reservation{Key: key, Limits: list, At: at}, more)
	}
	return nil
}

// Used is store.Coordinator's.
func (c *Coordinator) Used(_ context.Context, key string, list []store.Limit, now time.Time) ([]int64, error) {
	return c.limits.used(key, list, now), nil
}

// Erase is store.Coordinator's.
func (c *Coordinator) Erase(_ context.Context, user string) error {
	c.sessions.mu.Lock()
	maps.DeleteFunc(c.sessions.held, func(name string, h *session) bool { return h.holder == "" && store.IsOf(name, user) })
	c.sessions.mu.Unlock()
	c.limits.mu.Lock()
	of := c.limits.accounts[store.Part{Owner: user}.Account()]
	c.limits.mu.Unlock()
	if of != nil {
		of.mu.Lock()
		defer of.mu.Unlock()
		clear(of.counters)
	}
	return nil
}

// A Ledger sums up usage since a time.
type Ledger interface {
	Sum(ctx context.Context, p store.Part, from time.Time) (store.Cost, error)
}

// Seeded reports whether all limits of a key have counters at a time.
func (c *Coordinator) Seeded(key string, list []store.Limit, now time.Time) bool {
	return len(c.limits.unknown(key, list, now)) == 0
}

// Seed starts the counters of a key's limits for the current windows with the ledger's sums. That includes counts of an
// earlier process, and usage from before a new limit. Existing counters stay. Later windows start at 0, so that no
// request waits for a long ledger.
func (c *Coordinator) Seed(ctx context.Context, ledger Ledger, key string, list []store.Limit, now time.Time) error {
	list = c.limits.unknown(key, list, now)
	type part struct {
		store.Part
		from time.Time
	}
	sums := map[part]store.Cost{} // several resources may have the same window
	for _, limit := range list {
		p := part{limit.Of(key), limit.Start(now)}
		if _, ok := sums[p]; ok {
			continue
		}
		sum, err := ledger.Sum(ctx, p.Part, p.from)
		if err != nil {
			return err
		}
		sums[p] = sum
	}
	each, all := c.limits.lock(key, list)
	defer unlock(all)
	for i, limit := range list {
		if each[i].counters[limit.Counter(now)] != nil {
			continue // a request has begun it meanwhile
		}
		each[i].counter(limit, now).used = sums[part{limit.Of(key), limit.Start(now)}].Of(limit.Resource)
	}
	return nil
}

var _ store.Coordinator = (*Coordinator)(nil)
