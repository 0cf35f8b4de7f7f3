package upstream

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"dyno/internal/leak"
	"dyno/internal/pipes"
	"dyno/services/bot/openai"
	"dyno/services/bot/outward"
	"dyno/services/llm"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A bed is a pool of model servers behind pipes: for bubbles, in which time is not the
// machine's.
type bed struct {
	*Pool
	t       testing.TB
	servers map[string]*server
}

// A server is a model server, or what stands in for one.
type server struct {
	*llm.Server
	handler http.HandlerFunc // instead of it, if not nil
	mu      sync.Mutex       // guards what follows
	fault   string
	asked   int
	refuses bool // connections
}

// set has every answer have a fault.
func (s *server) set(fault string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked++
	fault := s.fault
	s.mu.Unlock()
	if fault != "" {
		r.Header.Set(llm.FaultField, fault)
	}
	if s.handler != nil {
		s.handler(w, r)
		return
	}
	s.Handler().ServeHTTP(w, r)
}

// loopback lets tests use addresses that are none of the public's.
var loopback = outward.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}

// inBubble runs a test with a pool of servers a, b, c … of these settings.
func inBubble(t *testing.T, upstreams []Upstream, change func(*Config), configure func(*llm.Config), test func(t *testing.T, b *bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bed{t: t, servers: map[string]*server{}}
		listeners := map[string]*pipes.Listener{}
		var stop []func()
		for i := range upstreams {
			u := &upstreams[i]
			u.Name = string(rune('a' + i))
			u.URL = "http://" + u.Name + ".example:80/v1/"
			if u.Models == nil {
				u.Models = map[string]string{"m": "dyno-1"}
			}
			if u.Weight == 0 {
				u.Weight = 1
			}
			if u.MaxConcurrent == 0 {
				u.MaxConcurrent = 1000
			}
			c := llm.Defaults()
			c.Tokens = 4
			if configure != nil {
				configure(&c)
			}
			m, err := llm.New(c)
			if err != nil {
				t.Fatal(err)
			}
			s := &server{Server: m}
			b.servers[u.Name] = s
			l := pipes.Listen()
			listeners[u.Name+".example:80"] = l
			h := &http.Server{Handler: s} //nolint:gosec // in a test
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = h.Serve(l)
			}()
			stop = append(stop, func() { _ = h.Close(); <-ended })
		}
		transport := &http.Transport{DialContext: func(_ context.Context, _, address string) (net.Conn, error) {
			s := b.servers[strings.TrimSuffix(address, ".example:80")]
			s.mu.Lock()
			refuses := s.refuses
			s.mu.Unlock()
			if refuses {
				return nil, &net.OpError{Op: "dial", Err: net.ErrClosed}
			}
			return listeners[address].Dial()
		}}
		c := Defaults()
		c.Upstreams, c.Transport = upstreams, transport
		if change != nil {
			change(&c)
		}
		var err error
		if b.Pool, err = New(c); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex // guards source
		source := rand.New(rand.NewPCG(1, 0))
		b.random = func(n int64) int64 { // the same each time
			mu.Lock()
			defer mu.Unlock()
			return source.Int64N(n)
		}
		test(t, b)
		transport.CloseIdleConnections()
		for _, f := range stop {
			f()
		}
		for _, s := range b.States() {
			if s.Active != 0 {
				t.Errorf("%s: %d calls under way at the end", s.Name, s.Active)
			}
		}
	})
}

// ask asks for an answer of model m.
func ask(t testing.TB, stream bool) *openai.Request {
	t.Helper()
	r, err := openai.Standard().NewChat("m", []openai.Message{{Role: "user", Content: "hello there"}}, stream, 0)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// read reads a stream to its end.
func read(s *Stream) (text string, err error) {
	defer s.Close()
	for {
		e, err := s.Next()
		if err != nil {
			return text, err
		}
		for _, d := range e.Deltas {
			text += d.Text
		}
	}
}
