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
	mu       sync.Mutex // guards what follows
	accounts map[string]*account
}

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

// NewLimits returns limits of which nothing is used.
func NewLimits() *Limits {
	return &Limits{accounts: map[string]*account{}}
}

// A Ledger says what a key has used since a moment.
type Ledger interface {
	Sum(ctx context.Context, key string, from time.Time) (store.Cost, error)
}

// Seed has a key's limits begin with what a ledger says of the windows that hold now: what was
// counted by a process that has ended. It is called before the key is used. Windows that
// begin later begin with nothing, so that no request waits for a ledger, however long that is.
func (l *Limits) Seed(ctx context.Context, ledger Ledger, key string, limits []store.Limit, now time.Time) error {
	sums := map[time.Time]store.Cost{} // several resources may have the same window
	for _, limit := range limits {
		from := limit.Start(now)
		if _, ok := sums[from]; ok {
			continue
		}
		sum, err := ledger.Sum(ctx, key, from)
		if err != nil {
			return err
		}
		sums[from] = sum
	}
	a := l.account(key)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, limit := range limits {
		a.counter(limit, now).used = sums[limit.Start(now)].Of(limit.Resource)
	}
	return nil
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
func (a *account) counter(limit store.Limit, now time.Time) *counter {
	name := limit.Counter(now)
	if c := a.counters[name]; c != nil {
		return c
	}
	c := &counter{}
	if limit.Window > 0 {
		c.ends = limit.Start(now).Add(limit.Window)
	}
	a.counters[name] = c
	return c
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
func (l *Limits) Reserve(_ context.Context, key string, limits []store.Limit, cost store.Cost, now time.Time, lease time.Duration) (store.Reservation, error) {
	a := l.account(key)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.prune(now)
	for _, limit := range limits {
		c := a.counter(limit, now)
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
func (l *Limits) Used(_ context.Context, key string, limits []store.Limit, now time.Time) ([]int64, error) {
	a := l.account(key)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.prune(now)
	used := make([]int64, len(limits))
	for i, limit := range limits {
		used[i] = a.counter(limit, now).used
	}
	return used, nil
}

var _ store.Limits = (*Limits)(nil)
