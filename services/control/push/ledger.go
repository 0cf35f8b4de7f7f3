package push

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dyno/services/control/resource"
)

// A State is the state of a version at one client.
type State string

// The states.
const (
	Sent    State = "sent"    // not acknowledged
	Applied State = "applied" // ACK
	Refused State = "refused" // NACK: the client keeps its previous version
)

// An Ack is a client's acknowledgement.
type Ack struct {
	resource.Ref
	Version int64  `json:"version"`
	State   State  `json:"state"`            // applied or refused
	Reason  string `json:"reason,omitempty"` // of a refusal
}

// MaxReason bounds a reason, in bytes; longer ones are cut.
const MaxReason = 512

// A Holding is the state of one resource at one client.
type Holding struct {
	Client    string    `json:"client"`
	Connected bool      `json:"connected"`
	State     State     `json:"state"`
	Version   int64     `json:"version"`         // the version of State
	Running   int64     `json:"running_version"` // the newest applied version; 0 is unknown
	Reason    string    `json:"reason,omitempty"`
	At        time.Time `json:"at"`
}

// A Rollout counts which clients run which version of a resource. Clients of other replicas are in theirs.
type Rollout struct {
	resource.Ref
	Version int64 `json:"version"` // the newest
	Clients int   `json:"clients"` // clients that were sent any version
	Applied int   `json:"applied"` // of these, clients that run the newest
	Refused int   `json:"refused"` // clients that have refused the newest
	Pending int   `json:"pending"` // clients that have not acknowledged the newest
	// Versions counts the clients that run each version; version 0 is unknown.
	Versions map[int64]int `json:"versions"`
	// Holdings lists some clients: first those that have refused, then those that are pending.
	Holdings []Holding `json:"holdings"`
	// Unrecorded counts the holdings of all resources that did not fit.
	Unrecorded uint64 `json:"unrecorded"`
}

// A Ledger records which versions clients have. It has at most as many clients as holdings. Its methods may be called
// from any goroutine.
type Ledger struct {
	max  int // holdings
	keep time.Duration

	changes atomic.Uint64

	mu         sync.Mutex // guards what follows
	book       map[resource.Ref]map[string]*Holding
	clients    map[string]*client
	holdings   int
	unrecorded uint64
}

// A client has holdings, and perhaps connections.
type client struct {
	connections int
	left        time.Time // when the last connection ended
	refs        map[resource.Ref]struct{}
}

// NewLedger returns a ledger with room for a number of holdings. It forgets a client that
// has been away for longer than keep.
func NewLedger(holdings int, keep time.Duration) *Ledger {
	return &Ledger{max: holdings, keep: keep, book: map[resource.Ref]map[string]*Holding{}, clients: map[string]*client{}}
}

// Enter notes a connection of a client, which may have several. It returns false if the ledger is full: then it
// remembers nothing of the client.
func (l *Ledger) Enter(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.clients[name]
	if c == nil {
		if len(l.clients) == l.max {
			l.unrecorded++
			return false
		}
		c = &client{refs: map[resource.Ref]struct{}{}}
		l.clients[name] = c
	}
	c.connections++
	l.changes.Add(1)
	return true
}

// Leave notes the end of a connection for which Enter has returned true.
func (l *Ledger) Leave(name string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.clients[name]; c != nil {
		c.connections--
		c.left = now
		l.changes.Add(1)
	}
}

// Sent notes that a client was sent a version. A removed resource has no holding any more.
func (l *Ledger) Sent(name string, c *Change, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.Removed {
		l.remove(c.Ref, name)
		return
	}
	h := l.holding(c.Ref, name)
	if h == nil || h.Version == c.Version && h.State != Sent {
		return // its acknowledgement was faster, or it was sent again
	}
	h.State, h.Version, h.Reason, h.At = Sent, c.Version, "", now
	l.changes.Add(1)
}

// Ack notes a client's acknowledgement. news reports whether the client is connected, and has not sent the same
// before.
func (l *Ledger) Ack(name string, a *Ack, now time.Time) (news bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clients[name] == nil {
		return false
	}
	h := l.holding(a.Ref, name)
	if h == nil || h.Version == a.Version && h.State == a.State {
		return false
	}
	l.changes.Add(1)
	if a.State == Applied {
		h.Running = max(h.Running, a.Version)
	}
	if a.Version < h.Version {
		return false // a late acknowledgement of a replaced version
	}
	h.State, h.Version, h.At, h.Reason = a.State, a.Version, now, strings.ToValidUTF8(a.Reason[:min(len(a.Reason), MaxReason)], "") // gRPC refuses incomplete characters
	return true
}

// holding finds or makes a holding; nil if the ledger is full.
func (l *Ledger) holding(r resource.Ref, name string) *Holding {
	if h := l.book[r][name]; h != nil {
		return h
	}
	c := l.clients[name]
	if c == nil || l.holdings == l.max {
		l.unrecorded++
		return nil
	}
	if l.book[r] == nil {
		l.book[r] = map[string]*Holding{}
	}
	h := &Holding{Client: name}
	l.book[r][name] = h
	c.refs[r] = struct{}{}
	l.holdings++
	return h
}

func (l *Ledger) remove(r resource.Ref, name string) {
	if l.book[r][name] == nil {
		return
	}
	delete(l.book[r], name)
	if len(l.book[r]) == 0 {
		delete(l.book, r)
	}
	delete(l.clients[name].refs, r)
	l.holdings--
	l.changes.Add(1)
}

// Sweep forgets clients that have been away for too long.
func (l *Ledger) Sweep(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, c := range l.clients {
		if c.connections > 0 || now.Sub(c.left) < l.keep {
			continue
		}
		for r := range c.refs {
			l.remove(r, name)
		}
		delete(l.clients, name)
	}
}

// Forget forgets all holdings. It is for a store that was restored to an earlier state: versions are different then.
// Clients stay, and are sent everything again.
func (l *Ledger) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.book)
	for _, c := range l.clients {
		clear(c.refs)
	}
	l.holdings = 0
	l.changes.Add(1)
}

// Rollout returns a resource's rollout, given its newest version, with up to limit holdings.
func (l *Ledger) Rollout(r resource.Ref, version int64, limit int) Rollout {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := Rollout{Ref: r, Version: version, Versions: map[int64]int{}, Holdings: []Holding{}, Unrecorded: l.unrecorded}
	for name, h := range l.book[r] {
		out.Clients++
		out.Versions[h.Running]++
		switch {
		case h.Version == version && h.State == Refused:
			out.Refused++
		case h.Running == version:
			out.Applied++
		default:
			out.Pending++
		}
		if limit == 0 {
			continue
		}
		one := *h
		one.Connected = l.clients[name].connections > 0
		out.Holdings = append(out.Holdings, one)
	}
	rank := func(h Holding) int {
		switch {
		case h.Version == version && h.State == Refused:
			return 0
		case h.Running != version:
			return 1
		}
		return 2
	}
	slices.SortFunc(out.Holdings, func(a, b Holding) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Client, b.Client))
	})
	out.Holdings = out.Holdings[:min(limit, len(out.Holdings))]
	return out
}

// Newest returns the newest version of a resource that any client was sent; 0 is none.
func (l *Ledger) Newest(r resource.Ref) (version int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.book[r] {
		version = max(version, h.Version)
	}
	return version
}

// Changes returns a number that grows with every change of the ledger.
func (l *Ledger) Changes() uint64 { return l.changes.Load() }

// Holdings returns the number of holdings.
func (l *Ledger) Holdings() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holdings
}
