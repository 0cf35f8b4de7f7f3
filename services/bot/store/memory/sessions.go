package memory

import (
	"sync"
	"time"

	"dyno/services/bot/store"
)

// sessions let turns follow one another within the process.
type sessions struct {
	most int

	mu   sync.Mutex // guards what follows
	held map[string]*session
}

type session struct {
	holder string // "" is nobody
	ends   time.Time
	turns  int64
}

func (s *sessions) acquire(l *store.Lock) (turns int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	h := s.held[l.Session]
	if h == nil {
		s.makeRoom(now)
		h = &session{turns: store.Unknown}
		s.held[l.Session] = h
	}
	if h.holder != "" && now.Before(h.ends) {
		return 0, store.ErrBusy
	}
	turns = h.turns
	// Unknown until it is released: its last holder may have died after it kept a turn.
	h.holder, h.ends, h.turns = l.Holder, now.Add(l.Lease), store.Unknown
	return turns, nil
}

// makeRoom forgets some unlocked sessions. The caller holds mu.
func (s *sessions) makeRoom(now time.Time) {
	for name, h := range s.held {
		if len(s.held) < s.most {
			return
		}
		if h.holder == "" || !now.Before(h.ends) {
			delete(s.held, name)
		}
	}
}

// locked returns a session if the lock still holds it. The caller holds mu.
func (s *sessions) locked(l *store.Lock) *session {
	h := s.held[l.Session]
	if h == nil || h.holder != l.Holder || !time.Now().Before(h.ends) {
		return nil
	}
	return h
}

func (s *sessions) extend(l *store.Lock) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.locked(l)
	if h == nil {
		return store.ErrUnlocked
	}
	h.ends = time.Now().Add(l.Lease)
	return nil
}

func (s *sessions) release(l *store.Lock, turns int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.locked(l)
	if h == nil {
		return store.ErrUnlocked
	}
	h.holder, h.turns = "", turns
	return nil
}
