package claim

import (
	"context"
	"sync"

	"dyno/services/bot/store"
)

// queue admits the turns of a session one at a time, in the order of arrival. It is for the turns of one gateway;
// store.Coordinator is for several.
type queue struct {
	most int // bound on the waiting turns of one session

	mu       sync.Mutex // guards sessions
	sessions map[string]*waiters
}

// waiters are the turns of a session that wait.
type waiters struct {
	waiting []chan struct{} // each is closed when its turn may go on
}

func newQueue(most int) *queue { return &queue{most: most, sessions: map[string]*waiters{}} }

// enter waits until the turn may go on. The error is store.ErrBusy if too many wait, or that of ctx.
func (q *queue) enter(ctx context.Context, session string) error {
	q.mu.Lock()
	w := q.sessions[session]
	if w == nil {
		q.sessions[session] = &waiters{}
		q.mu.Unlock()
		return nil
	}
	if len(w.waiting) >= q.most {
		q.mu.Unlock()
		return store.ErrBusy
	}
	mine := make(chan struct{})
	w.waiting = append(w.waiting, mine)
	q.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	for i, other := range w.waiting {
		if other == mine {
			w.waiting = append(w.waiting[:i], w.waiting[i+1:]...)
			q.mu.Unlock()
			return ctx.Err()
		}
	}
	q.mu.Unlock()
	q.leave(session) // it was admitted at that moment
	return ctx.Err()
}

// leave admits the next turn.
func (q *queue) leave(session string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.sessions[session]
	if len(w.waiting) == 0 {
		delete(q.sessions, session)
		return
	}
	close(w.waiting[0])
	w.waiting = w.waiting[1:]
}
