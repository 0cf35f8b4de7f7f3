// Package memory keeps everything in the process, within bounds, and loses it with the
// process.
package memory

import (
	"slices"
	"sync"
	"time"

	"dyno/services/bot/store"
)

// limits count what keys use, exactly.
type limits struct {
	mu       sync.Mutex // guards what follows
	accounts map[string]*account
}

type account struct {
	mu       sync.Mutex // guards what follows
	counters map[string]*counter
	reserved map[string]store.Reservation
	pruned   time.Time
}

type counter struct {
	used int64
	ends time.Time // zero: never
}

func (l *limits) account(key string) *account {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[key]
	if a == nil {
		a = &account{counters: map[string]*counter{}, reserved: map[string]store.Reservation{}}
		l.accounts[key] = a
	}
	return a
}

// counter returns the counter of a limit at a time. The caller holds a.mu.
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

// unknown returns the limits without a counter at a time.
func (l *limits) unknown(key string, list []store.Limit, now time.Time) []store.Limit {
	a := l.account(key)
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(list), func(limit store.Limit) bool { return a.counters[limit.Counter(now)] != nil })
}

// pruneEvery is the pause between two searches for ended windows.
const pruneEvery = time.Second

// prune releases expired reservations, and forgets ended windows without reservations. The caller holds a.mu.
func (a *account) prune(now time.Time) {
	if d := now.Sub(a.pruned); 0 <= d && d < pruneEvery {
		return
	}
	a.pruned = now
	for id, r := range a.reserved {
		if !now.Before(r.At.Add(r.Lease)) {
			a.add(r, store.Cost{}.Minus(r.Cost))
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
		return // a request does not wait for a scan of all reservations
	}
	used := map[string]bool{}
	for _, r := range a.reserved {
		for _, limit := range r.Limits {
			used[limit.Counter(r.At)] = true
		}
	}
	for _, name := range over {
		if !used[name] {
			delete(a.counters, name)
		}
	}
}

// add adds a cost to the windows of a reservation. The caller holds a.mu.
func (a *account) add(r store.Reservation, cost store.Cost) {
	for _, limit := range r.Limits {
		if c := a.counters[limit.Counter(r.At)]; c != nil {
			c.used += cost.Of(limit.Resource)
		}
	}
}

func (l *limits) reserve(r *store.Reservation) error {
	a := l.account(r.Key)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.prune(r.At)
	for _, limit := range r.Limits {
		c := a.counter(limit, r.At)
		if c.used+r.Cost.Of(limit.Resource) > limit.Amount {
			return store.Beyond(limit, c.used, r.At)
		}
	}
	a.reserved[r.ID] = *r
	a.add(*r, r.Cost)
	return nil
}

func (l *limits) settle(r *store.Reservation, used store.Cost) error {
	a := l.account(r.Key)
	a.mu.Lock()
	defer a.mu.Unlock()
	held, ok := a.reserved[r.ID]
	if !ok {
		return store.ErrGone
	}
	delete(a.reserved, r.ID)
	a.add(held, used.Minus(held.Cost))
	return nil
}

func (l *limits) used(key string, list []store.Limit, now time.Time) []int64 {
	a := l.account(key)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.prune(now)
	used := make([]int64, len(list))
	for i, limit := range list {
		used[i] = a.counter(limit, now).used
	}
	return used
}
