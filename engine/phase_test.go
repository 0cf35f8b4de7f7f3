package engine_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"dyno/engine"
	"dyno/truth"
)

// Whoever is told of the phases may be late, by more than the whole load takes: it is
// told of the last one all the same, and the workers' threads, whose times it reads,
// are still there.
func TestPhasesAreAnnouncedLate(t *testing.T) {
	server, err := truth.StartNull(t.Context(), truth.Config{})
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
		told    []engine.Phase
	)
	run(t, engine.Config{
		Network: "tcp", Address: server.Addr().String(), NewClients: get(t, "x"),
		Connections: 2, Window: window,
		OnStart: func(s engine.Start) { threads = s.Threads },
		OnPhase: func(p engine.Phase) {
			told = append(told, p)
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
	if want := []engine.Phase{engine.WarmingUp, engine.Measuring, engine.Draining}; !slices.Equal(told, want) || len(threads) != 1 {
		t.Errorf("told of phases %v, want %v; threads %v", told, want, threads)
	}
}
