package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dyno/internal/leak"
	"dyno/services/control/resource"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A fake answers as servers would, without sockets, so that time can be the test's.
type fake struct {
	mu     sync.Mutex // guards what follows
	asked  []string   // METHOD host path
	at     []time.Time
	bodies []string
	answer func(n int, r *http.Request) *http.Response // nil does not answer
}

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	body := ""
	if r.Body != nil {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body = string(text)
	}
	f.mu.Lock()
	n := len(f.asked)
	f.asked = append(f.asked, r.Method+" "+r.URL.Host+" "+r.URL.Path)
	f.at = append(f.at, time.Now())
	f.bodies = append(f.bodies, body)
	f.mu.Unlock()
	answer := f.answer(n, r)
	if answer == nil {
		return nil, errors.New("connection refused")
	}
	return answer, nil
}

// record is what was asked so far.
func (f *fake) record() (asked []string, at []time.Time, bodies []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked), slices.Clone(f.at), slices.Clone(f.bodies)
}

func status(code int, body string) *http.Response {
	return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

// stream answers with what is written to the pipe, until the request ends.
func stream(r *http.Request) (*http.Response, *io.PipeWriter) {
	reader, writer := io.Pipe()
	context.AfterFunc(r.Context(), func() { reader.CloseWithError(r.Context().Err()) })
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: reader}, writer
}

func newClient(t *testing.T, f *fake, change func(*Config)) *Client {
	t.Helper()
	cfg := Config{Servers: []string{"http://a"}, Name: "me", transport: f}
	if change != nil {
		change(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var shop = resource.Instance{Service: "shop", ID: "1", Address: "127.0.0.1", Port: 80, TTL: 9}

func TestConfigFaults(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"good":       {func(*Config) {}, ""},
		"no servers": {func(c *Config) { c.Servers = nil }, "servers"},
		"a path":     {func(c *Config) { c.Servers = []string{"http://a/v1"} }, "servers"},
		"no scheme":  {func(c *Config) { c.Servers = []string{"127.0.0.1:80"} }, "servers"},
		"name":       {func(c *Config) { c.Name = "a\nb" }, "name"},
		"label":      {func(c *Config) { c.Labels = map[string]string{"a=b": "c"} }, "labels"},
		"namespace":  {func(c *Config) { c.Namespace = "A" }, "namespace"},
		"silence":    {func(c *Config) { c.Silence = -1 }, "silence"},
		"pauses":     {func(c *Config) { c.MinPause, c.MaxPause = time.Minute, time.Second }, "max pause"},
	} {
		cfg := Config{Servers: []string{"http://a", "https://b:1/"}}
		c.change(&cfg)
		_, err := New(cfg)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestRegistration: an instance is registered, sends heartbeats in time, registers again when it is unknown, and is
// removed.
func TestRegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: func(n int, _ *http.Request) *http.Response {
			if n == 5 {
				return status(404, `{"title":"no such resource"}`)
			}
			return status(204, "")
		}}
		c := newClient(t, f, nil)
		defer c.Close()
		r, err := c.Register(shop)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second) // of the bubble's clock
		asked, at, bodies := f.record()
		const put, beat = "PUT a /v1/services/shop/instances/1", "POST a /v1/services/shop/instances/1/heartbeat"
		for i, what := range asked {
			want := beat
			if i == 0 || i == 6 {
				want = put
			}
			if what != want {
				t.Errorf("%d: %s, want %s", i, what, want)
			}
			if i > 0 && at[i].Sub(at[i-1]) > 3*time.Second {
				t.Errorf("%d: %v after the one before, with a lease of 9 s", i, at[i].Sub(at[i-1]))
			}
		}
		if len(asked) < 10 || len(asked) > 22 {
			t.Errorf("asked %d times in 30 s", len(asked))
		}
		if want := `"weight":100`; !strings.Contains(bodies[0], want) {
			t.Errorf("%s, want %s", bodies[0], want)
		}

		// A change is told at once.
		changed := shop
		changed.Status = resource.Draining
		if err := r.Update(changed); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := r.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		asked, at, bodies = f.record()
		last := len(asked) - 1
		if asked[last] != put || !strings.Contains(bodies[last], `"draining"`) || !at[last].Equal(time.Now()) {
			t.Errorf("%s %s at %v, now %v", asked[last], bodies[last], at[last], time.Now())
		}
		if err := r.Update(resource.Instance{Service: "shop", ID: "2", Address: "127.0.0.1", Port: 80}); err == nil {
			t.Error("another instance took the registration over")
		}
		if err := r.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		asked, _, _ = f.record()
		if last := asked[len(asked)-1]; last != "DELETE a /v1/services/shop/instances/1" {
			t.Errorf("last: %s", last)
		}
		if err := r.Ready(t.Context()); err != nil {
			t.Errorf("what was known: %v", err)
		}
	})
}

// TestRegistrationTriesOn: if a server is away, the next one is asked, with growing pauses. A final refusal is
// returned, and seldom retried.
func TestRegistrationTriesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		f := &fake{}
		f.answer = func(_ int, r *http.Request) *http.Response {
			if time.Since(began) < time.Minute || r.URL.Host == "a" {
				return nil
			}
			return status(200, "{}")
		}
		c := newClient(t, f, func(c *Config) { c.Servers = []string{"http://a", "http://b"} })
		defer c.Close()
		long := shop
		long.TTL = 60
		r, err := c.Register(long)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < time.Minute || took > time.Minute+2*c.cfg.MaxPause {
			t.Errorf("registered after %v", took)
		}
		asked, at, _ := f.record()
		if len(asked) > 40 {
			t.Errorf("asked %d times in a minute", len(asked))
		}
		hosts := map[string]int{}
		for i, what := range asked {
			hosts[strings.Fields(what)[1]]++
			if i > 0 && at[i].Sub(at[i-1]) > c.cfg.MaxPause {
				t.Errorf("a pause of %v", at[i].Sub(at[i-1]))
			}
		}
		if hosts["a"] == 0 || hosts["b"] == 0 {
			t.Errorf("asked %v", hosts)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: func(int, *http.Request) *http.Response {
			return status(403, `{"title":"not permitted","detail":"me may not register"}`)
		}}
		c := newClient(t, f, nil)
		defer c.Close()
		r, err := c.Register(shop)
		if err != nil {
			t.Fatal(err)
		}
		var p *Problem
		if err := r.Ready(t.Context()); !errors.As(err, &p) || p.Status != 403 {
			t.Errorf("%v", err)
		}
		time.Sleep(time.Minute)
		if asked, _, _ := f.record(); len(asked) > 8 {
			t.Errorf("asked %d times", len(asked))
		}
	})
	c := newClient(t, &fake{}, nil)
	c.Close()
	if _, err := c.Register(resource.Instance{Service: "shop"}); err == nil {
		t.Error("an instance without an address is registered")
	}
	if _, err := c.Register(shop); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestUntil: a registration lasts one lease from the start of the latest answered heartbeat; unanswered ones do not
// count.
func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answered time.Time
		f := &fake{answer: func(n int, r *http.Request) *http.Response {
			if n > 2 {
				<-r.Context().Done()
				return nil
			}
			answered = time.Now()
			time.Sleep(time.Second) // on the way back
			return status(200, "{}")
		}}
		c := newClient(t, f, nil)
		defer c.Close()
		r, err := c.Register(shop)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Until().IsZero() {
			t.Errorf("before the first answer: until %v", r.Until())
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if asked, _, _ := f.record(); len(asked) < 5 || !r.Until().Equal(answered.Add(shop.Lease())) {
			t.Errorf("asked %d times, until %v, want a lease after %v", len(asked), r.Until(), answered)
		}
	})
}

// TestSilentServer: an unanswered heartbeat leaves time for others within the lease.
func TestSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: func(n int, r *http.Request) *http.Response {
			if n == 1 || n == 2 {
				<-r.Context().Done()
				return nil
			}
			return status(204, "")
		}}
		c := newClient(t, f, func(c *Config) { c.Servers = []string{"http://a", "http://b", "http://c"} })
		defer c.Close()
		r, err := c.Register(shop)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second) // of the bubble's clock
		_, at, _ := f.record()
		if third := shop.Lease() / beatsPerLease; len(at) < 4 || at[2].Sub(at[1]) > third+c.cfg.MinPause || at[3].Sub(at[0]) > 3*third+3*c.cfg.MinPause {
			t.Errorf("asked at %v, with a lease of %v", at, shop.Lease())
		}
	})
}

// put is an event about a configuration.
func put(id, name string, version int) string {
	return fmt.Sprintf("id: %s\nevent: put\ndata: {\"type\":\"put\",\"kind\":\"config\",\"namespace\":\"default\",\"name\":%q,\"version\":%d,\"revision\":1,\"resource\":{\"content\":\"%d\"}}\n\n", id, name, version, version)
}

const (
	resync = "id: 0\nevent: resync\ndata: {}\n\n"
	synced = "id: e-5\nevent: synced\ndata: {\"revision\":5}\n\n"
)

// names are the items' names and versions.
func names(s Snapshot) (list []string) {
	for _, i := range s.Items {
		list = append(list, fmt.Sprintf("%s%d", i.Name, i.Version))
	}
	return list
}

// TestWatch: the known state stays while streams are cut off, at any place, and during a server's snapshot. The
// client leaves a silent stream.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards pipe and since
		var pipe *io.PipeWriter
		var since []string
		f := &fake{}
		f.answer = func(_ int, r *http.Request) *http.Response {
			if r.Method != http.MethodGet {
				return status(200, `{"news":1}`)
			}
			answer, writer := stream(r)
			mu.Lock()
			defer mu.Unlock()
			pipe = writer
			since = append(since, r.Header.Get("Last-Event-ID"))
			return answer
		}
		c := newClient(t, f, nil)
		defer c.Close()
		w, err := c.Watch(Query{Kinds: []resource.Kind{resource.Configs}})
		if err != nil {
			t.Fatal(err)
		}
		say := func(text string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if _, err := io.WriteString(pipe, text); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		know := func(what string, current bool, want ...string) Snapshot {
			t.Helper()
			s, err := w.Next(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(names(s), want) || s.Current != current {
				t.Errorf("%s: %v, current %v; want %v, %v", what, names(s), s.Current, want, current)
			}
			return s
		}
		say(resync + put("", "a", 1) + put("", "b", 1))
		done, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if s, err := w.Next(done, 0); err == nil {
			t.Errorf("half is told: %v", names(s))
		}
		say(synced)
		first := know("synced", true, "a1", "b1")
		w.Applied(first.Items[0])
		say(put("e-6", "a", 2))
		know("a change", true, "a2", "b1")

		// Cut off: it goes on where it was.
		mu.Lock()
		pipe.Close()
		mu.Unlock()
		synctest.Wait()
		know("cut off", false, "a2", "b1")
		time.Sleep(c.cfg.MinPause)
		say(":\n")
		know("resumed", true, "a2", "b1")

		// A snapshot is cut off: what is known stays, and the snapshot starts again.
		say(resync + put("", "c", 1))
		know("in a resync", false, "a2", "b1")
		time.Sleep(c.cfg.Silence)
		synctest.Wait()
		time.Sleep(c.cfg.MaxPause)
		say(resync + put("", "c", 1) + synced)
		know("snapshot", true, "c1")
		mu.Lock()
		if want := []string{"", "e-6", ""}; !slices.Equal(since, want) {
			t.Errorf("resumed after %q, want %q", since, want)
		}
		mu.Unlock()

		// What was applied is told once, and again to a server that may not know it.
		s := know("snapshot", true, "c1")
		w.Refused(s.Items[0], "no such thing")
		synctest.Wait()
		mu.Lock()
		pipe.CloseWithError(errors.New("cut"))
		mu.Unlock()
		time.Sleep(c.cfg.MaxPause)
		say(":\n")
		var acks []string
		asked, _, bodies := f.record()
		for i, what := range asked {
			if strings.HasPrefix(what, "POST") {
				var body struct {
					Client string
					Acks   []resource.Ack
				}
				if err := json.Unmarshal([]byte(bodies[i]), &body); err != nil || body.Client != "me" {
					t.Errorf("%s: %v", bodies[i], err)
				}
				for _, a := range body.Acks {
					acks = append(acks, fmt.Sprintf("%s%d %s %s", a.Name, a.Version, a.State, a.Reason))
				}
			}
		}
		if want := []string{"a1 applied ", "c1 refused no such thing", "c1 refused no such thing"}; !slices.Equal(acks, want) {
			t.Errorf("acks %q, want %q", acks, want)
		}
		w.Close()
		if _, err := w.Next(t.Context(), 1<<40); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// An invalid stream is an error, which changes nothing.
func TestWatchFaults(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":        "event: put\ndata: {\n\n",
		"a bad name":     strings.Replace(put("", "a", 1), `"default"`, `"../x"`, 1),
		"a bad document": strings.Replace(put("", "a", 1), `{"content":"1"}`, `[]`, 1),
		"synced alone":   synced,
	} {
		w := &Watch{items: map[string]Item{}, moved: make(chan struct{})}
		if err := events(strings.NewReader(text), func(bool) {}, w.take); !errors.Is(err, errEvent) || len(w.items) > 0 {
			t.Errorf("%s: %v, %v", name, err, w.items)
		}
	}
	c := newClient(t, &fake{}, nil)
	defer c.Close()
	for name, q := range map[string]Query{"no kind": {}, "an unknown kind": {Kinds: []resource.Kind{"x"}}} {
		if _, err := c.Watch(q); err == nil {
			t.Errorf("%s: is watched", name)
		}
	}
}
