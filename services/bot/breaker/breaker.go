// Package breaker stops calls to a server that fails: after failures in a row for a while, until one call that
// decides whether others follow.
package breaker

import (
	"sync"
	"time"
)

// A Breaker counts the outcomes of calls to one server. Callers give it the time. Its methods may be called from any
// goroutine.
type Breaker struct {
	failures               int
	cooldown, longCooldown time.Duration

	mu      sync.Mutex // guards what follows
	row     int        // failures in a row
	until   time.Time  // no calls before; zero if the breaker is closed
	last    time.Duration
	probing bool     // the call that decides is under way
	by      *Breaker // for which tenant it opened, since the last good call; nil is none
}

// Init sets after how many failures in a row the breaker opens, and for how long: cooldown the first time, twice as long
// each time after that, and longCooldown at most. It must come before every other call.
func (b *Breaker) Init(failures int, cooldown, longCooldown time.Duration) {
	b.failures, b.cooldown, b.longCooldown = failures, cooldown, longCooldown
}

// Closed tells whether the breaker is closed: it does not even wait for the call that decides.
func (b *Breaker) Closed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.until.IsZero()
}

// Cooled tells whether the cooldown is over, and when it ends. The call that decides may still be under way.
func (b *Breaker) Cooled(now time.Time) (bool, time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !now.Before(b.until), b.until
}

// Ready tells whether a call may be made, and if not, when.
func (b *Breaker) Ready(now time.Time) (ok bool, when time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until.IsZero() {
		return true, time.Time{}
	}
	return !b.probing && !now.Before(b.until), b.until
}

// Until returns when the cooldown ends; zero if the breaker is closed. It also asks the last tenant of FailFor, if no call
// was good since. While the call that decides is under way, the time has passed.
func (b *Breaker) Until() time.Time {
	b.mu.Lock()
	until, by := b.until, b.by
	b.mu.Unlock()
	if until.IsZero() && by != nil {
		_, until = by.Cooled(time.Time{})
	}
	return until
}

// Reset closes the breaker, as a good call does. The outcome of the call that decides counts as that of any other.
func (b *Breaker) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.close()
}

// Begin counts a call that begins. Probe tells that the call decides whether others follow; ok is false if the call may not
// be made. Every call that begins ends with one of Succeed, Fail, FailFor and Cancel.
func (b *Breaker) Begin(now time.Time) (probe, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.until.IsZero():
		return false, true
	case b.probing || now.Before(b.until):
		return false, false
	}
	b.probing = true
	return true, true
}

// end ends a call. It tells whether its outcome counts: calls that began before the breaker opened do not change it.
// The caller holds mu.
func (b *Breaker) end(probe bool) bool {
	if probe {
		b.probing = false
		return true
	}
	return b.until.IsZero()
}

// Succeed counts a good call.
func (b *Breaker) Succeed(probe bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.end(probe) {
		b.close()
	}
}

// close closes the breaker. The caller holds mu.
func (b *Breaker) close() { b.row, b.until, b.last, b.by = 0, time.Time{}, 0, nil }

// Fail counts a failure; after is when the server wants to be called again, 0 if it does not say. It tells whether the
// breaker opens.
func (b *Breaker) Fail(probe bool, now time.Time, after time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.end(probe) {
		return false
	}
	b.row++
	if after == 0 && b.row < b.failures {
		return false
	}
	b.open(now, after)
	return true
}

// FailFor counts a failure that has opened a tenant's own breaker. It tells whether this one, which is everybody's, opens:
// if the last failure was another tenant's, and no call was good since.
func (b *Breaker) FailFor(tenant *Breaker, probe bool, now time.Time, after time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.end(probe) {
		return false
	}
	if b.by == nil || b.by == tenant {
		b.by = tenant
		return false
	}
	b.open(now, after)
	return true
}

// open begins a cooldown: as long as the server asks for, or twice the last one. The caller holds mu.
func (b *Breaker) open(now time.Time, after time.Duration) {
	if after > 0 {
		b.until = now.Add(after)
		return
	}
	b.last = min(max(2*b.last, b.cooldown), b.longCooldown)
	b.until = now.Add(b.last)
}

// Cancel takes back a call that was not made, or says nothing about the server.
func (b *Breaker) Cancel(probe bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.end(probe)
}
