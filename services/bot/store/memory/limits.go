// Package memory keeps everything in the process, within bounds, and loses it with the
// process.
package memory

import (
	"context"
	"sync"
	"time"

	"dyno/services/bot/store"
)

// Limits counts what keys use, exactly.
type Limits struct {
	seed Seed

	mu       sync.Mutex // guards what follows
	accounts map[string]*account
}

// A Seed returns what a key has used of a resource since a moment: what was counted by
// a process that has ended. It is asked once for each window.
type Seed func(ctx context.Context, key string, r store.Resource, from time.Time) (int64, error)

type account struct {
	mu       sync.Mutex // guards what follows
	counters map[string]*counter
	reserved map[string]held
	pruned   time.Time
}

type counter struct {
	used int64
	ends time.Time // zero: never
}

type held struct {
	limits []store.Limit
	at     time.Time
	cost   store.Cost
	ends   time.Time
}

// NewLimits returns limits of which nothing is used, but for what seed says; nil says
// nothing.
func NewLimits(seed Seed) *Limits {
	return &Limits{seed: seed, accounts: map[string]*account{}}
}

func (l *Limits) account(key string) *account {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[key]
	if a == nil {
		a = &account{counters: map[string]*counter{}, reserved: map[string]held{}}
		l.accounts[key] = a
	}
	return a
}

// counter returns what a limit counts at a moment. The caller holds a.mu.
func (l *Limits) counter(ctx context.Context, a *account, key string, limit store.Limit, now time.Time) (*counter, error) {
	name := limit.Counter(now)
	if c := a.counters[name]; c != nil {
		return c, nil
	}
	c := &counter{}
	if limit.Window > 0 {
		c.ends = limit.Start(now).Add(limit.Window)
	}
	if l.seed != nil {
		var err error
		if c.used, err = l.seed(ctx, key, limit.Resource, limit.Start(now)); err != nil {
			return nil, err
		}
	}
	a.counters[name] = c
	return c, nil
}

// pruneEvery is how often windows that have ended are looked for.
const pruneEvery = time.Second

// prune gives back what was reserved by those that have died, and forgets windows that
// nothing is reserved in any more. The caller holds a.mu.
func (a *account) prune(now time.Time) {
	if d := now.Sub(a.pruned); 0 <= d && d < pruneEvery {
		return
	}
	a.pruned = now
	for id, h := range a.reserved {
		if !now.Before(h.ends) {
			a.add(h, store.Cost{}.Minus(h.cost))
			delete(a.reserved, id)
		}
	}
	var over []string
	for name, c := range a.counters {
		if !c.ends.IsZero() && !now.Before(c.ends) {
			over = append(over, name)
		}
	}
	if len(over) == 0 {
		return // nobody waits until all that is reserved has been gone through
	}
	used := map[string]bool{}
	for _, h := range a.reserved {
		for _, limit := range h.limits {
			used[limit.Counter(h.at)] = true
		}
	}
	for _, name := range over {
		if !used[name] {
			delete(a.counters, name)
		}
	}
}

// add counts in the windows in which it was reserved.
func (a *account) add(h held, cost store.Cost) {
	for _, limit := range h.limits {
		if c := a.counters[limit.Counter(h.at)]; c != nil {
			c.used += cost.Of(limit.Resource)
		}
	}
}

// Reserve is store.Limits'.
func (l *Limits) Reserve(ctx context.Context, key string, limits []store.Limit, cost store.Cost, now time.Time, lease time.Duration) (store.Reservation, error) {
	a := l.account(key)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.prune(now)
	for _, limit := range limits {
		c, err := l.counter(ctx, a, key, limit, now)
		if err != nil {
			return store.Reservation{}, err
		}
		if c.used+cost.Of(limit.Resource) > limit.Amount {
			return store.Reservation{}, store.Beyond(limit, c.used, now)
		}
	}
	r := store.Reservation{ID: store.NewID(), Key: key, Limits: limits, At: now, Cost: cost}
	h := held{limits, now, cost, now.Add(lease)}
	a.reserved[r.ID] = h
	a.add(h, cost)
	return r, nil
}

// Settle is store.Limits'.
func (l *Limits) Settle(_ context.Context, r store.Reservation, used store.Cost) error {
	a := l.account(r.Key)
	a.mu.Lock()
	defer a.mu.Unlock()
	h, ok := a.reserved[r.ID]
	if !ok {
		return store.ErrGone
	}
	delete(a.reserved, r.ID)
	a.add(h, used.Minus(h.cost))
	return nil
}

// Used is store.Limits'.
func (l *Limits) Used(ctx context.Context, key string, limits []store.Limit, now time.Time) ([]int64, error) {
	a := l.account(key)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.prune(now)
	used := make([]int64, len(limits))
	for i, limit := range limits {
		c, err := l.counter(ctx, a, key, limit, now)
		if err != nil {
			return nil, err
		}
		used[i] = c.used
	}
	return used, nil
}

var _ store.Limits = (*Limits)(nil)
