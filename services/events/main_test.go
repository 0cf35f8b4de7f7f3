package events

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"dyno/internal/leak"
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

// A bed is a hub that serves.
type bed struct {
	*Hub
	t      testing.TB
	dial   func() (net.Conn, error)
	client *http.Client
	url    string // where another server has the handler
	stop   context.CancelFunc
	ended  chan struct{}
}

// serving runs a hub on a real socket until the test ends.
func serving(t testing.TB, change func(*Config)) *bed {
	t.Helper()
	c := Defaults()
	c.Listen = "127.0.0.1:0"
	c.DrainTimeout = 0
	if change != nil {
		change(&c)
	}
	h, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Listen(); err != nil {
		t.Fatal(err)
	}
	return start(t, h, func() (net.Conn, error) { return net.Dial(h.Addr().Network(), h.Addr().String()) })
}

// piped runs a hub whose connections are pipes, which have no buffer: what a client
// does not read is not written. It is for bubbles, in which time is not the machine's.
func piped(t testing.TB, change func(*Config)) *bed {
	t.Helper()
	c := Defaults()
	c.Listen = "127.0.0.1:0"
	c.HTTP2 = false
	c.EventLoop = false // it waits for the kernel, and pipes are not the kernel's
	c.DrainTimeout = 0
	if change != nil {
		change(&c)
	}
	h, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	h.attach(l)
	return start(t, h, l.dial)
}

func start(t testing.TB, h *Hub, dial func() (net.Conn, error)) *bed {
	ctx, cancel := context.WithCancel(context.Background())
	b := &bed{Hub: h, t: t, dial: dial, stop: cancel, ended: make(chan struct{})}
	b.client = &http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return dial() },
	}}
	go func() {
		defer close(b.ended)
		if err := h.Serve(ctx); err != nil {
			t.Errorf("Serve: %v", err)
		}
	}()
	t.Cleanup(b.end)
	return b
}

func (b *bed) end() {
	b.stop()
	b.client.CloseIdleConnections()
	<-b.ended
}

// pipeListener accepts pipes.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) dial() (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// An event is one as a client reads it.
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

// next reads an event, or a retry field or a comment by itself. It returns false at the end of
// the stream.
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

// want reads the next event, past retries, and compares what is not empty in it.
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

// form publishes as the protocol has it and returns the ID.
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

// ladder sets how far up a hub is, from the baseline on.
func (c *Config) ladder(step int) {
	c.PooledBuffers, c.EncodeOnce, c.SingleWrite, c.Hijack, c.EventLoop = step > 0, step > 1, step > 2, step > 3, step > 5
	if step > 4 {
		on := true
		c.NoDelay, c.SendBuffer = &on, 64<<10
		c.KeepAlive = KeepAlive{time.Minute, 10 * time.Second, 3}
	}
}

// A step is a way of delivering, as a configuration.
type step struct {
	name string
	set  func(*Config)
}

// steps are all of them, goroutineSteps those that need no connection of the system's.
var (
	goroutineSteps = []step{
		{"baseline", func(c *Config) { c.ladder(0) }},
		{"pooled", func(c *Config) { c.ladder(1) }},
		{"encoded once", func(c *Config) { c.ladder(2) }},
		{"single write", func(c *Config) { c.ladder(3) }},
		{"hijacked", func(c *Config) { c.ladder(4) }},
		{"socket options", func(c *Config) { c.ladder(5) }},
	}
	steps = append(goroutineSteps, step{"event loop", func(c *Config) { c.ladder(6) }})
)

// pipeModes are the two kinds of connection that a goroutine serves, modes all three.
var (
	pipeModes = []step{
		{"behind net/http", func(c *Config) { c.Hijack, c.EventLoop = false, false }},
		{"hijacked", func(c *Config) { c.EventLoop = false }},
	}
	modes = append(pipeModes, step{"event loop", func(*Config) {}})
)

// inModes runs a test in each mode, on real sockets.
func inModes(t *testing.T, test func(t *testing.T, set func(*Config))) {
	t.Helper()
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) { test(t, mode.set) })
	}
}
