package micro

import (
	"context"
	"runtime"
	"sync"
	"time"

	"dyno/experiments/subjects/measurement"
)

// Guard measures the guard of report R2: a function runs in a goroutine of its own, and the caller waits for it, or for Timeout, and
// then says that it has probably leaked.
//
// Figures: call_seconds of a function that returns at once; held_seconds, how long the caller of one that never returns waits; left, the
// share of such goroutines that are still there after it.
type Guard struct {
	Form     string        `yaml:"form" oneof:"guard context bare" default:"guard" doc:"guard: as in the report; context: the function is told to end; bare: a go statement and a wait for its end"`
	Timeout  time.Duration `yaml:"timeout" range:"1ms..10m" default:"30s" doc:"of a function that does not return"`
	Stuck    int           `yaml:"stuck" range:"1..100000" default:"100" doc:"how many do not return"`
	Duration time.Duration `yaml:"duration" range:"1us..10m" default:"300ms" doc:"how long to call one that does"`
}

// run calls f as the form wants it.
func (g Guard) run(f func(context.Context)) {
	ctx := context.Background()
	if g.Form == "context" {
		limited, cancel := context.WithTimeout(ctx, g.Timeout)
		defer cancel()
		ctx = limited
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	if g.Form == "bare" {
		<-done
		return
	}
	select {
	case <-done:
	case <-time.After(g.Timeout):
	}
}

// Run calls functions of both kinds.
func (g Guard) Run(ctx context.Context) (measurement.Result, error) {
	s, err := repeat(ctx, g.Duration, 64, func() error { g.run(func(context.Context) {}); return nil })
	if err != nil {
		return nil, err
	}
	r := measurement.Result{"call_seconds": s.each()}
	if g.Form == "bare" { // whose caller would wait without end
		return r, nil
	}
	release := make(chan struct{})
	before, began := runtime.NumGoroutine(), time.Now()
	var callers, stuck sync.WaitGroup
	for range g.Stuck {
		stuck.Add(1)
		callers.Go(func() {
			g.run(func(ctx context.Context) {
				defer stuck.Done()
				select { // one that ends when it is told
				case <-ctx.Done():
				case <-release:
				}
			})
		})
	}
	callers.Wait()
	r["held_seconds"] = time.Since(began).Seconds()
	time.Sleep(100 * time.Millisecond) // those that were told have ended
	r["left"] = float64(runtime.NumGoroutine()-before) / float64(g.Stuck)
	close(release)
	stuck.Wait()
	return r, nil
}
