package store

import (
	"math"
	"sync"
	"time"
)

// holdTime bounds a hold, so that a slow or vanished reader does not fill the database with history.
const holdTime = 10 * time.Minute

// holds are the revisions that are being read page by page. This store does not compact past them; other replicas do
// not know of them.
type holds struct {
	mu   sync.Mutex // guards what follows
	held map[*hold]struct{}
}

// A hold keeps a revision until it is released, or holdTime is over.
type hold struct {
	of       *holds
	revision int64 // 0 keeps everything, until the revision is known
	since    time.Time
}

// take begins a hold that keeps everything, until at sets its revision.
func (h *holds) take() *hold {
	one := &hold{of: h, since: time.Now()}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held == nil {
		h.held = map[*hold]struct{}{}
	}
	h.held[one] = struct{}{}
	return one
}

// least returns the lowest held revision.
func (h *holds) least() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	least := int64(math.MaxInt64)
	for one := range h.held {
		if time.Since(one.since) < holdTime {
			least = min(least, one.revision)
		}
	}
	return least
}

func (h *hold) at(revision int64) {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	h.revision = revision
}

func (h *hold) release() {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	delete(h.of.held, h)
}
