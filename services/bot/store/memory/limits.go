// Package memory keeps everything in the process, within bounds, and loses it with the
// process.
package memory

import (
	"slices"
	"strings"
	"sync"
	"time"

	"dyno/services/bot/store"
)

// limits count what keys, teams and users use, exactly. mu is taken alone; those of several accounts are taken in the
// order of the accounts' names.
type limits struct {
	mu       sync.Mutex // guards what follows
	accounts map[string]*account
}

// An account has the counters of a key, a team or a user, and the reservations that count there.
type account struct {
	name     string
	mu       sync.Mutex // guards what follows
	counters map[string]*counter
	reserved map[string]store.Reservation
	pruned   time.Time
}

type counter struct {
	used int64
	ends time.Time // zero: never
}

// lock locks the accounts of some limits of a key. It returns that of each limit, and all of them once.
func (l *limits) lock(key string, list []store.Limit) (each, all []*account) {
	each = make([]*account, len(list))
	l.mu.Lock()
	for i, limit := range list {
		name := limit.Of(key).Account()
		if each[i] = l.accounts[name]; each[i] == nil {
			each[i] = &account{name: name, counters: map[string]*counter{}, reserved: map[string]store.Reservation{}}
			l.accounts[name] = each[i]
		}
	}
	l.mu.Unlock()
	all = slices.Clone(each)
	slices.SortFunc(all, func(a, b *account) int { return strings.Compare(a.name, b.name) })
	all = slices.Compact(all)
	for _, a := range all {
		a.mu.Lock()
	}
	return each, all
}

func unlock(all []*account) {
	for _, a := range all {
		a.mu.Unlock()
	}
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
func (l *limits) unknown(key string, list []store.Limit, now time.Time) (unknown []store.Limit) {
	each, all := l.lock(key, list)
	defer unlock(all)
	for i, limit := range list {
		if each[i].counters[limit.Counter(now)] == nil {
			unknown = append(unknown, limit)
		}
	}
	return unknown
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

// add adds a cost to the account's windows of a reservation. The caller holds a.mu.
func (a *account) add(r store.Reservation, cost store.Cost) {
	for _, limit := range r.Limits {
		if limit.Of(r.Key).Account() != a.name {
			continue
		}
		if c := a.counters[limit.Counter(r.At)]; c != nil {
			c.used += cost.Of(limit.Resource)
		}
	}
}

func (l *limits) reserve(r *store.Reservation) error {
	each, all := l.lock(r.Key, r.Limits)
	defer unlock(all)
	for _, a := range all {
		a.prune(r.At)
	}
	for i, limit := range r.Limits {
		c := each[i].counter(limit, r.At)
		if c.used+r.Cost.Of(limit.Resource) > limit.Amount {
			return store.Beyond(limit, c.used, r.At)
		}
	}
	for _, a := range all {
		a.reserved[r.ID] = *r
		a.add(*r, r.Cost)
	}
	r.Used = make([]int64, len(each))
	for i, limit := range r.Limits {
		r.Used[i] = each[i].counter(limit, r.At).used
	}
	return nil
}

// settle replaces a reservation by the usage. One that has expired in some account is released in all.
func (l *limits) settle(r *store.Reservation, used store.Cost) (err error) {
	_, all := l.lock(r.Key, r.Limits)
	defer unlock(all)
	if slices.ContainsFunc(all, func(a *account) bool { _, ok := a.reserved[r.ID]; return !ok }) {
		used, err = store.Cost{}, store.ErrGone
	}
	for _, a := range all {
		if held, ok := a.reserved[r.ID]; ok {
			delete(a.reserved, r.ID)
			a.add(held, used.Minus(held.Cost))
		}
	}
	return err
}

func (l *limits) used(key string, list []store.Limit, now time.Time) []int64 {
	each, all := l.lock(key, list)
	defer unlock(all)
	for _, a := range all {
		a.prune(now)
	}
	used := make([]int64, len(list))
	for i, limit := range list {
		if c := each[i].counters[limit.Counter(now)]; c != nil { // a new one would pass for one that the ledger has begun
			used[i] = c.used
		}
	}
	return used
}
