package plane

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"dyno/services/control/access"
	"dyno/services/control/audit"
	"dyno/services/control/backup"
	"dyno/services/control/catalog"
	"dyno/services/control/push"
	"dyno/services/control/resource"
	"dyno/services/control/store"
)

// Bounds of the parameters of a list; lengths are in characters.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
	MaxAfter     = 1024
	MaxSearch    = 253
)

// A Page selects a part of a list.
type Page struct {
	Limit  int    // from 1 to MaxLimit
	After  string // Next of the previous page; "" is the beginning
	Prefix string // only items whose name, or an instance's identifier, begins with it
	Search string // only items with this text in their name, ignoring case
	Stale  bool   // from this replica's catalog, without catching up
}

// A List is a page of items.
type List[T any] struct {
	Items []T
	Next  string // for Page.After; "" is the end
	// Revision was known before the list was read: a watch from it misses nothing.
	Revision int64
	Age      time.Duration // how old the list may be
}

func checkLimit(n int) error {
	if n < 1 || n > MaxLimit {
		return BadParameterf("limit: must be a number from 1 to %d", MaxLimit)
	}
	return nil
}

func checkAfter(text string) error {
	if utf8.RuneCountInString(text) > MaxAfter {
		return BadParameterf("after: must be the next of the page before")
	}
	return nil
}

// MaxPrefix bounds the prefix of a list or a watch, and a separator, in bytes.
const MaxPrefix = 253

func checkPrefix(text string) error {
	if len(text) > MaxPrefix || !utf8.ValidString(text) {
		return fmt.Errorf("prefix: must be UTF-8 of %d bytes at most", MaxPrefix)
	}
	return nil
}

// begin checks a page and its caller, and catches up unless stale is wanted. where is any resource of the list.
func (p *Plane) begin(ctx context.Context, by Caller, where resource.Ref, page Page) (revision int64, age time.Duration, err error) {
	if err := checkLimit(page.Limit); err != nil {
		return 0, 0, err
	}
	if err := checkAfter(page.After); err != nil {
		return 0, 0, err
	}
	if err := checkPrefix(page.Prefix); err != nil {
		return 0, 0, BadParameterf("%v", err)
	}
	if utf8.RuneCountInString(page.Search) > MaxSearch {
		return 0, 0, BadParameterf("search: must have %d characters at most", MaxSearch)
	}
	if err := where.Check(); err != nil {
		return 0, 0, BadParameterf("%v", err)
	}
	if err := by.mayFor(access.Read, where); err != nil {
		return 0, 0, err
	}
	age, err = p.Sync(ctx, page.Stale)
	revision, _ = p.catalog.Revision()
	return revision, age, err
}

// matches reports whether one of the names contains the searched text.
func (page Page) matches(names ...string) bool {
	text := strings.ToLower(page.Search)
	return text == "" || slices.ContainsFunc(names, func(n string) bool { return strings.Contains(strings.ToLower(n), text) })
}

// list reads a page of the items of a folder.
func (p *Plane) list(ctx context.Context, by Caller, where resource.Ref, page Page, keep func(*catalog.Item) bool) (out List[*catalog.Item], err error) {
	if out.Revision, out.Age, err = p.begin(ctx, by, where, page); err != nil {
		return out, err
	}
	path := where.Path()
	folder := path[:strings.LastIndexByte(path, '/')+1]
	after := ""
	if page.After != "" {
		after = folder + page.After
	}
	items, more := p.catalog.Page(folder+resource.EscapeName(page.Prefix), after, page.Limit, keep)
	if out.Items = items; more {
		out.Next = items[len(items)-1].Path[len(folder):]
	}
	return out, nil
}

// named lists the complete resources of a kind in a namespace.
func (p *Plane) named(ctx context.Context, by Caller, k resource.Kind, namespace string, page Page) (List[*catalog.Item], error) {
	out, err := p.list(ctx, by, resource.Ref{Kind: k, Namespace: namespace, Name: "x"}, page, func(i *catalog.Item) bool { return page.matches(i.Name) })
	out.Items = slices.DeleteFunc(out.Items, func(i *catalog.Item) bool { return p.maySee(by, i) != nil })
	return out, err
}

// List returns the resources of a kind in a namespace, by name, but no instances. Sessions and locks that ended a moment ago may be
// among them.
func (p *Plane) List(ctx context.Context, by Caller, k resource.Kind, namespace string, page Page) (List[*catalog.Item], error) {
	out, err := p.named(ctx, by, k, namespace, page)
	if err != nil {
		return out, err
	}
	return out, by.mask(out.Items, false)
}

// Names returns names of policies or configurations as catalog.Names does.
func (p *Plane) Names(ctx context.Context, by Caller, k resource.Kind, namespace, separator string, page Page) (out List[string], err error) {
	if !k.Known() {
		return out, BadParameterf("kind: %.40q: must be %s", k, resource.KindNames())
	}
	if len(separator) > MaxPrefix {
		return out, BadParameterf("separator: must have %d bytes at most", MaxPrefix)
	}
	if out.Revision, out.Age, err = p.begin(ctx, by, resource.Ref{Kind: k, Namespace: namespace, Name: "x"}, page); err != nil {
		return out, err
	}
	names, more := p.catalog.Names(k, namespace, page.Prefix, separator, page.After, page.Limit, func(name string) bool { return page.matches(name) })
	if out.Items = names; more {
		out.Next = names[len(names)-1]
	}
	return out, nil
}

// mask replaces items by the forms that the caller may read in a list.
func (c Caller) mask(items []*catalog.Item, secret bool) (err error) {
	for n, i := range items {
		if items[n], err = c.shown(i, true, secret); err != nil {
			return err
		}
	}
	return nil
}

// shown returns an item in the form that the caller may read, by itself or in a list. It hides a secret content; with
// secret it hides any, because a later version is secret. Then its tag covers only the visible part: a tag of the
// whole document would confirm a guess of its content.
func (c Caller) shown(i *catalog.Item, listed, secret bool) (*catalog.Item, error) {
	config, ok := i.Resource.(*resource.Config)
	if !ok || !config.Secret && !secret {
		return i, nil
	}
	permitted := c.May(access.Secrets, i.Namespace)
	if permitted && !listed {
		return i, nil
	}
	one := *config
	one.Secret = true
	one = one.Masked()
	return i.With(&one, permitted)
}

// Get returns a resource, and its possible age. The error is NotFound if there is none.
func (p *Plane) Get(ctx context.Context, by Caller, r resource.Ref, stale bool) (*catalog.Item, time.Duration, error) {
	if err := by.mayFor(access.Read, r); err != nil {
		return nil, 0, err
	}
	item, age, err := p.get(ctx, r, stale)
	if err == nil {
		err = p.maySee(by, item)
	}
	if err != nil {
		return nil, age, err
	}
	item, err = by.shown(item, false, false)
	return item, age, err
}

// get returns a complete resource.
func (p *Plane) get(ctx context.Context, r resource.Ref, stale bool) (*catalog.Item, time.Duration, error) {
	if err := r.Check(); err != nil {
		return nil, 0, err
	}
	item, age, err := p.catalog.Get(r), p.Age(), error(nil)
	if !stale {
		item, err = p.latest(ctx, r)
		age = p.behind()
	}
	if err == nil && item == nil {
		err = &NotFound{r}
	}
	return item, age, err
}

// latest returns a resource as of the call or later; nil is none. Etcd ends leases without a change of the head, which
// catchUp waits for: what it removes with them is read from the store.
func (p *Plane) latest(ctx context.Context, r resource.Ref) (*catalog.Item, error) {
	if !r.Kind.Traits().Leased {
		err := p.catchUp(ctx)
		return p.catalog.Get(r), err
	}
	kv, err := p.store.Get(ctx, store.State+r.Path())
	if err != nil || kv.Revision == 0 {
		return nil, err
	}
	return catalog.Parse(r.Path(), kv.Value, kv.Revision)
}

// A Content is a configuration's content for one client.
type Content struct {
	Data, Type string
	Tag        string // of the configuration, or of the release's data
	Released   bool   // it is that of a gray release
	Age        time.Duration
}

// Content returns the content of a configuration for a client. A secret one needs the permission to read secrets.
func (p *Plane) Content(ctx context.Context, by Caller, r resource.Ref, who resource.Client, stale bool) (Content, error) {
	if err := by.may(access.Read, r.Namespace); err != nil {
		return Content{}, err
	}
	if err := p.checkClient(who); err != nil {
		return Content{}, err
	}
	i, age, err := p.get(ctx, r, stale)
	if err != nil {
		return Content{}, err
	}
	c := i.Resource.(*resource.Config)
	if c.Secret {
		if err := by.may(access.Secrets, r.Namespace); err != nil {
			return Content{}, err
		}
	}
	out := Content{Type: c.ContentType, Age: age, Tag: i.Tag()}
	if out.Data, out.Released = c.For(who); out.Released {
		out.Tag = resource.Tag(i.Version, []byte(out.Data))
	}
	return out, nil
}

// MaxClient bounds a client's name, in characters.
const MaxClient = 253

// CheckClientName validates the name of a client; "" is none, and valid.
func CheckClientName(field, name string) error {
	if utf8.RuneCountInString(name) > MaxClient || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }) {
		return BadParameterf("%s: must have %d characters at most, without control characters", field, MaxClient)
	}
	return nil
}

func (p *Plane) checkClient(c resource.Client) error {
	if n := len(c.Labels); n > p.Limits().Labels {
		return BadParameterf("label: %d of them: %d at most", n, p.Limits().Labels)
	}
	return CheckClientName("client", c.ID)
}

// Namespaces returns up to limit names of non-empty namespaces that the caller may read.
func (p *Plane) Namespaces(ctx context.Context, by Caller, limit int, stale bool) (names []string, more bool, age time.Duration, err error) {
	if err := checkLimit(limit); err != nil {
		return nil, false, 0, err
	}
	if age, err = p.Sync(ctx, stale); err != nil {
		return nil, false, 0, err
	}
	names, more = p.catalog.Namespaces(limit, func(name string) bool { return by.May(access.Read, name) })
	return names, more, age, nil
}

// Services returns the services of a namespace, by name.
func (p *Plane) Services(ctx context.Context, by Caller, namespace string, page Page) (out List[resource.Service], err error) {
	if out.Revision, out.Age, err = p.begin(ctx, by, resource.Ref{Kind: resource.Instances, Namespace: namespace, Name: "x", ID: "x"}, page); err != nil {
		return out, err
	}
	names, counts, more := p.catalog.Services(namespace, page.Prefix, page.After, page.Limit, func(name string) bool { return page.matches(name) })
	for i, n := range names {
		out.Items = append(out.Items, resource.Service{Name: n, Instances: counts[i]})
	}
	if more {
		out.Next = names[len(names)-1]
	}
	return out, nil
}

// An InstanceFilter selects instances of a service; "" is any.
type InstanceFilter struct {
	Zone     string
	Status   resource.Status
	Health   resource.Health   // an overdue one is critical, and one without checks passing
	Metadata map[string]string // the instance has all of these
}

// accepts reports whether an instance is of the zone and the status, and has the metadata.
func (f InstanceFilter) accepts(i *resource.Instance) bool {
	for name, value := range f.Metadata {
		if its, ok := i.Metadata[name]; !ok || its != value {
			return false
		}
	}
	return (f.Zone == "" || i.Zone == f.Zone) && (f.Status == "" || i.Status == f.Status)
}

// An Instance is an instance of a service, with its health by this replica.
type Instance struct {
	*catalog.Item
	Overdue bool     // it is silent for longer than its TTL, and about to be removed
	Heard   *float64 // seconds ago; nil if another replica watches it
}

// Instances returns the instances of a service, by identifier. The search covers addresses and zones, too.
func (p *Plane) Instances(ctx context.Context, by Caller, namespace, service string, filter InstanceFilter, page Page) (out List[Instance], err error) {
	switch filter.Status {
	case "", resource.Up, resource.Down, resource.Draining:
	default:
		return out, BadParameterf("status: %.40q: must be up, down or draining", filter.Status)
	}
	switch filter.Health {
	case "", resource.Passing, resource.Warning, resource.Critical:
	default:
		return out, BadParameterf("health: %.40q: must be passing, warning or critical", filter.Health)
	}
	if err := p.checkClient(resource.Client{Labels: filter.Metadata}); err != nil {
		return out, err
	}
	late := map[string]bool{}
	if filter.Health != "" {
		p.mu.Lock()
		for _, path := range p.overdue() {
			late[path] = true
		}
		p.mu.Unlock()
	}
	found, err := p.list(ctx, by, resource.Ref{Kind: resource.Instances, Namespace: namespace, Name: service, ID: "x"}, page, func(i *catalog.Item) bool {
		one := i.Resource.(*resource.Instance)
		return filter.accepts(one) && (filter.Health == "" || healthOf(i, late[i.Path]) == filter.Health) && page.matches(one.ID, one.Address, one.Zone)
	})
	if err != nil {
		return out, err
	}
	out = List[Instance]{Next: found.Next, Revision: found.Revision, Age: found.Age}
	overdue := p.Overdue(found.Items)
	for n, i := range found.Items {
		one := Instance{Item: i, Overdue: overdue[n]}
		if silence, ok := p.silence(i.Resource.(*resource.Instance)); ok {
			seconds := silence.Seconds()
			one.Heard = &seconds
		}
		out.Items = append(out.Items, one)
	}
	return out, nil
}

// healthOf returns an instance's health, with its silence.
func healthOf(i *catalog.Item, overdue bool) resource.Health {
	switch one := instanceOf(i); {
	case overdue:
		return resource.Critical
	case one.Checked():
		return one.Health
	}
	return resource.Passing
}

// ServiceInstances returns all instances of a service at one revision of this replica's catalog.
func (p *Plane) ServiceInstances(namespace, service string) (items []*catalog.Item, revision int64) {
	return p.catalog.Snapshot(catalog.Scope{Prefixes: []string{resource.Folder(resource.Instances, namespace) + resource.EscapeName(service) + "/"}})
}

// HasService reports whether this replica knows instances of a service.
func (p *Plane) HasService(namespace, service string) bool {
	return p.catalog.CountService(namespace, service) > 0
}

// Failover returns the services that policies name to replace one, for callers without labels.
func (p *Plane) Failover(namespace, service string) []string {
	return p.catalog.Failover(namespace, service)
}

// HasServiceBelow reports whether this replica knows a service whose name ends with a dot and an ending. With an
// empty ending, any service of the namespace counts.
func (p *Plane) HasServiceBelow(namespace, ending string) bool {
	return p.catalog.CountServicesBelow(namespace, ending) > 0
}

// Revision returns the revision up to which this replica knows everything.
func (p *Plane) Revision() int64 {
	revision, _ := p.catalog.Revision()
	return revision
}

// Rollouts counts which versions of a namespace's policies or configurations clients run, without naming the clients.
func (p *Plane) Rollouts(ctx context.Context, by Caller, k resource.Kind, namespace string, page Page) (out List[resource.Rollout], err error) {
	found, err := p.named(ctx, by, k, namespace, page)
	if err != nil {
		return out, err
	}
	out = List[resource.Rollout]{Next: found.Next, Revision: found.Revision, Age: found.Age}
	for _, i := range found.Items {
		out.Items = append(out.Items, p.ledger.Rollout(i.Ref, i.Version, 0))
	}
	return out, nil
}

// Rollout returns which clients run which version of a resource, or of a service's instances over xDS. Versions of a
// service are revisions of the store. The newest is that of the newest instances that this replica sent to any
// client.
func (p *Plane) Rollout(ctx context.Context, by Caller, r resource.Ref, limit int) (resource.Rollout, error) {
	if err := by.may(access.Read, r.Namespace); err != nil {
		return resource.Rollout{}, err
	}
	if err := checkLimit(limit); err != nil {
		return resource.Rollout{}, err
	}
	if err := p.catchUp(ctx); err != nil {
		return resource.Rollout{}, err
	}
	newest, there := p.published(r)
	if !there {
		return resource.Rollout{}, &NotFound{r}
	}
	if r.Kind == resource.Instances {
		newest = p.ledger.Newest(r)
	}
	return p.ledger.Rollout(r, newest, limit), nil
}

// NewestSent returns the newest revision of a service's instances that this replica sent to any client; 0 is none.
func (p *Plane) NewestSent(r resource.Ref) int64 { return p.ledger.Newest(r) }

// A RolloutMark changes with every change of a rollout on this replica.
type RolloutMark struct {
	answers  uint64
	revision int64
}

// RolloutMark returns the present mark.
func (p *Plane) RolloutMark() RolloutMark { return RolloutMark{p.ledger.Changes(), p.Revision()} }

// Audit returns a page of changes, in namespaces whose audit the caller may read.
func (p *Plane) Audit(ctx context.Context, by Caller, q audit.Query) (audit.Page, error) {
	if err := checkLimit(q.Limit); err != nil {
		return audit.Page{}, err
	}
	if err := checkAfter(q.After); err != nil {
		return audit.Page{}, err
	}
	// A caller without this permission anywhere gets an error, before anything is read.
	if !by.MayAnywhere(access.Audit) {
		return audit.Page{}, by.may(access.Audit, access.AllNamespaces)
	}
	q.May = func(namespace string) bool { return by.May(access.Audit, namespace) }
	return audit.Read(ctx, p.store, q)
}

// A Status is the state of the control plane.
type Status struct {
	Age       float64               `json:"age_seconds"`
	Centres   map[string]Following  `json:"centres,omitempty"`
	Following *Following            `json:"following,omitempty"`
	Limits    resource.Limits       `json:"limits"`
	Liveness  resource.Pulse        `json:"liveness"`
	Push      push.Counts           `json:"push"`
	Resources map[resource.Kind]int `json:"resources"`
	Revision  int64                 `json:"revision"`
	Store     store.Status          `json:"store"`
}

// Status returns the state of the store and of this replica.
func (p *Plane) Status(ctx context.Context) (Status, error) {
	st, err := p.store.Status(ctx)
	if err != nil {
		return Status{}, err
	}
	resources := map[resource.Kind]int{}
	for _, k := range resource.Kinds() {
		resources[k] = p.catalog.Count(k)
	}
	return Status{p.Age().Seconds(), p.Centres(), p.Following(), p.Limits(), p.Pulse(), p.hub.Counts(), resources, p.Revision(), st}, nil
}

// Backup writes all keys at one revision. It writes nothing to w without permission.
func (p *Plane) Backup(ctx context.Context, by Caller, w io.Writer) error {
	if err := by.may(access.Administer, access.AllNamespaces); err != nil {
		return err
	}
	return backup.Write(ctx, w, p.store)
}

// Reclaim compacts and defragments the database. It goes on after ctx has ended: half of it has no use.
func (p *Plane) Reclaim(ctx context.Context, by Caller) error {
	if err := by.may(access.Administer, access.AllNamespaces); err != nil {
		return err
	}
	return p.store.Reclaim(context.WithoutCancel(ctx))
}

// A NotFound says that a resource does not exist.
type NotFound struct{ resource.Ref }

func (e *NotFound) Error() string { return "there is no " + e.String() }
