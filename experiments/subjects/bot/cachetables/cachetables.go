// Package cachetables has tables for the gateway's cache that report R2 compares with its own.
package cachetables

import (
	"container/list"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"dyno/services/bot/cache"
)

// A Kind is how values are kept.
type Kind string

// The kinds.
const (
	// Sharded is the gateway's own.
	Sharded Kind = "sharded"
	// RWMutex has one table and one lock, which readers share. A value that was used since
	// it was looked at last stays when others go.
	RWMutex Kind = "rwmutex"
	// Snapshot has one table that is never changed: readers take no lock, and writers copy it.
	// Values go as with RWMutex.
	Snapshot Kind = "snapshot"
)

// Validate says what would be right.
func (k Kind) Validate() error {
	switch k {
	case Sharded, RWMutex, Snapshot:
		return nil
	}
	return fmt.Errorf("cache %q: must be sharded, rwmutex or snapshot", string(k))
}

// New returns an empty table of a valid kind. It keeps at most that many bytes.
func New[V cache.Value](k Kind, bytes int64) cache.Table[V] {
	switch k {
	case RWMutex:
		return &locked[V]{clock: newClock[V](bytes), values: map[string]*entry[V]{}}
	case Snapshot:
		return newSnapshot[V](bytes)
	default:
		return cache.NewSharded[V](bytes)
	}
}

// An entry is a value that readers mark as used without a lock of their own.
type entry[V cache.Value] struct {
	key   string
	v     V
	ends  time.Time
	used  atomic.Bool // since it was looked at last
	place *list.Element
}

// touch says that the entry was used. It is written once between two looks, so that
// readers do not take the line from one another.
func (e *entry[V]) touch() {
	if !e.used.Load() {
		e.used.Store(true)
	}
}

// A clock says which entries go: the oldest, but one that was used gets a second chance.
// Callers hold the table's lock.
type clock[V cache.Value] struct {
	bytes, used int64
	order       *list.List // of *entry[V], the oldest first
}

func newClock[V cache.Value](bytes int64) clock[V] { return clock[V]{bytes: bytes, order: list.New()} }

func (c *clock[V]) add(e *entry[V]) {
	e.place = c.order.PushBack(e)
	c.used += e.v.Size()
}

func (c *clock[V]) remove(e *entry[V]) {
	c.order.Remove(e.place)
	c.used -= e.v.Size()
}

// makeRoom removes entries until there is room for size bytes, and calls goes with each key. It ends:
// each look takes a chance away.
func (c *clock[V]) makeRoom(size int64, goes func(key string)) {
	for c.used+size > c.bytes {
		e := c.order.Front().Value.(*entry[V])
		if e.used.Swap(false) {
			c.order.MoveToBack(e.place)
			continue
		}
		c.remove(e)
		goes(e.key)
	}
}

// locked is one table with one lock.
type locked[V cache.Value] struct {
	mu     sync.RWMutex // guards what follows
	clock  clock[V]
	values map[string]*entry[V]
}

// Get is cache.Table's.
func (t *locked[V]) Get(key string, now time.Time) (v V, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	e := t.values[key]
	if e == nil || !now.Before(e.ends) {
		return v, false
	}
	e.touch()
	return e.v, true
}

// Keep is cache.Table's.
func (t *locked[V]) Keep(key string, v V, ends time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.values[key]; e != nil {
		t.clock.remove(e)
		delete(t.values, key)
	}
	if v.Size() > t.clock.bytes {
		return
	}
	e := &entry[V]{key: key, v: v, ends: ends}
	t.clock.makeRoom(v.Size(), func(key string) { delete(t.values, key) })
	t.values[key] = e
	t.clock.add(e)
}

// Held is cache.Table's.
func (t *locked[V]) Held() (values int, bytes int64) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.values), t.clock.used
}

// snapshot is one table that is replaced as a whole.
type snapshot[V cache.Value] struct {
	values atomic.Pointer[map[string]*entry[V]] // the map is never changed

	mu    sync.Mutex // guards what follows, and is held to replace values
	clock clock[V]
}

func newSnapshot[V cache.Value](bytes int64) *snapshot[V] {
	t := &snapshot[V]{clock: newClock[V](bytes)}
	t.values.Store(&map[string]*entry[V]{})
	return t
}

// Get is cache.Table's.
func (t *snapshot[V]) Get(key string, now time.Time) (v V, ok bool) {
	e := (*t.values.Load())[key]
	if e == nil || !now.Before(e.ends) {
		return v, false
	}
	e.touch()
	return e.v, true
}

// Keep is cache.Table's.
func (t *snapshot[V]) Keep(key string, v V, ends time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	values := maps.Clone(*t.values.Load())
	if e := values[key]; e != nil {
		t.clock.remove(e)
		delete(values, key)
	}
	if v.Size() <= t.clock.bytes {
		e := &entry[V]{key: key, v: v, ends: ends}
		t.clock.makeRoom(v.Size(), func(key string) { delete(values, key) })
		values[key] = e
		t.clock.add(e)
	}
	t.values.Store(&values)
}

// Held is cache.Table's.
func (t *snapshot[V]) Held() (values int, bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(*t.values.Load()), t.clock.used
}
