package breaker

import (
	"testing"
	"time"

	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// opened returns an open breaker. It opens after two failures, for one second first and for three at most.
func opened(t *testing.T, now time.Time) *Breaker {
	t.Helper()
	b := &Breaker{}
	b.Init(2, time.Second, 3*time.Second)
	fail(t, b, now, 0, false)
	fail(t, b, now, 0, true)
	return b
}

func fail(t *testing.T, b *Breaker, now time.Time, after time.Duration, opens bool) {
	t.Helper()
	probe, ok := b.Begin(now)
	if !ok {
		t.Fatalf("at %v: no call", now)
	}
	if got := b.Fail(probe, now, after); got != opens {
		t.Fatalf("at %v: opened: %v, want %v", now, got, opens)
	}
}

// state tells whether a call may be made, as all methods see it.
func state(t *testing.T, b *Breaker, now time.Time) bool {
	t.Helper()
	ready, when := b.Ready(now)
	if cooled, end := b.Cooled(now); ready && !cooled || end != when || b.Closed() && !ready || b.Until() != end {
		t.Errorf("at %v: ready %v, cooled %v, closed %v", now, ready, cooled, b.Closed())
	}
	return ready
}

// TestCooldown: each cooldown in a row is twice as long, up to the longest. One call decides at its end, and a good one
// starts over.
func TestCooldown(t *testing.T) {
	now := time.Unix(1000, 0)
	b := opened(t, now)
	for i, d := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second} {
		if state(t, b, now.Add(d-1)) || !state(t, b, now.Add(d)) {
			t.Fatalf("cooldown %d is not %v", i, d)
		}
		now = now.Add(d)
		probe, ok := b.Begin(now)
		if !probe || !ok || state(t, b, now) {
			t.Fatalf("cooldown %d: probe %v, %v, and another may be made: %v", i, probe, ok, state(t, b, now))
		}
		if _, ok := b.Begin(now); ok {
			t.Fatal("two calls decide")
		}
		b.Cancel(probe)
		probe, _ = b.Begin(now)
		if !b.Fail(probe, now, 0) {
			t.Fatal("the call that decides has failed")
		}
	}
	now = now.Add(3 * time.Second)
	probe, _ := b.Begin(now)
	b.Succeed(probe)
	if !b.Closed() || !state(t, b, now) {
		t.Error("a good call does not close it")
	}
	fail(t, b, now, 0, false)
	fail(t, b, now, 0, true)
	if state(t, b, now.Add(time.Second-1)) || !state(t, b, now.Add(time.Second)) {
		t.Error("it does not start over")
	}
}

// TestAfter: a server that says when to come back is not called before, however often it failed.
func TestAfter(t *testing.T) {
	now, b := time.Unix(1000, 0), &Breaker{}
	b.Init(5, time.Second, time.Second)
	fail(t, b, now, time.Hour, true)
	if state(t, b, now.Add(time.Hour-1)) || !state(t, b, now.Add(time.Hour)) {
		t.Error("not after an hour")
	}
}

// TestEarlier: calls that began before the breaker opened do not change it.
func TestEarlier(t *testing.T) {
	now := time.Unix(1000, 0)
	b, other := opened(t, now), &Breaker{}
	b.Succeed(false)
	if b.Fail(false, now, time.Hour) || b.FailFor(other, false, now, time.Hour) || b.Closed() || !state(t, b, now.Add(time.Second)) {
		t.Error("an earlier call counts")
	}
}

// TestReset: a reset closes the breaker, whatever has opened it. The call that decided counts as any other.
func TestReset(t *testing.T) {
	now := time.Unix(1000, 0)
	b := opened(t, now)
	later := now.Add(time.Second)
	probe, _ := b.Begin(later)
	b.Reset()
	if !state(t, b, later) || !b.Until().IsZero() {
		t.Error("it is open after a reset")
	}
	if b.Fail(probe, later, 0) {
		t.Error("one failure opens it again")
	}
	fail(t, b, later, 0, true)
	if got := b.Until(); got != later.Add(time.Second) {
		t.Errorf("the first cool-down after a reset ends at %v", got)
	}
}

// TestTenants: what opens one tenant's breaker opens the one for all only if it happens to another tenant next.
func TestTenants(t *testing.T) {
	now := time.Unix(1000, 0)
	one, two, all := opened(t, now), opened(t, now), &Breaker{}
	all.Init(2, time.Second, time.Second)
	for range 2 {
		if all.FailFor(one, false, now, 0) || !all.Closed() {
			t.Error("one tenant is not all")
		}
	}
	if ready, _ := all.Ready(now); !ready || all.Until() != now.Add(time.Second) {
		t.Error("it answers others, and is not known to answer before its tenant may call")
	}
	if !all.FailFor(two, false, now, 0) || all.Closed() {
		t.Error("two tenants are all")
	}
	probe, _ := all.Begin(now.Add(time.Second))
	all.Succeed(probe)
	if all.FailFor(two, false, now, 0) {
		t.Error("a good call does not start over")
	}
}
