// Package budget bounds the bytes or places that are held at once, by all tenants and by each. So one tenant cannot
// keep the others out.
package budget

import (
	"errors"
	"io"
	"sync/atomic"
)

// ErrFull says that there is no room.
var ErrFull = errors.New("there is no room for as many bytes")

// A Budget bounds a number of bytes, or of places. Its methods may be called from any goroutine.
type Budget struct {
	most       int64
	each, held atomic.Int64
}

// New returns a budget of a number of bytes. With several tenants, each may hold half.
func New(most int64, tenants int) *Budget {
	b := &Budget{most: most}
	b.SetTenants(tenants)
	return b
}

// SetTenants sets the number of tenants. Held bytes stay, even if a tenant holds more than half.
func (r *Budget) SetTenants(n int) {
	each := r.most
	if n > 1 {
		each = (r.most + 1) / 2 // a single place is for all
	}
	r.each.Store(each)
}

// Most returns the budget's size in bytes.
func (r *Budget) Most() int64 { return r.most }

// Held returns the number of held bytes.
func (r *Budget) Held() int64 { return r.held.Load() }

// A Tenant holds a part of a budget. The zero value holds nothing.
type Tenant struct{ held atomic.Int64 }

// Grant returns an empty grant of a tenant; with nil, only the budget is the bound.
func (r *Budget) Grant(of *Tenant) Grant { return Grant{budget: r, of: of} }

// A Grant is the bytes held for one purpose. It is for one goroutine at a time. The zero value has no bound, and
// counts nothing.
type Grant struct {
	budget *Budget
	of     *Tenant
	held   int64
}

// Full reports whether nothing more fits: for any tenant, or for its own.
func (s *Grant) Full() (all, own bool) {
	return s.budget.Held() >= s.budget.most, s.of != nil && s.of.held.Load() >= s.budget.each.Load()
}

// Hold raises the grant to n bytes, if there is room; otherwise it takes nothing.
func (s *Grant) Hold(n int64) bool {
	more := n - s.held
	if s.budget == nil || more <= 0 {
		return true
	}
	if s.of != nil && s.of.held.Add(more) > s.budget.each.Load() {
		s.of.held.Add(-more)
		return false
	}
	s.held += more
	if s.budget.held.Add(more) > s.budget.most {
		s.Keep(s.held - more)
		return false
	}
	return true
}

// Keep releases all but n bytes.
func (s *Grant) Keep(n int64) {
	less := s.held - n
	if less <= 0 {
		return
	}
	s.held = n
	s.budget.held.Add(-less)
	if s.of != nil {
		s.of.held.Add(-less)
	}
}

// Reader returns a reader of r that holds what it reads. Its error is ErrFull when there is no room for more.
func (s *Grant) Reader(r io.Reader) io.Reader { return &reader{from: r, grant: s} }

type reader struct {
	from  io.Reader
	grant *Grant
	read  int64
}

func (r *reader) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	r.read += int64(n)
	if !r.grant.Hold(r.read) {
		return n, ErrFull
	}
	return n, err
}
