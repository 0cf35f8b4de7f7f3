// Package cache keeps answers to questions that have been asked before, for a while and
// within bounds, and has those who ask the same at once wait for one answer.
package cache

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"
)

// shards is a power of two: each has a lock of its own.
const shards = 32

// A Value is what is kept.
type Value interface {
	// Size is about how many bytes it takes.
	Size() int64
}

// A Cache holds values of one kind. Its methods may be called from any goroutine.
type Cache[V Value] struct {
	age    time.Duration
	bytes  int64 // of each shard
	shards [shards]shard[V]
}

type shard[V Value] struct {
	mu     sync.Mutex // guards what follows
	values map[string]*list.Element
	order  *list.List // of *item[V], what was used last first
	used   int64
	under  map[string]*flight[V]
	hits   uint64
	misses uint64
	joined uint64
}

type item[V Value] struct {
	key  string
	v    V
	ends time.Time
}

// flight is an answer that is being made.
type flight[V Value] struct {
	done chan struct{} // closed when what follows is there
	v    V
	err  error
}

// New returns a cache that keeps values for some time, and so many bytes in all; the
// least recently used goes first. Neither may be 0.
func New[V Value](age time.Duration, bytes int64) (*Cache[V], error) {
	if age <= 0 || bytes < shards {
		return nil, fmt.Errorf("cache: age %v, bytes %d: must be more than 0, and %d", age, bytes, shards)
	}
	c := &Cache[V]{age: age, bytes: bytes / shards}
	for i := range c.shards {
		c.shards[i] = shard[V]{values: map[string]*list.Element{}, order: list.New(), under: map[string]*flight[V]{}}
	}
	return c, nil
}

// of returns a key's shard, by FNV-1a (RFC 9923).
func (c *Cache[V]) of(key string) *shard[V] {
	h := uint32(2166136261)
	for i := range len(key) {
		h = (h ^ uint32(key[i])) * 16777619
	}
	return &c.shards[h%shards]
}

// How a value came.
type How int

// The ways.
const (
	Made   How = iota // by this caller
	Joined            // by another caller at the same time
	Kept              // some time ago
)

// Get returns the value of a key. If there is none, it is made by produce, of which one runs
// at a time for a key; an error is told to all who wait and is not kept. When ctx ends, a
// caller who waits for another goes; produce is the business of who gave it.
func (c *Cache[V]) Get(ctx context.Context, key string, produce func() (V, error)) (v V, how How, err error) {
	s := c.of(key)
	s.mu.Lock()
	if e := s.values[key]; e != nil {
		i := e.Value.(*item[V])
		if time.Now().Before(i.ends) {
			s.order.MoveToFront(e)
			s.hits++
			s.mu.Unlock()
			return i.v, Kept, nil
		}
		s.remove(e)
	}
	if f := s.under[key]; f != nil {
		s.joined++
		s.mu.Unlock()
		select {
		case <-f.done:
			return f.v, Joined, f.err
		case <-ctx.Done():
			return v, Joined, ctx.Err()
		}
	}
	f := &flight[V]{done: make(chan struct{}), err: fmt.Errorf("cache: the value was not made")}
	s.under[key] = f
	s.misses++
	s.mu.Unlock()
	defer func() { // also when produce panics: nobody waits for ever
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.under, key)
		if f.err == nil {
			c.keep(s, key, f.v)
		}
		close(f.done)
	}()
	f.v, f.err = produce()
	return f.v, Made, f.err
}

// keep puts a value in, and others out. The caller holds s.mu.
func (c *Cache[V]) keep(s *shard[V], key string, v V) {
	if v.Size() > c.bytes {
		return
	}
	s.values[key] = s.order.PushFront(&item[V]{key, v, time.Now().Add(c.age)})
	s.used += v.Size()
	for s.used > c.bytes {
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

// Stats is what a cache has done.
type Stats struct {
	Hits, Misses, Joined uint64
	Values               int
	Bytes                int64
}

// Stats reads it.
func (c *Cache[V]) Stats() (sum Stats) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		sum.Hits += s.hits
		sum.Misses += s.misses
		sum.Joined += s.joined
		sum.Values += len(s.values)
		sum.Bytes += s.used
		s.mu.Unlock()
	}
	return sum
}
