package main

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"dyno/experiments/subjects/measurement"
)

// A Rate reads messages that arrive at random moments (Poisson) at a rate, one after another, and writes some. A
// message's time counts from its arrival, so it includes the wait for those before it.
//
// Figures: mean_seconds, p99_seconds; busy_share, of the time in which a message was read or written; late_share, of
// messages that arrived before the end and were not read by then: a format that is too slow for the rate has many;
// collections_per_second.
type Rate struct {
	Format   string        `yaml:"format" oneof:"gob protobuf flatbuffers" default:"protobuf" doc:"how messages are encoded"`
	Bytes    int           `yaml:"bytes" range:"64..1048576" default:"1024" doc:"the size of the message in Protocol Buffers; it has as many rules as that takes"`
	Rate     float64       `yaml:"rate" range:"1..1000000" default:"8000" doc:"messages a second"`
	Reads    int           `yaml:"reads" range:"1..1000000" default:"1" doc:"one message is written for each of this number that is read"`
	Warmup   time.Duration `yaml:"warmup" range:"0..10m" default:"200ms" doc:"load that is not measured, before"`
	Duration time.Duration `yaml:"duration" range:"1ms..10m" default:"1s" doc:"how long to measure"`
	Seed     uint64        `yaml:"seed" range:"0..9007199254740992" default:"1" doc:"of the arrivals"`
}

// Run measures.
func (r Rate) Run(ctx context.Context) (measurement.Result, error) {
	c := codecs[r.Format]
	d, err := document(r.Bytes)
	if err != nil {
		return nil, err
	}
	text, err := c.Append(nil, d)
	if err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(r.Seed, 1))
	var (
		times         []float64
		busy          time.Duration
		arrived       int
		before, after runtime.MemStats
	)
	began := time.Now()
	warm, end := began.Add(r.Warmup), began.Add(r.Warmup+r.Duration)
	runtime.ReadMemStats(&before)
	for due := began; due.Before(end); due = due.Add(time.Duration(random.ExpFloat64() / r.Rate * float64(time.Second))) {
		if due.After(warm) {
			arrived++
		}
		now := time.Now()
		if now.After(end) {
			continue // it only counts as late
		}
		for ; now.Before(due); now = time.Now() { // a sleep would be less exact than a message takes
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
		}
		message, err := c.read(text)
		if err != nil {
			return nil, err
		}
		_ = c.name(message)
		if (len(times)+1)%r.Reads == 0 {
			if _, err := c.Append(nil, d); err != nil {
				return nil, err
			}
		}
		done := time.Now()
		if due.After(warm) {
			times = append(times, done.Sub(due).Seconds())
			busy += done.Sub(now)
		}
	}
	runtime.ReadMemStats(&after)
	slices.Sort(times)
	sum := 0.0
	for _, t := range times {
		sum += t
	}
	n := float64(len(times))
	if n == 0 { // all arrived too late, or none arrived
		n, times = 1, []float64{0}
	}
	return measurement.Result{
		"mean_seconds":           sum / n,
		"p99_seconds":            times[int(math.Ceil(0.99*n))-1],
		"busy_share":             busy.Seconds() / r.Duration.Seconds(),
		"late_share":             1 - float64(len(times))/float64(max(arrived, 1)),
		"collections_per_second": float64(after.NumGC-before.NumGC) / (r.Warmup + r.Duration).Seconds(),
	}, nil
}
