// Package budget bounds how many bytes or places are held at once, by all tenants and by each: one alone does not keep the
// others out.
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

// New returns a budget of that many bytes for that many tenants, of which each may have half if there are others.
func New(most int64, tenants int) *Budget {
	b := &Budget{most: most}
	b.SetTenants(tenants)
	return b
}

// SetTenants says how many tenants there are from now on. What one holds stays, even if it is more than half.
func (r *Budget) SetTenants(n int) {
	each := r.most
	if n > 1 {
		each = (r.most + 1) / 2 // of one place, each may have that
	}
	r.each.Store(each)
}

// Most is how many bytes may be held.
func (r *Budget) Most() int64 { return r.most }

// Held is how many bytes are held.
func (r *Budget) Held() int64 { return r.held.Load() }

// A Tenant is one of those who hold a part of a budget. Its zero value holds none.
type Tenant struct{ held atomic.Int64 }

// Grant returns a grant of nothing yet to a tenant; nil is nobody whose part is bounded.
func (r *Budget) Grant(of *Tenant) Grant { return Grant{budget: r, of: of} }

// A Grant is what is held for one thing. It is used by one goroutine at a time. The zero value may hold any number
// of bytes, and counts none.
type Grant struct {
	budget *Budget
	of     *Tenant
	held   int64
}

// Full tells whether there is no room for one more, for anybody or for its tenant.
func (s *Grant) Full() (all, own bool) {
	return s.budget.Held() >= s.budget.most, s.of != nil && s.of.held.Load() >= s.budget.each.Load()
}

// Hold takes as many bytes as are missing from n, if there is room: otherwise it takes none.
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

// Keep gives back all but n bytes.
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
