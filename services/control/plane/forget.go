package plane

import (
	"context"
	"time"

	"dyno/services/control/resource"
	"dyno/services/control/store"
)

// forgetPeriod is how often what was removed long ago is looked for, and forgetPage how
// many at a time.
const (
	forgetPeriod = 10 * time.Minute
	forgetPage   = 100
)

// forget removes the history of resources that were removed long ago.
func (p *Plane) forget() {
	ticker := time.NewTicker(forgetPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-ticker.C:
		}
		if err := p.forgetBefore(p.ctx, timeNow().Add(-p.cfg.ForgetAfter)); err != nil {
			p.log.Warn("the history of what was removed long ago is still there", "error", err)
		}
	}
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
			_, at, err := resource.Unseal(kv.Value)
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
	for {
		kvs, more, err := p.store.List(ctx, store.Log+"history/"+path+"/", "", store.MaxRequestOps-1)
		if err != nil {
			return err
		}
		r := store.Request{If: []store.Condition{{Key: gone.Key, Revision: gone.Revision}}}
		for _, kv := range kvs {
			r.Then = append(r.Then, store.Op{Key: kv.Key, Delete: true})
		}
		if !more {
			r.Then = append(r.Then, store.Op{Key: gone.Key, Delete: true})
		}
		outcome, err := p.store.Apply(ctx, r)
		if err != nil || !outcome.Done || !more {
			return err
		}
	}
}
