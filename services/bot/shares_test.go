package bot

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dyno/services/bot/admission"
	"dyno/services/bot/store"
	"dyno/services/bot/upstream"
)

// TestOneKeyLeavesPlaces: streams of one key, read or not, leave others half of the places, of upstreams and of the
// gateway.
func TestOneKeyLeavesPlaces(t *testing.T) {
	for name, set := range map[string]func(*Config){
		"of an upstream": func(c *Config) { c.Upstream.Upstreams[0].MaxConcurrent = 4 },
		"of the gateway": func(c *Config) { c.MaxConcurrent, c.MaxWaiting = 4, 0 },
	} {
		t.Run(name, func(t *testing.T) {
			model := newHolder(t)
			b := serving(t, newLLM(t, nil), func(c *Config) {
				c.Keys, c.Upstream.Upstreams = []Key{keyOf("one"), keyOf("two")}, []upstream.Upstream{modelOf(model.Addr())}
				set(c)
			})
			for i, c := range []struct {
				key    string
				status int
			}{{"one", 200}, {"one", 200}, {"one", 503}, {"one", 503}, {"two", 200}, {"two", 200}, {"two", 503}} {
				path, body := "/v1/chat/completions", `{"model":"dyno-1","stream":true,"messages":[{"role":"user","content":"hi"}]}`
				if i%2 == 1 {
					path, body = "/v1/bot/chat", `{"bot_id":"b","user_id":"u","query":"hi","stream":true}`
				}
				resp, err := b.post(t.Context(), path, secretOf(c.key), body)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = resp.Body.Close() })
				if resp.StatusCode != c.status || c.status == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") == "" {
					t.Errorf("%d: %s of %s: %s", i, path, c.key, resp.Status)
				}
			}
			model.drop()
		})
	}
}

// long is an archive whose ledger has much to sum up of one key.
type long struct {
	store.Archive
	takes map[string]time.Duration
	mu    sync.Mutex // guards sums
	sums  map[string]int
}

func (l *long) Sum(ctx context.Context, p store.Part, _ time.Time) (store.Cost, error) {
	key := p.Key
	l.mu.Lock()
	l.sums[key]++
	n := l.sums[key]
	l.mu.Unlock()
	select {
	case <-time.After(l.takes[key]):
		return store.Cost{Requests: int64(n)}, nil
	case <-ctx.Done():
		return store.Cost{}, ctx.Err()
	}
}

// TestSumsByKey: a client that requests a long sum repeatedly, over many connections, delays others at most by one
// sum, and seldom. That holds even if the sum never ends in time.
func TestSumsByKey(t *testing.T) {
	for name, c := range map[string]struct {
		takes time.Duration
		held  time.Duration // at most
		sums  int           // in a minute, at most
	}{"a long one": {300 * ms, 300 * ms, 60_000/3300 + 1}, "one that never ends": {time.Hour, 3 * time.Second, 60/33 + 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &long{takes: map[string]time.Duration{"one": c.takes}, sums: map[string]int{}}
				g := &Gateway{cfg: Defaults(), archive: l}
				g.sums = newCapacity(&g.cfg).sums
				one, two := &apiKey{id: "one", shares: &shares{sums: g.sums.NewTenant()}}, &apiKey{id: "two", shares: &shares{sums: g.sums.NewTenant()}}
				ask := func(key *apiKey) (time.Duration, error) {
					began := time.Now()
					_, err := g.sum(t.Context(), key, time.Time{})
					return time.Since(began), err
				}
				ends := time.Now().Add(time.Minute)
				var all sync.WaitGroup
				for range 5 {
					all.Go(func() {
						for time.Now().Before(ends) {
							_, _ = ask(one)
							<-time.After(20 * ms)
						}
					})
				}
				for time.Now().Before(ends) {
					if d, err := ask(two); err != nil || d > c.held {
						t.Fatalf("%v after %v", err, d)
					}
					<-time.After(77 * ms)
				}
				all.Wait()
				if n := l.sums["one"]; n == 0 || n > c.sums {
					t.Errorf("%d sums of the one, want %d at most", n, c.sums)
				}
			})
		})
	}
}

// TestSumIsFresh: what costs nothing to sum up is summed up each time, and another day is another sum.
func TestSumIsFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &long{takes: map[string]time.Duration{}, sums: map[string]int{}}
		g := &Gateway{archive: l, capacity: capacity{sums: admission.New(1, 1, time.Second, 1)}, cfg: Defaults()}
		one := &apiKey{id: "one", shares: &shares{sums: g.sums.NewTenant()}}
		for i := range 3 {
			if cost, err := g.sum(t.Context(), one, time.Time{}); err != nil || cost.Requests != int64(i+1) {
				t.Errorf("%+v, %v", cost, err)
			}
		}
		l.takes["one"] = time.Second
		for i, day := range []time.Time{time.Unix(0, 0), time.Unix(0, 0), time.Unix(86400, 0)} {
			if cost, err := g.sum(t.Context(), one, day); err != nil || cost.Requests != int64(4+i/2) {
				t.Errorf("%v: %+v, %v", day, cost, err)
			}
		}
	})
}

// TestSumOutlivesWhoAsks: a sum whose client leaves is completed, for the next ones.
func TestSumOutlivesWhoAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &long{takes: map[string]time.Duration{"one": time.Second}, sums: map[string]int{}}
		g := &Gateway{archive: l, capacity: capacity{sums: admission.New(1, 1, time.Second, 1)}, cfg: Defaults()}
		one := &apiKey{id: "one", shares: &shares{sums: g.sums.NewTenant()}}
		for range 5 {
			ctx, leave := context.WithTimeout(t.Context(), 100*ms)
			if cost, err := g.sum(ctx, one, time.Time{}); err != nil || cost.Requests != 1 {
				t.Errorf("%+v, %v", cost, err)
			}
			leave()
		}
	})
}

// TestWaitingQuestionsCount: what was read of a body is held as long as its turn waits for another of its conversation.
func TestWaitingQuestionsCount(t *testing.T) {
	model := newHolder(t)
	b := serving(t, newLLM(t, nil), func(c *Config) {
		c.Keys, c.Upstream.Upstreams = []Key{keyOf("key")}, []upstream.Upstream{modelOf(model.Addr())}
	})
	body := `{"bot_id":"b","user_id":"u","history_id":"h","stream":true,"query":"` + strings.Repeat("x", 1000) + `"}`
	first, err := b.post(t.Context(), "/v1/bot/chat", secretOf("key"), body)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Body.Close()
	holds(t, b.bodies, 0)
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if resp, err := b.post(ctx, "/v1/bot/chat", secretOf("key"), body); err == nil {
			_ = resp.Body.Close()
		}
	}()
	holds(t, b.bodies, int64(len(body)))
	leave()
	<-gone
	holds(t, b.bodies, 0)
	model.drop()
}

// TestLedgerByKey: while the ledger cannot be written, what one key asks leaves others half of what may wait for it.
func TestLedgerByKey(t *testing.T) {
	b := serving(t, newLLM(t, nil), func(c *Config) {
		c.Keys, c.Batch.Most, c.Batch.Pending = []Key{keyOf("one"), keyOf("two")}, 1, 4
	})
	defer b.archiveAway()()
	for i, c := range []struct {
		key    string
		status int
	}{{"one", 200}, {"one", 200}, {"one", 503}, {"one", 503}, {"two", 200}, {"two", 200}, {"two", 503}} {
		r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"model":"dyno-1","messages":[{"role":"user","content":"hi"}]}`))
		r.Header.Set("Authorization", "Bearer "+secretOf(c.key))
		w := httptest.NewRecorder()
		b.Handler().ServeHTTP(w, r)
		if w.Code != c.status || c.status == http.StatusServiceUnavailable && !strings.Contains(w.Body.String(), "ledger_full") {
			t.Errorf("%d of %s: %d %s", i, c.key, w.Code, w.Body)
		}
	}
}

// stuckReads is an archive that answers nobody of a key.
type stuckReads struct {
	store.Archive
	key     string
	proceed chan struct{}
}

func (s stuckReads) Turns(ctx context.Context, session string, most int) ([]store.Turn, int64, error) {
	if strings.HasPrefix(session, s.key+"/") {
		<-s.proceed
	}
	return s.Archive.Turns(ctx, session, most)
}

// TestReadsByKey: however many conversations one key has read, by turns and by themselves, another's are read.
func TestReadsByKey(t *testing.T) {
	b := serving(t, newLLM(t, nil), func(c *Config) { c.Keys = []Key{keyOf("one"), keyOf("two")} })
	s := stuckReads{b.archive, "one", make(chan struct{})}
	b.archive = s
	const many = 2 * maxPasts
	serve := func(key, method, path, body string) int {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		if r.Header.Set("Authorization", "Bearer "+secretOf(key)); body == "" {
			r.Body = http.NoBody
		}
		w := httptest.NewRecorder()
		b.Handler().ServeHTTP(w, r)
		return w.Code
	}
	turn := func(key string, i int) int {
		return serve(key, http.MethodPost, "/v1/bot/chat", fmt.Sprintf(`{"bot_id":"b","user_id":"u","history_id":"h%d","query":"x"}`, i))
	}
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			if code := turn("one", i); code != http.StatusOK {
				t.Error(code)
			}
		})
		all.Go(func() { serve("one", http.MethodGet, "/v1/bot/history?bot_id=b&user_id=u&history_id=h", "") })
	}
	until(t, "many wait", func() bool { return b.pasts.Waiting() >= many-maxPasts/2 && b.reads.Waiting() >= many-1 })
	if code := turn("two", 0); code != http.StatusOK {
		t.Error(code)
	}
	if code := serve("two", http.MethodGet, "/v1/bot/history?bot_id=b&user_id=u&history_id=h0", ""); code != http.StatusOK {
		t.Error(code)
	}
	close(s.proceed)
	all.Wait()
}

// TestForgottenLimits: a gateway that forgets at its end what keys have used of long limits says so at its start.
func TestForgottenLimits(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*testing.T, *Config)
		want bool
	}{
		"memory": {func(_ *testing.T, c *Config) { embedded(ArchiveMemory, "")(c) }, true},
		"sqlite": {func(t *testing.T, c *Config) { embedded(ArchiveSQLite, t.TempDir()+"/db")(c) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			var logged bytes.Buffer
			config := Defaults()
			u := upstream.DefaultUpstream()
			u.Name, u.URL, u.Models, u.Price = "up", "https://example.org/v1", map[string]string{"dyno-1": "dyno-1"}, upstream.Prices{{Prompt: 1}}
			config.Upstream.Upstreams = []upstream.Upstream{u}
			c.set(t, &config)
			config.Logger = slog.New(slog.NewTextHandler(&logged, nil))
			config.Keys = []Key{keyOf("ever", Limit{store.Tokens, 1 << 40, 0}), keyOf("day", Limit{store.Requests, 1, 24 * time.Hour}), keyOf("minute", Limit{store.Requests, 1, time.Minute}), keyOf("free")}
			g, err := New(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			if err := g.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if got := strings.Contains(logged.String(), `keys="[ever day]"`); got != c.want {
				t.Errorf("%s", &logged)
			}
		})
	}
}
