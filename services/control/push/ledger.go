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

// MaxReason bounds a reason, in bytes; longer ones are cut.
const MaxReason = 512

// A Ledger records which versions clients have. It has at most as many clients as holdings. Its methods may be called
// from any goroutine.
type Ledger struct {
	max  int // holdings
	keep time.Duration

	changes atomic.Uint64

	mu         sync.Mutex // guards what follows
	book       map[resource.Ref]map[string]*resource.Holding
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
	return &Ledger{max: holdings, keep: keep, book: map[resource.Ref]map[string]*resource.Holding{}, clients: map[string]*client{}}
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
	if h == nil || h.Version == c.Version && h.State != resource.Sent {
		return // its acknowledgement was faster, or it was sent again
	}
	h.State, h.Version, h.Reason, h.At = resource.Sent, c.Version, "", now
	l.changes.Add(1)
}

// Ack notes a client's acknowledgement. news reports whether the client is connected, and has not sent the same
// before.
func (l *Ledger) Ack(name string, a *resource.Ack, now time.Time) (news bool) {
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
	if a.State == resource.Applied {
		h.Running = max(h.Running, a.Version)
	}
	if a.Version < h.Version {
		return false // a late acknowledgement of a replaced version
	}
	h.State, h.Version, h.At, h.Reason = a.State, a.Version, now, strings.ToValidUTF8(a.Reason[:min(len(a.Reason), MaxReason)], "") // gRPC refuses incomplete characters
	return true
}

// holding finds or makes a holding; nil if the ledger is full.
func (l *Ledger) holding(r resource.Ref, name string) *resource.Holding {
	if h := l.book[r][name]; h != nil {
		return h
	}
	c := l.clients[name]
	if c == nil || l.holdings == l.max {
		l.unrecorded++
		return nil
	}
	if l.book[r] == nil {
		l.book[r] = map[string]*resource.Holding{}
	}
	h := &resource.Holding{Client: name}
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
func (l *Ledger) Rollout(r resource.Ref, version int64, limit int) resource.Rollout {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := resource.Rollout{Ref: r, Version: version, Versions: map[int64]int{}, Holdings: []resource.Holding{}, Unrecorded: l.unrecorded}
	for name, h := range l.book[r] {
		out.Clients++
		out.Versions[h.Running]++
		switch {
		case h.Version == version && h.State == resource.Refused:
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
	rank := func(h resource.Holding) int {
		switch {
		case h.Version == version && h.State == resource.Refused:
			return 0
		case h.Running != version:
			return 1
		}
		return 2
	}
	slices.SortFunc(out.Holdings, func(a, b resource.Holding) int {
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
