package cache

import (
	"container/list"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// sharded is 32 tables with a lock each.
type sharded[V Value] struct {
	bytes  int64 // of each shard
	shards [shards]shard[V]
}

type shard[V Value] struct {
	mu     sync.Mutex // guards what follows
	values map[string]*list.Element
	order  *list.List // of *item[V], what was used last first
	used   int64
}

type item[V Value] struct {
	key  string
	v    V
	ends time.Time
}

func newSharded[V Value](bytes int64) *sharded[V] {
	t := &sharded[V]{bytes: bytes / shards}
	for i := range t.shards {
		t.shards[i].values, t.shards[i].order = map[string]*list.Element{}, list.New()
	}
	return t
}

// A Table keeps values that others make, in the form of Sharded, for some time and so many bytes in
// all. Its methods may be called from any goroutine.
type Table[V Value] struct {
	age   time.Duration
	table *sharded[V]
}

// NewTable returns a table with nothing in it.
func NewTable[V Value](age time.Duration, bytes int64) *Table[V] {
	return &Table[V]{age, newSharded[V](bytes)}
}

// Get returns the value of a key, if it is kept.
func (t *Table[V]) Get(key string) (V, bool) { return t.table.get(key, time.Now()) }

// Keep keeps a value in the place of another of its key. One that is too large for a shard takes
// its place away.
func (t *Table[V]) Keep(key string, v V) { t.table.keep(key, v, time.Now().Add(t.age)) }

func (t *sharded[V]) get(key string, now time.Time) (v V, ok bool) {
	s := &t.shards[fnv1a(key)%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.values[key]
	if e == nil {
		return v, false
	}
	i := e.Value.(*item[V])
	if !now.Before(i.ends) {
		s.remove(e)
		return v, false
	}
	s.order.MoveToFront(e)
	return i.v, true
}

func (t *sharded[V]) keep(key string, v V, ends time.Time) {
	s := &t.shards[fnv1a(key)%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.values[key]; e != nil {
		s.remove(e)
	}
	if v.Size() > t.bytes {
		return
	}
	s.values[key] = s.order.PushFront(&item[V]{key, v, ends})
	s.used += v.Size()
	for s.used > t.bytes {
		s.remove(s.order.Back())
	}
}

// remove takes a value out. The caller holds s.mu.
func (s *shard[V]) remove(e *list.Element) {
	i := e.Value.(*item[V])
	s.order.Remove(e)
	delete(s.values, i.key)
	s.used -= i.v.Size()
}

func (t *sharded[V]) held() (values int, bytes int64) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		values += len(s.values)
		bytes += s.used
		s.mu.Unlock()
	}
	return values, bytes
}

// entry is a value whose readers need no lock of their own to say that they used it.
type entry[V Value] struct {
	item[V]
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

// clock says which entries go: the oldest, but one that was used gets a second chance.
// Whoever uses it has a lock.
type clock[V Value] struct {
	bytes, used int64
	order       *list.List // of *entry[V], the oldest first
}

func newClock[V Value](bytes int64) clock[V] { return clock[V]{bytes: bytes, order: list.New()} }

func (c *clock[V]) add(e *entry[V]) {
	e.place = c.order.PushBack(e)
	c.used += e.v.Size()
}

func (c *clock[V]) remove(e *entry[V]) {
	c.order.Remove(e.place)
	c.used -= e.v.Size()
}

// makeRoom has entries go until there is room for so many bytes, and tells each. It ends:
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
type locked[V Value] struct {
	mu     sync.RWMutex // guards what follows
	clock  clock[V]
	values map[string]*entry[V]
}

func (t *locked[V]) get(key string, now time.Time) (v V, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	e := t.values[key]
	if e == nil || !now.Before(e.ends) {
		return v, false
	}
	e.touch()
	return e.v, true
}

func (t *locked[V]) keep(key string, v V, ends time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.values[key]; e != nil {
		t.clock.remove(e)
		delete(t.values, key)
	}
	if v.Size() > t.clock.bytes {
		return
	}
	e := &entry[V]{item: item[V]{key, v, ends}}
	t.clock.makeRoom(v.Size(), func(key string) { delete(t.values, key) })
	t.values[key] = e
	t.clock.add(e)
}

func (t *locked[V]) held() (values int, bytes int64) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.values), t.clock.used
}

// snapshot is one table that is replaced as a whole.
type snapshot[V Value] struct {
	values atomic.Pointer[map[string]*entry[V]] // which nobody changes

	mu    sync.Mutex // guards what follows, and is held to replace values
	clock clock[V]
}

func newSnapshot[V Value](bytes int64) *snapshot[V] {
	t := &snapshot[V]{clock: newClock[V](bytes)}
	t.values.Store(&map[string]*entry[V]{})
	return t
}

func (t *snapshot[V]) get(key string, now time.Time) (v V, ok bool) {
	e := (*t.values.Load())[key]
	if e == nil || !now.Before(e.ends) {
		return v, false
	}
	e.touch()
	return e.v, true
}

func (t *snapshot[V]) keep(key string, v V, ends time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	values := maps.Clone(*t.values.Load())
	if e := values[key]; e != nil {
		t.clock.remove(e)
		delete(values, key)
	}
	if v.Size() <= t.clock.bytes {
		e := &entry[V]{item: item[V]{key, v, ends}}
		t.clock.makeRoom(v.Size(), func(key string) { delete(values, key) })
		values[key] = e
		t.clock.add(e)
	}
	t.values.Store(&values)
}

func (t *snapshot[V]) held() (values int, bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(*t.values.Load()), t.clock.used
}
