package memory

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"dyno/services/bot/store"
)

// maxAudits bounds the changes that are remembered. The oldest goes first.
const maxAudits = 10_000

// A directory is one of this process, and ends with it.
type directory struct {
	mu     sync.Mutex // guards what follows
	rows   []store.Row
	audits []store.Audit // the oldest first
	last   int64         // the version
}

// Rows is store.Directory's.
func (d *directory) Rows(_ context.Context, after int64, most int) ([]store.Row, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i, _ := slices.BinarySearchFunc(d.rows, after+1, func(r store.Row, v int64) int { return cmp.Compare(r.Version, v) })
	return slices.Clone(d.rows[i:min(len(d.rows), i+most)]), nil
}

// Change is store.Directory's.
func (d *directory) Change(_ context.Context, r store.Row, a store.Audit) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.Version != d.last+1 {
		return store.ErrStale
	}
	d.last++
	d.rows = slices.DeleteFunc(d.rows, func(o store.Row) bool { return o.Kind == r.Kind && o.ID == r.ID })
	d.rows = append(d.rows, r)
	d.audits = append(d.audits, a)
	d.audits = slices.Delete(d.audits, 0, max(0, len(d.audits)-maxAudits))
	return nil
}

// Audits is store.Directory's.
func (d *directory) Audits(_ context.Context, before int64, most int) ([]store.Audit, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i, _ := slices.BinarySearchFunc(d.audits, before, func(a store.Audit, v int64) int { return cmp.Compare(a.Version, v) })
	list := slices.Clone(d.audits[max(0, i-most):i])
	slices.Reverse(list)
	return list, nil
}

// Await is store.Directory's: there is no other gateway.
func (d *directory) Await(ctx context.Context) { <-ctx.Done() }
