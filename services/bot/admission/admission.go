// Package admission bounds what is under way at once, such as answers, and shares it out among keys.
package admission

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"dyno/services/bot/budget"
)

// ErrCrowded says that no place is free, and that the line is full or the wait was too long.
var ErrCrowded = errors.New("too many requests are under way")

// Places bound what is under way. Who finds none waits in line. Both are shared out by key: the requests of one key wait for
// one another before they wait for those of others.
type Places struct {
	places   chan struct{}
	each     atomic.Int64 // places of one key
	line     *budget.Budget
	patience time.Duration
	inside   sync.WaitGroup
}

// A Tenant is a key that takes places.
type Tenant struct {
	places chan struct{}
	line   budget.Tenant
}

// New returns places for that many keys, each of which may have half of the places, and of the line, if there are
// others.
func New(places, waiting int, patience time.Duration, keys int) *Places {
	a := &Places{places: make(chan struct{}, places), line: budget.New(int64(waiting), keys), patience: patience}
	a.SetKeys(keys)
	return a
}

// SetKeys says how many keys there are from now on. It holds for keys that are made afterwards.
func (a *Places) SetKeys(n int) {
	each := cap(a.places)
	if n > 1 {
		each = (each + 1) / 2
	}
	a.each.Store(int64(each))
	a.line.SetTenants(n)
}

// NewTenant returns a key that has no place yet.
func (a *Places) NewTenant() *Tenant { return &Tenant{places: make(chan struct{}, a.each.Load())} }

// Enter waits for a place, and returns how long that took. Leave must follow.
func (a *Places) Enter(ctx context.Context, v *Tenant) (time.Duration, error) {
	stages := [...]chan struct{}{v.places, a.places}
	got := 0
	for got < len(stages) {
		select {
		case stages[got] <- struct{}{}:
			got++
			continue
		default:
		}
		break
	}
	if got == len(stages) {
		a.inside.Add(1)
		return 0, nil
	}
	back := func() {
		if got > 0 {
			<-v.places
		}
	}
	line := a.line.Grant(&v.line)
	if !line.Hold(1) {
		back()
		return 0, ErrCrowded
	}
	defer line.Keep(0)
	began := time.Now()
	t := time.NewTimer(a.patience)
	defer t.Stop()
	for ; got < len(stages); got++ {
		select {
		case stages[got] <- struct{}{}:
		case <-t.C:
			back()
			return time.Since(began), ErrCrowded
		case <-ctx.Done():
			back()
			return time.Since(began), ctx.Err()
		}
	}
	a.inside.Add(1)
	return time.Since(began), nil
}

// Leave gives a place back.
func (a *Places) Leave(v *Tenant) {
	<-a.places
	<-v.places
	a.inside.Done()
}

// Taken is how many places are taken.
func (a *Places) Taken() int { return len(a.places) }

// Waiting is how many requests wait in line.
func (a *Places) Waiting() int64 { return a.line.Held() }

// Wait returns when all places are free.
func (a *Places) Wait() { a.inside.Wait() }
