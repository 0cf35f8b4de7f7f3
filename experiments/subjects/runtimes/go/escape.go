package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"dyno/experiments/subjects/measurement"
)

// An Escape fills a buffer of 1 KiB again and again: on the stack, or on the heap, where the compiler puts a buffer
// that a request holds.
//
// Figures: operation_seconds, of one buffer; allocated_bytes; collections_per_second.
type Escape struct {
	Heap     bool          `yaml:"heap" default:"true" doc:"a request holds the buffer"`
	Duration time.Duration `yaml:"duration" range:"1ms..10m" default:"200ms" doc:"how long to measure"`
}

const bufferBytes = 1024

// sink keeps requests alive, and the compiler from leaving out what nobody reads.
//
//nolint:unused // written only, as said
var (
	sink  *http.Request
	total byte
)

//go:noinline
func fillHeld(seed byte) {
	body := make([]byte, bufferBytes)
	body[seed] = seed
	sink = &http.Request{Body: io.NopCloser(bytes.NewReader(body))}
}

//go:noinline
func fillLocal(seed byte) {
	body := make([]byte, bufferBytes)
	body[seed] = seed
	for _, b := range body[:16] {
		total += b
	}
}

// Run measures one of the two.
func (e Escape) Run(ctx context.Context) (measurement.Result, error) {
	const batch = 1000
	fill := fillLocal
	if e.Heap {
		fill = fillHeld
	}
	fill(0)
	batches := 0
	before, collections := allocated(), collected()
	start := time.Now()
	for ; batches == 0 || time.Since(start) < e.Duration; batches++ {
		for i := range batch {
			fill(byte(i))
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	took, n := time.Since(start).Seconds(), float64(batches*batch)
	return measurement.Result{
		"operation_seconds":      took / n,
		"allocated_bytes":        float64(allocated()-before) / n,
		"collections_per_second": float64(collected()-collections) / took,
	}, nil
}
