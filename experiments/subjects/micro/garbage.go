package main

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"dyno/experiments/subjects/measurement"
)

// Garbage measures what pools bring a hub that encodes events for many subscribers at once: their buffers of 4 KiB
// and their identifiers of 32 bytes, each from a sync.Pool or made for each event. An event leaves some
// garbage that no pool takes away.
//
// Figures: events; allocated_bytes of an event; collections of a million events; pause_seconds, the mean of a
// collection's pauses together; pause_event_seconds, their time for an event; buffer_reuse and id_reuse, the
// shares of those that had been used before.
type Garbage struct {
	Buffers     bool          `yaml:"buffers" doc:"buffers come from a pool"`
	IDs         bool          `yaml:"ids" doc:"identifiers come from a pool"`
	Subscribers int           `yaml:"subscribers" range:"1..100000" default:"100" doc:"goroutines that encode events"`
	Other       int           `yaml:"other" range:"0..1048576" default:"164" doc:"bytes of other garbage for an event"`
	Heap        int           `yaml:"heap" range:"0..1024" default:"16" doc:"MiB that stay alive"`
	Duration    time.Duration `yaml:"duration" range:"1us..10m" default:"2s" doc:"how long to measure"`
}

// A store of things of one kind has a pool, or makes each.
type store[T any] struct {
	pooled     bool
	pool       sync.Pool
	fresh      func() *T
	gets, made atomic.Int64
}

func (s *store[T]) get() *T {
	s.gets.Add(1)
	if s.pooled {
		if x, ok := s.pool.Get().(*T); ok {
			return x
		}
	}
	s.made.Add(1)
	return s.fresh()
}

func (s *store[T]) put(x *T) {
	if s.pooled {
		s.pool.Put(x)
	}
}

func (s *store[T]) reuse() float64 { return 1 - float64(s.made.Load())/float64(s.gets.Load()) }

// Run encodes events for the duration, on one CPU.
func (g Garbage) Run(ctx context.Context) (measurement.Result, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	buffers := &store[[]byte]{pooled: g.Buffers, fresh: func() *[]byte { b := make([]byte, 0, 4096); return &b }}
	ids := &store[[32]byte]{pooled: g.IDs, fresh: func() *[32]byte { return new([32]byte) }}
	alive := make([][]*int, g.Heap*256) // with pointers, which a collection follows
	for k := range alive {
		alive[k] = make([]*int, 512)
	}
	data := make([]byte, 100)
	var stop atomic.Bool
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	defer stopAfter(ctx, g.Duration, &stop)()
	var subscribers sync.WaitGroup
	for range g.Subscribers {
		subscribers.Go(func() {
			for !stop.Load() {
				id, b, other := ids.get(), buffers.get(), make([]byte, g.Other)
				*b = append(append(append(append(append((*b)[:0], "id: "...), id[:]...), "\ndata: "...), data...), "\n\n"...)
				runtime.Gosched() // as a write that waits
				runtime.KeepAlive(other)
				buffers.put(b)
				ids.put(id)
			}
		})
	}
	subscribers.Wait()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(alive)
	if err := interrupted(ctx); err != nil {
		return nil, err
	}
	events, collections := float64(buffers.gets.Load()), float64(after.NumGC-before.NumGC)
	if collections == 0 {
		return nil, errNothing
	}
	paused := time.Duration(after.PauseTotalNs - before.PauseTotalNs).Seconds() //nolint:gosec // years
	return measurement.Result{
		"events":              events,
		"allocated_bytes":     float64(after.TotalAlloc-before.TotalAlloc) / events,
		"collections":         1e6 * collections / events,
		"pause_seconds":       paused / collections,
		"pause_event_seconds": paused / events,
		"buffer_reuse":        buffers.reuse(),
		"id_reuse":            ids.reuse(),
	}, nil
}
