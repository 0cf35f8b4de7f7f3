package cache

import (
	"container/list"
	"sync"
	"time"
)

// Sharded is 32 tables with a lock each. The least recently used value of a table goes first.
type Sharded[V Value] struct {
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

// NewSharded returns an empty table, which keeps at most that many bytes.
func NewSharded[V Value](bytes int64) *Sharded[V] {
	t := &Sharded[V]{bytes: bytes / shards}
	for i := range t.shards {
		t.shards[i].values, t.shards[i].order = map[string]*list.Element{}, list.New()
	}
	return t
}

// Get is Table's.
func (t *Sharded[V]) Get(key string, now time.Time) (v V, ok bool) {
	s := &t.shards[shardOf(key)]
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

// Keep is Table's. A value that is too large for its shard is not kept.
func (t *Sharded[V]) Keep(key string, v V, ends time.Time) {
	s := &t.shards[shardOf(key)]
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

// Remove removes a value, if it is there.
func (t *Sharded[V]) Remove(key string) {
	s := &t.shards[shardOf(key)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.values[key]; e != nil {
		s.remove(e)
	}
}

// remove takes a value out. The caller holds s.mu.
func (s *shard[V]) remove(e *list.Element) {
	i := e.Value.(*item[V])
	s.order.Remove(e)
	delete(s.values, i.key)
	s.used -= i.v.Size()
}

// Held is Table's.
func (t *Sharded[V]) Held() (values int, bytes int64) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		values += len(s.values)
		bytes += s.used
		s.mu.Unlock()
	}
	return values, bytes
}
