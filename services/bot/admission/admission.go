// Package admission bounds the requests in progress, such as answers, and divides their number among keys.
package admission

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"dyno/services/bot/budget"
)

// ErrCrowded says that no place is free, and that the queue is full or the wait was too long.
var ErrCrowded = errors.New("too many requests are under way")

// Places bound the requests in progress. Further requests wait in a queue. Both are divided among keys: requests of
// one key wait for one another before they wait for those of others.
type Places struct {
	places  chan struct{}
	each    atomic.Int64 // bound on the places of one key
	line    *budget.Budget
	timeout time.Duration
	inside  sync.WaitGroup
}

// A Tenant is a key that takes places.
type Tenant struct {
	places chan struct{}
	line   budget.Tenant
}

// New returns Places for a number of keys. With several keys, each may have half of the places and of the queue.
func New(places, waiting int, timeout time.Duration, keys int) *Places {
	a := &Places{places: make(chan struct{}, places), line: budget.New(int64(waiting), keys), timeout: timeout}
	a.SetKeys(keys)
	return a
}

// SetKeys sets the number of keys. It applies to tenants that are made afterwards.
func (a *Places) SetKeys(n int) {
	each := cap(a.places)
	if n > 1 {
		each = (each + 1) / 2
	}
	a.each.Store(int64(each))
	a.line.SetTenants(n)
}

// NewTenant returns a tenant without a place.
func (a *Places) NewTenant() *Tenant { return &Tenant{places: make(chan struct{}, a.each.Load())} }

// Enter waits for a place, and returns how long that took. Leave must follow.
func (a *Places) Enter(ctx context.Context, v *Tenant) (time.Duration, error) {
	if a.try(v) {
		return 0, nil
	}
	line := a.line.Grant(&v.line)
	if !line.Hold(1) {
		return 0, ErrCrowded
	}
	defer line.Keep(0)
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, a.timeout, ErrCrowded)
	defer cancel()
	err := a.wait(ctx, v)
	return time.Since(began), err
}

// try takes a free place.
func (a *Places) try(v *Tenant) bool {
	select {
	case v.places <- struct{}{}:
	default:
		return false
	}
	select {
	case a.places <- struct{}{}:
		a.inside.Add(1)
		return true
	default:
		<-v.places
		return false
	}
}

// wait takes a place before ctx ends.
func (a *Places) wait(ctx context.Context, v *Tenant) error {
	select {
	case v.places <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case a.places <- struct{}{}:
		a.inside.Add(1)
		return nil
	case <-ctx.Done():
		<-v.places
		return context.Cause(ctx)
	}
}

// Leave gives a place back.
func (a *Places) Leave(v *Tenant) {
	<-a.places
	<-v.places
	a.inside.Done()
}

// Taken returns the number of taken places.
func (a *Places) Taken() int { return len(a.places) }

// Waiting returns the number of waiting requests.
func (a *Places) Waiting() int64 { return a.line.Held() }

// Wait waits until all places are free.
func (a *Places) Wait() { a.inside.Wait() }
