package store

import (
	"context"
	"fmt"
	"sync"

	"dyno/services/internal/wait"
)

// Head returns the newest revision of the state (a linearizable read). It includes every change acknowledged before
// the call: a follower that has reached it can answer without being stale. Simultaneous callers share one query of
// etcd, which begins after their calls.
func (s *Store) Head(ctx context.Context) (int64, error) { return s.heads.get(ctx) }

func (s *Store) readHead() (int64, error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.Timeout)
	defer cancel()
	got, err := s.client.Get(ctx, s.cfg.Prefix+headKey)
	if err != nil {
		return 0, unavailable(ctx, err)
	}
	s.contact()
	s.answered.Store(got.Header.Revision)
	if len(got.Kvs) == 0 {
		return 0, fmt.Errorf("%w: %s is gone: another client has removed it", ErrUnavailable, headKey)
	}
	return got.Kvs[0].ModRevision, nil
}

// pulse queries the head if there was no query for HeadPeriod.
func (s *Store) pulse() {
	wait.Every(s.ctx, s.cfg.HeadPeriod, func() {
		if s.Silence() >= s.cfg.HeadPeriod/2 {
			_, _ = s.Head(s.ctx) // its purpose is the time of the last answer, for Silence
		}
	})
}

// heads lets simultaneous callers share a query that begins after their calls.
type heads struct {
	read func() (int64, error)

	mu      sync.Mutex // guards what follows
	current *flight    // in progress: too late to join
	next    *flight    // begins when current has its answer
}

// A flight is one shared query of the head, with its answer once landed is closed.
type flight struct {
	landed   chan struct{}
	revision int64
	err      error
}

func (h *heads) get(ctx context.Context) (int64, error) {
	h.mu.Lock()
	f := h.next
	switch {
	case h.current == nil:
		f = &flight{landed: make(chan struct{})}
		h.current = f
		go h.fly(f)
	case f == nil:
		f = &flight{landed: make(chan struct{})}
		h.next = f
	}
	h.mu.Unlock()
	select {
	case <-f.landed:
		return f.revision, f.err
	case <-ctx.Done():
		return 0, unavailable(ctx, context.Cause(ctx))
	}
}

// fly carries out a query, and then the next one while there is one.
func (h *heads) fly(f *flight) {
	for f != nil {
		f.revision, f.err = h.read()
		close(f.landed)
		h.mu.Lock()
		f = h.next
		h.current, h.next = f, nil
		h.mu.Unlock()
	}
}
