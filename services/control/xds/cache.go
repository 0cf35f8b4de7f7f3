package xds

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"dyno/services/control/access"
	"dyno/services/control/plane"
	"dyno/services/control/push"
	"dyno/services/control/resource"
	"dyno/services/control/traffic"
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
	log      *slog.Logger
	complete chan struct{} // closed when the first snapshot is complete
	watch    *plane.Watch  // set before that
	period   time.Duration // latePeriod, but in tests

	mu       sync.Mutex // guards what follows
	entries  map[service]*entry
	policies map[string]*policies        // by namespace; each is replaced as a whole
	late     map[service]map[string]bool // overdue instances, by their identifiers; replaced as a whole
	// watchers are the clients that watch a service, and those that watch all.
	watchers map[service]map[*client]struct{}
	all      map[*client]struct{}
}

// An entry is a service with instances.
type entry struct {
	// Counters of its changes, and of those of the policies for it; guarded by snapshotCache.mu
	changes, rules uint64

	mu          sync.Mutex          // guards the fields below: while one goroutine makes a resource, the others wait
	assignments map[string]assigned // by the nearest zone, if any, and the services that replace this one
	variants    map[string]*variant // by the key of the audience
}

// An assigned resource is an assignment.
type assigned struct {
	*built
	as uint64 // the value of changes that it was made for
}

// A variant has a service's other resources for an audience.
type variant struct {
	hosted
	as   uint64            // the value of rules that it was made for
	made map[string]*built // by kind and name
}

// maxVariants bounds the audiences for which a service's resources are kept. With more, they are made again.
const maxVariants = 64

func newSnapshotCache(p *plane.Plane, log *slog.Logger) *snapshotCache {
	return &snapshotCache{
		plane: p, log: log, complete: make(chan struct{}), period: latePeriod, entries: map[service]*entry{},
		watchers: map[service]map[*client]struct{}{}, all: map[*client]struct{}{}, policies: map[string]*policies{},
	}
}

// follow follows the catalog until ctx or the plane ends.
func (w *snapshotCache) follow(ctx context.Context) error {
	watch, err := w.plane.Watch(ctx, w.plane.Itself(), plane.Query{Namespace: access.AllNamespaces, Kinds: []resource.Kind{resource.Instances, resource.Policies}})
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
			w.watch = watch
			close(w.complete)
			begun = true
		}
	}
}

// reach waits until the cache is complete up to a revision that another replica had, for a second at most. It returns
// false if the replica does not know that revision. A cache that always has changes to handle must do as it is.
func (w *snapshotCache) reach(ctx context.Context, revision int64) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for !w.watch.Handled(revision) {
		if !wait.For(ctx, 5*time.Millisecond) {
			return w.plane.Revision() >= revision
		}
	}
	return true
}

// learn applies changes, or a whole snapshot, and notifies the clients that they concern.
func (w *snapshotCache) learn(changes []push.Change, everything bool) {
	touched := map[service]touch{}
	var policies []*push.Change
	for i := range changes {
		if changes[i].Kind == resource.Policies {
			policies = append(policies, &changes[i])
			continue
		}
		touched[service{changes[i].Namespace, changes[i].Name}] = ofInstances
	}
	w.mu.Lock()
	if everything {
		for one := range w.entries {
			touched[one] = ofPolicies
		}
		clear(w.policies)
	}
	for _, one := range w.learnPolicies(policies) {
		touched[one] = ofPolicies
	}
	for one := range maps.Clone(touched) {
		for _, name := range w.policies[one.namespace].replacedBy(one.name) {
			if dependent := (service{one.namespace, name}); touched[dependent] != ofPolicies {
				touched[dependent] = ofInstances
			}
		}
	}
	some := map[*client]map[service]touch{} // clients that watch some services only
	for one, what := range touched {
		touched[one] = w.change(one, what, w.isServed(one))
		for c := range w.watchers[one] {
			if _, ok := w.all[c]; ok {
				continue
			}
			if some[c] == nil {
				some[c] = map[service]touch{}
			}
			some[c][one] = touched[one]
		}
	}
	all := slices.Collect(maps.Keys(w.all))
	w.mu.Unlock()
	for c, services := range some {
		c.touch(services)
	}
	for _, c := range all {
		c.touch(touched)
	}
}

// learnPolicies notes changed policies, and returns the services that they may be for. w.mu is held.
func (w *snapshotCache) learnPolicies(changes []*push.Change) []service {
	concerned := map[string]func(string) bool{} // by namespace: the services' names
	changed := map[string]map[string]*resource.Policy{}
	for _, c := range changes {
		if changed[c.Namespace] == nil {
			changed[c.Namespace] = w.policies[c.Namespace].clone()
		}
		next := policyOf(c)
		for _, p := range []*resource.Policy{changed[c.Namespace][c.Name], next} {
			if p != nil {
				concerned[c.Namespace] = either(concerned[c.Namespace], servicesOf(p))
			}
		}
		delete(changed[c.Namespace], c.Name)
		if next != nil {
			changed[c.Namespace][c.Name] = next
		}
	}
	var list []service
	for namespace, all := range changed {
		for name := range w.policies[namespace].failovers() { // perhaps it is no longer served
			list = append(list, service{namespace, name})
		}
		w.policies[namespace] = newPolicies(all)
		for name := range w.policies[namespace].failovers() {
			list = append(list, service{namespace, name})
		}
	}
	for one := range w.entries {
		if is := concerned[one.namespace]; is != nil && is(one.name) {
			list = append(list, one)
		}
	}
	return list
}

// policies are those of a namespace.
type policies struct {
	byName   map[string]*resource.Policy
	sources  []string            // the labels of callers by which rules match
	released []*resource.Policy  // those with a gray release
	failover map[string][]string // services that replace others, for some callers, by the names of these
}

// failovers returns the services that others replace, with these; a nil one has none.
func (p *policies) failovers() map[string][]string {
	if p == nil {
		return nil
	}
	return p.failover
}

// replacedBy returns the services that a service replaces.
func (p *policies) replacedBy(name string) (list []string) {
	for one, others := range p.failovers() {
		if slices.Contains(others, name) {
			list = append(list, one)
		}
	}
	return list
}

// isServed reports whether xDS can have a service, and it or one that replaces it has instances. w.mu is held.
func (w *snapshotCache) isServed(one service) bool {
	if one.check() != nil {
		return false
	}
	return w.plane.HasService(one.namespace, one.name) || slices.ContainsFunc(w.policies[one.namespace].failovers()[one.name], func(name string) bool {
		return w.plane.HasService(one.namespace, name)
	})
}

func newPolicies(all map[string]*resource.Policy) *policies {
	p := &policies{byName: all, failover: map[string][]string{}}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		one := all[name]
		rules := one.Rules
		if one.Release != nil {
			p.released = append(p.released, one)
			rules = slices.Concat(rules, one.Release.Rules)
		}
		for _, r := range rules {
			p.sources = slices.AppendSeq(p.sources, maps.Keys(r.Match.Sources))
			if r.Action == resource.Failover {
				for _, name := range r.Match.Services {
					p.failover[name] = append(p.failover[name], r.Failover...)
				}
			}
		}
	}
	slices.Sort(p.sources)
	p.sources = slices.Compact(p.sources)
	return p
}

// clone copies the policies by name; a nil one has none.
func (p *policies) clone() map[string]*resource.Policy {
	if p == nil {
		return map[string]*resource.Policy{}
	}
	return maps.Clone(p.byName)
}

// key identifies the audiences that are alike for these policies.
func (p *policies) key(a *audience) string {
	key := fmt.Sprintf("%s %t %s", a.kind, a.asks, a.domain)
	if p == nil {
		return key
	}
	for _, name := range p.sources {
		value, ok := a.labels[name]
		key += fmt.Sprintf("\x00%t %s", ok, value)
	}
	for _, one := range p.released {
		_, released := one.For(resource.Client{ID: a.id, Labels: a.labels})
		key += fmt.Sprintf("\x00%t", released)
	}
	return key
}

// of returns the policies with the rules of gray releases that are for an audience.
func (p *policies) of(a *audience) []*resource.Policy {
	if p == nil {
		return nil
	}
	list := slices.Collect(maps.Values(p.byName))
	for i, one := range list {
		if rules, released := one.For(resource.Client{ID: a.id, Labels: a.labels}); released {
			its := *one
			its.Rules = rules
			list[i] = &its
		}
	}
	return list
}

// policyOf parses a changed policy; nil if it was removed.
func policyOf(c *push.Change) *resource.Policy {
	if c.Removed {
		return nil
	}
	p, err := resource.Parse(resource.Policies, c.Body)
	if err != nil {
		return nil // it was checked when it was put
	}
	return p.(*resource.Policy)
}

// servicesOf tells which services a policy may be for, by their names.
func servicesOf(p *resource.Policy) func(name string) bool {
	return func(name string) bool {
		rules := p.Rules
		if p.Release != nil {
			rules = slices.Concat(rules, p.Release.Rules)
		}
		return slices.ContainsFunc(rules, func(r resource.Rule) bool {
			return len(r.Match.Services) == 0 || slices.Contains(r.Match.Services, name)
		})
	}
}

func either(a, b func(string) bool) func(string) bool {
	if a == nil {
		return b
	}
	return func(name string) bool { return a(name) || b(name) }
}

// change notes a change of a service, and returns what has changed: perhaps the service is new or gone. w.mu is held.
func (w *snapshotCache) change(one service, what touch, exists bool) touch {
	e := w.entries[one]
	switch {
	case e != nil && exists:
		e.changes++
		if what != ofInstances {
			e.rules++
		}
		return what
	case exists:
		w.entries[one] = &entry{changes: 1, rules: 1, assignments: map[string]assigned{}, variants: map[string]*variant{}}
		return ofExistence
	}
	delete(w.entries, one)
	if e == nil {
		return ofInstances
	}
	return ofExistence
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

// A look at an entry has what its resources are made from.
type look struct {
	*entry
	changes, rules uint64
	late           map[string]bool // overdue instances
	policies       *policies
}

func (w *snapshotCache) look(one service) look {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := look{entry: w.entries[one], late: w.late[one], policies: w.policies[one.namespace]}
	if l.entry != nil {
		l.changes, l.rules = l.entry.changes, l.entry.rules
	}
	return l
}

// lookAndLock looks at an entry, and locks it; nil is without the service.
func (w *snapshotCache) lookAndLock(one service) *look {
	l := w.look(one)
	if l.entry == nil {
		return nil
	}
	l.mu.Lock()
	// The catalog is at least as new as these changes.
	if again := w.look(one); again.entry == l.entry {
		l = again
	}
	return &l
}

// variant returns a service's resources for an audience. The entry is locked.
func (l *look) variant(one service, a *audience, log func(error)) *variant {
	key := l.policies.key(a)
	v := l.variants[key]
	if v != nil && v.as == l.rules {
		return v
	}
	table, err := traffic.Compile(l.policies.of(a), one.name, a.labels)
	if err != nil {
		log(err)
		if table = closedTable; v != nil {
			table = v.traffic
		}
	}
	if len(l.variants) >= maxVariants {
		clear(l.variants)
	}
	v = &variant{hosted{one, table, *a}, l.rules, map[string]*built{}}
	l.variants[key] = v
	return v
}

func (w *snapshotCache) hosted(one service, a *audience) hosted {
	l := w.lookAndLock(one)
	if l == nil {
		return hosted{one, plainTable, *a}
	}
	defer l.mu.Unlock()
	return l.variant(one, a, w.failed).hosted
}

// plainTable is without policies.
var plainTable = &traffic.Table{Routes: []traffic.Route{{}}}

// closedTable denies all requests: a rule that denies some must not be lost.
var closedTable = &traffic.Table{Routes: []traffic.Route{{Deny: true}}}

// failed logs why policies cannot be translated.
func (w *snapshotCache) failed(err error) {
	w.log.Error("xds: policies cannot be translated: those from before hold, and without any, requests are denied", "error", err)
}

func (w *snapshotCache) resource(k kind, one service, name string, a *audience) *built {
	l := w.lookAndLock(one)
	if l == nil {
		if k == assignments {
			return nil
		}
		return hosted{one, plainTable, *a}.resource(k, name)
	}
	defer l.mu.Unlock()
	v := l.variant(one, a, w.failed)
	if k == assignments {
		nearest := ""
		if b := v.traffic.Balance; b != nil && b.Local {
			nearest = a.zone
		}
		return w.assignment(one, l, nearest, v.traffic.Failover)
	}
	key := k.String() + " " + name
	if v.made[key] == nil {
		v.made[key] = v.resource(k, name)
	}
	return v.made[key]
}

// assignment makes a service's assignment, with services that replace it. The entry is locked.
func (w *snapshotCache) assignment(one service, l *look, nearest string, failover []string) *built {
	key := strings.Join(append([]string{nearest}, failover...), "\x00")
	before, ok := l.assignments[key]
	if ok && before.as == l.changes {
		return before.built
	}
	list, revision := w.instances(one, l.late)
	for _, name := range failover {
		if slices.ContainsFunc(list, func(i instance) bool { return i.health == core.HealthStatus_HEALTHY }) {
			break
		}
		other := service{one.namespace, name}
		more, known := w.instances(other, w.look(other).late)
		list, revision = append(list, more...), max(revision, known)
	}
	b := assign(one, list, nearest, revision)
	if ok && before.version == b.version {
		b = before.built
	}
	if len(l.assignments) >= maxVariants {
		clear(l.assignments)
	}
	l.assignments[key] = assigned{b, l.changes}
	return b
}

// instances returns a service's instances, of which some are late.
func (w *snapshotCache) instances(one service, late map[string]bool) (list []instance, revision int64) {
	items, revision := w.plane.ServiceInstances(one.namespace, one.name)
	for _, item := range items {
		if i, ok := instanceOf(item.Resource.(*resource.Instance), late[item.ID]); ok {
			list = append(list, i)
		}
	}
	return list, revision
}
