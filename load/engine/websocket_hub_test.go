package engine_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"dyno/load/engine"
	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/load/engine/subscribe"
	"dyno/load/options"
	"dyno/load/pace"
	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/tlslayer"
	ours "dyno/load/wire/websocket"
)

// A socketHub passes what is published to a topic on to its subscribers. It greets, and wants a login first.
type socketHub struct {
	queue int // messages that may wait for a subscriber; 0: who publishes waits for all subscribers

	mu                             sync.Mutex
	topics                         map[string][]*hubSubscriber
	published, delivered, overruns atomic.Uint64
	late                           atomic.Uint64 // messages before the login
	farewells                      atomic.Uint64 // closes of those that are too slow, which they have answered
}

type hubSubscriber struct {
	c       *websocket.Conn
	waiting chan []byte   // nil without a queue
	overrun chan struct{} // closed when it is too slow
	once    sync.Once
	left    chan struct{} // closed when it is gone
}

// A hubMessage is what the hub is sent.
type hubMessage struct{ Type, Topic, Data, ID string }

func (h *socketHub) serve(s *socketServer, c *websocket.Conn) error {
	if err := c.WriteMessage(websocket.TextMessage, []byte("who are you?")); err != nil {
		return err
	}
	loggedIn, left := false, make(chan struct{})
	defer close(left)
	for {
		var m hubMessage
		kind, text, err := c.ReadMessage()
		if websocket.IsCloseError(err, 1013) {
			h.farewells.Add(1)
		}
		if err != nil {
			return err
		}
		s.messages.Add(1)
		if err := json.Unmarshal(text, &m); err != nil {
			return err
		}
		if !loggedIn && m.Type != "login" {
			h.late.Add(1)
		}
		switch m.Type {
		case "login":
			loggedIn = true
			err = c.WriteMessage(kind, []byte("welcome"))
		case "subscribe":
			err = h.subscribe(s, c, m.Topic, left)
		case "publish":
			h.published.Add(1)
			h.publish(m.Topic, text)
			if m.ID != "" {
				err = c.WriteMessage(kind, fmt.Appendf(nil, `{"type": "ack", "id": %q}`, m.ID))
			}
		}
		if err != nil {
			return err
		}
	}
}

func (h *socketHub) subscribe(s *socketServer, c *websocket.Conn, topic string, left chan struct{}) error {
	sub := &hubSubscriber{c: c, overrun: make(chan struct{}), left: left}
	if h.queue > 0 {
		sub.waiting = make(chan []byte, h.queue)
		s.handlers.Go(func() { h.pass(sub) })
	}
	if h.queue > 0 {
		under := c.NetConn()
		if secured, ok := under.(*tls.Conn); ok {
			under = secured.NetConn()
		}
		_ = under.(*net.TCPConn).SetWriteBuffer(8 << 10) // so that the hub notices soon
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.topics[topic] = append(h.topics[topic], sub)
	return c.WriteMessage(websocket.TextMessage, []byte("subscribed"))
}

// publish passes a message on. It keeps the order of each topic.
func (h *socketHub) publish(topic string, text []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, sub := range h.topics[topic] {
		if sub.waiting == nil {
			if sub.c.WriteMessage(websocket.TextMessage, text) == nil {
				h.delivered.Add(1)
			}
			continue
		}
		select {
		case sub.waiting <- text:
		default:
			sub.once.Do(func() { close(sub.overrun) })
		}
	}
}

// pass writes what waits for a subscriber, and closes the connection of one that is too slow.
func (h *socketHub) pass(sub *hubSubscriber) {
	for {
		select {
		case <-sub.overrun:
			h.overruns.Add(1)
			_ = sub.c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(1013, "too slow"), time.Now().Add(hang))
			if tcp, ok := sub.c.NetConn().(*net.TCPConn); ok {
				_ = tcp.CloseWrite() // the answer is still read
			}
			return
		default:
		}
		select {
		case <-sub.left:
			return
		case <-sub.overrun:
		case text := <-sub.waiting:
			if sub.c.WriteMessage(websocket.TextMessage, text) != nil {
				return
			}
			h.delivered.Add(1)
		}
	}
}

// hubStreams and hubPublishers are dyno's side of a hub.
func hubStreams(t *testing.T, d ours.Dial, topics int) func(int) func(int) wire.Stream {
	t.Helper()
	return func(int) func(int) wire.Stream {
		return func(subscriber int) wire.Stream {
			topic, own := subscriber%topics, d
			own.First = append(slices.Clone(d.First), ours.Message{Text: fmt.Appendf(nil, `{"type": "subscribe", "topic": "%d"}`, topic)})
			template, err := ours.NewStreamTemplate(ours.StreamConfig{Dial: own, Topics: []int{topic}})
			if err != nil {
				panic(err)
			}
			return template.Stream()
		}
	}
}

func hubPublishers(t *testing.T, d ours.Dial, workers int, message string, size int, topics ...string) func(int) func() wire.Mux {
	t.Helper()
	return func(worker int) func() wire.Mux {
		template, err := ours.NewPublisherTemplate(ours.PublisherConfig{
			Dial: d, Message: ours.Message{Text: []byte(message)}, Topics: topics, Size: size,
			Number: uint32(worker), Step: uint32(workers), //nolint:gosec // few
		})
		if err != nil {
			panic(err)
		}
		return func() wire.Mux { return template.Publisher() }
	}
}

const (
	hubPublish = `{"type": "publish", "topic": "{topic}", "data": "{data}"}`
	hubAsk     = `{"type": "publish", "id": "{id}", "topic": "{topic}", "data": "{data}"}`
)

// startHub starts a hub. What connects to it logs in first.
func startHub(t *testing.T, h *socketHub, secure bool) (*socketServer, config.Config, ours.Dial) {
	t.Helper()
	h.topics = map[string][]*hubSubscriber{}
	s := serveSockets(t, secure, h.serve)
	address := s.Listener.Addr().String()
	c := config.Config{Address: address, Streams: 1, Window: 300 * time.Millisecond, Drain: hang}
	if secure {
		c.TLS = &tlslayer.Config{ServerName: "127.0.0.1", Insecure: true, ALPN: []string{"http/1.1"}}
	}
	return s, c, ours.Dial{
		Request: http1.Request{Target: "/", Host: address}, Greetings: 1, First: []ours.Message{{Text: []byte(`{"type": "login"}`)}},
	}
}

// TestSocketPublishers: what publishers send over WebSocket reaches the subscribers, as often as the hub counts.
func TestSocketPublishers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		secure, open bool
		http2        bool // through HAProxy
		message      string
	}{
		{name: "closed loop", message: hubPublish},
		{name: "open loop", open: true, message: hubPublish},
		{name: "over TLS", secure: true, message: hubPublish},
		{name: "open loop over TLS, acknowledged", secure: true, open: true, message: hubAsk},
		{name: "acknowledged", message: hubAsk},
		{name: "over HTTP/2", http2: true, message: hubPublish},
		{name: "over HTTP/2 and TLS, acknowledged", http2: true, secure: true, message: hubAsk},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			const subscribers, publishers, topics = 6, 3, 2
			h := &socketHub{}
			s, c, d := startHub(t, h, tt.secure && !tt.http2)
			if tt.http2 {
				at := haproxy(t, c.Address, true)
				c.Address, d.HTTP2 = at[0], true
				if tt.secure {
					c.Address, c.TLS, d.Scheme = at[1], &tlslayer.Config{ServerName: "127.0.0.1", Insecure: true, ALPN: []string{"h2"}}, "https"
				}
			}
			c.Threads, c.Connections = options.Threads{Workers: 2}, publishers
			c.NewMuxes = hubPublishers(t, d, 2, tt.message, 80, "0", "1")
			c.Subscribers = &subscribe.Config{Count: subscribers, NewStreams: hubStreams(t, d, topics)}
			if tt.open {
				c.Schedule = poisson(t, 500)
			} else {
				c.Think = pace.Think{Constant: time.Millisecond}
			}
			r := run(t, c)
			s.handlers.Wait()
			published, got := h.published.Load(), r.Streams
			if r.AllCounts.OK == 0 || r.AllCounts.OK != published || len(r.Failures) > 0 || r.AllCounts.Sent != r.AllCounts.OK {
				t.Errorf("%+v, failures %v; the hub counts %d", r.AllCounts, r.Failures, published)
			}
			if want := h.delivered.Load(); want != published*subscribers/topics || got.AllDelivered != want || got.Lost+got.Repeated+got.Disordered+got.Unstamped+got.Untracked+got.Uncertain+got.Pending > 0 {
				t.Errorf("%+v; the hub has delivered %d of %d", got, want, published)
			}
			opened := int64(r.Connections.Opened)                                                           //nolint:gosec // few
			if n := uint64(s.messages.Load() - opened); n != published+2*subscribers || h.late.Load() > 0 { //nolint:gosec // a count
				t.Errorf("the hub has got %d messages, %d of them before the login", n, h.late.Load())
			}
			if !tt.open && opened != publishers || s.closed.Load() != subscribers+opened {
				t.Errorf("%d connections opened, %d ended in order", opened, s.closed.Load())
			}
		})
	}
}

// TestSocketPublisherRefused: what was published on a connection that the hub closes may have been published or not.
func TestSocketPublisherRefused(t *testing.T) {
	t.Parallel()
	s := serveSockets(t, false, func(_ *socketServer, c *websocket.Conn) error {
		if _, _, err := c.ReadMessage(); err != nil {
			return err
		}
		return c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(1008, "no"), time.Now().Add(hang))
	})
	address := s.Listener.Addr().String()
	d := ours.Dial{Request: http1.Request{Target: "/", Host: address}}
	r := run(t, config.Config{
		Address: address, Window: 200 * time.Millisecond, Connections: 1, MaxBackoff: time.Millisecond,
		NewMuxes: hubPublishers(t, d, 1, `{"id": "{id}", "data": "{data}"}`, 50, "0"),
		Subscribers: &subscribe.Config{Count: 1, NewStreams: func(int) func(int) wire.Stream {
			template, err := ours.NewStreamTemplate(ours.StreamConfig{Dial: d})
			if err != nil {
				panic(err)
			}
			return func(int) wire.Stream { return template.Stream() }
		}},
	})
	const why = "reset: the server closed the connection by code 1008 (policy violation): no"
	if r.Failures[why] == 0 || r.AllCounts.OK > 0 || r.Streams.Uncertain != r.AllCounts.Sent || r.Streams.Lost > 0 {
		t.Errorf("%+v, %v, %+v", r.AllCounts, r.Failures, r.Streams)
	}
}

// TestSocketSlowSubscribers: the hub closes the connections of those that read too slowly, and they say why. The others
// miss nothing.
func TestSocketSlowSubscribers(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		h := &socketHub{queue: 400}
		s, c, d := startHub(t, h, secure)
		ctx, cancel := context.WithTimeout(t.Context(), hang)
		since := 0 // intervals
		c.Window, c.Connections, c.Think = hang, 1, pace.Think{Constant: time.Millisecond}
		c.Intervals = record.Intervals{Interval: 20 * time.Millisecond, OnInterval: func(record.Interval) {
			if h.farewells.Load() == 2 {
				since++
			}
			if since == 5 {
				cancel()
			}
		}}
		c.NewMuxes = hubPublishers(t, d, 1, hubPublish, 2000, "0")
		c.Subscribers = &subscribe.Config{
			Count: 4, Slow: 2, SlowRate: 40_000, NewStreams: hubStreams(t, d, 1), Backoff: options.Backoff{MinBackoff: time.Minute},
		}
		r, err := engine.Run(ctx, c)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		s.handlers.Wait()
		const why = "reset: the server closed the connection by code 1013 (try again later): too slow"
		if got := r.Streams; got.Slow.Opened != 2 || got.Slow.Ended != 2 || got.Failures[why] != 2 || h.overruns.Load() != 2 || got.Slow.Delivered == 0 || got.Broken+got.Ended+got.Lost > 0 || got.AllDelivered == 0 {
			t.Errorf("secure %t: %+v; the hub has closed %d", secure, got, h.overruns.Load())
		}
	}
}
