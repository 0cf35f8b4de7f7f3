package echo

import (
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"
)

// webSockets echo the messages of WebSocket connections, which net/http knows no more of.
type webSockets struct {
	upgrader websocket.Upgrader
	messages prometheus.Counter
	limit    int64 // bytes of a message

	mu    sync.Mutex
	open  map[*websocket.Conn]struct{} // nil at the end
	ended sync.WaitGroup
}

func newWebSockets(messages prometheus.Counter, limit int64) *webSockets {
	return &webSockets{messages: messages, limit: limit, open: map[*websocket.Conn]struct{}{}, upgrader: websocket.Upgrader{
		EnableCompression: true,
		CheckOrigin:       func(*http.Request) bool { return true }, // it has no data that a page could be after
	}}
}

// serve echoes until the client closes the connection, or the service ends.
func (s *webSockets) serve(w http.ResponseWriter, r *http.Request) {
	c, err := s.upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // it has answered
	}
	defer c.Close() //nolint:errcheck // it is over
	if !s.add(c) {
		return
	}
	defer s.remove(c)
	c.SetReadLimit(s.limit)
	for {
		kind, message, err := c.ReadMessage()
		if err != nil {
			return // it has answered a close frame, and any other end leaves nothing to do
		}
		if c.WriteMessage(kind, message) != nil {
			return
		}
		s.messages.Inc()
	}
}

// add notes a connection, unless the service ends.
func (s *webSockets) add(c *websocket.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		return false
	}
	s.open[c] = struct{}{}
	s.ended.Add(1)
	return true
}

func (s *webSockets) remove(c *websocket.Conn) {
	s.mu.Lock()
	delete(s.open, c)
	s.mu.Unlock()
	s.ended.Done()
}

// closeTime is how long a client may take to read its close frame.
const closeTime = time.Second

// close closes all connections, and returns when they have ended.
func (s *webSockets) close() {
	s.mu.Lock()
	open := s.open
	s.open = nil
	s.mu.Unlock()
	end := time.Now().Add(closeTime)
	for c := range open {
		_ = c.NetConn().SetDeadline(end) // also of a write to a client that does not read
	}
	for c := range open {
		_ = c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseGoingAway, "the service ends"), end)
	}
	s.ended.Wait()
}
