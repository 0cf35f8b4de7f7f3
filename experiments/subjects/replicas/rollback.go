package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"dyno/experiments/subjects/measurement"
	"dyno/services/control/client"
)

// A Rollback begins a gray release of a configuration to a share of clients, and withdraws it when they have it,
// several times.
//
// Figures: rollback_seconds, from the request to withdraw until the last client has the earlier content again, the
// median of all times, and rollback_max_seconds; chosen_share, of the clients.
type Rollback struct {
	Program string  `yaml:"program" default:"dyno-control" doc:"the control plane's program"`
	Clients int     `yaml:"clients" range:"1..10000" default:"1000" doc:"clients that watch the configuration"`
	Percent float64 `yaml:"percent" range:"0.1..100" default:"5" doc:"the share of clients that get the release"`
	Times   int     `yaml:"times" range:"1..1000" default:"5" doc:"how often"`
}

const (
	slowest = time.Minute            // bounds what is waited for
	settle  = 300 * time.Millisecond // after this, the chosen clients have a release
)

// Run measures.
func (r Rollback) Run(ctx context.Context) (_ measurement.Result, err error) {
	c, err := open(ctx, r.Program, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	list, err := watchers(c.urls(), r.Clients)
	defer closeAll(list)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, slowest)
	defer cancel()
	change := func(method, path string, body any) error {
		answer, err := list[0].client.Do(ctx, client.Request{Method: method, Path: "/v1/configs/" + name + path, Body: body})
		if err == nil {
			err = answer.Body.Close()
		}
		return err
	}
	if err := change(http.MethodPut, "", map[string]any{"content": "good"}); err != nil {
		return nil, err
	}
	if err := each(list, func(w watcher) error { return w.until(ctx, func(content string) bool { return content == "good" }) }); err != nil {
		return nil, err
	}
	var rolledBack []float64
	chosen := 0
	for i := range r.Times {
		bad := "bad " + strconv.Itoa(i)
		if err := change(http.MethodPut, "/release", map[string]any{"content": bad, "percent": r.Percent}); err != nil {
			return nil, err
		}
		// Clients who are not chosen hear nothing, so there is no event to wait for.
		time.Sleep(settle)
		chosen = 0
		for _, w := range list {
			now, err := w.content(ctx)
			if err != nil {
				return nil, err
			}
			if now == bad {
				chosen++
			}
		}
		if chosen == 0 {
			return nil, fmt.Errorf("no client of %d got the release within %v", r.Clients, settle)
		}
		began := time.Now()
		if err := change(http.MethodDelete, "/release", nil); err != nil {
			return nil, err
		}
		if err := each(list, func(w watcher) error { return w.until(ctx, func(content string) bool { return content == "good" }) }); err != nil {
			return nil, err
		}
		rolledBack = append(rolledBack, time.Since(began).Seconds())
	}
	slices.Sort(rolledBack)
	return measurement.Result{
		"rollback_seconds":     quantile(rolledBack, 0.5),
		"rollback_max_seconds": quantile(rolledBack, 1),
		"chosen_share":         float64(chosen) / float64(r.Clients),
	}, nil
}

// each calls do for all clients at once, and returns all errors.
func each(list []watcher, do func(w watcher) error) error {
	errs := make([]error, len(list))
	var all sync.WaitGroup
	for i, w := range list {
		all.Go(func() { errs[i] = do(w) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// quantile is the smallest of sorted values that a share of all do not exceed; 0 of none.
func quantile(sorted []float64, share float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(math.Ceil(share*float64(len(sorted))))-1]
}
