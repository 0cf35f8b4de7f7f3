// Package catalog holds all resources in memory, as a replica knows them at one revision of the store. Reads are
// answered from it.
package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/btree"

	"dyno/services/control/resource"
	"dyno/services/control/store"
)

// An Item is a stored resource. It is shared: its maps and slices must not be changed.
type Item struct {
	resource.Ref
	Path     string
	Revision int64 // the store's revision of the last change
	Version  int64
	Body     []byte // its document in JSON
	// Resource is nil for a policy, whose document is passed on unparsed.
	Resource any

	tag string // "" if not computed yet
}

// Tag is the item's entity tag. For parsed items it was computed at parsing: it is read far more often.
func (i *Item) Tag() string {
	if i.tag != "" {
		return i.tag
	}
	return resource.Tag(i.Version, i.Body)
}

// With returns the item with another document, and with its own tag or that of the document.
func (i *Item) With(doc any, ownTag bool) (*Item, error) {
	body, err := json.Marshal(doc)
	one := &Item{Ref: i.Ref, Path: i.Path, Revision: i.Revision, Version: i.Version, Body: body, Resource: doc}
	if ownTag {
		one.tag = i.Tag()
	}
	return one, err
}

// Parse parses the store's value of a path.
func Parse(path string, value []byte, revision int64) (*Item, error) {
	ref, err := resource.ParsePath(path)
	if err != nil {
		return nil, err
	}
	version, body, err := resource.DecodeVersioned(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	item := &Item{Ref: ref, Path: path, Revision: revision, Version: version, Body: body}
	if ref.Kind != resource.Policies {
		doc, err := resource.Parse(ref.Kind, body)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		item.Resource = doc
		// The token of an acquisition grows with the revision, which the store tells afterwards.
		if lock, ok := doc.(*resource.Lock); ok && version == 1 {
			lock.Token += revision
			if item.Body, err = json.Marshal(lock); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	item.tag = resource.Tag(version, item.Body)
	return item, nil
}

// A Catalog has items. Its methods may be called from any goroutine.
type Catalog struct {
	mu       sync.RWMutex // guards what follows
	items    map[string]*Item
	order    *btree.BTreeG[*Item] // by path
	counts   map[resource.Kind]int
	services map[string]int                // number of instances, by the path of their service
	failover map[string][]*resource.Policy // those with such rules, by namespace, in the order of their names
	below    map[string]int                // number of services, by their namespace and each part of their names after a dot
	revision int64
	moved    chan struct{} // closed when revision changes
}

// degree of the tree, for few comparisons and small copies.
const degree = 32

// New returns an empty catalog.
func New() *Catalog {
	return &Catalog{
		items: map[string]*Item{}, order: btree.NewG(degree, func(a, b *Item) bool { return a.Path < b.Path }),
		counts: map[resource.Kind]int{}, services: map[string]int{}, failover: map[string][]*resource.Policy{}, below: map[string]int{}, moved: make(chan struct{}),
	}
}

// A Delta is a change as the catalog made it.
type Delta struct {
	Old, New *Item // nil if there was or is none
	Revision int64
}

// Apply makes a batch's changes, all at once, and returns them. Values that are not resources are passed to odd and
// left out.
func (c *Catalog) Apply(b store.Batch, odd func(key string, err error)) []Delta {
	deltas := make([]Delta, 0, len(b.Events))
	for _, e := range b.Events {
		path := e.Key[len(store.State):]
		d := Delta{Revision: e.Revision}
		if e.Removed {
			d.Old = &Item{Path: path} // looked up below
		} else {
			item, err := Parse(path, e.Value, e.Revision)
			if err != nil {
				odd(e.Key, err)
				continue
			}
			d.New = item
		}
		deltas = append(deltas, d)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := deltas[:0]
	for _, d := range deltas {
		if d.New != nil {
			d.Old = c.items[d.New.Path]
			c.set(d.New)
		} else {
			if d.Old = c.items[d.Old.Path]; d.Old == nil {
				continue
			}
			c.remove(d.Old)
		}
		kept = append(kept, d)
	}
	if b.Revision != c.revision {
		close(c.moved)
		c.moved = make(chan struct{})
	}
	c.revision = b.Revision
	return kept
}

func (c *Catalog) set(i *Item) {
	if c.items[i.Path] == nil {
		c.counts[i.Kind]++
		if i.Kind == resource.Instances {
			s := servicePath(i.Ref)
			if c.services[s]++; c.services[s] == 1 {
				c.countBelow(i.Ref, 1)
			}
		}
	}
	if i.Kind == resource.Policies {
		c.noteFailover(i.Ref, i.Body)
	}
	c.items[i.Path] = i
	c.order.ReplaceOrInsert(i)
}

func (c *Catalog) remove(i *Item) {
	delete(c.items, i.Path)
	c.order.Delete(i)
	c.counts[i.Kind]--
	if i.Kind == resource.Policies {
		c.noteFailover(i.Ref, nil)
	}
	if i.Kind == resource.Instances {
		s := servicePath(i.Ref)
		if c.services[s]--; c.services[s] == 0 {
			delete(c.services, s)
			c.countBelow(i.Ref, -1)
		}
	}
}

// noteFailover keeps a policy with rules for failover parsed; nil is a removed one.
func (c *Catalog) noteFailover(r resource.Ref, body []byte) {
	list := slices.DeleteFunc(c.failover[r.Namespace], func(p *resource.Policy) bool { return p.Name == r.Name })
	if bytes.Contains(body, []byte(`"failover"`)) {
		if p, err := resource.Parse(resource.Policies, body); err == nil { // it was checked when it was put
			list = append(list, p.(*resource.Policy))
			slices.SortFunc(list, func(a, b *resource.Policy) int { return strings.Compare(a.Name, b.Name) })
		}
	}
	if c.failover[r.Namespace] = list; len(list) == 0 {
		delete(c.failover, r.Namespace)
	}
}

// Failover returns the services that policies name to replace one, for callers without labels.
func (c *Catalog) Failover(namespace, service string) []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, p := range c.failover[namespace] {
		for i := range p.Rules {
			if r := &p.Rules[i]; r.Action == resource.Failover && r.Match.MatchesService(service, nil) {
				return r.Failover
			}
		}
	}
	return nil
}

// countBelow counts a new or removed service at its namespace, and at each part of its name after a dot.
func (c *Catalog) countBelow(r resource.Ref, change int) {
	for dot, letter := range "." + r.Name {
		if letter != '.' {
			continue
		}
		ending := r.Name[dot:]
		if dot == 0 {
			ending = "" // the namespace
		}
		at := servicePath(resource.Ref{Namespace: r.Namespace, Name: ending})
		if c.below[at] += change; c.below[at] == 0 {
			delete(c.below, at)
		}
	}
}

func servicePath(r resource.Ref) string { return r.Namespace + "/" + r.Name }

// Get returns an item; nil if there is none.
func (c *Catalog) Get(r resource.Ref) *Item {
	path := r.Path()
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.items[path]
}

// pageBytes is the size of the documents of a page. With their metadata they fit into a message that
// gRPC clients accept (4 MiB).
const pageBytes = 3 << 20

// Page returns up to limit items that keep accepts, in order of their paths; and whether there are more. Their paths
// begin with prefix and come after the path after. A page has at least one item if any is left, whatever its size.
func (c *Catalog) Page(prefix, after string, limit int, keep func(*Item) bool) (items []*Item, more bool) {
	bytes := pageBytes
	from := prefix
	if after >= from && after != "" {
		from = after + "\x00"
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	c.order.AscendGreaterOrEqual(&Item{Path: from}, func(i *Item) bool {
		if len(i.Path) < len(prefix) || i.Path[:len(prefix)] != prefix {
			return false
		}
		if keep != nil && !keep(i) {
			return true
		}
		if len(items) == limit || len(items) > 0 && bytes < len(i.Body) {
			more = true
			return false
		}
		items = append(items, i)
		bytes -= len(i.Body)
		return true
	})
	return items, more
}

// first returns the first item at or after a path; nil if its path does not begin with prefix.
func (c *Catalog) first(from, prefix string) *Item {
	var first *Item
	c.order.AscendGreaterOrEqual(&Item{Path: from}, func(i *Item) bool { first = i; return false })
	if first == nil || !strings.HasPrefix(first.Path, prefix) {
		return nil
	}
	return first
}

// Namespaces returns up to limit names of namespaces that have items and that keep accepts, in order; and whether
// there are more.
func (c *Catalog) Namespaces(limit int, keep func(name string) bool) (names []string, more bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, kind := range resource.Kinds() {
		prefix := string(kind) + "/"
		found := 0
		for i := c.first(prefix, prefix); i != nil; i = c.first(prefix+i.Namespace+"0", prefix) { // '0' comes after '/'
			if !keep(i.Namespace) {
				continue
			}
			if found++; found > limit {
				more = true
				break
			}
			names = append(names, i.Namespace)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > limit {
		names, more = names[:limit], true
	}
	return names, more
}

// Services returns up to limit services of a namespace, with their numbers of instances, in the order of their paths;
// and whether there are more. Their names begin with prefix and come after the name after, and keep accepts them; nil
// accepts all.
func (c *Catalog) Services(namespace, prefix, after string, limit int, keep func(name string) bool) (names []string, counts []int, more bool) {
	folder := resource.Folder(resource.Instances, namespace)
	prefix = folder + resource.EscapeName(prefix)
	c.mu.RLock()
	defer c.mu.RUnlock()
	from := prefix
	if after != "" {
		from = folder + resource.EscapeName(after) + "0" // behind its instances, as / comes before 0
	}
	for {
		first := c.first(from, prefix)
		if first == nil {
			return names, counts, false
		}
		from = folder + resource.EscapeName(first.Name) + "0"
		if keep != nil && !keep(first.Name) {
			continue
		}
		if len(names) == limit {
			return names, counts, true
		}
		names = append(names, first.Name)
		counts = append(counts, c.services[servicePath(first.Ref)])
	}
}

// Names returns up to limit names of a kind in a namespace, in the order of their paths, and whether there are more.
// They begin with prefix, and come after after. Of a name with the separator behind the prefix, it is the part to
// there, once for all such names; "" separates none.
func (c *Catalog) Names(k resource.Kind, namespace, prefix, separator, after string, limit int, keep func(name string) bool) (names []string, more bool) {
	folder := resource.Folder(k, namespace)
	// behind returns where the search goes on: behind all names that begin with one that ends with the separator.
	behind := func(name string) string {
		if separator != "" && len(name) > len(prefix) && strings.HasSuffix(name[len(prefix):], separator) {
			return folder + resource.EscapeName(name) + "\xff" // no name has this byte
		}
		return folder + resource.EscapeName(name) + "\x00"
	}
	all := folder + resource.EscapeName(prefix)
	from := all
	if after != "" {
		from = max(from, behind(after))
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	for i := c.first(from, all); i != nil; i = c.first(from, all) {
		name := i.Name
		if at := strings.Index(name[len(prefix):], separator); separator != "" && at >= 0 {
			name = name[:len(prefix)+at+len(separator)]
		}
		if from = behind(name); keep != nil && !keep(name) {
			continue
		}
		if len(names) == limit {
			return names, true
		}
		names = append(names, name)
	}
	return names, false
}

// Count is how many items of a kind there are, and CountService how many instances a
// service has.
func (c *Catalog) Count(k resource.Kind) int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.counts[k]
}

// CountService is how many instances a service has.
func (c *Catalog) CountService(namespace, name string) int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.services[namespace+"/"+name]
}

// CountServicesBelow is how many services of a namespace have names that end with a dot and an ending; of an empty
// ending, how many services there are.
func (c *Catalog) CountServicesBelow(namespace, ending string) int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.below[servicePath(resource.Ref{Namespace: namespace, Name: ending})]
}

// Revision returns the catalog's revision, and a channel that is closed when it changes. It grows, unless the store
// was restored to an earlier state.
func (c *Catalog) Revision() (revision int64, moved <-chan struct{}) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.revision, c.moved
}

// A Scope selects items: those at some paths, and those whose paths begin with a prefix.
type Scope struct{ Paths, Prefixes []string }

// Snapshot returns the items of a scope, all as of one revision.
func (c *Catalog) Snapshot(of Scope) (items []*Item, revision int64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, path := range of.Paths {
		if i := c.items[path]; i != nil {
			items = append(items, i)
		}
	}
	for _, prefix := range of.Prefixes {
		c.order.AscendGreaterOrEqual(&Item{Path: prefix}, func(i *Item) bool {
			if len(i.Path) < len(prefix) || i.Path[:len(prefix)] != prefix {
				return false
			}
			items = append(items, i)
			return true
		})
	}
	return items, c.revision
}
