package plane

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"dyno/services/control/resource"
	"dyno/services/control/store"
	"dyno/services/internal/wait"
)

// forgetPeriod is the pause between two searches for resources that were removed long ago, and forgetPage their
// number per page.
const (
	forgetPeriod = 10 * time.Minute
	forgetPage   = 100
)

// forget removes the history of resources that were removed long ago.
func (p *Plane) forget() {
	wait.Every(p.ctx, forgetPeriod, func() {
		if err := p.forgetBefore(p.ctx, timeNow().Add(-p.cfg.ForgetAfter)); err != nil {
			p.log.Warn("the history of resources removed long ago could not be removed", "error", err)
		}
	})
}

// forgetBefore removes the history of resources that were removed before a time.
func (p *Plane) forgetBefore(ctx context.Context, before time.Time) error {
	folder := store.Log + "gone/"
	after := ""
	for {
		kvs, more, err := p.store.List(ctx, folder, after, forgetPage)
		if err != nil {
			return err
		}
		for _, kv := range kvs {
			after = kv.Key
			_, at, err := resource.DecodeVersioned(kv.Value)
			if err != nil {
				return err
			}
			removed, err := time.Parse(time.RFC3339, string(at))
			if err != nil {
				return err
			}
			if removed.After(before) {
				continue
			}
			if err := p.forgetOne(ctx, kv, kv.Key[len(folder):]); err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
	}
}

// forgetOne removes one resource's history, unless it was made again.
func (p *Plane) forgetOne(ctx context.Context, gone store.KV, path string) error {
	kvs, _, err := p.store.List(ctx, historyFolder(path), "", int(places(maxHistory)))
	if err != nil {
		return err
	}
	requests, err := forgetting(gone, kvs)
	if err != nil {
		return err
	}
	for _, r := range requests {
		if outcome, err := p.store.Apply(ctx, r); err != nil || !outcome.Done {
			return err
		}
	}
	return nil
}

// forgetting returns the requests that remove a history: the oldest versions first, as the newest says whether all of
// them are secret.
func forgetting(gone store.KV, history []store.KV) (requests []store.Request, err error) {
	versions := map[string]int64{}
	for _, kv := range history {
		if versions[kv.Key], _, err = resource.DecodeVersioned(kv.Value); err != nil {
			return nil, fmt.Errorf("%s: %w", kv.Key, err)
		}
	}
	history = slices.SortedFunc(slices.Values(history), func(a, b store.KV) int { return cmp.Compare(versions[a.Key], versions[b.Key]) })
	for page := range slices.Chunk(append(history, gone), store.MaxRequestOps) {
		r := store.Request{If: []store.Condition{{Key: gone.Key, Revision: gone.Revision}}}
		for _, kv := range page {
			r.Then = append(r.Then, store.Op{Key: kv.Key, Delete: true})
		}
		requests = append(requests, r)
	}
	return requests, nil
}
