package cache

import (
	"math"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Sharded is 32 tables with a lock each. The least recently used value of a table goes first.
type Sharded[V Value] struct {
	bytes  int64 // of each shard
	shards [shards]shard[V]
}

type shard[V Value] struct {
	mu     sync.Mutex // guards what follows
	values *simplelru.LRU[string, item[V]]
	used   int64
}

type item[V Value] struct {
	v    V
	ends time.Time
}

// NewSharded returns an empty table, which keeps at most that many bytes.
func NewSharded[V Value](bytes int64) *Sharded[V] {
	t := &Sharded[V]{bytes: bytes / shards}
	for i := range t.shards {
		s := &t.shards[i]
		s.values, _ = simplelru.NewLRU(math.MaxInt, func(_ string, i item[V]) { s.used -= i.v.Size() }) // fails for a bound of 0
	}
	return t
}

// Get is Table's.
func (t *Sharded[V]) Get(key string, now time.Time) (v V, ok bool) {
	s := &t.shards[shardOf(key)]
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.values.Get(key)
	if ok && !now.Before(i.ends) {
		s.values.Remove(key)
		return v, false
	}
	return i.v, ok
}

// Keep is Table's. A value that is too large for its shard is not kept.
func (t *Sharded[V]) Keep(key string, v V, ends time.Time) {
	s := &t.shards[shardOf(key)]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values.Remove(key)
	if v.Size() > t.bytes {
		return
	}
	s.values.Add(key, item[V]{v, ends})
	for s.used += v.Size(); s.used > t.bytes; {
		s.values.RemoveOldest()
	}
}

// Remove removes a value, if it is there.
func (t *Sharded[V]) Remove(key string) {
	s := &t.shards[shardOf(key)]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values.Remove(key)
}

// RemoveFunc removes the values whose keys satisfy of.
func (t *Sharded[V]) RemoveFunc(of func(key string) bool) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for _, key := range s.values.Keys() {
			if of(key) {
				s.values.Remove(key)
			}
		}
		s.mu.Unlock()
	}
}

// Held is Table's.
func (t *Sharded[V]) Held() (values int, bytes int64) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		values += s.values.Len()
		bytes += s.used
		s.mu.Unlock()
	}
	return values, bytes
}
