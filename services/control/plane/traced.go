package plane

import (
	"context"
	"hash/maphash"
	"sync/atomic"
	"time"

	"dyno/services/control/push"
	"dyno/services/control/resource"
	"dyno/services/internal/trace"
)

// tracedPlaces bounds the traced changes that wait for a watcher. One of them may take the place of an older one, whose
// trace then has no span of its push.
const tracedPlaces = 1024

// A tracedChange is a change within a trace. Its span "push" begins when the store has acknowledged it, and ends when a
// watcher of this replica was sent it, the first one. Without watchers there is no span.
type tracedChange struct {
	ref          resource.Ref
	version      int64
	ctx          context.Context           // of the request, for its trace
	acknowledged atomic.Pointer[time.Time] // nil before
}

// tracedChanges are those that no watcher was sent yet. Its methods may be called from any goroutine.
type tracedChanges struct {
	any    atomic.Bool // there has been one: without traces nothing is looked up
	seed   maphash.Seed
	places [tracedPlaces]atomic.Pointer[tracedChange]
}

// place returns where a version of a resource waits.
func (t *tracedChanges) place(ref resource.Ref, version int64) *atomic.Pointer[tracedChange] {
	type change struct {
		ref     resource.Ref
		version int64
	}
	return &t.places[maphash.Comparable(t.seed, change{ref, version})%tracedPlaces]
}

// add adds a change before it is made: a watcher may be sent it before the writer knows. It returns nil if the request is
// not sampled.
func (t *tracedChanges) add(ctx context.Context, ref resource.Ref, version int64) *tracedChange {
	if !trace.IsSampled(ctx) {
		return nil
	}
	c := &tracedChange{ref: ref, version: version, ctx: context.WithoutCancel(ctx)}
	t.place(ref, version).Store(c)
	t.any.Store(true)
	return c
}

// acknowledge notes that the change was made, or removes one that was not.
func (t *tracedChanges) acknowledge(c *tracedChange, made bool) {
	switch {
	case c == nil:
	case made:
		now := time.Now()
		c.acknowledged.Store(&now)
	default:
		t.place(c.ref, c.version).CompareAndSwap(c, nil)
	}
}

// sent ends the spans of changes that a watcher was sent.
func (t *tracedChanges) sent(changes []push.Change) {
	if !t.any.Load() {
		return
	}
	for i := range changes {
		place := t.place(changes[i].Ref, changes[i].Version)
		c := place.Load()
		if c == nil || c.ref != changes[i].Ref || c.version != changes[i].Version || !place.CompareAndSwap(c, nil) {
			continue
		}
		var at time.Time
		if acknowledged := c.acknowledged.Load(); acknowledged != nil {
			at = *acknowledged
		}
		_, span := trace.StartAt(c.ctx, "push", at)
		span.End()
	}
}
