package plane

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"dyno/services/control/access"
	"dyno/services/control/audit"
	"dyno/services/control/catalog"
	"dyno/services/control/resource"
	"dyno/services/control/store"
)

func lockRef(name string) resource.Ref {
	return resource.Ref{Kind: resource.Locks, Namespace: "default", Name: name}
}

func counterRef(name string) resource.Ref {
	return resource.Ref{Kind: resource.Counters, Namespace: "default", Name: name}
}

// newSession begins a session that does not end by itself during a test.
func newSession(t *testing.T, p *Plane, name string) resource.Ref {
	t.Helper()
	got, err := p.Begin(t.Context(), me, &resource.Session{Namespace: "default", SessionInput: resource.SessionInput{Name: name, TTL: 3600}})
	if err != nil {
		t.Fatal(err)
	}
	return got.Ref
}

func acquired(t *testing.T, p *Plane, session resource.Ref, value string) *resource.Lock {
	t.Helper()
	got, err := p.Acquire(t.Context(), me, lockRef("l"), resource.LockInput{Session: session.Name, Value: value})
	if err != nil {
		t.Fatal(err)
	}
	return got.Resource.(*resource.Lock)
}

func held(t *testing.T, p *Plane, session resource.Ref) {
	t.Helper()
	if got, err := p.Acquire(t.Context(), me, lockRef("l"), resource.LockInput{Session: session.Name}); !errors.Is(err, ErrHeld) {
		t.Errorf("it is not held: %+v, %v", got, err)
	}
}

// TestLock: one session at a time has a lock, repeating is safe, and tokens grow, through any replica.
func TestLock(t *testing.T) {
	s := newStore(t)
	p := opened(t, s, nil)
	other := opened(t, s, func(c *Config) { c.Replica = "other" })
	a, b := newSession(t, p, "a"), newSession(t, other, "b")
	first := acquired(t, p, a, "x")
	if again := acquired(t, other, a, "x"); again.Token != first.Token || !again.Since.Equal(first.Since) || again.Holder != "a" {
		t.Errorf("%+v, then %+v", first, again)
	}
	held(t, other, b)
	renamed := acquired(t, other, a, "y")
	if item, _, err := p.Get(t.Context(), me, lockRef("l"), false); err != nil || renamed.Token != first.Token || item.Resource.(*resource.Lock).Value != "y" || !strings.Contains(string(item.Body), fmt.Sprint(first.Token)) {
		t.Errorf("with another value: %+v, %s, %v", renamed, item.Body, err)
	}
	for _, o := range []Options{{}, {Session: b.Name}} {
		if _, err := p.Remove(t.Context(), me, lockRef("l"), o); err == nil {
			t.Errorf("%+v released it", o)
		}
	}
	if _, err := other.Remove(t.Context(), me, lockRef("l"), Options{Session: a.Name}); err != nil {
		t.Fatal(err)
	}
	second := acquired(t, p, b, "")
	if second.Token <= first.Token || second.Version != 1 {
		t.Errorf("token %d, then %d, version %d", first.Token, second.Token, second.Version)
	}
	// The end of a session releases its locks at once.
	if _, err := p.Remove(t.Context(), me, b, Options{}); err != nil {
		t.Fatal(err)
	}
	third := acquired(t, other, a, "")
	if third.Token <= second.Token {
		t.Errorf("token %d, then %d", second.Token, third.Token)
	}
	var missing *NotFound
	if err := p.Renew(t.Context(), me, b); !errors.As(err, &missing) {
		t.Errorf("renewed: %v", err)
	}
	if _, err := p.Acquire(t.Context(), me, lockRef("free"), resource.LockInput{Session: b.Name}); !errors.As(err, &missing) {
		t.Errorf("a session that has ended acquired a lock: %v", err)
	}
	page, err := p.Audit(t.Context(), me, audit.Query{Limit: 100})
	var acts []string
	for _, one := range page.Items {
		acts = append(acts, string(one.Act)+" "+string(one.Kind))
	}
	if want := "create session, create session, acquire lock, acquire lock, remove lock, acquire lock, remove session, acquire lock"; err != nil || strings.Join(acts, ", ") != want {
		t.Errorf("audit: %q, %v", acts, err)
	}
}

// TestSessionEnds: a lease that ends by itself takes the session and its locks along.
func TestSessionEnds(t *testing.T) {
	s := newStore(t)
	p := opened(t, s, nil)
	a, b := newSession(t, p, "a"), newSession(t, p, "b")
	acquired(t, p, a, "")
	if err := s.Revoke(t.Context(), leaseOf(a)); err != nil {
		t.Fatal(err)
	}
	acquired(t, p, b, "")
	var missing *NotFound
	if _, _, err := p.Get(t.Context(), me, a, false); !errors.As(err, &missing) {
		t.Errorf("the session is still there: %v", err)
	}
	if err := p.Renew(t.Context(), me, a); !errors.As(err, &missing) {
		t.Errorf("renewed: %v", err)
	}
	if err := p.Renew(t.Context(), me, b); err != nil {
		t.Error(err)
	}
}

// TestSessionEndsDuringAcquisition: a session that ends after it was read acquires nothing.
func TestSessionEndsDuringAcquisition(t *testing.T) {
	s := newStore(t)
	p := opened(t, s, nil)
	a := newSession(t, p, "a")
	session, _, err := p.Get(t.Context(), me, a, false)
	if err != nil {
		t.Fatal(err)
	}
	gone, lease := &NotFound{a}, leaseOf(a)
	_, err = p.apply(t.Context(), me, change{
		ref: lockRef("l"), lease: lease, while: []requirement{{store.Condition{Key: store.State + a.Path(), Revision: session.Revision}, gone}},
		next: func(old *catalog.Item) (resource.Document, error) {
			return &resource.Lock{Namespace: "default", Name: "l", Session: a.Name}, s.Revoke(t.Context(), lease)
		},
	}, Options{})
	if !errors.Is(err, gone) {
		t.Errorf("acquired: %v", err)
	}
}

// TestWhoMayUseSessions: a session is for its principal.
func TestWhoMayUseSessions(t *testing.T) {
	p := opened(t, newStore(t), nil)
	as := func(name string, role access.Role) Caller {
		return Caller{Principal: &access.Principal{Name: name, Grants: []access.Grant{{Namespace: "default", Role: role}}}}
	}
	a := newSession(t, p, "a")
	acquired(t, p, a, "")
	program := as("other", access.Registrar)
	for name, err := range map[string]error{
		"renew":          p.Renew(t.Context(), program, a),
		"renew, reading": p.Renew(t.Context(), as("me", access.Reader), a),
		"acquire":        second(p.Acquire(t.Context(), program, lockRef("m"), resource.LockInput{Session: a.Name})),
		"end":            second(p.Remove(t.Context(), program, a, Options{})),
		"begin, reading": second(p.Begin(t.Context(), as("r", access.Reader), &resource.Session{Namespace: "default", SessionInput: resource.SessionInput{TTL: 5}})),
	} {
		if ProblemOf(err).Kind != NotPermitted {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := p.Remove(t.Context(), program, lockRef("l"), Options{Session: a.Name}); !errors.Is(err, ErrHeld) {
		t.Errorf("released by another principal: %v", err)
	}
	if _, err := p.Remove(t.Context(), as("operator", access.Editor), a, Options{}); err != nil {
		t.Errorf("an editor cannot end a session: %v", err)
	}
}

func second(_ Result, err error) error { return err }

// TestWaiting: those who wait in a replica get a lock in their order, also when it is released through another.
func TestWaiting(t *testing.T) {
	s := newStore(t)
	p := opened(t, s, nil)
	other := opened(t, s, func(c *Config) { c.Replica = "other" })
	holder := newSession(t, p, "holder")
	acquired(t, p, holder, "")
	if _, err := p.Acquire(t.Context(), me, lockRef("l"), resource.LockInput{Session: newSession(t, p, "hasty").Name, Wait: 0.01}); !errors.Is(err, ErrHeld) {
		t.Errorf("after its time: %v", err)
	}
	const n = 5
	var mu sync.Mutex
	var order []int
	var all sync.WaitGroup
	for i := range n {
		session := newSession(t, p, fmt.Sprint(i))
		ctx, cancel := context.WithCancel(t.Context())
		all.Go(func() {
			defer cancel()
			_, err := p.Acquire(ctx, me, lockRef("l"), resource.LockInput{Session: session.Name, Wait: 60})
			if i == 1 {
				if !errors.Is(err, store.ErrClosed) {
					t.Errorf("who has gone: %v", err)
				}
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			if i%2 == 0 {
				_, err = other.Remove(t.Context(), me, lockRef("l"), Options{Session: session.Name})
			} else {
				_, err = other.Remove(t.Context(), me, session, Options{})
			}
			if err != nil {
				t.Error(err)
			}
		})
		for waiting := 0; waiting <= i-min(i/2, 1); { // until it waits
			p.locks.mu.Lock()
			waiting = p.locks.count
			p.locks.mu.Unlock()
		}
		if i == 1 {
			cancel()
			for waiting := 2; waiting == 2; { // until it has gone
				p.locks.mu.Lock()
				waiting = p.locks.count
				p.locks.mu.Unlock()
			}
		}
	}
	// Who has it is not behind those who wait, whether the replica knows yet or not.
	for _, replica := range []*Plane{p, still(t, s, func(c *Config) { c.Replica = "new" })} {
		if _, err := replica.Acquire(t.Context(), me, lockRef("l"), resource.LockInput{Session: holder.Name, Wait: 60}); err != nil {
			t.Errorf("repeated: %v", err)
		}
	}
	if _, err := p.Remove(t.Context(), me, lockRef("l"), Options{Session: holder.Name}); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if fmt.Sprint(order) != "[0 2 3 4]" {
		t.Errorf("order %v", order)
	}
	if p.locks.count != 0 || len(p.locks.waiting) != 0 {
		t.Errorf("left behind: %+v", &p.locks)
	}
}

// TestQueueIsBounded: a queue is left by anyone, and too many are refused.
func TestQueueIsBounded(t *testing.T) {
	var q lockQueues
	var turns []chan struct{}
	for range maxWaiting {
		turn, err := q.enter("l")
		if err != nil {
			t.Fatal(err)
		}
		turns = append(turns, turn)
	}
	if _, err := q.enter("m"); ProblemOf(err).Kind != Busy {
		t.Errorf("one more: %v", err)
	}
	q.wake("l")
	q.leave("l", turns[1])
	<-turns[0]
	q.leave("l", turns[0])
	<-turns[2]
	if len(turns[3]) != 0 || q.count != maxWaiting-2 {
		t.Errorf("%d signals, %d wait", len(turns[3]), q.count)
	}
}

// TestCounter: additions count once, and the bounds of 64 bits hold.
func TestCounter(t *testing.T) {
	p := opened(t, newStore(t), nil)
	add := func(n int64, o Options) (int64, error) {
		got, err := p.Add(t.Context(), me, counterRef("c"), n, o)
		if err != nil {
			return 0, err
		}
		return got.Resource.(*resource.Counter).Value, nil
	}
	for _, want := range []int64{5, 5} {
		if got, err := add(5, Options{Key: "k"}); err != nil || got != want {
			t.Errorf("%d, %v, want %d", got, err, want)
		}
	}
	if _, err := add(6, Options{Key: "k"}); !errors.Is(err, ErrKeyReused) {
		t.Errorf("another sum with the key: %v", err)
	}
	for _, c := range []struct{ from, add int64 }{{math.MaxInt64, 1}, {1, math.MaxInt64}, {math.MinInt64, -1}, {-1, math.MinInt64}, {0, math.MinInt64}, {math.MinInt64, math.MaxInt64}} {
		if _, err := p.Put(t.Context(), me, &resource.Counter{Namespace: "default", Name: "c", Value: c.from}, Options{}); err != nil {
			t.Fatal(err)
		}
		sum := c.from + c.add
		fits := (sum > c.from) == (c.add > 0)
		if got, err := add(c.add, Options{}); fits != (err == nil) || fits && got != sum {
			t.Errorf("%d + %d: %d, %v", c.from, c.add, got, err)
		}
	}
	item, _, err := p.Get(t.Context(), me, counterRef("c"), false)
	if err != nil {
		t.Fatal(err)
	}
	for i, tag := range []string{item.Tag(), item.Tag()} {
		_, err := p.Put(t.Context(), me, &resource.Counter{Namespace: "default", Name: "c", Value: int64(i)}, Options{IfMatch: tag})
		if (i == 0) != (err == nil) || i == 1 && !errors.Is(err, ErrPrecondition) {
			t.Errorf("set %d: %v", i, err)
		}
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 10 {
				for {
					if _, err := add(1, Options{}); err == nil {
						break
					} else if !errors.Is(err, ErrContended) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	all.Wait()
	if got, err := add(0, Options{}); err != nil || got != 80 {
		t.Errorf("80 additions: %d, %v", got, err)
	}
	if _, err := p.Remove(t.Context(), me, counterRef("c"), Options{}); err != nil {
		t.Fatal(err)
	}
	if got, err := add(2, Options{}); err != nil || got != 2 {
		t.Errorf("after a removal: %d, %v", got, err)
	}
}

// TestSessionEndIsAudited: the audit has one entry for a session that ends by itself, however many replicas notice it, also if none
// is there at the time. It has no second one for a session that is removed.
func TestSessionEndIsAudited(t *testing.T) {
	s := newStore(t)
	p := still(t, s, nil)
	other := still(t, s, func(c *Config) { c.Replica = "other" })
	silent, removed, living, later := newSession(t, p, "a"), newSession(t, p, "b"), newSession(t, p, "c"), newSession(t, p, "d")
	if _, err := p.Remove(t.Context(), me, removed, Options{}); err != nil {
		t.Fatal(err)
	}
	end := func(r resource.Ref) {
		t.Helper()
		if err := s.Revoke(t.Context(), leaseOf(r)); err != nil {
			t.Fatal(err)
		}
		for _, one := range []*Plane{p, other} {
			for _, moved := one.catalog.Revision(); one.catalog.Get(r) != nil; _, moved = one.catalog.Revision() {
				<-moved
			}
		}
	}
	ended := func() (list []string) {
		t.Helper()
		page, err := p.Audit(t.Context(), me, audit.Query{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range page.Items {
			if one.Act != resource.Created {
				list = append(list, string(one.Act)+" "+one.Name+" by "+one.Who)
			}
		}
		return list
	}
	end(silent)
	var all sync.WaitGroup
	for _, one := range []*Plane{p, other, p, other} {
		all.Go(func() {
			for _, r := range []resource.Ref{silent, removed, living} {
				if err := one.noteEnd(r.Path(), r); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	got := ended()
	if len(got) != 2 || got[0] != "remove "+removed.Name+" by me" || !strings.HasPrefix(got[1], "expire "+silent.Name+" by ") {
		t.Errorf("%q", got)
	}
	end(later)
	opened(t, s, func(c *Config) { c.Replica = "new" })
	ticker, guard := time.NewTicker(10*time.Millisecond), time.After(time.Minute)
	defer ticker.Stop()
	for len(ended()) < 3 {
		select {
		case <-ticker.C: // the new replica has not looked yet
		case <-guard:
			t.Fatalf("%q", ended())
		}
	}
	if got := ended(); got[2] != "expire "+later.Name+" by new" {
		t.Errorf("%q", got)
	}
}
