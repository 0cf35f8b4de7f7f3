package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"dyno/experiments/subjects/measurement"
)

// The kinds of locks.
const (
	Mutex   = "mutex"
	RWMutex = "rwmutex"
	Sharded = "sharded"
	Atomic  = "atomic"
)

// A Lock measures a table of counters that goroutines read and add to. The lock is one mutex, one read-write
// mutex, or a mutex for each of 32 shards (FNV-1a). Without a lock, compare-and-swap changes each counter,
// because the keys do not change. It fails when an addition was lost.
//
// Figures: ops_per_second, of all goroutines; ops.
type Lock struct {
	Kind       string        `yaml:"kind" oneof:"mutex rwmutex sharded atomic" default:"mutex" doc:"what guards the counters"`
	Goroutines int           `yaml:"goroutines" range:"1..10000" default:"8" doc:"how many goroutines share the counters"`
	Reads      float64       `yaml:"reads" range:"0..1" default:"0.5" doc:"the share of operations that only read"`
	Duration   time.Duration `yaml:"duration" range:"1us..10m" default:"1s" doc:"how long to measure"`
}

const (
	counters = 1024 // in the table
	shards   = 32
	lookEach = 64 // operations between two looks at the time
)

// Run measures for the duration.
func (l Lock) Run(ctx context.Context) (measurement.Result, error) {
	keys := make([]string, counters)
	for i := range keys {
		keys[i] = "counter-" + strconv.Itoa(i)
	}
	t := newTable(l.Kind, keys)
	var stop atomic.Bool
	var ops, additions atomic.Int64
	var workers sync.WaitGroup
	begin := make(chan struct{})
	for i := range l.Goroutines {
		workers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			limit := uint64(l.Reads * (1 << 32))
			var done, added int64
			<-begin
			for !stop.Load() {
				for range lookEach {
					r := random.Uint64()
					key := keys[(r>>32)%counters]
					if r&(1<<32-1) < limit {
						t.read(key)
					} else {
						t.add(key)
						added++
					}
				}
				done += lookEach
			}
			ops.Add(done)
			additions.Add(added)
		})
	}
	defer stopAfter(ctx, l.Duration, &stop)()
	began := time.Now()
	close(begin)
	workers.Wait()
	elapsed := time.Since(began)
	if err := interrupted(ctx); err != nil {
		return nil, err
	}
	var sum int64
	for _, key := range keys {
		sum += t.read(key)
	}
	if sum != additions.Load() {
		return nil, fmt.Errorf("%s: the counters hold %d after %d additions", l.Kind, sum, additions.Load())
	}
	if ops.Load() == 0 {
		return nil, errNothing
	}
	return measurement.Result{"ops_per_second": float64(ops.Load()) / elapsed.Seconds(), "ops": float64(ops.Load())}, nil
}

// A table is counters by key.
type table interface {
	add(key string)
	read(key string) int64
}

func newTable(kind string, keys []string) table {
	switch kind {
	case Mutex:
		return &mutexTable{counters: zeros(keys)}
	case RWMutex:
		return &rwTable{counters: zeros(keys)}
	case Sharded:
		t := &shardedTable{}
		for i := range t {
			t[i].counters = map[string]int64{}
		}
		for _, key := range keys {
			t.shard(key).counters[key] = 0
		}
		return t
	default:
		t := atomicTable{}
		for _, key := range keys {
			t[key] = new(atomic.Int64)
		}
		return t
	}
}

func zeros(keys []string) map[string]int64 {
	m := make(map[string]int64, len(keys))
	for _, key := range keys {
		m[key] = 0
	}
	return m
}

type mutexTable struct {
	mu       sync.Mutex
	counters map[string]int64
}

func (t *mutexTable) add(key string) {
	t.mu.Lock()
	t.counters[key]++
	t.mu.Unlock()
}

func (t *mutexTable) read(key string) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counters[key]
}

type rwTable struct {
	mu       sync.RWMutex
	counters map[string]int64
}

func (t *rwTable) add(key string) {
	t.mu.Lock()
	t.counters[key]++
	t.mu.Unlock()
}

func (t *rwTable) read(key string) int64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.counters[key]
}

// A shardedTable keeps its shards on cache lines of their own.
type shardedTable [shards]struct {
	mutexTable
	_ [128 - 16]byte
}

func (t *shardedTable) shard(key string) *mutexTable {
	return &t[fnv1a(key)%shards].mutexTable
}

func (t *shardedTable) add(key string)        { t.shard(key).add(key) }
func (t *shardedTable) read(key string) int64 { return t.shard(key).read(key) }

// fnv1a is the 32-bit hash of Fowler, Noll and Vo for strings; hash/fnv has it for bytes
// only.
func fnv1a(s string) uint32 {
	h := uint32(2166136261)
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * 16777619
	}
	return h
}

type atomicTable map[string]*atomic.Int64

func (t atomicTable) add(key string) {
	for c := t[key]; ; {
		if v := c.Load(); c.CompareAndSwap(v, v+1) {
			return
		}
	}
}

func (t atomicTable) read(key string) int64 { return t[key].Load() }
