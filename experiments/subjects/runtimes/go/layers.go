package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"dyno/experiments/subjects/measurement"
)

// A Layers measures middleware: closures around an HTTP handler, each of which checks the credential of a request
// that never leaves memory.
//
// Figures: operation_seconds, what all layers together take; allocated_bytes, what they allocate for a request.
type Layers struct {
	Layers   int           `yaml:"layers" range:"1..1000" default:"5" doc:"how many"`
	Duration time.Duration `yaml:"duration" range:"1ms..10m" default:"200ms" doc:"how long to measure"`
}

// authenticate is one layer.
func authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
			http.Error(w, "no credential", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Run measures requests with and without layers in turns, so that a slow moment is one of both.
func (l Layers) Run(ctx context.Context) (measurement.Result, error) {
	const batch = 10_000
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	request.Header.Set("Authorization", "Bearer token")
	var handled int
	var bare http.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { handled++ })
	layered := bare
	for range l.Layers {
		layered = authenticate(layered)
	}
	w := httptest.NewRecorder()
	serve := func(h http.Handler) time.Duration {
		start := time.Now()
		for range batch {
			h.ServeHTTP(w, request)
		}
		return time.Since(start)
	}
	serve(bare)
	serve(layered)
	var added time.Duration
	rounds := 0
	before := allocated()
	for start := time.Now(); rounds == 0 || time.Since(start) < l.Duration; rounds++ {
		added += serve(layered) - serve(bare)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	n := float64(rounds * batch)
	return measurement.Result{"operation_seconds": added.Seconds() / n, "allocated_bytes": float64(allocated()-before) / n}, nil
}
