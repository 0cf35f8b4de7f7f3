package xds

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"dyno/services/control/access"
	"dyno/services/control/plane"
	"dyno/services/control/push"
	"dyno/services/control/resource"
	"dyno/services/internal/wait"
)

// latePeriod is the pause between two looks for overdue instances.
const latePeriod = time.Second

// batchChanges is about how many changes are taken from the queue at once.
const batchChanges = 256

// A snapshotCache has the resources for all clients: each is made once. Its methods may be called from any goroutine.
// Locks are taken in the order client.mu, entry.mu, snapshotCache.mu.
type snapshotCache struct {
	plane    *plane.Plane
	complete chan struct{} // closed when the first snapshot is complete
	period   time.Duration // latePeriod, but in tests

	mu      sync.Mutex // guards what follows
	entries map[service]*entry
	late    map[service]map[string]bool // overdue instances, by their identifiers; replaced as a whole
	// watchers are the clients that watch a service, and those that watch all.
	watchers map[service]map[*client]struct{}
	all      map[*client]struct{}
}

// An entry is a service with instances.
type entry struct {
	changes uint64 // counts its changes; guarded by snapshotCache.mu

	mu       sync.Mutex // guards the fields below: while one goroutine makes a resource, the others wait
	resource *built     // the assignment
	as       uint64     // the value of changes that it was made for
	fixed    [kinds]*built
}

func newSnapshotCache(p *plane.Plane) *snapshotCache {
	return &snapshotCache{
		plane: p, complete: make(chan struct{}), period: latePeriod, entries: map[service]*entry{},
		watchers: map[service]map[*client]struct{}{}, all: map[*client]struct{}{},
	}
}

// follow follows the catalog until ctx or the plane ends.
func (w *snapshotCache) follow(ctx context.Context) error {
	watch, err := w.plane.Watch(ctx, w.plane.Itself(), plane.Query{Namespace: access.AllNamespaces, Kinds: []resource.Kind{resource.Instances}})
	if err != nil {
		return err
	}
	defer watch.Close()
	for begun := false; ; {
		changes, _, resync, err := watch.Next(ctx, batchChanges)
		if err != nil {
			return err
		}
		w.learn(changes, resync)
		if !begun {
			close(w.complete)
			begun = true
		}
	}
}

// learn applies changes, or a whole snapshot, and notifies the clients that they concern.
func (w *snapshotCache) learn(changes []push.Change, everything bool) {
	touched := map[service]bool{}
	for i := range changes {
		touched[service{changes[i].Namespace, changes[i].Name}] = true
	}
	w.mu.Lock()
	if everything {
		for one := range w.entries {
			touched[one] = true
		}
	}
	existence := make(map[service]bool, len(touched)) // whether a service began or ceased to exist
	some := map[*client]map[service]bool{}            // clients that watch some services only
	for one := range touched {
		existence[one] = w.change(one, w.plane.HasService(one.namespace, one.name))
		for c := range w.watchers[one] {
			if _, ok := w.all[c]; ok {
				continue
			}
			if some[c] == nil {
				some[c] = map[service]bool{}
			}
			some[c][one] = existence[one]
		}
	}
	all := slices.Collect(maps.Keys(w.all))
	w.mu.Unlock()
	for c, services := range some {
		c.touch(services)
	}
	for _, c := range all {
		c.touch(existence)
	}
}

// change notes a change of a service. existence reports whether the service is new or gone. w.mu is held.
func (w *snapshotCache) change(one service, exists bool) (existence bool) {
	e := w.entries[one]
	switch {
	case e != nil && exists:
		e.changes++
		return false
	case exists:
		w.entries[one] = &entry{changes: 1}
		return true
	}
	delete(w.entries, one)
	return e != nil
}

// lookLate regularly finds overdue instances, until ctx ends.
func (w *snapshotCache) lookLate(ctx context.Context) {
	wait.Every(ctx, w.period, func() { w.notifyLate(w.plane.Late()) })
}

// notifyLate notes which instances are overdue, and notifies the clients that this concerns.
func (w *snapshotCache) notifyLate(refs []resource.Ref) {
	late := map[service]map[string]bool{}
	for _, r := range refs {
		one := service{r.Namespace, r.Name}
		if late[one] == nil {
			late[one] = map[string]bool{}
		}
		late[one][r.ID] = true
	}
	w.mu.Lock()
	before := w.late
	w.late = late
	w.mu.Unlock()
	var changes []push.Change
	for _, some := range []map[service]map[string]bool{late, before} {
		for one := range some {
			if !maps.Equal(late[one], before[one]) {
				changes = append(changes, push.Change{Ref: one.ref()})
			}
		}
	}
	if len(changes) > 0 {
		w.learn(changes, false)
	}
}

// subscribe starts or stops a client's notifications of services; everything is for all services.
func (w *snapshotCache) subscribe(c *client, subscriptionDelta map[service]bool, everything bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one, wanted := range subscriptionDelta {
		if wanted {
			if w.watchers[one] == nil {
				w.watchers[one] = map[*client]struct{}{}
			}
			w.watchers[one][c] = struct{}{}
			continue
		}
		w.leave(c, one)
	}
	if everything {
		w.all[c] = struct{}{}
	} else {
		delete(w.all, c)
	}
}

// unsubscribe ends all notifications of a client: of the services that it wants, and of those that it dropped in a
// refused request.
func (w *snapshotCache) unsubscribe(c *client, wanted map[service]int, subscriptionDelta map[service]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range wanted {
		w.leave(c, one)
	}
	for one := range subscriptionDelta {
		w.leave(c, one)
	}
	delete(w.all, c)
}

// leave ends a client's notifications of a service. w.mu is held.
func (w *snapshotCache) leave(c *client, one service) {
	delete(w.watchers[one], c)
	if len(w.watchers[one]) == 0 {
		delete(w.watchers, one)
	}
}

var _ view = (*snapshotCache)(nil)

func (w *snapshotCache) exists(one service) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.entries[one] != nil
}

// services holds the cache's lock while it calls f.
func (w *snapshotCache) services(f func(service)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.entries {
		f(one)
	}
}

func (w *snapshotCache) revision() (int64, string) {
	revision := w.plane.Revision()
	return revision, w.plane.Token(revision).String()
}

// look returns an entry, its number of changes, and its overdue instances.
func (w *snapshotCache) look(one service) (e *entry, changes uint64, late map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e = w.entries[one]; e != nil {
		changes = e.changes
	}
	return e, changes, w.late[one]
}

func (w *snapshotCache) assignment(one service) *built {
	e, _, _ := w.look(one)
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	// The catalog is at least as new as these changes.
	_, changes, late := w.look(one)
	if e.resource != nil && e.as == changes {
		return e.resource
	}
	items, revision := w.plane.ServiceInstances(one.namespace, one.name)
	list := make([]instance, 0, len(items))
	for _, item := range items {
		if i, ok := instanceOf(item.Resource.(*resource.Instance), late[item.ID]); ok {
			list = append(list, i)
		}
	}
	if b := assign(one, list, revision); e.resource == nil || e.resource.version != b.version {
		e.resource = b
	}
	e.as = changes
	return e.resource
}

func (w *snapshotCache) fixed(k kind, one service) *built {
	e, _, _ := w.look(one)
	if e == nil {
		return fixed(k, one.String(), one)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fixed[k] == nil {
		e.fixed[k] = fixed(k, one.String(), one)
	}
	return e.fixed[k]
}
