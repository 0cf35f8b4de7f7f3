package engine_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"dyno/load/engine"
	"dyno/load/engine/config"
	"dyno/load/engine/users"
	"dyno/load/options"
	"dyno/load/scenario"
	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/tlslayer"
	ours "dyno/load/wire/websocket"
)

// A socketServer is gorilla's WebSocket server. It counts what it sees.
type socketServer struct {
	*httptest.Server
	upgrader websocket.Upgrader

	accepted, messages, closed, pongs atomic.Int64
	handlers                          handlers
}

// handlers waits for those that have begun. A sync.WaitGroup must not be waited for while the first one begins, which
// only the connection tells.
type handlers struct {
	mu    sync.Mutex
	under int
	ended sync.Cond
}

func (h *handlers) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.under++
}

func (h *handlers) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.under--
	h.ended.Broadcast()
}

// Go calls f, which the wait is for, too.
func (h *handlers) Go(f func()) {
	h.begin()
	go func() {
		defer h.end()
		f()
	}()
}

func (h *handlers) Wait() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.under > 0 {
		h.ended.Wait()
	}
}

func serveSockets(t testing.TB, secure bool, handle func(s *socketServer, c *websocket.Conn) error) *socketServer {
	t.Helper()
	s := &socketServer{upgrader: websocket.Upgrader{EnableCompression: true, CheckOrigin: func(*http.Request) bool { return true }}}
	s.handlers.ended.L = &s.handlers.mu
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.handlers.begin() // before the client can be told
		defer s.handlers.end()
		c, err := s.upgrader.Upgrade(w, r, nil)
		if err != nil {
			return // it has answered
		}
		defer c.Close() //nolint:errcheck // it is over
		s.accepted.Add(1)
		c.SetPongHandler(func(string) error { s.pongs.Add(1); return nil })
		if err := handle(s, c); websocket.IsCloseError(err, websocket.CloseNormalClosure) {
			s.closed.Add(1)
		}
	}))
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(func() {
		s.Close()
		s.handlers.Wait()
	})
	return s
}

// echoSockets sends each message back, after a ping for each tenth one.
func echoSockets(s *socketServer, c *websocket.Conn) error {
	for {
		kind, message, err := c.ReadMessage()
		if err != nil {
			return err
		}
		if s.messages.Add(1)%10 == 0 {
			if err := c.WriteControl(websocket.PingMessage, []byte("p"), time.Now().Add(time.Minute)); err != nil {
				return err
			}
		}
		if err := c.WriteMessage(kind, message); err != nil {
			return err
		}
	}
}

// socketMuxes makes muxes that send messages to a server.
func socketMuxes(t testing.TB, s *socketServer, c ours.Config) func(int) func() wire.Mux {
	t.Helper()
	_, host, _ := strings.Cut(s.URL, "://")
	c.Request = http1.Request{Target: "/", Host: host}
	if _, err := ours.NewTemplate(c); err != nil {
		t.Fatal(err)
	}
	return func(int) func() wire.Mux {
		template, err := ours.NewTemplate(c)
		if err != nil {
			panic(err)
		}
		return func() wire.Mux { return template.Mux() }
	}
}

// TestSockets: messages over WebSocket are answered, as many as the server counts, and connections end in order.
func TestSockets(t *testing.T) {
	for _, tt := range []struct {
		name        string
		secure      bool
		codec       ours.Config
		open        bool
		exchanges   int
		connections int
	}{
		{name: "closed loop", codec: ours.Config{Payload: 100}, exchanges: 1, connections: 5},
		{name: "large and compressed", codec: ours.Config{Dial: ours.Dial{Compress: true}, Payload: 100_000}, exchanges: 1, connections: 2},
		{name: "several at once, by id", codec: ours.Config{Messages: []ours.Message{{Text: []byte("{id}"), ByID: true}}, Exchanges: 8}, exchanges: 8, connections: 2},
		{name: "open loop", codec: ours.Config{Payload: 10}, open: true, exchanges: 1, connections: 7},
		{name: "over TLS", secure: true, codec: ours.Config{Payload: 100}, exchanges: 1, connections: 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serveSockets(t, tt.secure, echoSockets)
			_, address, _ := strings.Cut(s.URL, "://")
			c := config.Config{
				Address: address, Connections: tt.connections, Streams: tt.exchanges, Standing: true, Requests: 500,
				NewMuxes: socketMuxes(t, s, tt.codec), Window: time.Minute,
			}
			if tt.open {
				c.Schedule = poisson(t, 1000)
			}
			if tt.secure {
				c.TLS = &tlslayer.Config{ServerName: "127.0.0.1", Insecure: true, ALPN: []string{"http/1.1"}}
			}
			r := run(t, c)
			s.handlers.Wait()
			if r.Counts.OK < 500 || len(r.Failures) > 0 || int64(r.AllCounts.OK) != s.messages.Load() || len(r.Status) > 0 {
				t.Errorf("%+v, failures %v, statuses %v; the server counts %d", r.AllCounts, r.Failures, r.Status, s.messages.Load())
			}
			if n := int64(tt.connections); s.accepted.Load() != n || s.closed.Load() != n || int64(r.Connections.Opened) != n {
				t.Errorf("%d accepted, %d ended by a close frame; want %d", s.accepted.Load(), s.closed.Load(), n)
			}
			if s.pongs.Load() == 0 {
				t.Error("no ping is answered")
			}
		})
	}
}

// TestSocketsClose: a server's close ends its connection, and the message that waits for an answer, with its reason.
func TestSocketsClose(t *testing.T) {
	s := serveSockets(t, false, func(s *socketServer, c *websocket.Conn) error {
		for {
			if _, _, err := c.ReadMessage(); err != nil {
				return err
			}
			if s.messages.Add(1)%3 == 0 {
				return c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(1013, "busy"), time.Now().Add(time.Minute))
			}
			if err := c.WriteMessage(websocket.TextMessage, []byte("yes")); err != nil {
				return err
			}
		}
	})
	_, address, _ := strings.Cut(s.URL, "://")
	r := run(t, config.Config{
		Address: address, Connections: 1, Streams: 1, Standing: true, Requests: 30, Window: time.Minute,
		NewMuxes: socketMuxes(t, s, ours.Config{Messages: []ours.Message{{Text: []byte("ask")}}}),
	})
	const why = "reset: the server closed the connection by code 1013 (try again later): busy"
	if n := r.Failures[why]; n < 9 || r.Counts.OK < 19 || r.Connections.Opened < 10 {
		t.Errorf("%+v, %v, %d connections", r.Counts, r.Failures, r.Connections.Opened)
	}
}

// TestSocketsRefused: a handshake that is refused says so.
func TestSocketsRefused(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	_, address, _ := strings.Cut(s.URL, "://")
	_, err := engine.Run(t.Context(), config.Config{
		Address: address, Connections: 1, Streams: 1, Standing: true, Requests: 2, Window: time.Minute,
		NewMuxes: socketMuxes(t, &socketServer{Server: s}, ours.Config{}),
	})
	if err == nil || !strings.HasSuffix(err.Error(), "status: the server answered the handshake by status 404: 404 page not found") {
		t.Error(err)
	}
}

// converse is a server of users: it greets, answers with news in between, and closes when it is told to.
func converse(s *socketServer, c *websocket.Conn) error {
	for {
		kind, message, err := c.ReadMessage()
		if err != nil {
			return err
		}
		s.messages.Add(1)
		switch text := string(message); text {
		case "quiet":
		case "bye":
			return c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(4001, "as asked"), time.Now().Add(time.Minute))
		default:
			for _, answer := range []string{"news", "re: " + text} {
				if err := c.WriteMessage(kind, []byte(answer)); err != nil {
					return err
				}
			}
		}
	}
}

// socketScript is a scenario of steps without conditions.
func socketScript(t *testing.T, steps int) *scenario.Scenario {
	t.Helper()
	var spec scenario.Spec
	for i := range steps {
		spec.Steps = append(spec.Steps, scenario.Step{Name: fmt.Sprintf("step%d", i), Path: "/"})
	}
	script, err := scenario.Compile(&spec, scenario.Protocol{Request: func(st *scenario.Step) (scenario.StepRequest, error) {
		return scenario.StepRequest{Path: st.Path, Status: []scenario.StatusRange{{First: -1, Last: 4999}}}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return script
}

// TestSocketUsers: users have a connection each, which a step opens, and which is opened again.
func TestSocketUsers(t *testing.T) {
	answers := func(message, _ []byte) bool { return strings.HasPrefix(string(message), "re: ") }
	for _, tt := range []struct {
		name   string
		steps  []ours.Step // after the one that opens the connection
		codes  map[int]bool
		arrive bool
	}{
		{name: "kept", steps: []ours.Step{{Text: []byte("ask"), Until: answers}, {Kind: ours.Send, Text: []byte("quiet")}, {Kind: ours.Ping}}, codes: map[int]bool{101: true}},
		{name: "closed by the user", steps: []ours.Step{{Text: []byte("ask"), Until: answers, Collect: true}, {Kind: ours.Close, Code: 1000}}, codes: map[int]bool{101: true, 1000: true}},
		{name: "closed by the server", steps: []ours.Step{{Kind: ours.Send, Text: []byte("bye")}, {Kind: ours.Closed}}, codes: map[int]bool{101: true, 4001: true}, arrive: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serveSockets(t, false, converse)
			_, address, _ := strings.Cut(s.URL, "://")
			open := ours.Step{Kind: ours.Open, Request: http1.Request{Target: "/", Host: address}}
			codec := ours.SessionConfig{Dial: ours.Dial{Request: open.Request}, Steps: append([]ours.Step{open}, tt.steps...)}
			c := config.Config{
				Address: address, Connections: 4, Owned: true, Threads: options.Threads{Workers: 2}, Window: time.Minute, Requests: 60 * uint64(len(codec.Steps)), Users: &users.Config{Scenario: socketScript(t, len(codec.Steps))},
				NewMuxes: func(int) func() wire.Mux {
					template, err := ours.NewSessionTemplate(codec)
					if err != nil {
						panic(err)
					}
					return func() wire.Mux { return template.Session() }
				},
			}
			if tt.arrive {
				c.Schedule = poisson(t, 1000)
			}
			r, err := engine.Run(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			s.handlers.Wait()
			// At the end, a user may have opened a connection for the next step.
			if n := int64(r.Connections.Opened); len(r.Failures) > 0 || r.AllCounts.OK != r.AllCounts.Sent || r.AllCounts.Scheduled < c.Requests || n < s.accepted.Load() || n > s.accepted.Load()+4 {
				t.Errorf("%+v, failures %v, %d opened; the server counts %d connections", r.AllCounts, r.Failures, r.Connections.Opened, s.accepted.Load())
			}
			for code := range r.Status {
				if !tt.codes[code] {
					t.Errorf("statuses %v", r.Status)
				}
			}
			if asks := tt.steps[0].Until != nil; asks != (r.Connections.Pushed > 0) {
				t.Errorf("%d messages that nobody awaited", r.Connections.Pushed)
			}
		})
	}
}
