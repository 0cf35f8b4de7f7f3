// Package push sends changes to watchers, and records which versions clients have applied.
//
// One Hub has all changes of a replica. An index by kind, namespace and name finds the subscribers whom a change
// concerns; only they wake up. Each subscriber has a queue of bounded length. A newer change of a resource replaces
// an older one in it; the order is that of revisions. A full queue is emptied, and the subscriber must read
// everything again. So one that stops reading costs the others nothing.
//
// The Ledger knows which version of a resource each client was sent, has applied or has
// refused, and why.
package push

import (
	"container/list"
	"context"
	"errors"
	"iter"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"dyno/services/control/resource"
)

// A Change is a resource's new state. All subscribers share it: its contents must not be changed.
type Change struct {
	resource.Ref
	// Revision is the change's place among all changes; tokens name it. Changes from a listing have the listing's
	// revision.
	Revision int64
	// Changed is the store's revision of the last change of the resource. It equals Revision, or is lower for a
	// change from a listing.
	Changed int64
	Version int64
	Removed bool
	// Resource is a *resource.Policy, *resource.Config or *resource.Instance; nil if it
	// was removed. Body is its document in JSON.
	Resource any
	Body     []byte
}

// A Topic selects resources: one name of a kind, or the names with a prefix, or all of a namespace (neither), or all of
// a kind (no namespace, either).
type Topic struct {
	Kind      resource.Kind
	Namespace string
	Name      string
	Prefix    string
}

// placesOf returns the places in the index of the topics that a resource may belong to.
func placesOf(r resource.Ref) []Topic {
	list := []Topic{{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}, {Kind: r.Kind, Namespace: r.Namespace}, {Kind: r.Kind}}
	for at, letter := range r.Name {
		if letter == '/' {
			list = append(list, Topic{Kind: r.Kind, Namespace: r.Namespace, Prefix: r.Name[:at+1]})
		}
	}
	return list
}

// place returns the topic's place in the index. That of a prefix is the folder that has its names: a change then looks
// at few places, and at few subscribers of other prefixes.
func (t Topic) place() Topic {
	t.Prefix = t.Prefix[:strings.LastIndexByte(t.Prefix, '/')+1]
	return t
}

// Has reports whether a resource belongs to the topic.
func (t Topic) Has(r resource.Ref) bool {
	return t.Kind == r.Kind && (t.Namespace == "" || t.Namespace == r.Namespace) && (t.Name == "" || t.Name == r.Name) && strings.HasPrefix(r.Name, t.Prefix)
}

// A Hub distributes changes to subscribers. Its methods may be called from any goroutine. Locks are taken in the
// order Hub.mu, Subscriber.mu.
type Hub struct {
	queue int // bound on the changes that wait for one subscriber
	// whole is the revision up to which changes are in all queues that they concern. Subscribers take no later ones:
	// one that took half of a revision would resume after the other half.
	whole atomic.Int64

	mu       sync.Mutex                         // guards what follows
	touched  []*Subscriber                      // subscribers with changes of this revision, each once
	index    map[Topic]map[*Subscriber]struct{} // by places of topics
	recent   ring
	revision int64 // changes up to this revision have been published
	count    int
	counts   Counts
	closed   bool
}

// Counts are the counters of a hub.
type Counts struct {
	Subscribers int    `json:"subscribers"` // present number
	Published   uint64 `json:"published"`   // changes
	Offered     uint64 `json:"offered"`     // changes put into queues
	Coalesced   uint64 `json:"coalesced"`   // of these, changes that replaced an older one
	Overflows   uint64 `json:"overflows"`   // queues that were full
	Resumed     uint64 `json:"resumed"`     // subscribers that resumed
}

// NewHub returns a hub. queue bounds the changes that wait for a subscriber, and remembered those that are kept for
// subscribers that resume.
func NewHub(queue, remembered int) *Hub {
	return &Hub{queue: queue, index: map[Topic]map[*Subscriber]struct{}{}, recent: newRing(remembered)}
}

// Publish publishes changes in the order of their revisions, and completes everything up to revision. The state that
// subscribers read must be in place before.
func (h *Hub) Publish(changes []Change, revision int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.revision == 0 {
		h.recent.base = revision // what came before is not remembered
	} else {
		for _, c := range changes {
			h.recent.add(c)
		}
	}
	h.enqueue(changes, revision)
}

// PublishListing publishes the differences that a listing found, as changes of the listing's revision; the order in
// between is unknown. Resources that were made and removed in between are not seen. So a subscriber that learnt a
// revision in between from another replica must read everything; that includes one that resumes. rebuilt says that
// the store has a new epoch: then every subscriber must, because revisions are not comparable.
func (h *Hub) PublishListing(changes []Change, revision int64, rebuilt bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recent = newRing(h.recent.max)
	h.recent.base = revision
	rebuilt = rebuilt || revision < h.revision
	before := h.revision
	if rebuilt {
		h.whole.Store(0) // before queues are emptied: subscribers take nothing from them after that
		h.revision = 0
	}
	for _, some := range h.index {
		for s := range some {
			s.forceResync(before, revision, rebuilt)
		}
	}
	listed := make([]Change, len(changes))
	for i, c := range changes {
		c.Revision = revision
		listed[i] = c
	}
	h.enqueue(listed, revision)
}

// enqueue puts changes into the queues of the subscribers that they concern; h.mu is held.
func (h *Hub) enqueue(changes []Change, revision int64) {
	h.counts.Published += uint64(len(changes))
	for i, c := range changes {
		if i > 0 && c.Revision != changes[i-1].Revision {
			h.release(changes[i-1].Revision)
		}
		var shared *Change // shared by all queues, so that each change is copied once
		for _, t := range placesOf(c.Ref) {
			for s := range h.index[t] {
				if !s.first(t, c.Ref) {
					continue // another prefix, or several of its topics match: it gets the change once
				}
				if shared == nil {
					one := c
					shared = &one
				}
				h.offer(s, shared)
			}
		}
	}
	h.revision = max(h.revision, revision)
	h.release(h.revision)
}

// release lets subscribers take all changes up to a revision, and wakes those that have any.
func (h *Hub) release(revision int64) {
	h.whole.Store(max(h.whole.Load(), revision))
	for _, s := range h.touched {
		s.touched = false
		s.signal()
	}
	clear(h.touched)
	h.touched = h.touched[:0]
}

// first reports whether the first of a subscriber's topics that has the resource is at place t.
func (s *Subscriber) first(t Topic, r resource.Ref) bool {
	for _, one := range s.topics {
		if one.Has(r) {
			return one.place() == t
		}
	}
	return false
}

// offer puts a change into a subscriber's queue; release wakes the subscriber.
func (h *Hub) offer(s *Subscriber, c *Change) outcome {
	result := s.offer(c)
	switch result {
	case offered:
		h.counts.Offered++
	case coalesced:
		h.counts.Offered++
		h.counts.Coalesced++
	case overflowed:
		h.counts.Overflows++
	case ignored:
		return result
	}
	if !s.touched {
		s.touched = true
		h.touched = append(h.touched, s)
	}
	return result
}

// Counts returns the hub's counters.
func (h *Hub) Counts() Counts {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.counts
	c.Subscribers = h.count
	return c
}

// Revision returns the revision up to which changes have been published.
func (h *Hub) Revision() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.revision
}

// ErrClosed says that the hub or the subscription has ended.
var ErrClosed = errors.New("the subscription has ended")

// Subscribe returns a subscriber of topics, all different. With since 0 it must read everything first: its Resync is
// set. Otherwise it resumes after that revision, if all changes since are remembered. If they are not, or if nothing
// was published yet, it must read everything: the first listing does not show earlier removals.
func (h *Hub) Subscribe(topics []Topic, since int64) (*Subscriber, error) {
	s := &Subscriber{hub: h, topics: topics, max: h.queue, queued: map[resource.Ref]*list.Element{}, wake: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, ErrClosed
	}
	h.count++
	s.began = h.revision
	for _, t := range topics {
		if t = t.place(); h.index[t] == nil {
			h.index[t] = map[*Subscriber]struct{}{}
		}
		h.index[t][s] = struct{}{}
	}
	if since == 0 || h.revision == 0 || since < h.recent.base {
		s.resync = true
		return s, nil
	}
	h.counts.Resumed++
	s.floor = since // even if this replica is behind the subscriber's previous one
	for c := range h.recent.after(since) {
		if slices.ContainsFunc(topics, func(t Topic) bool { return t.Has(c.Ref) }) && h.offer(s, &c) == overflowed {
			break // it reads everything anyway
		}
	}
	h.release(h.revision)
	return s, nil
}

// Close ends all subscriptions.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, some := range h.index {
		for s := range some {
			s.close()
		}
	}
}

// A Subscriber has a queue of changes. Next is for one goroutine.
type Subscriber struct {
	hub    *Hub
	topics []Topic
	max    int
	wake   chan struct{} // capacity 1
	began  int64

	touched bool // it is in Hub.touched; guarded by Hub.mu

	mu     sync.Mutex // guards what follows
	queue  list.List  // of *Change, in the order of revisions
	queued map[resource.Ref]*list.Element
	floor  int64 // changes up to this revision are known
	busy   bool  // with what Next has returned last
	resync bool
	closed bool
}

type outcome int

const (
	offered outcome = iota
	coalesced
	overflowed
	ignored
)

func (s *Subscriber) offer(c *Change) outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resync || c.Revision <= s.floor {
		return ignored
	}
	result := offered
	if e := s.queued[c.Ref]; e != nil {
		s.queue.Remove(e)
		result = coalesced
	} else if s.queue.Len() == s.max {
		s.resync = true
		s.queue.Init()
		clear(s.queued)
		return overflowed
	}
	s.queued[c.Ref] = s.queue.PushBack(c)
	return result
}

// forceResync is for a listing of a revision. It makes the subscriber read everything, unless the changes lead from
// its state to the listing. before is the revision up to which all changes had been published.
func (s *Subscriber) forceResync(before, revision int64, rebuilt bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !rebuilt && (s.floor <= before || s.floor >= revision) {
		return
	}
	s.resync = true
	s.queue.Init()
	clear(s.queued)
	s.signal()
}

func (s *Subscriber) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// batchBytes is the size of documents from which Next returns no more changes.
const batchBytes = 3 << 20

// Next waits for changes as long as ctx allows. It returns up to limit of them, in the order of their revisions.
// resync says instead that the subscriber must read everything again, and then call Begin.
func (s *Subscriber) Next(ctx context.Context, limit int) (changes []Change, resync bool, err error) {
	for {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return nil, false, ErrClosed
		}
		if s.busy = s.resync; s.resync {
			s.mu.Unlock()
			return nil, true, nil
		}
		whole := s.hub.whole.Load()
		for e, bytes := s.queue.Front(), 0; e != nil && len(changes) < limit && bytes < batchBytes && e.Value.(*Change).Revision <= whole; e = s.queue.Front() {
			c := s.queue.Remove(e).(*Change)
			delete(s.queued, c.Ref)
			s.floor = c.Revision
			changes = append(changes, *c)
			bytes += len(c.Body)
		}
		// Changes of one revision are returned together: a token names a revision.
		for e := s.queue.Front(); e != nil && len(changes) > 0; e = s.queue.Front() {
			if e.Value.(*Change).Revision != changes[len(changes)-1].Revision {
				break
			}
			c := s.queue.Remove(e).(*Change)
			delete(s.queued, c.Ref)
			changes = append(changes, *c)
		}
		s.busy = len(changes) > 0
		s.mu.Unlock()
		if len(changes) > 0 {
			return changes, false, nil
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
}

// Handled reports whether the subscriber has handled all changes up to a revision: it has called Next again since.
func (s *Subscriber) Handled(revision int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A later change in the queue may have replaced one up to the revision.
	return s.hub.whole.Load() >= revision && s.queue.Len() == 0 && !s.busy && !s.resync
}

// Restart starts queueing changes again. After a resync, a subscriber calls it, reads everything, and calls Begin.
func (s *Subscriber) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resync = false
	s.floor = 0 // the earlier state no longer counts
	s.queue.Init()
	clear(s.queued)
}

// Begin notes that the subscriber has read everything up to a revision.
func (s *Subscriber) Begin(revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.floor = max(s.floor, revision)
	for e := s.queue.Front(); e != nil; {
		next := e.Next()
		if c := e.Value.(*Change); c.Revision <= revision {
			s.queue.Remove(e)
			delete(s.queued, c.Ref)
		}
		e = next
	}
}

// Began returns the revision up to which changes had been published when the subscription began.
func (s *Subscriber) Began() int64 { return s.began }

// Floor returns the revision up to which the subscriber has taken all changes that concern it.
func (s *Subscriber) Floor() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.floor
}

func (s *Subscriber) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.signal()
}

// Close ends the subscription.
func (s *Subscriber) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	there := false
	for _, t := range s.topics {
		t = t.place()
		if _, ok := s.hub.index[t][s]; ok {
			there = true
			delete(s.hub.index[t], s)
			if len(s.hub.index[t]) == 0 {
				delete(s.hub.index, t)
			}
		}
	}
	if there {
		s.hub.count--
	}
	s.close()
}

// A ring remembers the newest changes: all of those after base.
type ring struct {
	changes []Change
	bytes   int // of their documents
	next    int // where the next one goes; the oldest, once it is full
	base    int64
	max     int
}

func newRing(size int) ring { return ring{max: size} }

// ringBytes is the size of documents from which all changes are forgotten.
const ringBytes = 256 << 20

func (r *ring) add(c Change) {
	if r.bytes += len(c.Body); r.bytes > ringBytes {
		*r = newRing(r.max)
		r.base = c.Revision
		return
	}
	if len(r.changes) < r.max {
		r.changes = append(r.changes, c)
		return
	}
	// All changes of a revision are remembered, or none: a token stands for all of them.
	r.base = r.changes[r.next].Revision
	r.bytes -= len(r.changes[r.next].Body)
	r.changes[r.next] = c
	r.next = (r.next + 1) % r.max
}

// after yields all changes after a revision, oldest first. It finds the first one by binary search: the hub is locked
// meanwhile, and many subscribers resume at once.
func (r *ring) after(revision int64) iter.Seq[Change] {
	n := len(r.changes)
	at := func(i int) *Change { return &r.changes[(r.next+i)%n] }
	return func(yield func(Change) bool) {
		for i := sort.Search(n, func(i int) bool { return at(i).Revision > revision }); i < n; i++ {
			if !yield(*at(i)) {
				return
			}
		}
	}
}
