// Package push tells those who watch what has changed, and keeps book of who has applied
// what.
//
// One Hub has all changes of a replica. An index by kind, namespace and name finds the
// subscribers whom a change concerns: nobody else is woken. Each subscriber has a queue
// of bounded length, in which a newer change of a resource replaces an older one; what
// is in it stays in the order of revisions. When it is full, it is emptied, and the
// subscriber is told to read everything again: one that stops reading costs the others
// nothing.
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
	"sync"
	"sync/atomic"

	"dyno/services/control/resource"
)

// A Change is a resource as it has become. What it refers to is shared by all subscribers:
// nobody may change it.
type Change struct {
	resource.Ref
	// Revision is the change's place among all changes: it is what tokens name. All that a
	// listing brought has the listing's.
	Revision int64
	// Changed is the revision of the store in which the resource became what it is. It is
	// Revision, or before it where a listing brought it.
	Changed int64
	Version int64
	Removed bool
	// Resource is a *resource.Policy, *resource.Config or *resource.Instance; nil if it
	// was removed. Body is its document in JSON.
	Resource any
	Body     []byte
}

// A Topic is what a subscriber wants: one name of a kind, or all of a namespace (no
// name), or all of a kind (no namespace, either).
type Topic struct {
	Kind      resource.Kind
	Namespace string
	Name      string
}

// topicsOf are the topics that a resource belongs to.
func topicsOf(r resource.Ref) [3]Topic {
	return [3]Topic{{r.Kind, r.Namespace, r.Name}, {r.Kind, r.Namespace, ""}, {r.Kind, "", ""}}
}

// Has tells whether a resource belongs to the topic.
func (t Topic) Has(r resource.Ref) bool {
	return t.Kind == r.Kind && (t.Namespace == "" || t.Namespace == r.Namespace) && (t.Name == "" || t.Name == r.Name)
}

// A Hub hands out changes. Its methods may be called from any goroutine. Locks are taken
// in the order Hub.mu, Subscriber.mu.
type Hub struct {
	queue int // changes that wait for one subscriber
	// whole is up to where changes are in all queues that they concern. Subscribers take
	// none after it: one that took half of a revision would come back behind the other half.
	whole atomic.Int64

	mu       sync.Mutex    // guards what follows
	touched  []*Subscriber // by changes of this revision, each once
	index    map[Topic]map[*Subscriber]struct{}
	recent   ring
	revision int64 // all changes up to here have been published
	count    int
	counts   Counts
	closed   bool
}

// Counts are what a hub has done.
type Counts struct {
	Subscribers int    `json:"subscribers"` // that there are
	Published   uint64 `json:"published"`   // changes
	Offered     uint64 `json:"offered"`     // changes put into queues
	Coalesced   uint64 `json:"coalesced"`   // of these, in the place of an older one
	Overflows   uint64 `json:"overflows"`   // queues that were full
	Resumed     uint64 `json:"resumed"`     // subscribers that went on where they were
}

// NewHub returns a hub. queue bounds the changes that wait for a subscriber, remembered those
// that are kept for subscribers that come back.
func NewHub(queue, remembered int) *Hub {
	return &Hub{queue: queue, index: map[Topic]map[*Subscriber]struct{}{}, recent: newRing(remembered)}
}

// Publish tells changes in the order of their revisions, after which everything up to
// revision has been told. Whatever subscribers read must be in place before.
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
	h.tell(changes, revision)
}

// PublishListing tells what a listing found to be different from what was told before, as
// changes of the listing's revision: what was between is not known. What was made and removed
// within, nobody is told, so that whoever was told of a revision within elsewhere must read
// everything, be it a subscriber or one that comes back. rebuilt says that the store has another
// epoch, whose revisions are not those of before: then every subscriber must.
func (h *Hub) PublishListing(changes []Change, revision int64, rebuilt bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recent = newRing(h.recent.max)
	h.recent.base = revision
	rebuilt = rebuilt || revision < h.revision
	before := h.revision
	if rebuilt {
		h.whole.Store(0) // before queues are emptied: nothing of them is taken after that
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
	h.tell(listed, revision)
}

// tell puts changes into the queues of those whom they concern; h.mu is held.
func (h *Hub) tell(changes []Change, revision int64) {
	h.counts.Published += uint64(len(changes))
	for i, c := range changes {
		if i > 0 && c.Revision != changes[i-1].Revision {
			h.release(changes[i-1].Revision)
		}
		var shared *Change // what all queues have, so that each change is copied once
		for _, t := range topicsOf(c.Ref) {
			for s := range h.index[t] {
				if len(s.topics) > 1 && !s.first(t, c.Ref) {
					continue // one of several topics: it is told once
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

// release lets subscribers take all changes up to a revision, and wakes those whom it
// concerns.
func (h *Hub) release(revision int64) {
	h.whole.Store(max(h.whole.Load(), revision))
	for _, s := range h.touched {
		s.touched = false
		s.signal()
	}
	clear(h.touched)
	h.touched = h.touched[:0]
}

// first tells whether t is the first of a subscriber's topics that has the resource.
func (s *Subscriber) first(t Topic, r resource.Ref) bool {
	for _, one := range s.topics {
		if one.Has(r) {
			return one == t
		}
	}
	return false
}

// offer puts a change into a subscriber's queue, whom release wakes.
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

// Counts says what the hub has done.
func (h *Hub) Counts() Counts {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.counts
	c.Subscribers = h.count
	return c
}

// Revision is up to where changes have been published.
func (h *Hub) Revision() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.revision
}

// ErrClosed says that the hub or the subscription has ended.
var ErrClosed = errors.New("the subscription has ended")

// Subscribe returns a subscriber of topics, all different. With since 0 it must read
// everything first: its Resync is set. Otherwise it goes on after that revision, if all
// changes since are remembered, and must read everything if they are not, or if nothing was
// published yet: the first listing does not tell what was removed before it.
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
		if h.index[t] == nil {
			h.index[t] = map[*Subscriber]struct{}{}
		}
		h.index[t][s] = struct{}{}
	}
	if since == 0 || h.revision == 0 || since < h.recent.base {
		s.resync = true
		return s, nil
	}
	h.counts.Resumed++
	s.floor = since // also where this replica is behind the one that the subscriber comes from
	for c := range h.recent.after(since) {
		if slices.ContainsFunc(topics, func(t Topic) bool { return t.Has(c.Ref) }) && h.offer(s, &c) == overflowed {
			break // it reads everything, whatever else there is
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
	wake   chan struct{} // holds one
	began  int64

	touched bool // it is in Hub.touched; guarded by Hub.mu

	mu     sync.Mutex // guards what follows
	queue  list.List  // of *Change, in the order of revisions
	queued map[resource.Ref]*list.Element
	floor  int64 // changes up to here are known
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

// forceResync has the subscriber read everything if a listing of a revision, after all had been told
// up to before, does not lead from what it knows to what there is.
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

// Next returns up to limit changes in the order of their revisions, and waits for the
// first as long as ctx allows. resync says instead that the subscriber must read
// everything again, and then call Begin.
func (s *Subscriber) Next(ctx context.Context, limit int) (changes []Change, resync bool, err error) {
	for {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return nil, false, ErrClosed
		}
		if s.resync {
			s.mu.Unlock()
			return nil, true, nil
		}
		whole := s.hub.whole.Load()
		for e := s.queue.Front(); e != nil && len(changes) < limit && e.Value.(*Change).Revision <= whole; e = s.queue.Front() {
			c := s.queue.Remove(e).(*Change)
			delete(s.queued, c.Ref)
			s.floor = c.Revision
			changes = append(changes, *c)
		}
		// Changes of one revision are told together: a token names a revision.
		for e := s.queue.Front(); e != nil && len(changes) > 0; e = s.queue.Front() {
			if e.Value.(*Change).Revision != changes[len(changes)-1].Revision {
				break
			}
			c := s.queue.Remove(e).(*Change)
			delete(s.queued, c.Ref)
			changes = append(changes, *c)
		}
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

// Restart has changes queue up again. Whoever is told to resync calls it before it reads
// everything, and Begin afterwards.
func (s *Subscriber) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resync = false
	s.floor = 0 // what was known no longer counts
	s.queue.Init()
	clear(s.queued)
}

// Begin says that everything up to a revision was read.
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

// Began is up to where changes had been published when the subscription began.
func (s *Subscriber) Began() int64 { return s.began }

// Floor is the revision up to which the subscriber was told everything that concerns
// it.
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
	next    int // where the next one goes, and the oldest is once it is full
	base    int64
	max     int
}

func newRing(size int) ring { return ring{max: size} }

func (r *ring) add(c Change) {
	if len(r.changes) < r.max {
		r.changes = append(r.changes, c)
		return
	}
	// All of a revision are remembered, or none: whoever was told of it knows them all.
	r.base = r.changes[r.next].Revision
	r.changes[r.next] = c
	r.next = (r.next + 1) % r.max
}

// after yields all changes after a revision, oldest first. It searches for the first one: the hub
// is locked meanwhile, and many subscribers come back at once.
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
