package engine_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"dyno/load/engine"
	"dyno/load/pace"
	"dyno/selftest/oracle"
)

// An observer of the phases may be late, by more than the whole load takes. It is still
// notified of the last one, and the workers' threads, whose times it reads, still exist.
func TestPhasesAreAnnouncedLate(t *testing.T) {
	server, err := oracle.StartNull(t.Context(), oracle.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	const window = 20 * time.Millisecond
	var (
		threads []int
		phases  []engine.Phase
	)
	run(t, engine.Config{
		Network: "tcp", Address: server.Addr().String(), NewClients: get(t, "x"),
		Connections: 2, Window: window,
		OnStart: func(s engine.Start) { threads = s.Threads },
		OnPhase: func(p engine.Phase) {
			phases = append(phases, p)
			switch p {
			case engine.Measuring:
				<-time.After(10 * window) // the load has ended when this returns
			case engine.Draining:
				for _, tid := range threads {
					if _, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/schedstat", tid)); err != nil {
						t.Errorf("a worker's thread: %v", err)
					}
				}
			}
		},
	})
	if want := []engine.Phase{engine.WarmingUp, engine.Measuring, engine.Draining}; !slices.Equal(phases, want) || len(threads) != 1 {
		t.Errorf("notified of phases %v, want %v; threads %v", phases, want, threads)
	}
}

// The window of an open loop ends with its last request when nothing is due any more,
// which may be before the clock has reached its edge; with a number of requests it has
// no edge. An observer that was notified of its begin is notified of its end, while the
// workers' threads, whose times it reads, still exist.
func TestTheEndOfAWindowIsAnnounced(t *testing.T) {
	server, err := oracle.StartNull(t.Context(), oracle.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
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
		config engine.Config
	}{
		{"nothing is due any more", t.Context(), engine.Config{Schedule: schedule, Window: window}},
		{"a number of requests", t.Context(), engine.Config{Requests: 100}},
		{"a number of requests in a window", t.Context(), engine.Config{Requests: 100, Window: time.Hour}},
		{"interrupted", interrupted, engine.Config{Window: time.Hour}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var (
				threads []int
				phases  []engine.Phase
			)
			c.config.Network, c.config.Address, c.config.NewClients = "tcp", server.Addr().String(), get(t, "x")
			c.config.Connections = 1
			c.config.OnStart = func(s engine.Start) { threads = s.Threads }
			c.config.OnPhase = func(p engine.Phase) {
				phases = append(phases, p)
				switch p {
				case engine.Measuring:
					if c.ctx == interrupted {
						interrupt()
					}
				case engine.Draining:
					for _, tid := range threads {
						if _, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/schedstat", tid)); err != nil {
							t.Errorf("a worker's thread: %v", err)
						}
					}
				}
			}
			if _, err := engine.Run(c.ctx, c.config); err != nil {
				t.Fatal(err)
			}
			if want := []engine.Phase{engine.WarmingUp, engine.Measuring, engine.Draining}; !slices.Equal(phases, want) {
				t.Errorf("notified of phases %v, want %v", phases, want)
			}
		})
	}
}
