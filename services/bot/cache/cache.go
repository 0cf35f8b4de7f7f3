// Package cache keeps answers for a while and within bounds. Simultaneous requests with one key share one answer.
package cache

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// shards is a power of two: each has a lock of its own.
const shards = 32

// A Value is an answer in the cache.
type Value interface {
	// Size is about how many bytes it takes.
	Size() int64
}

// A Table keeps values within a bound of bytes. Its methods may be called from any goroutine.
type Table[V Value] interface {
	// Get returns the value of a key, if it is kept and has not ended.
	Get(key string, now time.Time) (V, bool)
	// Keep keeps a value until it ends, in the place of another of its key.
	Keep(key string, v V, ends time.Time)
	// Held returns the number and size of the values, including expired ones.
	Held() (values int, bytes int64)
}

// A Cache holds values of one kind. Its methods may be called from any goroutine.
type Cache[V Value] struct {
	age     time.Duration
	table   atomic.Pointer[Table[V]]
	flights [shards]flights[V]
}

// flights are the values of some keys that are being made. Its lock is taken before the
// table's.
type flights[V Value] struct {
	hits, misses, joined atomic.Uint64

	mu    sync.Mutex // guards under, and how many wait for each
	under map[string]*flight[V]
}

// flight is a value that is being made.
type flight[V Value] struct {
	waiting int                // who makes it included, unless its context has ended
	give    context.CancelFunc // the making up
	done    chan struct{}      // closed when what follows is there
	v       V
	err     error
}

// New returns a cache that keeps values in a table, for some time.
func New[V Value](t Table[V], age time.Duration) *Cache[V] {
	c := &Cache[V]{age: age}
	c.table.Store(&t)
	for i := range c.flights {
		c.flights[i].under = map[string]*flight[V]{}
	}
	return c
}

// Empty replaces the table by an empty one. Values that are being made are not kept.
func (c *Cache[V]) Empty(t Table[V]) { c.table.Store(&t) }

// seed makes the shards of keys different in each process, so clients cannot choose keys of one shard.
var seed = maphash.MakeSeed()

// shardOf is the number of a key's shard.
func shardOf(key string) uint64 { return maphash.String(seed, key) % shards }

// How a value came.
type How int

// The ways.
const (
	Made   How = iota // by this caller
	Joined            // by another caller at the same time
	Kept              // some time ago
)

// leave has one less wait for a value. The last one ends the making of it.
func (s *flights[V]) leave(key string, f *flight[V]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.waiting--; f.waiting == 0 {
		s.forget(key, f)
		f.give()
	}
}

// forget lets others make the value again. The caller holds mu.
func (s *flights[V]) forget(key string, f *flight[V]) {
	if s.under[key] == f {
		delete(s.under, key)
	}
}

// Get returns the value of a key. Without one, it calls produce, once at a time for a key. All waiting callers get an
// error, which is not kept. A waiting caller leaves when ctx ends. produce gets a context with the values of ctx,
// which ends when no caller waits any more.
func (c *Cache[V]) Get(ctx context.Context, key string, produce func(ctx context.Context) (V, error)) (v V, how How, err error) {
	s, table := &c.flights[shardOf(key)], *c.table.Load()
	if v, ok := table.Get(key, time.Now()); ok {
		s.hits.Add(1)
		return v, Kept, nil
	}
	s.mu.Lock()
	if f := s.under[key]; f != nil {
		f.waiting++
		s.mu.Unlock()
		s.joined.Add(1)
		select {
		case <-f.done:
			return f.v, Joined, f.err
		case <-ctx.Done():
			s.leave(key, f)
			return v, Joined, ctx.Err()
		}
	}
	if v, ok := table.Get(key, time.Now()); ok { // another request was done meanwhile
		s.mu.Unlock()
		s.hits.Add(1)
		return v, Kept, nil
	}
	making, give := context.WithCancel(context.WithoutCancel(ctx))
	f := &flight[V]{waiting: 1, give: give, done: make(chan struct{}), err: fmt.Errorf("cache: the value was not made")}
	s.under[key] = f
	s.mu.Unlock()
	s.misses.Add(1)
	stop := context.AfterFunc(ctx, func() { s.leave(key, f) })
	defer func() { // also when produce panics, so that waiting requests end
		stop()
		give()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.forget(key, f)
		if f.err == nil {
			table.Keep(key, f.v, time.Now().Add(c.age))
		}
		close(f.done)
	}()
	f.v, f.err = produce(making)
	return f.v, Made, f.err
}

// Stats is what a cache has done.
type Stats struct {
	Hits, Misses, Joined uint64
	Values               int
	Bytes                int64
}

// Stats reads it.
func (c *Cache[V]) Stats() (sum Stats) {
	for i := range c.flights {
		s := &c.flights[i]
		sum.Hits += s.hits.Load()
		sum.Misses += s.misses.Load()
		sum.Joined += s.joined.Load()
	}
	sum.Values, sum.Bytes = (*c.table.Load()).Held()
	return sum
}
