// Package claim takes what a request needs of what gateways share, before it is answered, and gives it back afterwards: a
// session for a turn, and a reservation of its key's limits. Both take one exchange with the coordinator.
package claim

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"dyno/services/bot/store"
)

// Config says how requests claim.
type Config struct {
	Coordinator store.Coordinator // of all gateways
	Remote      bool              // it is another server
	Local       store.Coordinator // of limits while the other does not answer
	Timeout     time.Duration     // of one exchange
	Waiters     int               // turns of a session that may wait at this gateway
	Patience    time.Duration     // of a turn that waits for its session
	Lease       time.Duration     // of a session
	Longest     time.Duration     // from a reservation to its settlement
	Settling    int               // claims that may wait to be given back
	Logger      *slog.Logger
	Missed      func() // is called when the coordinator did not answer about a session
	Unsettled   func() // is called when what was used is not counted in place of what was reserved
}

// Claims are those of a gateway. All methods may be called from any goroutine.
type Claims struct {
	Config
	closing  context.Context
	queue    *queue
	settling chan struct{}
	tasks    sync.WaitGroup
}

// New returns claims. Once closing ends, what the coordinator did not confirm is tried a few times more.
func New(closing context.Context, c Config) *Claims {
	return &Claims{Config: c, closing: closing, queue: newQueue(c.Waiters), settling: make(chan struct{}, c.Settling)}
}

// Wait returns when all that was claimed is given back.
func (c *Claims) Wait() { c.tasks.Wait() }

// A Claim is what one request has. Use New or Enter to make it, and End it.
type Claim struct {
	all         *Claims
	lock        *store.Lock   // of a turn; nil is none
	locked      bool          // the coordinator has locked the session, or may have
	missed      bool          // the coordinator did not answer
	turns       int64         // of the session
	patience    time.Duration // how long it may still wait
	waited      time.Duration
	reservation *store.Reservation // nil is none
	with        store.Coordinator  // that has the reservation
	used        store.Cost
	counts      bool // used is known

	mu    sync.Mutex  // guards what follows
	timer *time.Timer // extends the lease; nil if there is none, or no more
}

// New returns a claim without a session.
func (c *Claims) New() *Claim { return &Claim{all: c, turns: store.Unknown} }

// Enter returns a claim of a session, which no other turn at this gateway has. It waits as long as the configuration says.
func (c *Claims) Enter(ctx context.Context, session string) (*Claim, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Patience)
	defer cancel()
	began := time.Now()
	if err := c.queue.enter(ctx, session); err != nil {
		return nil, err
	}
	c.tasks.Add(1)
	n := c.New()
	n.lock = &store.Lock{Session: session, Holder: store.NewID(), Lease: c.Lease}
	n.waited = time.Since(began).Truncate(time.Microsecond)
	n.patience = c.Patience - n.waited
	return n, nil
}

// Turns is how many turns the session has; store.Unknown if the coordinator does not know, or has not locked it.
func (n *Claim) Turns() int64 { return n.turns }

// Waited is for how long the session was another turn's, in whole microseconds.
func (n *Claim) Waited() time.Duration { return n.waited }

// Locked tells whether Begin has locked the session, or may have. Missed says that the coordinator did not answer.
func (n *Claim) Locked() (locked, missed bool) { return n.locked, n.missed }

// Pauses between tries to lock a session that another gateway has.
const (
	firstLockPause = 5 * time.Millisecond
	lastLockPause  = 100 * time.Millisecond
)

// Begin takes a reservation, or none if it is nil, and locks the session with it if that was not done before: both or
// neither. It waits until ctx ends or the session was waited for long enough; the error is store.ErrBusy then. When the
// coordinator does not answer, Begin says so: the request may go on without it.
func (n *Claim) Begin(ctx context.Context, r *store.Reservation) error {
	if n.lock == nil || n.locked {
		if r == nil {
			return nil
		}
		return n.reserve(ctx, r)
	}
	ctx, cancel := context.WithTimeout(ctx, n.patience)
	defer cancel()
	began := time.Now()
	for pause := firstLockPause; ; pause = min(2*pause, lastLockPause) {
		turns, err := n.begin(ctx, n.lock, r)
		switch {
		case err == nil:
			n.waited += time.Since(began).Truncate(time.Microsecond)
			n.turns, n.locked = turns, true
			n.reservation, n.with = r, n.all.Coordinator
			n.extendLater()
			return nil
		case errors.Is(err, store.ErrBusy):
		default:
			n.miss(err, r)
			return err
		}
		t := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return store.ErrBusy
		}
	}
}

// reserve takes a reservation alone.
func (n *Claim) reserve(ctx context.Context, r *store.Reservation) error {
	_, err := n.begin(ctx, nil, r)
	if err != nil {
		n.miss(err, r)
		return err
	}
	n.reservation, n.with = r, n.all.Coordinator
	return nil
}

// begin asks the coordinator once. Whoever leaves in the middle would leave something taken behind: ctx does not end it.
func (n *Claim) begin(ctx context.Context, l *store.Lock, r *store.Reservation) (int64, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.all.Timeout)
	defer cancel()
	return n.all.Coordinator.Begin(ctx, l, r)
}

// miss notes that the coordinator did not answer, unless it has. It may have taken what was asked for all the same. Turns
// of the session follow one another at this gateway only from then on; the archive refuses those that have the number of
// another.
func (n *Claim) miss(err error, r *store.Reservation) {
	var reached *store.LimitError
	if errors.As(err, &reached) {
		return
	}
	if n.lock != nil && !n.locked {
		n.all.Missed()
		n.locked, n.missed = true, true
	}
	if r != nil {
		n.all.endLater(end{with: n.all.Coordinator, reservation: r}, time.Now())
	}
}

// BeginLocally takes a reservation where this gateway counts by itself.
func (n *Claim) BeginLocally(ctx context.Context, r *store.Reservation) error {
	_, err := n.all.Local.Begin(ctx, nil, r)
	if err == nil {
		n.reservation, n.with = r, n.all.Local
	}
	return err
}

// Return gives the reservation back: nothing was used.
func (n *Claim) Return() {
	if n.reservation != nil {
		n.all.end(end{with: n.with, reservation: n.reservation})
		n.reservation = nil
	}
}

// Use says what is to be counted in place of what was reserved. Otherwise it is given back when its lease ends.
func (n *Claim) Use(used store.Cost) { n.used, n.counts = used, true }

// extendLater extends the lease after a third of it.
func (n *Claim) extendLater() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.timer = time.AfterFunc(n.lock.Lease/3, n.extend)
}

// extend restarts the lease, again and again.
func (n *Claim) extend() {
	ctx, cancel := context.WithTimeout(context.Background(), min(n.all.Timeout, n.lock.Lease/3))
	defer cancel()
	err := n.all.Coordinator.Extend(ctx, n.lock)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.timer == nil || errors.Is(err, store.ErrUnlocked) {
		return // the archive refuses a turn whose number another has
	}
	n.timer.Reset(n.lock.Lease / 3)
}

// End gives the session back, with the number of turns that it has now, and says what was used. Without a session it does
// not wait for another server.
func (n *Claim) End(turns int64) {
	e := end{with: n.with, reservation: n.reservation, used: n.used}
	if !n.counts {
		e = end{}
	}
	if n.lock == nil {
		if e.reservation != nil && e.with == n.all.Coordinator && n.all.Remote {
			n.all.endLater(e, e.reservation.At.Add(n.all.Longest))
		} else {
			n.all.end(e)
		}
		return
	}
	defer n.all.tasks.Done()
	defer n.all.queue.leave(n.lock.Session)
	n.mu.Lock()
	if n.timer != nil {
		n.timer.Stop()
		n.timer = nil
	}
	n.mu.Unlock()
	if n.locked {
		if n.missed {
			turns = store.Unknown // others' turns may have come in between
		}
		if e.reservation != nil && e.with != n.all.Coordinator {
			n.all.end(e)
			e = end{}
		}
		e.with, e.lock, e.turns = n.all.Coordinator, n.lock, turns
	}
	n.all.end(e)
}
