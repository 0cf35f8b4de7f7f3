package memory

import (
	"context"
	"sync"
	"time"

	"dyno/services/bot/store"
)

// Sessions has turns follow one another within the process.
type Sessions struct {
	most int

	mu   sync.Mutex // guards what follows
	held map[string]*session
}

type session struct {
	holder string // "" is nobody
	ends   time.Time
	count  int64
}

// NewSessions returns sessions of which nothing is known. The number of turns is
// remembered of most of them; of others it is store.Unknown.
func NewSessions(most int) *Sessions {
	return &Sessions{most: most, held: map[string]*session{}}
}

// Acquire is store.Sessions'.
func (s *Sessions) Acquire(_ context.Context, name, holder string, lease time.Duration) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	h := s.held[name]
	if h == nil {
		s.makeRoom(now)
		h = &session{count: store.Unknown}
		s.held[name] = h
	}
	if h.holder != "" && now.Before(h.ends) {
		return 0, store.ErrBusy
	}
	count := h.count
	// Unknown until it is released: whoever held it may have died with a turn kept.
	h.holder, h.ends, h.count = holder, now.Add(lease), store.Unknown
	return count, nil
}

// makeRoom forgets some sessions that nobody holds. The caller holds mu.
func (s *Sessions) makeRoom(now time.Time) {
	for name, h := range s.held {
		if len(s.held) < s.most {
			return
		}
		if h.holder == "" || !now.Before(h.ends) {
			delete(s.held, name)
		}
	}
}

// Extend is store.Sessions'.
func (s *Sessions) Extend(_ context.Context, name, holder string, lease time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, now := s.held[name], time.Now()
	if h == nil || h.holder != holder || !now.Before(h.ends) {
		return store.ErrGone
	}
	h.ends = now.Add(lease)
	return nil
}

// Release is store.Sessions'.
func (s *Sessions) Release(_ context.Context, name, holder string, count int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[name]
	if h == nil || h.holder != holder || !time.Now().Before(h.ends) {
		return store.ErrGone
	}
	h.holder, h.count = "", count
	return nil
}

var _ store.Sessions = (*Sessions)(nil)
