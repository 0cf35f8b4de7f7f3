package claim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dyno/services/bot/store"
	"dyno/services/bot/store/memory"
)

// TestQueue: one at a time, in the order in which they came, and no more wait than
// may.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newQueue(3)
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
		if fmt.Sprint(order) != "[0 2]" || len(s.sessions) != 0 {
			t.Errorf("%v, %d sessions are left", order, len(s.sessions))
		}
	})
}

// lease is that of reservations.
const lease = time.Hour

// with returns claims of a coordinator.
func with(t *testing.T, c store.Coordinator) *Claims {
	return New(t.Context(), Config{
		Coordinator: c, Local: memory.NewCoordinator(0), Timeout: 3 * time.Second, Waiters: 1, SessionTimeout: 10 * time.Second, Lease: 30 * time.Second,
		Settling: 1, Logger: slog.New(slog.DiscardHandler), Missed: func() {}, Unsettled: func() {},
	})
}

// locked claims a session and locks it.
func (c *Claims) locked(t *testing.T, session string) *Claim {
	t.Helper()
	n, err := c.Enter(t.Context(), session)
	if err == nil {
		err = n.Begin(t.Context(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// lockAs tries to lock the session "s" for another holder.
func lockAs(t *testing.T, c store.Coordinator) (int64, error) {
	return c.Begin(t.Context(), &store.Lock{Session: "s", Holder: "other", Lease: time.Hour}, nil)
}

// TestLeaseIsExtended while a turn goes on, and no longer.
func TestLeaseIsExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := with(t, memory.NewCoordinator(10))
		h := g.locked(t, "s")
		time.Sleep(10 * g.Lease)
		if _, err := lockAs(t, g.Coordinator); !errors.Is(err, store.ErrBusy) {
			t.Errorf("after ten leases: %v", err)
		}
		h.End(3)
		if n, err := lockAs(t, g.Coordinator); err != nil || n != 3 {
			t.Errorf("afterwards: %d, %v", n, err)
		}
	})
}

// TestWaitForATurn: who waits for another turn of the conversation knows for how long, at the same gateway and at another.
func TestWaitForATurn(t *testing.T) {
	for name, another := range map[string]bool{"the same gateway": false, "another gateway": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := with(t, memory.NewCoordinator(10))
				first, second := g.locked(t, "s"), g
				if another {
					second = with(t, g.Coordinator)
				}
				waited := make(chan time.Duration)
				go func() {
					h := second.locked(t, "s")
					defer h.End(2)
					waited <- h.Waited()
				}()
				<-time.After(3 * time.Second)
				first.End(1)
				if d := <-waited; first.Waited() != 0 || d < 3*time.Second || d > 3*time.Second+2*lastLockPause {
					t.Errorf("waited %v and %v, want nothing and 3s", first.Waited(), d)
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
		h := with(t, c).locked(t, "s")
		g := with(t, c)
		list := []store.Limit{{Resource: store.Requests, Amount: 10}}
		r := &store.Reservation{ID: "r", Key: "k", Limits: list, Cost: store.Cost{Requests: 1}, At: time.Now(), Lease: lease}
		late, err := g.Enter(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := late.Begin(t.Context(), r); !errors.Is(err, store.ErrBusy) || time.Since(began) != g.SessionTimeout {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		late.End(store.Unknown)
		if used, err := c.Used(t.Context(), "k", list, time.Now()); err != nil || used[0] != 0 || len(g.queue.sessions) != 0 {
			t.Errorf("used %v, %v, %d sessions are waited for", used, err, len(g.queue.sessions))
		}
		h.End(1)
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

// missing claims a session whose lock its coordinator does not confirm.
func (c *Claims) missing(t *testing.T) *Claim {
	t.Helper()
	n, err := c.Enter(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Begin(t.Context(), nil); err == nil || errors.Is(err, store.ErrBusy) {
		t.Fatal(err)
	}
	if locked, missed := n.Locked(); !locked || !missed {
		t.Fatalf("locked %v, missed %v", locked, missed)
	}
	return n
}

// TestStalledSession: a session that was locked although the coordinator did not say so is given back.
func TestStalledSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.NewCoordinator(10)
		with(t, stalled{c}).missing(t).End(7)
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
		g := with(t, l)
		g.missing(t).End(7)
		began := time.Now()
		g.tasks.Wait()
		if n, err := lockAs(t, l.Coordinator); err != nil || n != store.Unknown || time.Since(began) > 3*time.Second {
			t.Errorf("%d, %v after %v", n, err, time.Since(began))
		}
	})
}

// TestReleaseIsTriedAgain: a turn that ends during an outage of the coordinator keeps its session for the outage, not
// for its lease.
func TestReleaseIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const outage = 5 * time.Second
		var turns []int64
		g := with(t, mute{memory.NewCoordinator(10), time.Now().Add(outage), &turns})
		h := g.locked(t, "s")
		began := time.Now()
		h.End(3)
		next := g.locked(t, "s")
		if len(turns) != 1 || turns[0] != 3 {
			t.Fatalf("given back with %v", turns)
		}
		if waited := time.Since(began); waited < outage || waited > outage+time.Second {
			t.Errorf("it waited for %v, want little more than %v", waited, outage)
		}
		next.End(4)
		g.tasks.Wait()
		if len(g.settling) > 0 {
			t.Error("a place is still taken")
		}
	})
}

// used is a claim of a reservation, with what was used of it.
func (c *Claims) used(cost store.Cost, at time.Time) *Claim {
	n := c.New()
	n.reservation, n.with = &store.Reservation{At: at, Lease: lease}, c.Coordinator
	n.Use(cost)
	return n
}

// untouched is a coordinator that nobody may tell anything.
type untouched struct {
	store.Coordinator
	t *testing.T
}

func (u *untouched) End(context.Context, *store.Lock, int64, *store.Reservation, store.Cost) error {
	u.t.Error("settled within the request")
	return nil
}

// TestSettleDelaysNoOthers: if too many releases wait for a silent store, a request leaves its reservation to the
// lease, and goes on.
func TestSettleDelaysNoOthers(t *testing.T) {
	g, unsettled := with(t, &untouched{t: t}), 0
	g.Remote, g.Unsettled = true, func() { unsettled++ }
	g.settling <- struct{}{}
	g.used(store.Cost{Requests: 1}, time.Now()).End(store.Unknown)
	g.Wait()
	if unsettled != 1 {
		t.Errorf("%d are counted", unsettled)
	}
}

// limitsAway is a coordinator that does not answer until a moment.
type limitsAway struct {
	store.Coordinator
	until   time.Time
	tries   int
	settled store.Cost
}

func (a *limitsAway) End(_ context.Context, _ *store.Lock, _ int64, _ *store.Reservation, used store.Cost) error {
	if a.tries++; time.Now().Before(a.until) {
		return errors.New("nobody answers")
	}
	a.settled = used
	return nil
}

// TestSettleOutlastsAnOutage: usage during an outage of the limits' store is counted afterwards, while the
// reservation is held. A gateway that is closed tries a few times more.
func TestSettleOutlastsAnOutage(t *testing.T) {
	used := store.Cost{Requests: 1, Tokens: 7}
	for _, test := range []struct {
		name          string
		outage, close time.Duration // the latter is 0 if it is not closed
		want          store.Cost
	}{
		{"minutes", 5 * time.Minute, 0, used},
		{"longer than the lease", 24 * time.Hour, 0, store.Cost{}},
		{"closed meanwhile", time.Hour, time.Minute, store.Cost{}},
		{"closed at its end", time.Minute, time.Minute, used},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				closing, stop := context.WithCancel(t.Context())
				defer stop()
				a := &limitsAway{until: began.Add(test.outage)}
				g := with(t, a)
				g.Remote, g.closing = true, closing
				g.used(used, began).End(store.Unknown)
				longest := lease + lastEndPause
				if test.close > 0 {
					<-time.After(test.close)
					stop()
					longest = test.close + 10*time.Second
				}
				g.Wait()
				if took := time.Since(began); a.settled != test.want || took > longest || a.tries > 1000 {
					t.Errorf("settled %+v after %v and %d tries, want %+v", a.settled, took, a.tries, test.want)
				}
			})
		})
	}
}
