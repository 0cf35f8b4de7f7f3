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
// came. It is for those of one gateway; between gateways it is store.Sessions.
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

// A hold is a session that a turn has for itself.
type hold struct {
	gateway *Gateway
	session string
	holder  string
	count   int64         // of its turns; store.Unknown if the sessions' store does not know
	waited  time.Duration // for other turns, in whole microseconds
	// degraded says that the sessions' store did not answer: it may hold the session all the
	// same.
	degraded bool

	mu    sync.Mutex  // guards what follows
	timer *time.Timer // extends the lease; nil if there is none, or no more
}

// Pauses between tries for a session that another gateway holds.
const (
	firstHoldPause = 5 * time.Millisecond
	lastHoldPause  = 100 * time.Millisecond
)

// hold takes a session for a turn. It waits as long as the configuration says. Where the
// sessions' store does not answer, turns follow one another at this gateway only; turns
// of others are told apart by their numbers in the archive. A hold must be released: Close waits for that.
func (g *Gateway) hold(ctx context.Context, session string) (*hold, error) {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.SessionWait)
	defer cancel()
	began := time.Now()
	if err := g.turns.enter(ctx, session); err != nil {
		return nil, err
	}
	h := &hold{gateway: g, session: session, holder: store.NewID(), count: store.Unknown}
	for pause := firstHoldPause; ; pause = min(2*pause, lastHoldPause) {
		h.waited = time.Since(began).Truncate(time.Microsecond)
		count, err := g.sessions.Acquire(ctx, session, h.holder, g.cfg.SessionLease)
		switch {
		case err == nil:
			h.count = count
			h.mu.Lock()
			h.timer = time.AfterFunc(g.cfg.SessionLease/3, h.extend)
			h.mu.Unlock()
			g.tasks.Add(1)
			return h, nil
		case !errors.Is(err, store.ErrBusy) && ctx.Err() == nil:
			g.stats.degraded("sessions")
			h.degraded = true
			g.tasks.Add(1)
			return h, nil
		}
		t := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-t.C:
			continue
		case <-ctx.Done():
			t.Stop()
			g.turns.leave(session)
			return nil, ctx.Err()
		}
	}
}

// extend has the lease begin anew, again and again.
func (h *hold) extend() {
	g := h.gateway
	ctx, cancel := context.WithTimeout(context.Background(), min(g.cfg.StoreTimeout, g.cfg.SessionLease/3))
	defer cancel()
	err := g.sessions.Extend(ctx, h.session, h.holder, g.cfg.SessionLease)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.timer == nil || errors.Is(err, store.ErrGone) {
		return // turns are told apart by their numbers in the archive, too
	}
	h.timer.Reset(g.cfg.SessionLease / 3)
}

// release gives the session back, with the number of turns that it has now.
func (h *hold) release(count int64) {
	g := h.gateway
	defer g.tasks.Done()
	defer g.turns.leave(h.session)
	if h.degraded {
		count = store.Unknown // others' turns may have come in between
	} else {
		h.mu.Lock()
		h.timer.Stop()
		h.timer = nil
		h.mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(context.Background(), g.cfg.StoreTimeout)
	defer cancel()
	err := g.sessions.Release(ctx, h.session, h.holder, count)
	if err == nil || errors.Is(err, store.ErrGone) {
		return
	}
	g.stats.degraded("sessions")
	h.releaseLater(count)
}

// releaseLater goes on trying to give a session back whose store did not answer: until its lease ends,
// the next turn would be refused for one that is over. It does so beside requests, if there is a place.
func (h *hold) releaseLater(count int64) {
	g := h.gateway
	select {
	case g.settles <- struct{}{}:
	default:
		return // the lease ends by itself
	}
	g.tasks.Go(func() {
		defer func() { <-g.settles }()
		ctx, cancel := context.WithTimeout(g.alive, g.cfg.SessionLease)
		defer cancel()
		for {
			t := time.NewTimer(settlePause)
			select {
			case <-t.C:
			case <-ctx.Done():
				t.Stop()
				return
			}
			once, end := context.WithTimeout(ctx, g.cfg.StoreTimeout)
			err := g.sessions.Release(once, h.session, h.holder, count)
			end()
			if err == nil || errors.Is(err, store.ErrGone) {
				return
			}
		}
	})
}
