package main

import (
	"maps"
	"slices"
	"testing"
	"time"

	"dyno/experiments/subjects/measurement"
	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// Programs print the figures that experiments name.
func TestFigures(t *testing.T) {
	const moment = 5 * time.Millisecond
	escape := []string{"allocated_bytes", "collections_per_second", "operation_seconds"}
	for _, c := range []struct {
		program measurement.Program
		names   []string
	}{
		{Create{100, moment}, []string{"operation_seconds", "run_seconds"}},
		{Layers{5, moment}, []string{"allocated_bytes", "operation_seconds"}},
		{Escape{true, moment}, escape},
		{Escape{false, moment}, escape},
		{Collect{10_000, moment}, []string{
			"collections", "operations_per_second", "pause_max_seconds", "pause_mean_seconds", "pause_p99_seconds",
			"stall_max_seconds", "stall_mean_seconds", "stall_p99_seconds",
		}},
	} {
		r, err := c.program.Run(t.Context())
		if err != nil {
			t.Fatalf("%+v: %v", c.program, err)
		}
		if names := slices.Sorted(maps.Keys(r)); !slices.Equal(names, c.names) {
			t.Errorf("%+v: %v", c.program, r)
		}
	}
}
