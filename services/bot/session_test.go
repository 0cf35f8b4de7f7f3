package bot

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dyno/services/bot/store"
	"dyno/services/bot/store/memory"
)

// TestTurnstile: one at a time, in the order in which they came, and no more wait than
// may.
func TestTurnstile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTurnstile(3)
		if err := s.enter(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		if err := s.enter(t.Context(), "other"); err != nil {
			t.Fatal(err)
		}
		var order []int
		var all sync.WaitGroup
		for i := range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			if i == 1 {
				ctx, cancel = context.WithTimeout(t.Context(), time.Second) // goes before its turn
			}
			defer cancel()
			all.Go(func() {
				err := s.enter(ctx, "s")
				if i == 1 {
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("who goes: %v", err)
					}
					return
				}
				order = append(order, i)
				time.Sleep(time.Second)
				s.leave("s")
			})
			synctest.Wait()
		}
		if err := s.enter(t.Context(), "s"); !errors.Is(err, store.ErrBusy) {
			t.Errorf("a fourth: %v", err)
		}
		time.Sleep(2 * time.Second)
		s.leave("s")
		all.Wait()
		s.leave("other")
		if fmt.Sprint(order) != "[0 2]" || len(s.gates) != 0 {
			t.Errorf("%v, %d gates are left", order, len(s.gates))
		}
	})
}

// TestAdmission: who finds no place waits in line, as long as they may.
func TestAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(1, 2, 10*time.Second, 1)
		v := a.visitor()
		if d, err := a.enter(t.Context(), v); d != 0 || err != nil {
			t.Errorf("%v, %v", d, err)
		}
		type answer struct {
			d   time.Duration
			err error
		}
		answers := make(chan answer, 2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, ctx := range []context.Context{t.Context(), ctx} {
			go func() {
				d, err := a.enter(ctx, v)
				answers <- answer{d, err}
			}()
		}
		synctest.Wait()
		if _, err := a.enter(t.Context(), v); !errors.Is(err, errCrowded) {
			t.Errorf("beyond: %v", err)
		}
		if got := <-answers; got.d != time.Second || !errors.Is(got.err, context.DeadlineExceeded) {
			t.Errorf("who goes: %+v", got)
		}
		time.Sleep(2 * time.Second)
		a.leave(v)
		if got := <-answers; got.d != 3*time.Second || got.err != nil {
			t.Errorf("who waits: %+v", got)
		}
		if d, err := a.enter(t.Context(), v); d != 10*time.Second || !errors.Is(err, errCrowded) {
			t.Errorf("too long: %v, %v", d, err)
		}
		a.leave(v)
		a.wait()
	})
}

// beginning is a gateway that has sessions alone, of a coordinator.
func beginning(t *testing.T, c store.Coordinator) *Gateway {
	g := &Gateway{cfg: Defaults(), alive: t.Context(), turns: newTurnstile(1), settles: make(chan struct{}, 1), coordinator: c}
	g.stats = newStats(g)
	return g
}

// locks takes a session and locks it.
func (g *Gateway) locks(t *testing.T, session string) *hold {
	t.Helper()
	h, err := g.enter(t.Context(), session)
	if err == nil {
		err = h.begin(t.Context(), g.coordinator, nil, g.cfg.StoreTimeout)
	}
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// lockAs tries to lock the session "s" for another holder.
func lockAs(t *testing.T, c store.Coordinator) (int64, error) {
	return c.Begin(t.Context(), &store.Lock{Session: "s", Holder: "other", Lease: time.Hour}, nil)
}

// TestLeaseIsExtended while a turn goes on, and no longer.
func TestLeaseIsExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := beginning(t, memory.NewCoordinator(10))
		h := g.locks(t, "s")
		time.Sleep(10 * g.cfg.SessionLease)
		if _, err := lockAs(t, g.coordinator); !errors.Is(err, store.ErrBusy) {
			t.Errorf("after ten leases: %v", err)
		}
		h.release(3, settlement{})
		if n, err := lockAs(t, g.coordinator); err != nil || n != 3 {
			t.Errorf("afterwards: %d, %v", n, err)
		}
	})
}

// TestWaitForATurn: who waits for another turn of the conversation knows for how long, at the same gateway and at another.
func TestWaitForATurn(t *testing.T) {
	for name, another := range map[string]bool{"the same gateway": false, "another gateway": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := beginning(t, memory.NewCoordinator(10))
				first, second := g.locks(t, "s"), g
				if another {
					second = beginning(t, g.coordinator)
				}
				waited := make(chan time.Duration)
				go func() {
					h := second.locks(t, "s")
					defer h.release(2, settlement{})
					waited <- h.waited
				}()
				<-time.After(3 * time.Second)
				first.release(1, settlement{})
				if d := <-waited; first.waited != 0 || d < 3*time.Second || d > 3*time.Second+2*lastLockPause {
					t.Errorf("waited %v and %v, want nothing and 3s", first.waited, d)
				}
				g.tasks.Wait()
				second.tasks.Wait()
			})
		})
	}
}

// TestLockedTooLong: a turn whose session another gateway has for too long takes nothing, and leaves the queue.
func TestLockedTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.NewCoordinator(10)
		h := beginning(t, c).locks(t, "s")
		g := beginning(t, c)
		list := []store.Limit{{Resource: store.Requests, Amount: 10}}
		r := &store.Reservation{ID: "r", Key: "k", Limits: list, Cost: store.Cost{Requests: 1}, At: time.Now(), Lease: time.Hour}
		late, err := g.enter(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := late.begin(t.Context(), c, r, g.cfg.StoreTimeout); !errors.Is(err, store.ErrBusy) || time.Since(began) != g.cfg.SessionWait {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		late.release(store.Unknown, settlement{})
		if used, err := c.Used(t.Context(), "k", list, time.Now()); err != nil || used[0] != 0 || len(g.turns.gates) != 0 {
			t.Errorf("used %v, %v, %d sessions are waited for", used, err, len(g.turns.gates))
		}
		h.release(1, settlement{})
		if n, err := lockAs(t, c); err != nil || n != 1 {
			t.Errorf("afterwards: %d, %v", n, err)
		}
	})
}

// stalled is a coordinator that answers too late: what was asked is done all the same.
type stalled struct{ *memory.Coordinator }

func (s stalled) Begin(ctx context.Context, l *store.Lock, r *store.Reservation) (int64, error) {
	if _, err := s.Coordinator.Begin(ctx, l, r); err != nil {
		return 0, err
	}
	return 0, errors.New("it took too long")
}

// missing takes a session whose lock its coordinator does not confirm.
func (g *Gateway) missing(t *testing.T) *hold {
	t.Helper()
	h, err := g.enter(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.begin(t.Context(), g.coordinator, nil, g.cfg.StoreTimeout); err == nil || errors.Is(err, store.ErrBusy) {
		t.Fatal(err)
	}
	h.miss()
	return h
}

// TestStalledSession: a session that was locked although the coordinator did not say so is given back.
func TestStalledSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.NewCoordinator(10)
		beginning(t, stalled{c}).missing(t).release(7, settlement{})
		if n, err := lockAs(t, c); err != nil || n != store.Unknown {
			t.Errorf("afterwards: %d, %v", n, err)
		}
	})
}

// mute is a coordinator that does not answer for a while when sessions are given back.
type mute struct {
	*memory.Coordinator
	until time.Time
	turns *[]int64 // of sessions that were given back
}

func (m mute) End(ctx context.Context, l *store.Lock, turns int64, r *store.Reservation, used store.Cost) error {
	if time.Now().Before(m.until) {
		return errors.New("nobody answers")
	}
	*m.turns = append(*m.turns, turns)
	return m.Coordinator.End(ctx, l, turns, r, used)
}

// late is a coordinator that does not confirm its locks, and that cannot be told anything for a while.
type late struct{ mute }

func (l late) Begin(ctx context.Context, lock *store.Lock, r *store.Reservation) (int64, error) {
	return stalled{l.Coordinator}.Begin(ctx, lock, r)
}

// TestStalledReleaseIsTriedAgain: such a session does not stay locked for its whole lease.
func TestStalledReleaseIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns []int64
		l := late{mute{memory.NewCoordinator(10), time.Now().Add(2 * time.Second), &turns}}
		g := beginning(t, l)
		g.missing(t).release(7, settlement{})
		began := time.Now()
		g.tasks.Wait()
		if n, err := lockAs(t, l.Coordinator); err != nil || n != store.Unknown || time.Since(began) > 3*time.Second {
			t.Errorf("%d, %v after %v", n, err, time.Since(began))
		}
	})
}

// TestReleaseIsTriedAgain: a turn that ends while the coordinator is away keeps its session no
// longer than the coordinator is away, and not for its whole lease.
func TestReleaseIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const outage = 5 * time.Second
		var turns []int64
		g := beginning(t, mute{memory.NewCoordinator(10), time.Now().Add(outage), &turns})
		h := g.locks(t, "s")
		began := time.Now()
		h.release(3, settlement{})
		next := g.locks(t, "s")
		if len(turns) != 1 || turns[0] != 3 {
			t.Fatalf("given back with %v", turns)
		}
		if waited := time.Since(began); waited < outage || waited > outage+time.Second {
			t.Errorf("it waited for %v, want little more than %v", waited, outage)
		}
		next.release(4, settlement{})
		g.tasks.Wait()
		if len(g.settles) > 0 {
			t.Error("a place is still taken")
		}
	})
}
