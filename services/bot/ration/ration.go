// Package ration bounds what is held at once, bytes or places, of all, and of each of those who hold them: one alone
// does not keep the others out.
package ration

import (
	"errors"
	"io"
	"sync/atomic"
)

// ErrFull says that there is no room.
var ErrFull = errors.New("there is no room for as many bytes")

// A Ration is so many bytes, or places. Its methods may be called from any goroutine.
type Ration struct {
	most, each int64
	held       atomic.Int64
}

// New returns a ration of so many bytes for so many holders, of which each may have half if there are others.
func New(most int64, holders int) *Ration {
	each := most
	if holders > 1 {
		each = (most + 1) / 2 // of one place, each may have that
	}
	return &Ration{most: most, each: each}
}

// Held is how many bytes are held.
func (r *Ration) Held() int64 { return r.held.Load() }

// A Holder is one of those who hold bytes. Its zero value holds none.
type Holder struct{ held atomic.Int64 }

// Share returns a share of nothing yet. Of is who holds it; nil is nobody whose part is bounded.
func (r *Ration) Share(of *Holder) Share { return Share{ration: r, of: of} }

// A Share is what is held for one thing. It is used by one goroutine at a time. The zero value may hold any number
// of bytes, and counts none.
type Share struct {
	ration *Ration
	of     *Holder
	held   int64
}

// Full tells whether there is no room for one more, for anybody or for its holder.
func (s *Share) Full() (all, own bool) {
	return s.ration.Held() >= s.ration.most, s.of != nil && s.of.held.Load() >= s.ration.each
}

// Hold takes as many bytes as are missing from n, if there is room: otherwise it takes none.
func (s *Share) Hold(n int64) bool {
	more := n - s.held
	if s.ration == nil || more <= 0 {
		return true
	}
	if s.of != nil && s.of.held.Add(more) > s.ration.each {
		s.of.held.Add(-more)
		return false
	}
	s.held += more
	if s.ration.held.Add(more) > s.ration.most {
		s.Keep(s.held - more)
		return false
	}
	return true
}

// Keep gives back what is more than n bytes.
func (s *Share) Keep(n int64) {
	less := s.held - n
	if less <= 0 {
		return
	}
	s.held = n
	s.ration.held.Add(-less)
	if s.of != nil {
		s.of.held.Add(-less)
	}
}

// Reader returns what reads from r as much as there is room for. Beyond that its error is ErrFull.
func (s *Share) Reader(r io.Reader) io.Reader { return &reader{from: r, share: s} }

type reader struct {
	from  io.Reader
	share *Share
	read  int64
}

func (r *reader) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	r.read += int64(n)
	if !r.share.Hold(r.read) {
		return n, ErrFull
	}
	return n, err
}
