package main

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"dyno/experiments/subjects/measurement"
	"dyno/services/control/client"
)

// A Failover kills the replicas of a control plane, one after another, and starts each again. After a kill, a
// configuration is changed. A client has failed over when it has the change within Within of the kill, whichever
// replica it watched.
//
// Figures: failover_share, of the clients and kills; failover_p99_seconds and failover_max_seconds, from the kill until a
// client has the change; write_seconds, from the kill until the change is acknowledged, the slowest of all; sync_share, the
// share of clients that have the newest change in the end.
type Failover struct {
	Program string        `yaml:"program" default:"dyno-control" doc:"the control plane's program"`
	Clients int           `yaml:"clients" range:"1..10000" default:"300" doc:"clients that watch the configuration, spread over the replicas"`
	Kills   int           `yaml:"kills" range:"1..1000" default:"6" doc:"how often a replica is killed"`
	Within  time.Duration `yaml:"within" range:"1ms..1m" default:"10s" doc:"from the kill until a client must have the change"`
}

// size is the number of replicas, of which one may be missing.
const size = 3

// Run measures.
func (f Failover) Run(ctx context.Context) (_ measurement.Result, err error) {
	c, err := open(ctx, f.Program, size)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	list, err := watchers(c.urls(), f.Clients)
	defer closeAll(list)
	if err != nil {
		return nil, err
	}
	put := func(content string) error {
		answer, err := list[0].client.Do(ctx, client.Request{Method: http.MethodPut, Path: "/v1/configs/" + name, Body: map[string]any{"content": content}})
		if err == nil {
			err = answer.Body.Close()
		}
		return err
	}
	have := func(ctx context.Context, content string) func(w watcher) error {
		return func(w watcher) error {
			return w.until(ctx, func(now string) bool { return now == content })
		}
	}
	if err := put("0"); err != nil {
		return nil, err
	}
	if err := each(list, have(ctx, "0")); err != nil {
		return nil, err
	}
	var (
		mu    sync.Mutex // guards times
		times []float64  // of clients that failed over
		write float64
	)
	for k := range f.Kills {
		killed := c.replicas[k%size]
		content := strconv.Itoa(k + 1)
		began := time.Now()
		killed.kill()
		within, cancel := context.WithDeadline(ctx, began.Add(f.Within))
		for put(content) != nil && within.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		write = max(write, time.Since(began).Seconds())
		_ = each(list, func(w watcher) error { // who comes too late has no time
			err := have(within, content)(w)
			// The change itself may have been acknowledged too late.
			if took := time.Since(began); err == nil && took <= f.Within {
				mu.Lock()
				defer mu.Unlock()
				times = append(times, took.Seconds())
			}
			return err
		})
		cancel()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := errors.Join(killed.start(), killed.ready(ctx)); err != nil {
			return nil, err
		}
	}
	synced := 0
	for _, w := range list {
		if now, err := w.content(ctx); err == nil && now == strconv.Itoa(f.Kills) {
			synced++
		}
	}
	slices.Sort(times)
	return measurement.Result{
		"failover_share":       float64(len(times)) / float64(f.Clients*f.Kills),
		"failover_p99_seconds": quantile(times, 0.99),
		"failover_max_seconds": quantile(times, 1),
		"write_seconds":        write,
		"sync_share":           float64(synced) / float64(f.Clients),
	}, nil
}
