package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// These tests run every mode on real sockets. What needs exact times is in
// queue_test.go, on pipes, and in package fanout.

// small makes the kernel hold little of a TCP stream, at either end.
func small(b *bed) {
	dial := b.dial
	b.dial = func() (net.Conn, error) {
		c, err := dial()
		if err != nil {
			return nil, err
		}
		return c, c.(*net.TCPConn).SetReadBuffer(4 << 10)
	}
}

// local listens where the kernel holds little, and what is late is read without waiting
// for acknowledgements.
func local(t *testing.T) net.Listener {
	t.Helper()
	dir, err := os.MkdirTemp("", "hub") // the test's own may be longer than addresses can be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return listen(t, "unix", filepath.Join(dir, "s"))
}

// large is the data of an event of which neither holds many.
func large(i int) string { return fmt.Sprint(i, " ", strings.Repeat("x", 64<<10)) }

// TestLeftOutOnSockets: a slow subscriber gets an ordered part of what was published,
// and the number of events that are missing.
func TestLeftOutOnSockets(t *testing.T) {
	for _, outcome := range []Outcome{DropOldest, Coalesce} {
		t.Run(string(outcome), func(t *testing.T) {
			inModes(t, func(t *testing.T, set func(*Config)) {
				b := servingOn(t, local(t), newHub(t, func(c *Config) {
					set(c)
					c.QueueEvents, c.Outcome, c.WriteTimeout = 5, outcome, time.Hour
				}))
				s := b.subscribe("topic=a&topic=b").awaitReady()
				const published = 100
				for i := range published {
					b.say([]string{"a", "b"}[i%2], large(i))
				}
				got, missed, last := 0, 0, -1
				for last < published-1 {
					e, ok := s.next()
					if !ok {
						t.Fatal("the stream ended")
					}
					if e.Type == "gap" {
						var g struct{ From, To, Missed int }
						if err := json.Unmarshal([]byte(e.Data), &g); err != nil || g.From < last+2 || g.To < g.From || g.Missed > g.To-g.From+1 {
							t.Fatalf("after %d: %s %v", last+1, e.Data, err)
						}
						missed += g.Missed
						continue
					}
					number := 0
					if _, err := fmt.Sscan(e.Data, &number); err != nil || number <= last {
						t.Fatalf("after %d: %.20q %v", last, e.Data, err)
					}
					got, last = got+1, number
				}
				if missed == 0 || got+missed != published {
					t.Errorf("got %d of %d, and a gap of %d", got, published, missed)
				}
				if st := b.Stats(); st.Missed != uint64(missed) || st.Gaps == 0 || st.Subscribers != 1 {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// TestBlockOnSockets: publishers are as slow as the slowest, until they have waited
// long enough.
func TestBlockOnSockets(t *testing.T) {
	inModes(t, func(t *testing.T, set func(*Config)) {
		var wait time.Duration
		b := servingOn(t, local(t), newHub(t, func(c *Config) {
			set(c)
			c.QueueEvents, c.Outcome, c.WriteTimeout = 3, Block, time.Hour
			c.BlockTimeout = 300 * time.Millisecond
			wait = c.BlockTimeout
		}))
		s := b.subscribe("topic=t").awaitReady()
		const many = 300
		var publishing sync.WaitGroup
		publishing.Go(func() {
			for i := range many {
				b.say("t", fmt.Sprint(i))
			}
		})
		for i := range many {
			s.want(event{Data: fmt.Sprint(i)})
		}
		publishing.Wait()
		if st := b.Stats(); st.Gaps != 0 || st.Subscribers != 1 {
			t.Errorf("%+v", st)
		}
		b.subscribe("topic=t").awaitReady() // and no more
		longest := time.Duration(0)
		for i := 0; b.Stats().Ends["queue_full"] == 0; i++ {
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			_, err := b.Publish(ctx, Update{Topics: []string{"t"}, Data: []byte(large(i))})
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			longest = max(longest, time.Since(start))
			s.want(event{Data: large(i)})
		}
		if longest < wait {
			t.Errorf("one was ended, and nobody waited for it longer than %v", longest)
		}
	})
}

// TestTokenExpiresOnSockets ends a stream when its token does.
func TestTokenExpiresOnSockets(t *testing.T) {
	inModes(t, func(t *testing.T, set func(*Config)) {
		b := serving(t, func(c *Config) { set(c); c.SubscriberKey = hs256() })
		until := time.Now().Add(2 * time.Second).Truncate(time.Second)
		s := b.subscribe("topic=t", "Authorization: Bearer "+sign(t, jwt.MapClaims{"exp": until.Unix()})).awaitReady()
		s.ends()
		if now := time.Now(); now.Before(until) {
			t.Errorf("ended %v too early", until.Sub(now))
		}
		b.until(func(s Stats) bool { return s.Ends["token_expired"] == 1 && s.Subscribers == 0 })
	})
}

// TestDrainOnSockets: subscribers are notified and ended one by one, also over HTTP/2, and a hanging one is cut at
// the deadline. That is when all others have ended, and not a time: a machine that is late would have them cut too.
func TestDrainOnSockets(t *testing.T) {
	inModes(t, func(t *testing.T, set func(*Config)) {
		h, b := handler(t, func(c *Config) {
			set(c)
			c.Outcome, c.WriteTimeout = DropOldest, time.Hour
		})
		const n = 10
		var streams []*stream
		for range n {
			streams = append(streams, b.subscribe("topic=t").awaitReady())
		}
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		second := &http.Client{Transport: &http.Transport{Protocols: protocols}}
		defer second.CloseIdleConnections()
		resp, err := second.Get(b.url + "/events?topic=t")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		streams = append(streams, (&stream{t: t, resp: resp, body: newReader(resp.Body)}).awaitReady())
		small(b)
		stuck := b.subscribe("topic=stuck").awaitReady()
		for i := range 100 {
			b.say("stuck", large(i))
		}
		b.say("t", "last")
		start := time.Now()
		deadline, pass := context.WithCancel(t.Context())
		defer pass()
		cut := make(chan int, 1)
		go func() { cut <- h.Drain(deadline, 160*time.Millisecond) }()
		for _, s := range streams {
			s.want(event{Data: "last"})
			if e, ok := s.next(); !ok || e.Retry == "" {
				t.Errorf("the last word is %+v", e)
			}
			if line, err := s.body.ReadString('\n'); line != "" || err != io.EOF {
				t.Errorf("after the end: %q, %v", line, err)
			}
		}
		if d := time.Since(start); d < 100*time.Millisecond {
			t.Errorf("all were ended within %v: not one by one over 160ms", d)
		}
		// Its last word is in the socket before the hub has seen to its end.
		b.until(func(s Stats) bool { return s.Ends["drained"] == n+1 })
		pass()
		if cut := <-cut; cut != 1 {
			t.Errorf("%d were cut", cut)
		}
		if e := b.Stats().Ends; e["drained"] != n+1 || e["cut"] != 1 {
			t.Errorf("%v", e)
		}
		stuck.ends()
	})
}

// handler serves a hub's handler in somebody else's server.
func handler(t *testing.T, set func(*Config)) (*Hub, *bed) {
	t.Helper()
	h := newHub(t, set)
	server := httptest.NewUnstartedServer(h.Handler())
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if err := c.(*net.TCPConn).SetWriteBuffer(4 << 10); err != nil { // of what nobody reads
			t.Error(err)
		}
		return ctx
	}
	server.Start()
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	return h, &bed{Hub: h, t: t, url: server.URL, dial: func() (net.Conn, error) { return net.Dial("tcp", server.Listener.Addr().String()) }}
}

// TestHandlerCloses: Close ends everything at once, in the middle of arrivals and
// publishing.
func TestHandlerCloses(t *testing.T) {
	inModes(t, func(t *testing.T, set func(*Config)) {
		h, b := handler(t, set)
		b.subscribe("topic=t").awaitReady()
		var work sync.WaitGroup
		for range 4 {
			work.Go(func() {
				for {
					resp, err := http.Get(b.url + "/events?topic=t")
					if err != nil {
						continue // it was cut in the middle of its answer
					}
					resp.Body.Close()
					if resp.StatusCode == http.StatusServiceUnavailable {
						return
					}
				}
			})
		}
		b.until(func(s Stats) bool { return s.Ends["client"] > 20 })
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		work.Wait()
		http.DefaultClient.CloseIdleConnections()
		b.until(func(s Stats) bool { return s.Subscribers == 0 })
	})
}

// TestNotTakenOver: who has been promised a stream that the loop cannot give is asked to
// come back, and takes no place.
func TestNotTakenOver(t *testing.T) {
	h, _ := handler(t, func(*Config) {})
	h.loop.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	<-h.loopDone
	h.mu.Lock()
	h.draining = false // as it was a moment before the loop ended
	h.mu.Unlock()
	s := &subscriber{registration: registration{address: "somewhere"}}
	if refused := h.reserve(&s.registration); refused != nil {
		t.Fatal(refused)
	}
	h.handOver(t.Context(), server.(*net.TCPConn), s, []byte("HTTP/1.1 200 OK\r\n\r\n"))
	resp, err := http.ReadResponse(newReader(client), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "1" || string(text) != "the hub is stopping\n" {
		t.Errorf("%s %v %q %v", resp.Status, resp.Header, text, err)
	}
	if st := h.Stats(); st.Subscribers != 0 || st.Entered != 0 || st.Refused[http.StatusServiceUnavailable] != 1 {
		t.Errorf("%+v", st)
	}
	if h.places != 0 || len(h.addresses) != 0 {
		t.Errorf("left: %d places, %v", h.places, h.addresses)
	}
}

// TestLoopEnds: a hub whose event loop has ended by itself stops as well, and reports that to its server.
func TestLoopEnds(t *testing.T) {
	h, b := handler(t, func(*Config) {})
	ended := make(chan error, 1)
	go func() { ended <- h.Wait() }()
	s := b.subscribe("topic=t").awaitReady()
	select {
	case err := <-ended:
		t.Fatalf("Wait, while the loop runs: %v", err)
	default:
	}
	h.loop.Close()
	if err := <-ended; err != nil {
		t.Errorf("Wait: %v", err)
	}
	s.ends()
	if s := b.subscribe("topic=t"); s.resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("without its loop: %s", s.resp.Status)
	}
	without, _ := handler(t, func(c *Config) { c.EventLoop = false })
	if err := without.Wait(); err != nil {
		t.Errorf("Wait, without a loop: %v", err)
	}
}

// TestTogether: the event loop sends events that come together with one write.
func TestTogether(t *testing.T) {
	b := serving(t, func(c *Config) { c.BatchDelay = time.Second })
	s := b.subscribe("topic=t").awaitReady()
	before := b.loop.Stats()
	const events = 20
	for i := range events {
		b.say("t", fmt.Sprint(i))
	}
	for i := range events {
		s.want(event{Data: fmt.Sprint(i)})
	}
	b.end()
	after := b.loop.Stats()
	if n := after.Deliveries - before.Deliveries; n != events {
		t.Errorf("%d deliveries", n)
	}
	if n := after.Writes - before.Writes; n >= events/2 {
		t.Errorf("%d writes for %d events", n, events)
	}
}

// TestFilterKey: the event loop serves those with the same key as one.
func TestFilterKey(t *testing.T) {
	filters := [][2][]string{
		{{"a"}, nil}, {{"a", "b"}, nil}, {{"a b"}, nil}, {{"a"}, {"b"}}, {nil, {"a", "b"}}, {{`a" "b`}, nil}, {{"a;0"}, nil},
		{{"a b", "c"}, nil}, {{"a", "b c"}, nil},
	}
	seen := map[string]bool{}
	s := selectors{used: map[string]*selector{}}
	for _, f := range filters {
		filter := filter{s.acquire(f[0]), s.acquire(f[1])}
		key := filter.key()
		if seen[key] {
			t.Errorf("%q: another has the key %q", f, key)
		}
		seen[key] = true
	}
}
