package events

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dyno/hub"
	"dyno/internal/leak"
	"dyno/internal/pipes"
	"dyno/services/internal/serve"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestValidate(t *testing.T) {
	good := func() Config {
		c := Defaults()
		c.Listen = "127.0.0.1:0"
		return c
	}
	for _, c := range []struct {
		change func(*Config)
		want   []string // fields
	}{
		{func(*Config) {}, nil},
		{func(c *Config) { c.Listen = "0.0.0.0:80" }, []string{"listen", "publisher_key"}},
		{func(c *Config) { c.Listen, c.AllowRemote, c.Admin = ":80", true, "nonsense" }, []string{"publisher_key", "admin"}},
		{func(c *Config) { c.Listen, c.AllowRemote, c.AnonymousPublish = ":80", true, true }, nil},
		{func(c *Config) { c.Foreign = func(*http.Request) error { return nil } }, []string{"foreign"}},
		{func(c *Config) { c.Registerer = prometheus.NewRegistry() }, []string{"registerer"}},
		{func(c *Config) { c.Outcome = "x" }, []string{"outcome"}}, // the hub's
	} {
		config := good()
		c.change(&config)
		err := config.Validate()
		if (err == nil) != (c.want == nil) {
			t.Errorf("faults of %v: %v", c.want, err)
		}
		for _, field := range c.want {
			if err != nil && !strings.Contains("\n"+err.Error(), "\n"+field+": ") {
				t.Errorf("no fault of %s: %v", field, err)
			}
		}
	}
}

// serving runs a server until the test ends.
func serving(t *testing.T, change func(*Config)) *Server {
	t.Helper()
	c := Defaults()
	c.Listen, c.DrainTimeout = "127.0.0.1:0", 0
	if change != nil {
		change(&c)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	run(t, s)
	return s
}

// run has a server serve until it is stopped, or the test ends.
func run(t *testing.T, s *Server) (stop func(), ended <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Serve(ctx); err != nil {
			t.Errorf("Serve: %v", err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		http.DefaultClient.CloseIdleConnections()
	})
	return cancel, done
}

// TestAdmin reads the list of slow clients and the metrics as an operator does.
func TestAdmin(t *testing.T) {
	s := serving(t, func(c *Config) { c.Admin = "127.0.0.1:0" })
	stream, err := http.Get("http://" + s.Addr().String() + "/events?topic=b&topic=a")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	if status, text := post(t, s, "x"); status != http.StatusOK {
		t.Fatalf("publish: %d %s", status, text)
	}
	for lines := bufio.NewScanner(stream.Body); lines.Scan() && lines.Text() != "data: x"; {
	}
	get := func(path string) (int, string) {
		resp, err := http.Get("http://" + s.AdminAddr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		return read(t, resp)
	}
	status, body := get("/subscribers?slow=5")
	var list struct {
		Total       int
		Subscribers []hub.Client
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil || status != http.StatusOK || list.Total != 1 || len(list.Subscribers) != 1 {
		t.Fatalf("%d %s %v", status, body, err)
	}
	if c := list.Subscribers[0]; c.ID != 1 || c.Address != "127.0.0.1" || strings.Join(c.Topics, " ") != "a b" || c.Since.IsZero() {
		t.Errorf("%+v", c)
	}
	if status, _ := get("/subscribers?slow=-1"); status != http.StatusBadRequest {
		t.Errorf("slow=-1: %d", status)
	}
	if _, body := get("/subscribers?slow=0"); !strings.Contains(body, `"subscribers":[]`) {
		t.Errorf("slow=0: %s", body)
	}
	_, body = get("/metrics")
	for _, line := range []string{
		"events_subscribers 1", "events_published_total 1", "events_history_updates 1",
		`events_connections{state="waiting"}`, `events_connections{state="writing"}`, `events_connections{state="idle"}`, `events_connections{state="reading"}`,
		`events_subscriber_ends_total{reason="queue_full"} 0`, "events_publish_seconds_count 1", `events_flush_seconds_bucket{le="5e-06"}`, `events_flush_seconds_bucket{le="5e-05"}`,
	} {
		if !strings.Contains(body, line) {
			t.Errorf("no %s in the metrics", line)
		}
	}
}

// post publishes data about topic a and returns the status and the answer.
func post(t *testing.T, s *Server, data string) (int, string) {
	t.Helper()
	resp, err := http.Post("http://"+s.Addr().String()+"/publish?topic=a", "text/plain", strings.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return read(t, resp)
}

func read(t *testing.T, resp *http.Response) (int, string) {
	t.Helper()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// TestWhoMayPublish: without a key, everybody on this machine may publish; with one,
// nobody without a token.
func TestWhoMayPublish(t *testing.T) {
	key := &hub.Key{Method: "HS256", Material: []byte("0123456789abcdef0123456789abcdef")}
	for want, change := range map[int]func(*Config){
		http.StatusOK:           nil,
		http.StatusUnauthorized: func(c *Config) { c.PublisherKey = key },
	} {
		if status, text := post(t, serving(t, change), "x"); status != want {
			t.Errorf("%d %s, want %d", status, text, want)
		}
	}
	if status, text := post(t, serving(t, func(c *Config) { c.PublisherKey, c.AnonymousPublish = key, true }), "x"); status != http.StatusOK {
		t.Errorf("%d %s, although anybody may publish", status, text)
	}
}

// TestForeign: a hub on loopback without tokens refuses other sites' pages on all paths, except those of permitted
// origins. A hub that other machines reach has no names to compare with.
func TestForeign(t *testing.T) {
	local := serving(t, nil)
	permitting := serving(t, func(c *Config) {
		c.AllowOrigins, c.PublishOrigins = []string{"http://page.example"}, []string{"http://page.example"}
	})
	remote := serving(t, func(c *Config) { c.Listen, c.AllowRemote, c.AnonymousPublish = "0.0.0.0:0", true, true })
	for name, c := range map[string]struct {
		s            *Server
		host, origin string
		want         int
	}{
		"no page":                       {local, "", "", 200},
		"a name of this machine":        {local, "localhost:1", "", 200},
		"rebinding":                     {local, "evil.example:1", "http://evil.example:1", 403},
		"rebinding, no origin":          {local, "evil.example", "", 403},
		"another page":                  {local, "localhost", "http://evil.example", 403},
		"permitted page":                {permitting, "localhost", "http://page.example", 200},
		"rebinding to a permitted page": {permitting, "page.example", "http://page.example", 403},
		"a page that is not permitted":  {permitting, "localhost", "http://evil.example", 403},
		"a name of what machines reach": {remote, "hub.example", "", 200},
	} {
		for _, method := range []string{http.MethodPost, http.MethodHead} {
			path := map[string]string{http.MethodPost: "/publish", http.MethodHead: "/events"}[method]
			req, err := http.NewRequest(method, "http://"+c.s.Addr().String()+path+"?topic=a", strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			req.Host = c.host
			if c.origin != "" {
				req.Header.Set("Origin", c.origin)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if status, text := read(t, resp); status != c.want {
				t.Errorf("%s: %s: %d %s, want %d", name, method, status, text, c.want)
			}
		}
	}
}

// TestHTTP2: the server supports HTTP/2 without TLS, unless it is off.
func TestHTTP2(t *testing.T) {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: protocols}}
	defer client.CloseIdleConnections()
	for _, on := range []bool{true, false} {
		s := serving(t, func(c *Config) { c.HTTP2 = on })
		resp, err := client.Get("http://" + s.Addr().String() + "/events?topic=a")
		if err == nil {
			resp.Body.Close()
		}
		if spoken := err == nil && resp.ProtoMajor == 2 && resp.StatusCode == http.StatusOK; spoken != on {
			t.Errorf("HTTP2 is %v: %v %v", on, resp, err)
		}
	}
}

// TestLoopEnds: a server whose event loop has ended by itself does not continue without
// it.
func TestLoopEnds(t *testing.T) {
	c := Defaults()
	c.Listen, c.DrainTimeout = "127.0.0.1:0", 0
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.hub.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(t.Context()); err == nil || !strings.Contains(err.Error(), "event loop") {
		t.Errorf("Serve: %v", err)
	}
}

// TestClosedUnserved: what New and Listen opened is free when nothing was served.
func TestClosedUnserved(t *testing.T) {
	c := Defaults()
	c.Listen, c.Admin = "127.0.0.1:0", "127.0.0.1:0"
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if s.Addr() != nil || s.AdminAddr() != nil {
		t.Errorf("addresses %v and %v before Listen", s.Addr(), s.AdminAddr())
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	addresses := []net.Addr{s.Addr(), s.AdminAddr()}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, a := range addresses {
		l, err := serve.Listen(t.Context(), a.String(), nil)
		if err != nil {
			t.Errorf("still listening: %v", err)
			continue
		}
		l.Close()
	}
}

// subscribe asks for a stream of topic t, and reads up to its first line.
func subscribe(t *testing.T, l *pipes.Listener) *bufio.Scanner {
	t.Helper()
	conn, err := l.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, "GET /events?topic=t HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(resp.Body)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "retry: ") {
		t.Fatalf("the stream begins with %q", lines.Text())
	}
	return lines
}

// TestDrain: a stopping server accepts no more connections. It ends subscribers one by one in the first 0.8 of the
// time, and cuts hanging ones at its end.
func TestDrain(t *testing.T) {
	for name, hijack := range map[string]bool{"within net/http": false, "hijacked": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := Defaults()
				c.Listen, c.HTTP2, c.Hijack, c.DrainTimeout = "127.0.0.1:0", false, hijack, 10*time.Second
				c.EventLoop = false // it waits for the kernel, and pipes are not the kernel's
				c.Retry, c.Heartbeat, c.WriteTimeout = 3*time.Second, 0, time.Hour
				s, err := New(c)
				if err != nil {
					t.Fatal(err)
				}
				l := pipes.Listen()
				s.Listener = l
				stop, drained := run(t, s)
				stuck := subscribe(t, l)
				if _, err := s.hub.Publish(t.Context(), hub.Update{Topics: []string{"t"}, Data: []byte("nobody reads this")}); err != nil {
					t.Fatal(err)
				}
				const n = 8
				ended := make(chan time.Duration, n)
				var start time.Time
				for range n {
					lines := subscribe(t, l)
					go func() {
						last := ""
						for lines.Scan() {
							if lines.Text() != "" {
								last = lines.Text()
							}
						}
						var wait int
						if _, err := fmt.Sscanf(last, "retry: %d", &wait); err != nil || wait < 3000 || wait > 6000 {
							t.Errorf("the last word is %q", last)
						}
						ended <- time.Since(start)
					}()
				}
				synctest.Wait()
				start = time.Now()
				stop()
				synctest.Wait()
				if _, err := l.Dial(); err == nil {
					t.Error("accepts connections while draining")
				}
				seen := map[time.Duration]bool{}
				for range n {
					d := <-ended
					seen[d] = true
					if d > 8*time.Second {
						t.Errorf("one ended after %v, want 0.8 of the time at most", d)
					}
				}
				if len(seen) < n {
					t.Errorf("ended at %v: not one by one", seen)
				}
				<-drained
				if d := time.Since(start); d != 10*time.Second {
					t.Errorf("drained for %v", d)
				}
				for stuck.Scan() { // to the end of the stream
				}
				if e := s.hub.Stats().Ends; e["drained"] != n || e["cut"] != 1 {
					t.Errorf("%v", e)
				}
			})
		})
	}
}
