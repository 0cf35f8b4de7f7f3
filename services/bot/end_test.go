package bot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dyno/services/bot/store"
	"dyno/services/bot/upstream"
	"dyno/services/llm"
)

// TestCutAtTheEnd: answers still running after the drain time are cut, whatever the policy for left clients. They are
// in the ledger.
func TestCutAtTheEnd(t *testing.T) {
	for name, c := range map[string]struct{ path, body string }{
		"chat, streamed": {"/v1/bot/chat", `{"bot_id":"b","user_id":"u","query":"hi","stream":true}`},
		"chat, whole":    {"/v1/bot/chat", `{"bot_id":"b","user_id":"u","query":"hi"}`},
		"streamed":       {"/v1/chat/completions", `{"model":"dyno-1","messages":[{"role":"user","content":"hi"}],"stream":true}`},
		"whole":          {"/v1/responses", `{"model":"dyno-1","input":"hi"}`},
		"cached":         {"/v1/chat/completions", `{"model":"dyno-1","messages":[{"role":"user","content":"hi"}],"temperature":0}`},
	} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan struct{}, 1)
			m := newLLM(t, func(c *llm.Config) { c.InterToken = llm.Delay{A: 10 * time.Minute} })
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked <- struct{}{}
				m.Handler().ServeHTTP(w, r)
			}))
			defer front.Close()
			config := Defaults()
			config.Listen, config.AllowNetworks = "127.0.0.1:0", []string{"127.0.0.0/8"}
			config.Upstream.Upstreams = []upstream.Upstream{modelOf(front.Listener.Addr())}
			config.CacheAge, config.DrainTimeout, config.DrainTime = time.Minute, 50*ms, time.Hour
			config.ChatDisconnect, config.ModelDisconnect, config.ResponsesDisconnect = Drain, Drain, Drain
			g, err := New(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			if err := g.Listen(); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- g.Serve(ctx) }()
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			left := make(chan struct{})
			go func() {
				defer close(left)
				resp, err := client.Post("http://"+g.Addr().String()+c.path, "application/json", strings.NewReader(c.body))
				if err != nil {
					return // it was cut
				}
				defer resp.Body.Close()
				_, _ = io.Copy(io.Discard, resp.Body) // until it is cut
			}()
			<-asked
			stop()
			guard := time.NewTimer(time.Minute)
			defer guard.Stop()
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			case <-guard.C:
				t.Fatal("it goes on")
			}
			<-left
			list, err := g.archive.Entries(context.Background(), "local", 10) // of memory: it can be read on
			if err != nil || len(list) != 1 || list[0].Outcome != outcomeAborted || list[0].Prompt == 0 {
				t.Errorf("%+v, %v", list, err)
			}
		})
	}
}

// TestLoginIsShort: who is not known yet cannot have much read.
func TestLoginIsShort(t *testing.T) {
	b := serving(t, newLLM(t, nil), func(c *Config) { c.Keys = []Key{keyOf("test")} })
	for size, want := range map[int]int{100: http.StatusOK, maxLoginBytes + 1: http.StatusRequestEntityTooLarge, 1 << 20: http.StatusRequestEntityTooLarge} {
		body := `{"user_id":"u1","api_key":"` + secretOf("test") + `"}`
		if status, text, _ := b.ask("/v1/login", "", body+strings.Repeat(" ", max(size-len(body), 0))); status != want {
			t.Errorf("%d bytes: %d %s, want %d", size, status, text, want)
		}
	}
}

// ordered is a coordinator that notes how many entries the ledger has when it is told what was used.
type ordered struct {
	store.Coordinator
	g *Gateway

	mu   sync.Mutex // guards seen
	seen []int
}

func (o *ordered) End(ctx context.Context, l *store.Lock, turns int64, r *store.Reservation, used store.Cost) error {
	flushed := o.g.batch.Flush(ctx)
	list, err := o.g.archive.Entries(ctx, r.Key, 10)
	o.mu.Lock()
	o.seen = append(o.seen, len(list))
	o.mu.Unlock()
	if err := errors.Join(flushed, err); err != nil {
		return err
	}
	return o.Coordinator.End(ctx, l, turns, r, used)
}

// TestLedgerBeforeLimits: a gateway that dies between the two has the answer in the ledger; what it has reserved is given
// back when its lease ends.
func TestLedgerBeforeLimits(t *testing.T) {
	b := serving(t, newLLM(t, nil), func(c *Config) { c.Keys = []Key{keyOf("test", Limit{store.Tokens, 1 << 40, 0})} })
	o := &ordered{Coordinator: b.claims.Coordinator, g: b.Gateway}
	b.claims.Coordinator = o
	b.say(secretOf("test"), "", "hello")
	b.settled()
	b.ask("/v1/chat/completions", secretOf("test"), `{"model":"dyno-1","messages":[{"role":"user","content":"hi"}]}`)
	b.settled()
	o.mu.Lock()
	defer o.mu.Unlock()
	if fmt.Sprint(o.seen) != "[1 2]" {
		t.Errorf("entries in the ledger at each settlement: %v, want 1 and 2", o.seen)
	}
}

// TestSpentKey: a key that has no request, tokens or money left does not have plugins asked any more, nor conversations
// read. Where the limits are another server's, it does once more.
func TestSpentKey(t *testing.T) { eachStore(t, spendAll) }

func spendAll(t *testing.T, set func(*Config)) {
	var asked atomic.Int64
	p := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer p.Close()
	var late int64 // turns for which it is found out only after that
	ids := map[string]string{}
	b := serving(t, newLLM(t, nil), func(c *Config) {
		set(c)
		if c.Redis != "" {
			late = 1
		}
		c.Plugins = []Plugin{{Name: "p", URL: p.URL}}
		for name, l := range map[string]Limit{
			"requests": {store.Requests, 1, 24 * time.Hour}, "all requests": {store.Requests, 1, 0}, "tokens": {store.Tokens, 1034, 24 * time.Hour}, "money": {store.Money, 1_026_000, 0},
		} {
			ids[name] = unique(strings.ReplaceAll(name, " ", "-"))
			c.Keys = append(c.Keys, keyOf(ids[name], l))
		}
	})
	for name, id := range ids {
		asked.Store(0)
		for i, want := range []struct {
			status int
			asked  int64
		}{{200, 1}, {429, 1 + late}, {429, 1 + late}} {
			_, status, text := b.say(secretOf(id), "", "hello")
			b.settled()
			if status != want.status || asked.Load() != want.asked || status == 429 && !strings.Contains(text, "rate_limit_exceeded") && !strings.Contains(text, "insufficient_quota") {
				t.Errorf("%s, %d: %d %s, plugins asked %d times, want %+v", name, i, status, text, asked.Load(), want)
			}
		}
	}
	k, now := b.live.Load().payers[ids["requests"]], time.Now()
	if r := k.refused(now.Add(spentFor)); r != nil {
		t.Errorf("a minute later: %v", r)
	}
	if r := k.refused(now); r == nil || r.After <= 0 || r.After > 24*time.Hour {
		t.Errorf("%+v", r)
	}
}

// lingering is a coordinator of sessions that take their time to be given back.
type lingering struct {
	store.Coordinator
	entered, proceed chan struct{}
}

func (l lingering) End(ctx context.Context, lock *store.Lock, turns int64, r *store.Reservation, used store.Cost) error {
	close(l.entered)
	<-l.proceed
	return l.Coordinator.End(ctx, lock, turns, r, used)
}

// TestCloseWaitsForSessions: the stores are there until the last session is given back.
func TestCloseWaitsForSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Defaults()
		u := upstream.DefaultUpstream()
		u.Name, u.URL, u.Models = "up", "http://example.org/v1", map[string]string{"dyno-1": "dyno-1"}
		c.Upstream.Upstreams = []upstream.Upstream{u}
		c.Upstream.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"choices":[{"message":{"content":"fine"},"finish_reason":"stop"}]}`))}, nil
		})
		g, err := New(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		l := lingering{g.claims.Coordinator, make(chan struct{}), make(chan struct{})}
		g.claims.Coordinator = l
		w := httptest.NewRecorder()
		answered, closed := make(chan struct{}), make(chan error, 1)
		go func() {
			defer close(answered)
			g.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/bot/chat", strings.NewReader(`{"bot_id":"b","user_id":"u","query":"hi"}`)))
		}()
		<-l.entered
		go func() { closed <- g.Close(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-closed:
			t.Error("closed while a session is being given back:", err)
			close(l.proceed)
		default:
			close(l.proceed)
			if err := <-closed; err != nil {
				t.Error(err)
			}
		}
		<-answered
		if w.Code != http.StatusOK {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// roundTrip stands in for a network.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestPanic: a request that waits for a panicking one's shared answer gets an error; the latter's connection ends.
func TestPanic(t *testing.T) {
	var b *bed
	asked := make(chan struct{})
	b = serving(t, newLLM(t, nil), func(c *Config) {
		c.CacheAge = time.Minute
		c.Upstream.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
			close(asked)
			for guard := time.Now().Add(time.Minute); b.cache.Stats().Joined == 0 && time.Now().Before(guard); {
				runtime.Gosched() // until the other waits
			}
			panic(http.ErrAbortHandler) // which is not logged
		})
	})
	const question = `{"model":"dyno-1","temperature":0,"messages":[{"role":"user","content":"hi"}]}`
	first := make(chan error)
	go func() {
		resp, err := b.post(t.Context(), "/v1/chat/completions", "", question)
		if err == nil {
			err = fmt.Errorf("an answer: %s", resp.Status)
			resp.Body.Close()
			first <- err
			return
		}
		first <- nil
	}()
	<-asked
	status, text, _ := b.ask("/v1/chat/completions", "", question)
	if status != http.StatusInternalServerError || !strings.Contains(text, "the answer could not be made") {
		t.Errorf("%d %s", status, text)
	}
	if err := <-first; err != nil {
		t.Error(err)
	}
	failed := func() (n float64) {
		families, err := b.host.Registry().Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == "bot_requests_total" && strings.Contains(m.String(), `value:"500"`) {
					n += m.GetCounter().GetValue()
				}
			}
		}
		return n
	}
	// They are counted after their connections have ended.
	for guard := time.Now().Add(time.Minute); failed() < 2 && time.Now().Before(guard); {
		runtime.Gosched()
	}
	if n := failed(); n != 2 {
		t.Errorf("%v requests have failed, by the metrics", n)
	}
}

// TestRefusalsAreDiscreet: what an upstream says of a request, or of why it ends, is masked as answers are; what the network
// says is told to nobody.
func TestRefusalsAreDiscreet(t *testing.T) {
	const secret = "sk-abcdefghijklmnopqrstuvwxyz"
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		switch {
		case !strings.Contains(string(body), `"stream":true`):
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":{"message":"the key %s is wrong"}}`, secret)
		case r.URL.Path == "/v1/responses":
			fmt.Fprintf(w, "data: {\"type\":\"response.output_text.delta\",\"delta\":\"x\"}\n\ndata: {\"type\":\"error\",\"message\":\"the key %s is wrong\"}\n\n", secret)
		default:
			fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\ndata: {\"error\":{\"message\":\"the key %s is wrong\"}}\n\n", secret)
		}
	}))
	defer model.Close()
	for _, masked := range []bool{true, false} {
		b := serving(t, newLLM(t, nil), func(c *Config) {
			c.MaskOut, c.Upstream.Attempts, c.Upstream.Failures = masked, 1, 100
			c.Upstream.Upstreams = []upstream.Upstream{modelOf(model.Listener.Addr())}
		})
		for path, body := range map[string]string{
			"/v1/bot/chat":         `{"bot_id":"b","user_id":"u","query":"hi","stream":%v}`,
			"/v1/chat/completions": `{"model":"dyno-1","messages":[{"role":"user","content":"hi"}],"stream":%v}`,
			"/v1/responses":        `{"model":"dyno-1","input":"hi","stream":%v}`,
		} {
			for _, stream := range []bool{true, false} {
				want := "the key " + secret + " is wrong"
				if masked {
					want = "the key [api-key] is wrong"
				}
				if _, text, _ := b.ask(path, "", fmt.Sprintf(body, stream)); !strings.Contains(text, want) {
					t.Errorf("%s, streamed %v, masked %v: %s", path, stream, masked, text)
				}
			}
		}
	}
}

// TestParallel: a key with a limit on requests under way has as many, streams and turns too. When one has ended, its
// client may send the next.
func TestParallel(t *testing.T) {
	eachStore(t, func(t *testing.T, set func(*Config)) {
		asked, proceed := make(chan struct{}), make(chan struct{})
		key := unique("key")
		b := atHandler(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			select {
			case asked <- struct{}{}:
				<-proceed
			case <-r.Context().Done():
				return
			}
			if strings.Contains(string(body), `"stream":true`) {
				_, _ = io.WriteString(w, aWord+aStop+aDone)
			} else {
				_, _ = io.WriteString(w, aWhole)
			}
		}, func(c *Config) {
			set(c)
			c.Keys = []Key{keyOf(key, Limit{store.Parallel, 1, 0})}
		})
		path := "/v1/chat/completions"
		for _, body := range []string{streams[path], strings.Replace(streams[path], "true", "false", 1)} {
			answered := make(chan int)
			go func() {
				status, _, _ := b.ask(path, secretOf(key), body)
				answered <- status
			}()
			<-asked
			status, text, header := b.ask("/v1/bot/chat", secretOf(key), streams["/v1/bot/chat"])
			if status != http.StatusTooManyRequests || header.Get("Retry-After") != "1" || !strings.Contains(text, "1 requests at the same time") || !strings.Contains(text, "rate_limit_exceeded") {
				t.Errorf("a second: %d %v %s", status, header, text)
			}
			proceed <- struct{}{}
			if status := <-answered; status != http.StatusOK {
				t.Errorf("the first: %d", status)
			}
		}
	})
}
