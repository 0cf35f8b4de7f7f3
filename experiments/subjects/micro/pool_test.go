package main

import (
	"testing"
	"time"
)

// A pool with too few connections has requests wait, and one that adapts becomes larger;
// all of them answer everything.
func TestPool(t *testing.T) {
	names := []string{"requests", "mean_seconds", "p99_seconds", "hit_share?", "waited_share?", "failed?", "opened?", "evicted?", "open", "size", "idle_seconds"}
	p := Pool{Rate: 1000, Service: 4 * time.Millisecond, Size: 1, Base: time.Second, Window: 10 * time.Millisecond, Warmup: 50 * time.Millisecond, Duration: 100 * time.Millisecond, Seed: 1}
	for _, kind := range []string{FixedPool, AdaptivePool, AsExamplePool} {
		p.Kind = kind
		r := measure(t, p, names...)
		if r["failed"] != 0 || r["waited_share"] == 0 || r["hit_share"] > 1 || r["mean_seconds"] > r["p99_seconds"]*100 {
			t.Errorf("%s: %v", kind, r)
		}
		if grown := r["size"] > 1; grown != (kind != FixedPool) {
			t.Errorf("%s: %v connections in the end", kind, r["size"])
		}
	}
}
