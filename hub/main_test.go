package hub

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/prometheus/client_golang/prometheus"

	"dyno/internal/leak"
	"dyno/internal/pipes"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(victimFile); path != "" {
		runVictim(path)
		return
	}
	leak.Main(m)
}

// secret is the key of all tokens in these tests.
const secret = "0123456789abcdef0123456789abcdef"

func hs256() *Key { return &Key{Method: "HS256", Material: []byte(secret)} }

// sign returns a token with these claims.
func sign(t testing.TB, c jwt.MapClaims) string {
	t.Helper()
	text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, c).SignedString([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// grant returns a token for topics of one kind: publish or subscribe.
func grant(t testing.TB, kind string, topics ...string) string {
	t.Helper()
	return sign(t, jwt.MapClaims{"mercure": map[string][]string{kind: topics}})
}

// A bed is a hub with a server around it.
type bed struct {
	*Hub
	t      testing.TB
	dial   func() (net.Conn, error)
	client *http.Client
	url    string // where another server has the handler
	server *http.Server
	ended  chan struct{}
	ending sync.Once
}

// newHub makes a hub with metrics, to which anybody may publish unless there is a key.
func newHub(t testing.TB, change func(*Config)) *Hub {
	t.Helper()
	c := Defaults()
	c.Registerer = prometheus.NewRegistry()
	if change != nil {
		change(&c)
	}
	c.AnonymousPublish = c.AnonymousPublish || c.PublisherKey == nil
	h, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// newServer is a server around a hub, with all the hub's hooks.
func newServer(h *Hub, http2 bool) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(http2)
	return &http.Server{
		Handler: h.Handler(), ConnState: h.ConnState, ConnContext: h.ConnContext, Protocols: protocols,
		ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0),
	}
}

// serving runs a hub on a real socket until the test ends.
func serving(t testing.TB, change func(*Config)) *bed {
	t.Helper()
	return servingOn(t, listen(t, "tcp", "127.0.0.1:0"), newHub(t, change))
}

// servingOn runs a hub on that socket until the test ends.
func servingOn(t testing.TB, l net.Listener, h *Hub) *bed {
	t.Helper()
	return start(t, h, l, newServer(h, true), func() (net.Conn, error) { return net.Dial(l.Addr().Network(), l.Addr().String()) })
}

func listen(t testing.TB, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// piped runs a hub whose connections are pipes, which have no buffer: bytes that a client
// does not read are not written. It is for synctest bubbles, whose time is not the
// machine's.
func piped(t testing.TB, change func(*Config)) *bed {
	t.Helper()
	h := newHub(t, func(c *Config) {
		c.EventLoop = false // it waits for the kernel, and pipes are not the kernel's
		if change != nil {
			change(c)
		}
	})
	l := pipes.Listen()
	return start(t, h, l, newServer(h, false), l.Dial)
}

func start(t testing.TB, h *Hub, l net.Listener, server *http.Server, dial func() (net.Conn, error)) *bed {
	b := &bed{Hub: h, t: t, dial: dial, server: server, ended: make(chan struct{})}
	b.client = &http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return dial() },
	}}
	go func() {
		defer close(b.ended)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
	}()
	t.Cleanup(b.end)
	return b
}

// end ends the hub as a server does that has no time for it.
func (b *bed) end() {
	b.ending.Do(func() {
		late, cancel := context.WithCancel(context.Background())
		cancel()
		_ = b.server.Shutdown(late) // which its error says
		b.Drain(late, 0)
		b.client.CloseIdleConnections()
		if err := errors.Join(b.server.Close(), b.Close()); err != nil {
			b.t.Error(err)
		}
		<-b.ended
	})
}

// An event is an event as a client reads it.
type event struct{ ID, Type, Data, Retry, Comment string }

// A stream is a client's side of a subscription, over a connection of its own.
type stream struct {
	t    testing.TB
	conn net.Conn
	resp *http.Response
	body *bufio.Reader
}

// subscribe asks for a stream and reads the head of the answer.
func (b *bed) subscribe(query string, header ...string) *stream {
	b.t.Helper()
	conn, err := b.dial()
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close() })
	var head strings.Builder
	fmt.Fprintf(&head, "GET /.well-known/mercure?%s HTTP/1.1\r\nHost: hub\r\n", query)
	for _, field := range header {
		head.WriteString(field + "\r\n")
	}
	if _, err := io.WriteString(conn, head.String()+"\r\n"); err != nil {
		b.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return &stream{t: b.t, conn: conn, resp: resp, body: bufio.NewReader(resp.Body)}
}

// next reads an event, or a retry field or a comment by itself. It returns false at the
// end of the stream.
func (s *stream) next() (e event, ok bool) {
	s.t.Helper()
	var data []string
	for {
		line, err := s.body.ReadString('\n')
		if err != nil {
			if line != "" {
				s.t.Logf("cut after %.50q", line)
			}
			return event{}, false
		}
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			e.Data = strings.Join(data, "\n")
			return e, true
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "":
			return event{Comment: "heartbeat" + value}, true
		case "id":
			e.ID = value
		case "event":
			e.Type = value
		case "data":
			data = append(data, value)
		case "retry":
			if e.Retry = value; e.ID == "" {
				return e, true // not of an event, whose ID comes first
			}
		default:
			s.t.Errorf("unknown field in %q", line)
		}
	}
}

// want reads the next event, skipping retries, and compares the fields of its argument
// that are not empty.
func (s *stream) want(want event) event {
	s.t.Helper()
	got, ok := s.next()
	for ok && got.Retry != "" && got.ID == "" {
		got, ok = s.next()
	}
	if !ok {
		s.t.Fatalf("the stream ended before %+v", want)
	}
	if got.Data != want.Data || got.Type != want.Type || want.ID != "" && got.ID != want.ID || want.Retry != "" && got.Retry != want.Retry || got.Comment != want.Comment {
		s.t.Fatalf("got %+v, want %+v", got, want)
	}
	return got
}

// post sends a body and returns the status and the answer.
func (b *bed) post(path, kind, body string, header ...string) (int, string) {
	b.t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://hub"+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	for _, field := range header {
		name, value, _ := strings.Cut(field, ": ")
		req.Header.Set(name, value)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// form publishes with a form, as in the protocol, and returns the ID.
func (b *bed) form(fields url.Values, header ...string) string {
	b.t.Helper()
	status, text := b.post(pathMercure, "application/x-www-form-urlencoded", fields.Encode(), header...)
	if status != http.StatusOK {
		b.t.Fatalf("publish: %d %s", status, text)
	}
	return text
}

// say publishes without HTTP.
func (b *bed) say(topic, data string) string {
	b.t.Helper()
	id, err := b.Publish(context.Background(), Update{Topics: []string{topic}, Data: []byte(data)})
	if err != nil {
		b.t.Fatal(err)
	}
	return id
}

// until waits for a subscriber's arrival or departure to make ok true.
func (b *bed) until(ok func(Stats) bool) {
	b.t.Helper()
	for {
		departed := b.departed.wait()
		if ok(b.Stats()) {
			return
		}
		<-departed
	}
}

// withSocketOptions sets all of them.
func (c *Config) withSocketOptions() {
	on := true
	c.NoDelay, c.SendBuffer = &on, 64<<10
	c.KeepAlive = KeepAlive{time.Minute, 10 * time.Second, 3}
}

// A mode is a way of delivering, as a change of a configuration.
type mode struct {
	name string
	set  func(*Config)
}

// pipeModes are the two kinds of connection that a goroutine serves, modes all three.
var (
	pipeModes = []mode{
		{"within net/http", func(c *Config) { c.Hijack, c.EventLoop = false, false }},
		{"hijacked", func(c *Config) { c.EventLoop = false }},
	}
	modes = append(pipeModes, mode{"event loop", func(*Config) {}})
)

// inModes runs a test in each mode, on real sockets.
func inModes(t *testing.T, test func(t *testing.T, set func(*Config))) {
	t.Helper()
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) { test(t, mode.set) })
	}
}
