package memory

import (
	"cmp"
	"container/list"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"dyno/services/bot/store"
)

// Bounds limits an Archive. Beyond them, the least recently used conversation goes, with all of its turns, and the
// oldest entry.
type Bounds struct {
	Bytes   int64 // of all turns, with their overhead
	Turns   int   // of one conversation: its oldest turn goes
	Entries int   // of the ledger
}

// DefaultBounds is at most some hundred megabytes.
func DefaultBounds() Bounds { return Bounds{Bytes: 256 << 20, Turns: 64, Entries: 100_000} }

// Archive keeps turns and the ledger.
type Archive struct {
	bounds Bounds

	mu       sync.Mutex // guards what follows
	sessions map[string]*list.Element
	order    *list.List // of *turns, most recently used first
	bytes    int64      // of all turns
	entries  []store.Entry
	next     int            // the place of the next entry, when entries is full
	ids      map[string]int // the places of entries
	prices   map[string]json.RawMessage
	directory
	objects
}

// turns are the turns of one session.
type turns struct {
	session string
	list    []store.Turn
	count   int64
}

// Estimated overhead in bytes, without texts: of a turn and of a session.
const (
	sessionOverhead = 256
	turnOverhead    = 160
)

func (t *turns) size() int64 { return sessionOverhead + int64(len(t.session)) }

func sizeOf(t store.Turn) int64 {
	return int64(turnOverhead + len(t.ID) + len(t.Session) + len(t.User) + len(t.Reply))
}

// NewArchive returns an empty Archive.
func NewArchive(b Bounds) *Archive {
	return &Archive{bounds: b, sessions: map[string]*list.Element{}, order: list.New(), ids: map[string]int{}, prices: map[string]json.RawMessage{}, objects: newObjects()}
}

// Turns is store.Archive's.
func (a *Archive) Turns(_ context.Context, session string, most int) ([]store.Turn, int64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.sessions[session]
	if e == nil {
		return nil, 0, nil
	}
	a.order.MoveToFront(e)
	t := e.Value.(*turns)
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
		if r.Price != nil {
			a.prices[r.Price.Name] = json.RawMessage(r.Price.Terms)
		}
	}
	return each, nil
}

func (a *Archive) turn(turn store.Turn) error {
	e := a.sessions[turn.Session]
	if e == nil {
		t := &turns{session: turn.Session}
		e = a.order.PushFront(t)
		a.sessions[turn.Session] = e
		a.bytes += t.size()
	}
	a.order.MoveToFront(e)
	t := e.Value.(*turns)
	for _, other := range t.list {
		if other.Number == turn.Number {
			if other.ID == turn.ID {
				return nil
			}
			return store.ErrConflict
		}
	}
	if turn.Number <= t.count-int64(len(t.list)) {
		return store.ErrConflict // the number of a removed turn
	}
	t.list = append(t.list, turn)
	a.bytes += sizeOf(turn)
	slices.SortFunc(t.list, func(a, b store.Turn) int { return int(a.Number - b.Number) })
	t.count = max(t.count, turn.Number)
	a.shorten(t, len(t.list)-a.bounds.Turns)
	for a.bytes > a.bounds.Bytes && a.order.Len() > 1 {
		a.remove(a.order.Back())
	}
	for a.bytes > a.bounds.Bytes && len(t.list) > 0 { // one turn alone may be too large
		a.shorten(t, 1)
	}
	return nil
}

// shorten removes the first n turns of a session; their number stays known.
func (a *Archive) shorten(t *turns, n int) {
	for _, gone := range t.list[:max(0, n)] {
		a.bytes -= sizeOf(gone)
	}
	t.list = slices.Delete(t.list, 0, max(0, n))
}

// remove removes a session.
func (a *Archive) remove(e *list.Element) {
	t := a.order.Remove(e).(*turns)
	a.shorten(t, len(t.list))
	a.bytes -= t.size()
	delete(a.sessions, t.session)
}

func (a *Archive) entry(e store.Entry) {
	if at, known := a.ids[e.ID]; known {
		if a.entries[at].Outcome == store.Unfinished {
			a.entries[at] = e
		}
		return
	}
	if len(a.entries) < a.bounds.Entries {
		a.ids[e.ID] = len(a.entries)
		a.entries = append(a.entries, e)
		return
	}
	delete(a.ids, a.entries[a.next].ID)
	a.ids[e.ID], a.entries[a.next] = a.next, e
	a.next = (a.next + 1) % len(a.entries)
}

// Sum is store.Archive's.
func (a *Archive) Sum(_ context.Context, p store.Part, from time.Time) (store.Cost, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var sum store.Cost
	for _, e := range a.entries {
		of := p == store.Part{Key: e.Key, Model: p.Model} || p.Team != "" && e.Team == p.Team || p.Owner != "" && e.Owner == p.Owner
		if of && !e.At.Before(from) && (p.Model == "" || store.Matches(p.Model, e.Model)) {
			sum.Requests++
			if !e.Cached {
				sum.Tokens += e.Prompt + e.Completion
			}
			sum.Money += e.Money
		}
	}
	return sum, nil
}

// Usage is store.Archive's.
func (a *Archive) Usage(_ context.Context, by store.Grouping, from, to time.Time, most int) ([]store.Usage, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	groups := map[store.Usage]*store.Usage{} // by their members
	for _, e := range a.entries {
		if e.At.Before(from) || !e.At.Before(to) {
			continue
		}
		var g store.Usage
		for _, m := range []struct {
			is  bool
			to  *string
			has string
		}{{by.Key, &g.Key, e.Key}, {by.Team, &g.Team, e.Team}, {by.Owner, &g.Owner, e.Owner}, {by.Model, &g.Model, e.Model}} {
			if m.is {
				*m.to = m.has
			}
		}
		if by.Day {
			g.Day = e.At.Unix() / 86400
		}
		u := groups[g]
		if u == nil {
			u = &store.Usage{Key: g.Key, Team: g.Team, Owner: g.Owner, Model: g.Model, Day: g.Day}
			groups[g] = u
		}
		u.Requests++
		if !e.Cached {
			u.Prompt, u.Completion = u.Prompt+e.Prompt, u.Completion+e.Completion
		}
		u.Money += e.Money
	}
	list := make([]store.Usage, 0, len(groups))
	for _, u := range groups {
		list = append(list, *u)
	}
	slices.SortFunc(list, func(a, b store.Usage) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Team, b.Team), cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Day, b.Day))
	})
	return list[:min(most, len(list))], nil
}

// Entries is store.Archive's.
func (a *Archive) Entries(_ context.Context, key string, most int) ([]store.Entry, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var found []store.Entry
	for _, e := range a.entries {
		if e.Key == key {
			found = append(found, e)
		}
	}
	slices.SortStableFunc(found, func(a, b store.Entry) int { return b.At.Compare(a.At) })
	return found[:min(most, len(found))], nil
}

// Prices is store.Archive's.
func (a *Archive) Prices(context.Context) (map[string]json.RawMessage, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.prices), nil
}

// Expire is store.Archive's: the bounds say what goes.
func (a *Archive) Expire(context.Context, string, time.Time, int) (int64, error) { return 0, nil }

// Erase is store.Archive's.
func (a *Archive) Erase(_ context.Context, user string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for session, e := range a.sessions {
		if store.IsOf(session, user) {
			a.remove(e)
		}
	}
	for i := range a.entries {
		if e := &a.entries[i]; e.User == user || e.Owner == user {
			e.User, e.Owner, e.Session = "", "", ""
		}
	}
	a.erase(user)
	return nil
}

// Close has nothing to free.
func (a *Archive) Close() error { return nil }

var _ store.Archive = (*Archive)(nil)
