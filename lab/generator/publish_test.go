package generator

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"dyno/lab/plan"
)

// A hub passes messages over WebSocket on to the subscribers of their topic, and counts.
type hub struct {
	mu                   sync.Mutex
	topics               map[string][]*websocket.Conn
	published, delivered uint64
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, err := new(websocket.Upgrader).Upgrade(w, r, nil)
	if err != nil {
		return // it has answered
	}
	defer c.Close() //nolint:errcheck // it is over
	for {
		var m struct{ Subscribe, Publish, Login, Data string }
		_, text, err := c.ReadMessage()
		if err != nil || json.Unmarshal(text, &m) != nil {
			return
		}
		h.take(c, m.Subscribe, m.Publish, text)
	}
}

func (h *hub) take(c *websocket.Conn, subscribe, publish string, text []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case publish != "":
		h.published++
		for _, s := range h.topics[publish] {
			if s.WriteMessage(websocket.TextMessage, text) == nil {
				h.delivered++
			}
		}
	case subscribe != "":
		h.topics[subscribe] = append(h.topics[subscribe], c)
	default:
		_ = c.WriteMessage(websocket.TextMessage, []byte("welcome"))
	}
}

// What is published over WebSocket reaches subscribers in several processes as often as the hub counts. Only the first
// process publishes.
func TestPartsArePublishedTo(t *testing.T) {
	h := &hub{topics: map[string][]*websocket.Conn{}}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	v := plan.DefaultVariant(plan.WS)
	v.Target.URL = s.URL + "/"
	v.Target.Complete()
	v.Load.Subscribers = plan.DefaultSubscribers()
	v.Load.Subscribers.Connections, v.Load.Subscribers.Topics, v.Load.Subscribers.Message = 24, 2, `{"subscribe": "{topic}"}`
	v.Load.WebSocket.First = []string{`{"login": "me"}`}
	v.Load.Publish = &plan.Publish{Message: `{"publish": "{topic}", "data": "{data}"}`, Size: 100, Form: plan.FormRaw}
	v.Load.Closed = &plan.Closed{Connections: 2}
	v.Load.Closed.Think.Constant = 5 * time.Millisecond
	v.Load.Warmup, v.Load.Window = 100*time.Millisecond, 500*time.Millisecond
	c, _, err := Config(t.Context(), &v, 1)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), &v, 1, c, inOrder([]int{14, 10}))
	if err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.AllCounts.OK == 0 || r.AllCounts.OK != h.published || r.AllCounts.Sent != h.published {
		t.Errorf("%+v; the hub counts %d", r.AllCounts, h.published)
	}
	// A subscription is in force some time after it was sent: what was published before is lost to that subscriber.
	if got := r.Streams; got.Opened != 24 || got.AllDelivered != h.delivered || got.AllDelivered+got.Lost != 12*h.published || got.Repeated+got.Disordered+got.Uncertain+got.Pending+got.Unstamped > 0 {
		t.Errorf("%+v; the hub has delivered %d of %d", got, h.delivered, h.published)
	}
}
