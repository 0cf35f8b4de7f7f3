package agent

import (
	"math"
	"net/http"
	"sync"
	"time"
)

// An idleTimer calls a function when no request was in flight for some time. A part is in flight until it ends.
type idleTimer struct {
	*time.Timer
	after time.Duration

	mu       sync.Mutex // guards inFlight
	inFlight int
}

// newIdleTimer returns a timer that runs already. Without a time, it does not call the function within centuries.
func newIdleTimer(after time.Duration, end func()) *idleTimer {
	if after == 0 {
		after = math.MaxInt64
	}
	return &idleTimer{Timer: time.AfterFunc(after, end), after: after}
}

// watch wraps the handler of all requests.
func (t *idleTimer) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.add(1)
		defer t.add(-1)
		next.ServeHTTP(w, r)
	})
}

func (t *idleTimer) add(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Stop()
	if t.inFlight += n; t.inFlight == 0 {
		t.Reset(t.after)
	}
}
