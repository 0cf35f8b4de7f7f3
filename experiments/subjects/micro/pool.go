package main

import (
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"dyno/experiments/subjects/control/pool"
	"dyno/experiments/subjects/measurement"
	"dyno/internal/fields"
)

// The kinds of connection pools.
const (
	FixedPool     = "fixed"
	AdaptivePool  = "adaptive"   // by the formula of report R0, to the letter
	AsExamplePool = "as-example" // by the reading that agrees with the report's example
)

// A Pool measures an HTTP client with a pool of connections, by how the pool is kept.
// Requests come at random moments (Poisson) at a rate, whatever becomes of earlier ones. A
// server in the same process answers each after a random time (exponential). Requests'
// times count from when they were due.
//
// Figures, without those of the warm-up: requests; mean_seconds, p99_seconds; hit_share, of
// those that found an idle connection; waited_share, of those that had to wait as all were
// in use; failed, of any kind; opened and evicted; open, how many connections there are on
// average; size, how many there may be in the end; idle_seconds, the idle threshold in the
// end.
type Pool struct {
	Kind     string        `yaml:"kind" oneof:"fixed adaptive as-example" default:"fixed" doc:"adaptive is by report R0's formula to the letter, as-example by its example"`
	Rate     float64       `yaml:"rate" range:"0.001..20000" default:"500" doc:"requests a second, at random moments"`
	Service  time.Duration `yaml:"service" range:"0..1m" default:"8ms" doc:"mean time that the server takes for an answer"`
	Size     int           `yaml:"size" range:"1..10000" default:"16" doc:"how many connections there may be, at first if adaptive"`
	Base     time.Duration `yaml:"base" range:"0..24h" default:"3s" doc:"how long an idle connection is kept, at most if adaptive"`
	Window   time.Duration `yaml:"window" range:"0..24h" default:"1s" doc:"how often an adaptive pool looks at its load"`
	Warmup   time.Duration `yaml:"warmup" range:"0..10m" default:"1s" doc:"load that is not measured, before"`
	Duration time.Duration `yaml:"duration" range:"1us..10m" default:"5s" doc:"how long to measure"`
	Seed     uint64        `yaml:"seed" range:"0..9007199254740992" default:"1" doc:"of everything random"`
}

const maxInFlight = 20_000 // requests; one more has failed

// Check reports what the pool refuses.
func (p Pool) Check(r *fields.Report) {
	if err := p.policy().Validate(); err != nil {
		r.Fault("kind", err.Error(), "")
	}
}

// policy is how the pool is kept.
func (p Pool) policy() pool.Policy {
	if p.Kind == FixedPool {
		return pool.Fixed{Size: p.Size, Idle: p.Base}
	}
	a := pool.AsWritten()
	if p.Kind == AsExamplePool {
		a = pool.AsExample()
	}
	a.Size, a.MaxSize, a.Base, a.Window = p.Size, 4*p.Size, p.Base, p.Window
	return a
}

// Run makes the load once.
func (p Pool) Run(ctx context.Context) (_ measurement.Result, err error) {
	address, stop, err := p.serve()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	connections, err := pool.New(p.policy(), address)
	if err != nil {
		return nil, err
	}
	defer connections.Close()
	web := &http.Client{Transport: connections}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		mu       sync.Mutex // guards what follows
		times    []float64  // of the window's requests, in seconds
		failed   int
		firstErr error
		asking   sync.WaitGroup
	)
	slots := make(chan struct{}, maxInFlight)
	began := time.Now()
	warm, end := began.Add(p.Warmup), began.Add(p.Warmup+p.Duration)
	random := rand.New(rand.NewPCG(p.Seed, 1))
	var before pool.Stats
	open, looks := 0.0, 0
	timer := time.NewTimer(0)
	defer timer.Stop()
	for due := began; due.Before(end); due = due.Add(time.Duration(random.ExpFloat64() / p.Rate * float64(time.Second))) {
		timer.Reset(time.Until(due))
		select {
		case <-timer.C:
		case <-ctx.Done():
			asking.Wait()
			return nil, interrupted(ctx)
		}
		if measured := !due.Before(warm); measured {
			stats := connections.Stats()
			if looks == 0 {
				before = stats
			}
			open, looks = open+float64(stats.Open), looks+1 // arrivals at random see averages over time
		}
		select {
		case slots <- struct{}{}:
		default:
			mu.Lock()
			failed++
			mu.Unlock()
			continue
		}
		asking.Go(func() {
			err := get(ctx, web, "http://"+address+"/")
			took := time.Since(due).Seconds()
			<-slots
			mu.Lock()
			defer mu.Unlock()
			switch {
			case due.Before(warm):
			case err != nil:
				failed++
				firstErr = err
			default:
				times = append(times, took)
			}
		})
	}
	asking.Wait()
	if err := interrupted(ctx); err != nil {
		return nil, err
	}
	if len(times) == 0 {
		return nil, errors.Join(errors.New("no request was answered"), firstErr)
	}
	return p.figures(times, failed, open/float64(looks), before, connections.Stats()), nil
}

func (p Pool) figures(times []float64, failed int, open float64, before, after pool.Stats) measurement.Result {
	slices.Sort(times)
	sum := 0.0
	for _, t := range times {
		sum += t
	}
	asked := float64(after.Requests - before.Requests)
	return measurement.Result{
		"requests":     float64(len(times)),
		"mean_seconds": sum / float64(len(times)),
		"p99_seconds":  times[int(math.Ceil(0.99*float64(len(times))))-1],
		"hit_share":    float64(after.Hits-before.Hits) / asked,
		"waited_share": float64(after.Waited-before.Waited) / asked,
		"failed":       float64(failed),
		"opened":       float64(after.Opened - before.Opened),
		"evicted":      float64(after.Evicted - before.Evicted),
		"open":         open,
		"size":         float64(after.Size),
		"idle_seconds": after.Threshold.Seconds(),
	}
}

// get asks once.
func get(ctx context.Context, web *http.Client, address string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	answer, err := web.Do(r)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return errors.Join(err, answer.Body.Close())
}

// serve answers on a loopback address, each request after a random time.
func (p Pool) serve() (address string, stop func() error, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	var mu sync.Mutex // guards random
	random := rand.New(rand.NewPCG(p.Seed, 2))
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		after := time.Duration(random.ExpFloat64() * float64(p.Service))
		mu.Unlock()
		busy := time.NewTimer(after)
		defer busy.Stop()
		select {
		case <-busy.C:
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusNoContent)
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	return l.Addr().String(), func() error {
		err := server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return err
	}, nil
}
