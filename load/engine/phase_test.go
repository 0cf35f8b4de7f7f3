//go:build linux

package engine_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"dyno/load/engine"
	"dyno/load/engine/config"
	"dyno/load/pace"
	"dyno/selftest/oracle"
)

// An observer that was notified of the window's begin is notified of its end. Then the workers'
// threads, whose times it reads, still exist. When nothing more is due, an open loop's window ends with
// its last request, perhaps before its edge; with a number of requests it has no edge. The observer may
// be late, by more than the whole load takes.
func TestPhases(t *testing.T) {
	server := null(t, oracle.Config{})
	const window = 300 * time.Millisecond
	schedule, err := pace.New(pace.Steady(20, window), pace.Constant, 1)
	if err != nil {
		t.Fatal(err)
	}
	interrupted, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	for _, c := range []struct {
		name   string
		ctx    context.Context
		config config.Config
	}{
		{"an observer who is late", t.Context(), config.Config{Window: window / 15}},
		{"nothing is due any more", t.Context(), config.Config{Schedule: schedule, Window: window}},
		{"a number of requests", t.Context(), config.Config{Requests: 100}},
		{"a number of requests in a window", t.Context(), config.Config{Requests: 100, Window: time.Hour}},
		{"interrupted", interrupted, config.Config{Window: time.Hour}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var (
				threads []int
				phases  []config.Phase
			)
			c.config.Address, c.config.NewClients, c.config.Connections = server.Addr().String(), get(t, "x"), 1
			c.config.OnStart = func(s config.Start) { threads = s.Threads }
			c.config.OnPhase = func(p config.Phase) {
				phases = append(phases, p)
				switch {
				case p == config.Measuring && c.ctx == interrupted:
					interrupt()
				case p == config.Measuring && c.config.Window < window:
					<-time.After(10 * c.config.Window) // the load has ended when this returns
				case p == config.Draining:
					for _, tid := range threads {
						if _, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/schedstat", tid)); err != nil {
							t.Errorf("a worker's thread: %v", err)
						}
					}
				}
			}
			r, err := engine.Run(c.ctx, c.config)
			if err != nil {
				t.Fatal(err)
			}
			if r.Began <= 0 {
				t.Errorf("it began at %v", r.Began)
			}
			if want := []config.Phase{config.WarmingUp, config.Measuring, config.Draining}; !slices.Equal(phases, want) || len(threads) != 1 {
				t.Errorf("notified of phases %v, want %v; threads %v", phases, want, threads)
			}
		})
	}
}
