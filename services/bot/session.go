package bot

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"dyno/services/bot/store"
)

// turnstile lets one request of a session through at a time, in the order in which they
// came. It is for those of one gateway; between gateways it is store.Coordinator.
type turnstile struct {
	most int // requests of one session that may wait

	mu    sync.Mutex // guards gates
	gates map[string]*gate
}

type gate struct {
	waiting []chan struct{} // closed when it is one's turn
}

func newTurnstile(most int) *turnstile { return &turnstile{most: most, gates: map[string]*gate{}} }

// enter returns when it is one's turn. The error is store.ErrBusy if too many wait, or
// ctx's.
func (t *turnstile) enter(ctx context.Context, session string) error {
	t.mu.Lock()
	g := t.gates[session]
	if g == nil {
		t.gates[session] = &gate{}
		t.mu.Unlock()
		return nil
	}
	if len(g.waiting) >= t.most {
		t.mu.Unlock()
		return store.ErrBusy
	}
	mine := make(chan struct{})
	g.waiting = append(g.waiting, mine)
	t.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	for i, w := range g.waiting {
		if w == mine {
			g.waiting = append(g.waiting[:i], g.waiting[i+1:]...)
			t.mu.Unlock()
			return ctx.Err()
		}
	}
	t.mu.Unlock()
	t.leave(session) // it was one's turn at that moment
	return ctx.Err()
}

// leave lets the next through.
func (t *turnstile) leave(session string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.gates[session]
	if len(g.waiting) == 0 {
		delete(t.gates, session)
		return
	}
	close(g.waiting[0])
	g.waiting = g.waiting[1:]
}

// A hold is a session that a turn has for itself: at this gateway from the beginning, and among all gateways once the
// coordinator has locked it, too.
type hold struct {
	gateway *Gateway
	lock    store.Lock
	turns   int64         // of the session; store.Unknown if the coordinator does not know, or has not locked it
	waited  time.Duration // for other turns, in whole microseconds
	wait    time.Duration // how long it may still wait
	locked  bool          // the coordinator has locked it, or may have: it did not answer
	missed  bool          // the coordinator did not answer

	mu    sync.Mutex  // guards what follows
	timer *time.Timer // extends the lease; nil if there is none, or no more
}

// Pauses between tries to lock a session that another gateway has.
const (
	firstLockPause = 5 * time.Millisecond
	lastLockPause  = 100 * time.Millisecond
)

// enter takes a session for a turn, among those of this gateway. It waits as long as the configuration says. What it
// returns must be released: Close waits for that.
func (g *Gateway) enter(ctx context.Context, session string) (*hold, error) {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.SessionWait)
	defer cancel()
	began := time.Now()
	if err := g.turns.enter(ctx, session); err != nil {
		return nil, err
	}
	g.tasks.Add(1)
	h := &hold{gateway: g, lock: store.Lock{Session: session, Holder: store.NewID(), Lease: g.cfg.SessionLease}, turns: store.Unknown}
	h.waited = time.Since(began).Truncate(time.Microsecond)
	h.wait = g.cfg.SessionWait - h.waited
	return h, nil
}

// begin locks the session and takes a reservation, together: nil takes none. A nil hold locks nothing. It waits while
// another gateway has the session. Whoever leaves in the middle would leave both behind: ctx ends waiting only.
func (h *hold) begin(ctx context.Context, c store.Coordinator, r *store.Reservation, timeout time.Duration) error {
	once := func() (int64, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		var lock *store.Lock
		if h != nil && !h.locked {
			lock = &h.lock
		}
		return c.Begin(ctx, lock, r)
	}
	if h == nil || h.locked {
		_, err := once()
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, h.wait)
	defer cancel()
	began := time.Now()
	for pause := firstLockPause; ; pause = min(2*pause, lastLockPause) {
		turns, err := once()
		if err == nil {
			h.waited += time.Since(began).Truncate(time.Microsecond)
			h.turns, h.locked = turns, true
			h.extendLater()
			return nil
		}
		if !errors.Is(err, store.ErrBusy) {
			return err
		}
		t := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return err
		}
	}
}

// miss goes on without the coordinator, which did not answer: turns follow one another at this gateway only; those of
// others have other numbers in the archive. It may have locked the session.
func (h *hold) miss() {
	if !h.locked {
		h.gateway.stats.degraded("sessions")
		h.locked, h.missed = true, true
	}
}

// extendLater extends the lease after a third of it.
func (h *hold) extendLater() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = time.AfterFunc(h.lock.Lease/3, h.extend)
}

// extend restarts the lease, again and again.
func (h *hold) extend() {
	g := h.gateway
	ctx, cancel := context.WithTimeout(context.Background(), min(g.cfg.StoreTimeout, h.lock.Lease/3))
	defer cancel()
	err := g.coordinator.Extend(ctx, &h.lock)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.timer == nil || errors.Is(err, store.ErrUnlocked) {
		return // the archive refuses a turn whose number another has
	}
	h.timer.Reset(h.lock.Lease / 3)
}

// release gives the session back, with the number of turns that it has now, and settles a reservation in one go.
func (h *hold) release(turns int64, s settlement) {
	g := h.gateway
	defer g.tasks.Done()
	defer g.turns.leave(h.lock.Session)
	h.mu.Lock()
	if h.timer != nil {
		h.timer.Stop()
		h.timer = nil
	}
	h.mu.Unlock()
	if h.locked {
		if h.missed {
			turns = store.Unknown // others' turns may have come in between
		}
		if s.reservation != nil && s.with != g.coordinator {
			g.settle(s)
			s = settlement{}
		}
		s.with, s.lock, s.turns = g.coordinator, &h.lock, turns
	}
	g.settle(s)
}
