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

// TestLeaseIsExtended while a turn goes on, and no longer.
func TestLeaseIsExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Defaults()
		g := &Gateway{cfg: c, turns: newTurnstile(1), sessions: memory.NewSessions(10)}
		h, err := g.hold(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * c.SessionLease)
		if _, err := g.sessions.Acquire(t.Context(), "s", "other", time.Hour); !errors.Is(err, store.ErrBusy) {
			t.Errorf("after ten leases: %v", err)
		}
		h.release(3)
		if n, err := g.sessions.Acquire(t.Context(), "s", "other", time.Hour); err != nil || n != 3 {
			t.Errorf("afterwards: %d, %v", n, err)
		}
	})
}

// TestWaitForATurn: who waits for another turn of the conversation knows for how long.
func TestWaitForATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Gateway{cfg: Defaults(), turns: newTurnstile(1), sessions: memory.NewSessions(10)}
		first, err := g.hold(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		waited := make(chan time.Duration)
		go func() {
			h, err := g.hold(t.Context(), "s")
			if err != nil {
				t.Error(err)
				close(waited)
				return
			}
			defer h.release(2)
			waited <- h.waited
		}()
		<-time.After(3 * time.Second)
		first.release(1)
		if d := <-waited; first.waited != 0 || d != 3*time.Second {
			t.Errorf("waited %v and %v, want nothing and 3s", first.waited, d)
		}
	})
}

// stalled are sessions whose store answers too late: what was asked is done all the same.
type stalled struct{ *memory.Sessions }

func (s stalled) Acquire(ctx context.Context, session, holder string, lease time.Duration) (int64, error) {
	if _, err := s.Sessions.Acquire(ctx, session, holder, lease); err != nil {
		return 0, err
	}
	return 0, errors.New("it took too long")
}

// TestStalledSession: a session that was taken although the store did not say so is given back.
func TestStalledSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Gateway{cfg: Defaults(), turns: newTurnstile(1), sessions: stalled{memory.NewSessions(10)}}
		g.stats = newStats(g)
		h, err := g.hold(t.Context(), "s")
		if err != nil || !h.degraded {
			t.Fatalf("%+v, %v", h, err)
		}
		h.release(7)
		if n, err := g.sessions.(stalled).Sessions.Acquire(t.Context(), "s", "other", time.Hour); err != nil || n != store.Unknown {
			t.Errorf("afterwards: %d, %v", n, err)
		}
	})
}

// mute are sessions whose store does not answer for a while when they are given back.
type mute struct {
	*memory.Sessions
	until time.Time
	told  *[]int64 // numbers of turns, of sessions that were given back
}

func (m mute) Release(ctx context.Context, session, holder string, count int64) error {
	if time.Now().Before(m.until) {
		return errors.New("nobody answers")
	}
	*m.told = append(*m.told, count)
	return m.Sessions.Release(ctx, session, holder, count)
}

// late are sessions that were taken although the store did not say so, and that cannot be given back for a while.
type late struct{ mute }

func (l late) Acquire(ctx context.Context, session, holder string, lease time.Duration) (int64, error) {
	return stalled{l.Sessions}.Acquire(ctx, session, holder, lease)
}

// TestStalledReleaseIsTriedAgain: such a session does not stay taken for its whole lease.
func TestStalledReleaseIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []int64
		l := late{mute{memory.NewSessions(10), time.Now().Add(2 * time.Second), &told}}
		g := &Gateway{cfg: Defaults(), alive: t.Context(), turns: newTurnstile(1), settles: make(chan struct{}, 1), sessions: l}
		g.stats = newStats(g)
		h, err := g.hold(t.Context(), "s")
		if err != nil || !h.degraded {
			t.Fatalf("%+v, %v", h, err)
		}
		h.release(7)
		began := time.Now()
		g.tasks.Wait()
		if n, err := l.Sessions.Acquire(t.Context(), "s", "other", time.Hour); err != nil || n != store.Unknown || time.Since(began) > 3*time.Second {
			t.Errorf("%d, %v after %v", n, err, time.Since(began))
		}
	})
}

// TestReleaseIsTriedAgain: a turn that ends while the sessions' store is away keeps its session no
// longer than the store is away, and not for its whole lease.
func TestReleaseIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const outage = 5 * time.Second
		var told []int64
		g := &Gateway{cfg: Defaults(), alive: t.Context(), turns: newTurnstile(1), settles: make(chan struct{}, 1), sessions: mute{memory.NewSessions(10), time.Now().Add(outage), &told}}
		g.stats = newStats(g)
		h, err := g.hold(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		h.release(3)
		next, err := g.hold(t.Context(), "s")
		if err != nil || len(told) != 1 || told[0] != 3 {
			t.Fatalf("the next turn: %v, told %v", err, told)
		}
		if waited := time.Since(began); waited < outage || waited > outage+time.Second {
			t.Errorf("it waited for %v, want little more than %v", waited, outage)
		}
		next.release(4)
		g.tasks.Wait()
		if len(g.settles) > 0 {
			t.Error("a place is still taken")
		}
	})
}
