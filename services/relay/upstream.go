package relay

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"dyno/services/internal/serve"
	"dyno/services/internal/sockets"
)

// The times between lookups of the upstream's name: without a reason, and at least.
const (
	lookupEvery = 30 * time.Second
	lookupPause = 100 * time.Millisecond
)

// An upstream is where the relay connects to. Its name may have several addresses, and other
// ones later. So the name is looked up from time to time, and when no known address accepts a
// connection. A goroutine of its own does that: no event loop waits for a lookup.
type upstream struct {
	address serve.Address
	named   bool // its addresses may change; set by open
	lookup  func(context.Context, serve.Address) ([]sockets.Remote, error)
	timeout time.Duration // of a lookup
	log     *slog.Logger
	changed func()        // called after each lookup
	asked   chan struct{} // a hint that connections wait for a lookup
	current atomic.Pointer[view]

	mu      sync.Mutex // guards lookups
	lookups uint64     // lookups
}

// A view is the result of a lookup.
type view struct {
	number  uint64           // of the lookup, from 0
	remotes []sockets.Remote // one or more
	first   atomic.Int32     // of remotes, the one that accepted a connection last
	later   chan struct{}    // closed when there is a later view
}

func newView(number uint64, remotes []sockets.Remote) *view {
	return &view{number: number, remotes: remotes, later: make(chan struct{})}
}

// accepted makes connections begin with this address.
func (v *view) accepted(at int) {
	if v.first.Load() != int32(at) {
		v.first.Store(int32(at))
	}
}

// open looks the upstream up for the first time.
func (u *upstream) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, u.timeout)
	defer cancel()
	u.named = sockets.IsName(u.address)
	remotes, err := u.lookup(ctx, u.address)
	if err == nil {
		u.current.Store(newView(0, remotes))
	}
	return err
}

// run looks the name up until ctx ends.
func (u *upstream) run(ctx context.Context) {
	if !u.named {
		return
	}
	ticker := time.NewTicker(lookupEvery)
	defer ticker.Stop()
	failing := false
	for {
		select {
		case <-ticker.C:
		case <-u.asked:
		case <-ctx.Done():
			return
		}
		err := u.renew(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			u.log.Warn("upstream's name cannot be looked up: its earlier addresses stay in use", "error", err)
		case err == nil && failing:
			u.log.Info("upstream's name can be looked up again")
		}
		failing = err != nil
		select {
		case <-time.After(lookupPause):
		case <-ctx.Done():
			return
		}
	}
}

// renew looks the name up and publishes the result. After an error the addresses stay.
func (u *upstream) renew(ctx context.Context) error {
	u.mu.Lock()
	u.lookups++
	number := u.lookups
	u.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, u.timeout)
	defer cancel()
	remotes, err := u.lookup(ctx, u.address)
	old := u.current.Load()
	if err != nil {
		remotes = old.remotes
	}
	v, now, before := newView(number, remotes), texts(remotes), texts(old.remotes)
	v.accepted(max(slices.Index(now, before[old.first.Load()]), 0))
	u.current.Store(v)
	slices.Sort(now) // servers may give the addresses in turn
	slices.Sort(before)
	if !slices.Equal(now, before) {
		u.log.Info("upstream has other addresses", "upstream", u.address.String(), "addresses", now, "before", before)
	}
	close(old.later)
	u.changed()
	return err
}

func texts(remotes []sockets.Remote) []string {
	list := make([]string, len(remotes))
	for i, r := range remotes {
		list[i] = r.Addr.String()
	}
	return list
}

// A route is one connection's way to the upstream: through all addresses of a view, and then
// through those that only a later lookup finds.
type route struct {
	view    *view
	at      int32    // the address that the connection is at
	tried   int32    // addresses of the view, this one included
	earlier []string // addresses of an earlier view, which have been tried
	wanted  uint64   // the lookup that may find more; 0 before one is asked for
}

func (u *upstream) route() route {
	v := u.current.Load()
	return route{view: v, at: v.first.Load(), tried: 1}
}

// again reports whether the address is not the connection's first.
func (r *route) again() bool { return r.tried > 1 || r.wanted > 0 }

func (r *route) remote() sockets.Remote { return r.view.remotes[r.at] }

// next goes on to the next address, and reports whether there is one.
func (r *route) next() bool {
	n := int32(len(r.view.remotes))
	for r.tried < n {
		r.tried++
		r.at = (r.at + 1) % n
		if !slices.Contains(r.earlier, r.remote().Addr.String()) {
			return true
		}
	}
	return false
}

// parts returns into how many parts the rest of the time is divided: one for each address
// that is left, and one for those that a lookup may find.
func (u *upstream) parts(r *route) int {
	n := 1 + len(r.view.remotes) - int(r.tried)
	if u.named && r.wanted == 0 {
		n++
	}
	return n
}

// ask asks for a lookup, once for each route. It reports whether the result is worth waiting
// for.
func (u *upstream) ask(r *route) bool {
	if !u.named || r.wanted > 0 {
		return false
	}
	u.mu.Lock()
	r.wanted = u.lookups + 1 // one that has begun already may have missed the change
	u.mu.Unlock()
	select {
	case u.asked <- struct{}{}:
	default: // there already is a hint
	}
	return true
}

// renewed reports whether the lookup that the route asked for has ended. If so, the route
// goes on in its view: next is the first address there.
func (u *upstream) renewed(r *route) bool {
	v := u.current.Load()
	if v.number < r.wanted {
		return false
	}
	r.earlier = texts(r.view.remotes)
	n := int32(len(v.remotes))
	r.view, r.at, r.tried = v, (v.first.Load()+n-1)%n, 0
	return true
}

// more is next for callers that may wait for a lookup.
func (u *upstream) more(ctx context.Context, r *route) bool {
	if r.next() {
		return true
	}
	if !u.ask(r) {
		return false
	}
	for later := u.current.Load().later; !u.renewed(r); later = u.current.Load().later {
		select {
		case <-later:
		case <-ctx.Done():
			return false
		}
	}
	return r.next()
}
