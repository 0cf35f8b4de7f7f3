package micro

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"

	"dyno/experiments/subjects/bot/cachetables"
	"dyno/experiments/subjects/measurement"
	"dyno/services/bot/cache"
)

// Cache measures how long readers of a cache take while values come and go.
//
// Figures: p50_seconds, p99_seconds, p999_seconds and max_seconds, of one access, reading the clock included;
// ops_per_second, of all goroutines.
type Cache struct {
	Kind       cachetables.Kind `yaml:"kind" oneof:"sharded rwmutex snapshot" default:"sharded" doc:"how the cache keeps values"`
	Goroutines int              `yaml:"goroutines" range:"1..10000" default:"8" doc:"how many use it"`
	Keys       int              `yaml:"keys" range:"1..100000000" default:"10000" doc:"how many keys are asked for, and have room"`
	Writes     float64          `yaml:"writes" range:"0..1" default:"0.01" doc:"the share of accesses that find nothing, and put a value in for another"`
	Duration   time.Duration    `yaml:"duration" range:"1us..10m" default:"1s" doc:"how long to measure"`
}

// value is what is cached.
type value struct{ n int }

// valueBytes is what a value says it takes. A table of 32 has more room in some shards
// than in others; the cache has twice what the keys need.
const valueBytes = 64

func (value) Size() int64 { return valueBytes }

// Run has goroutines use a cache for some time.
func (c Cache) Run(ctx context.Context) (measurement.Result, error) {
	kept := cache.New(cachetables.New[value](c.Kind, int64(max(2*c.Keys, 64))*valueBytes), time.Hour)
	keys := make([]string, c.Keys)
	for i := range keys {
		keys[i] = "question " + strconv.Itoa(i)
		if _, _, err := kept.Get(ctx, keys[i], func(context.Context) (value, error) { return value{i}, nil }); err != nil {
			return nil, err
		}
	}
	const longest = int64(10 * time.Second)
	histograms := make([]*hdrhistogram.Histogram, c.Goroutines)
	began := time.Now()
	all, ctx := errgroup.WithContext(ctx)
	for g := range c.Goroutines {
		h := hdrhistogram.New(1, longest, 3)
		histograms[g] = h
		all.Go(func() error {
			r := rand.New(rand.NewPCG(1, uint64(g)+1)) //nolint:gosec // to be repeated, not to be secret
			for n := 0; ; n++ {
				i := r.IntN(c.Keys)
				key := keys[i]
				if r.Float64() < c.Writes {
					key = "new " + strconv.Itoa(g) + " " + strconv.Itoa(n)
				}
				at := time.Now()
				v, _, err := kept.Get(ctx, key, func(context.Context) (value, error) { return value{i}, nil })
				took := time.Since(at)
				if err != nil {
					return err
				}
				if v.n != i {
					return errWrong
				}
				if err := h.RecordValue(min(int64(took), longest)); err != nil {
					return err
				}
				if at.Sub(began) > c.Duration {
					return nil
				}
				if n%64 == 0 && ctx.Err() != nil {
					return fmt.Errorf("cut short: %w", context.Cause(ctx))
				}
			}
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	elapsed := time.Since(began)
	sum := histograms[0]
	for _, h := range histograms[1:] {
		sum.Merge(h)
	}
	seconds := func(ns int64) float64 { return time.Duration(ns).Seconds() }
	return measurement.Result{
		"p50_seconds":    seconds(sum.ValueAtQuantile(50)),
		"p99_seconds":    seconds(sum.ValueAtQuantile(99)),
		"p999_seconds":   seconds(sum.ValueAtQuantile(99.9)),
		"max_seconds":    seconds(sum.Max()),
		"ops_per_second": float64(sum.TotalCount()) / elapsed.Seconds(),
	}, nil
}
