// Package claim reserves the resources that gateways share, before a request is answered, and releases them
// afterwards: a session for a turn, and a reservation of its key's limits. Both take one exchange with the
// coordinator.
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

// Config configures Claims.
type Config struct {
	Coordinator    store.Coordinator // of all gateways
	Remote         bool              // the coordinator is another server
	Local          store.Coordinator // counts limits while the other does not answer
	Timeout        time.Duration     // of one exchange
	Waiters        int               // bound on the turns of a session that wait at this gateway
	SessionTimeout time.Duration     // bound on a turn's wait for its session
	Lease          time.Duration     // of a session
	Settling       int               // bound on the claims that wait to be released
	Logger         *slog.Logger
	Missed         func() // called if the coordinator did not answer about a session
	Unsettled      func() // called if usage could not replace its reservation
}

// Claims are the claims of a gateway. All methods may be called from any goroutine.
type Claims struct {
	Config
	closing  context.Context
	queue    *queue
	settling chan struct{}
	tasks    sync.WaitGroup
}

// New returns claims. After closing ends, unconfirmed releases are tried a few times more.
func New(closing context.Context, c Config) *Claims {
	return &Claims{Config: c, closing: closing, queue: newQueue(c.Waiters), settling: make(chan struct{}, c.Settling)}
}

// Wait waits until all claims are released.
func (c *Claims) Wait() { c.tasks.Wait() }

// A Claim has the resources of one request. Use New or Enter to make it, and End it.
type Claim struct {
	all         *Claims
	lock        *store.Lock   // of a turn; nil is none
	locked      bool          // the coordinator has locked the session, or may have
	missed      bool          // the coordinator did not answer
	turns       int64         // of the session
	waitLeft    time.Duration // remaining time to wait for the session
	waited      time.Duration
	reservation *store.Reservation // nil is none
	with        store.Coordinator  // the coordinator with the reservation
	used        store.Cost
	counts      bool // used is known

	mu    sync.Mutex  // guards the fields below
	timer *time.Timer // extends the lease; nil without a lease
}

// New returns a claim without a session.
func (c *Claims) New() *Claim { return &Claim{all: c, turns: store.Unknown} }

// Enter returns a claim of a session that no other turn at this gateway has. It waits for up to the configured times.
func (c *Claims) Enter(ctx context.Context, session string) (*Claim, error) {
	ctx, cancel := context.WithTimeout(ctx, c.SessionTimeout)
	defer cancel()
	began := time.Now()
	if err := c.queue.enter(ctx, session); err != nil {
		return nil, err
	}
	c.tasks.Add(1)
	n := c.New()
	n.lock = &store.Lock{Session: session, Holder: store.NewID(), Lease: c.Lease}
	n.waited = time.Since(began).Truncate(time.Microsecond)
	n.waitLeft = c.SessionTimeout - n.waited
	return n, nil
}

// Turns returns the session's number of turns; store.Unknown if the coordinator does not know it, or has not locked
// the session.
func (n *Claim) Turns() int64 { return n.turns }

// Waited returns the time of waiting for other turns, in whole microseconds.
func (n *Claim) Waited() time.Duration { return n.waited }

// Locked reports whether Begin has locked the session, or may have. missed means that the coordinator did not answer.
func (n *Claim) Locked() (locked, missed bool) { return n.locked, n.missed }

// Pauses between tries to lock a session that another gateway has.
const (
	firstLockPause = 5 * time.Millisecond
	lastLockPause  = 100 * time.Millisecond
)

// Begin makes a reservation, unless it is nil, and locks the session, unless that is done: both or neither. It waits
// until ctx ends, or until the configured time is over; then the error is store.ErrBusy. Any other error means that
// the coordinator did not answer: the request may go on without it.
func (n *Claim) Begin(ctx context.Context, r *store.Reservation) error {
	if n.lock == nil || n.locked {
		if r == nil {
			return nil
		}
		return n.reserve(ctx, r)
	}
	ctx, cancel := context.WithTimeout(ctx, n.waitLeft)
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

// reserve makes a reservation only.
func (n *Claim) reserve(ctx context.Context, r *store.Reservation) error {
	_, err := n.begin(ctx, nil, r)
	if err != nil {
		n.miss(err, r)
		return err
	}
	n.reservation, n.with = r, n.all.Coordinator
	return nil
}

// begin asks the coordinator once. ctx does not end it: a caller that leaves would leave its resources taken.
func (n *Claim) begin(ctx context.Context, l *store.Lock, r *store.Reservation) (int64, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.all.Timeout)
	defer cancel()
	return n.all.Coordinator.Begin(ctx, l, r)
}

// miss notes that the coordinator did not answer, unless it has. It may still have carried out the request. From then
// on, only turns at this gateway wait for one another; the archive refuses a turn with the number of another.
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

// BeginLocally makes a reservation with this gateway's own counters.
func (n *Claim) BeginLocally(ctx context.Context, r *store.Reservation) error {
	_, err := n.all.Local.Begin(ctx, nil, r)
	if err == nil {
		n.reservation, n.with = r, n.all.Local
	}
	return err
}

// Return releases the reservation: nothing was used.
func (n *Claim) Return() {
	if n.reservation != nil {
		n.all.end(end{with: n.with, reservation: n.reservation})
		n.reservation = nil
	}
}

// Use sets the usage that replaces the reservation. Without it, the reservation is released when its lease ends.
func (n *Claim) Use(used store.Cost) { n.used, n.counts = used, true }

// extendLater extends the lease after a third of it.
func (n *Claim) extendLater() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.timer = time.AfterFunc(n.lock.Lease/3, n.extend)
}

// extend restarts the lease repeatedly.
func (n *Claim) extend() {
	ctx, cancel := context.WithTimeout(context.Background(), min(n.all.Timeout, n.lock.Lease/3))
	defer cancel()
	err := n.all.Coordinator.Extend(ctx, n.lock)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.timer == nil || errors.Is(err, store.ErrUnlocked) {
		return // the archive refuses a turn with the number of another
	}
	n.timer.Reset(n.lock.Lease / 3)
}

// End unlocks the session, with its new number of turns, and reports the usage. Without a session it does not wait
// for another server, unless requests under way are bounded: the client's next request must not find this one.
func (n *Claim) End(turns int64) {
	e := end{with: n.with, reservation: n.reservation, used: n.used}
	if !n.counts {
		e = end{}
	}
	if n.lock == nil {
		if e.reservation != nil && e.with == n.all.Coordinator && n.all.Remote && e.reservation.Cost.Parallel == 0 {
			n.all.endLater(e, e.reservation.At.Add(e.reservation.Lease))
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
			turns = store.Unknown // other turns may have come in between
		}
		if e.reservation != nil && e.with != n.all.Coordinator {
			n.all.end(e)
			e = end{}
		}
		e.with, e.lock, e.turns = n.all.Coordinator, n.lock, turns
	}
	n.all.end(e)
}
