package generator

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"dyno/lab/plan"
	"dyno/load/engine/record"
)

// A relay sends what it is posted to all who asked for events.
type relay struct {
	mu   sync.Mutex // guards outs
	outs map[chan []byte]bool
}

func (r *relay) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if q.Method == http.MethodPost {
		data, _ := io.ReadAll(q.Body) // as much as has arrived
		r.mu.Lock()
		defer r.mu.Unlock()
		for out := range r.outs {
			select {
			case out <- data:
			default: // its reader is stuck
			}
		}
		return
	}
	out := make(chan []byte, 1000)
	r.mu.Lock()
	r.outs[out] = true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.outs, out)
		r.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	flusher := http.NewResponseController(w)
	for err := flusher.Flush(); err == nil; err = flusher.Flush() {
		select {
		case data := <-out:
			_, _ = w.Write(append(append([]byte("data: "), bytes.TrimSpace(data)...), "\n\n"...)) // Flush fails, too
		case <-q.Context().Done():
			return
		}
	}
}

// Events that one part publishes and another one gets are timed by one clock, as far as each knows it: one who
// is wrong by 300 ms finds every delivery to take that much longer.
func TestDeliveryByOneClock(t *testing.T) {
	const wrong = 300 * time.Millisecond
	server := httptest.NewServer(&relay{outs: map[chan []byte]bool{}})
	defer server.Close()
	v := plan.DefaultVariant(plan.SSE)
	v.Target.URL = server.URL + "/"
	v.Target.Complete()
	v.Load.Subscribers.Connections = 2
	v.Load.Publish = &plan.Publish{Path: "/publish", Size: 100, Form: plan.FormRaw}
	v.Load.Open = plan.DefaultOpen()
	v.Load.Open.Rate, v.Load.Open.MaxConnections = 100, 2
	v.Load.Warmup, v.Load.Window = 100*time.Millisecond, time.Second
	c, _, err := Config(t.Context(), &v, 1)
	if err != nil {
		t.Fatal(err)
	}
	by := []Carrier{Local{}, fast{-wrong}}
	portions, err := Divide(c, by, []int{1000, 1000})
	if err != nil {
		t.Fatal(err)
	}
	result, _, err := Coordinate(t.Context(), &v, 1, c, portions, by)
	if err != nil {
		t.Fatal(err)
	}
	if h := result.Latency[record.Delivery]; h.Count() == 0 || time.Duration(h.Max()) < wrong-time.Millisecond {
		t.Errorf("%d deliveries, of %v at most", h.Count(), time.Duration(h.Max()))
	}
}
