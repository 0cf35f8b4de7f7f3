package memory

import (
	"context"
	"slices"
	"sync"
	"time"

	"dyno/services/bot/store"
)

// Bounds say how much an Archive holds. The oldest goes first.
type Bounds struct {
	Sessions int // whose turns are kept
	Turns    int // of each
	Entries  int // of the ledger
}

// DefaultBounds are some hundred megabytes at the most.
func DefaultBounds() Bounds { return Bounds{Sessions: 100_000, Turns: 64, Entries: 100_000} }

// Archive keeps turns and the ledger.
type Archive struct {
	bounds Bounds

	mu       sync.Mutex // guards what follows
	sessions map[string]*turns
	order    []string // of sessions, by when they began
	entries  []store.Entry
	next     int // where in entries the next goes, when there are as many as may be
	ids      map[string]bool
}

type turns struct {
	list  []store.Turn
	count int64
}

// NewArchive returns one with nothing in it.
func NewArchive(b Bounds) *Archive {
	return &Archive{bounds: b, sessions: map[string]*turns{}, ids: map[string]bool{}}
}

// Turns is store.Archive's.
func (a *Archive) Turns(_ context.Context, session string, most int) ([]store.Turn, int64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.sessions[session]
	if t == nil {
		return nil, 0, nil
	}
	return slices.Clone(t.list[max(0, len(t.list)-most):]), t.count, nil
}

// Write is store.Archive's.
func (a *Archive) Write(_ context.Context, records []store.Record) ([]error, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	each := make([]error, len(records))
	for i, r := range records {
		if r.Turn != nil {
			each[i] = a.turn(*r.Turn)
		}
		if r.Entry != nil {
			a.entry(*r.Entry)
		}
	}
	return each, nil
}

func (a *Archive) turn(turn store.Turn) error {
	t := a.sessions[turn.Session]
	if t == nil {
		if len(a.order) >= a.bounds.Sessions {
			delete(a.sessions, a.order[0])
			a.order = a.order[1:]
		}
		t = &turns{}
		a.sessions[turn.Session] = t
		a.order = append(a.order, turn.Session)
	}
	for _, other := range t.list {
		if other.Number == turn.Number {
			if other.ID == turn.ID {
				return nil
			}
			return store.ErrConflict
		}
	}
	if turn.Number <= t.count-int64(len(t.list)) {
		return store.ErrConflict // of one that has gone
	}
	t.list = append(t.list, turn)
	slices.SortFunc(t.list, func(a, b store.Turn) int { return int(a.Number - b.Number) })
	t.count = max(t.count, turn.Number)
	if len(t.list) > a.bounds.Turns {
		t.list = slices.Delete(t.list, 0, len(t.list)-a.bounds.Turns)
	}
	return nil
}

func (a *Archive) entry(e store.Entry) {
	if a.ids[e.ID] {
		return
	}
	a.ids[e.ID] = true
	if len(a.entries) < a.bounds.Entries {
		a.entries = append(a.entries, e)
		return
	}
	delete(a.ids, a.entries[a.next].ID)
	a.entries[a.next] = e
	a.next = (a.next + 1) % len(a.entries)
}

// Sum is store.Archive's.
func (a *Archive) Sum(_ context.Context, key string, from time.Time) (store.Cost, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var sum store.Cost
	for _, e := range a.entries {
		if e.Key == key && !e.At.Before(from) {
			sum.Requests++
			if !e.Cached {
				sum.Tokens += e.Prompt + e.Completion
			}
			sum.Money += e.Money
		}
	}
	return sum, nil
}

// Entries is store.Archive's.
func (a *Archive) Entries(_ context.Context, key string, most int) ([]store.Entry, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []store.Entry
	for _, e := range a.entries {
		if e.Key == key {
			list = append(list, e)
		}
	}
	slices.SortStableFunc(list, func(a, b store.Entry) int { return b.At.Compare(a.At) })
	return list[:min(most, len(list))], nil
}

// Close has nothing to free.
func (a *Archive) Close() error { return nil }

var _ store.Archive = (*Archive)(nil)
