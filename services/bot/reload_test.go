package bot

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"dyno/services/bot/store"
	"dyno/services/bot/upstream"
)

// rereading runs a gateway whose configuration may change: what change does to it is read at the next reload.
func rereading(t *testing.T, model http.HandlerFunc, change *func(*Config)) *bed {
	return atHandler(t, model, func(c *Config) {
		c.Keys = []Key{keyOf("one"), keyOf("two", Limit{store.Requests, 3, 0})}
		was := *c
		c.Reread = func() (Config, error) {
			is := was
			is.Keys, is.Upstream.Upstreams = slices.Clone(was.Keys), slices.Clone(was.Upstream.Upstreams)
			if *change != nil {
				(*change)(&is)
			}
			return is, is.Validate()
		}
	})
}

// Keys, limits, upstreams and prices are read again. Streams under way go on at their upstream, and what was used counts on.
func TestReload(t *testing.T) {
	proceed := make(chan struct{})
	model := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), `"stream":true`) {
			_, _ = io.WriteString(w, aWhole)
			return
		}
		_, _ = io.WriteString(w, aWord)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-proceed:
		case <-r.Context().Done():
			return
		}
		_, _ = io.WriteString(w, aStop+aUsage+aDone)
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Replace(aWhole, "hello", "from another", 1))
	}))
	defer other.Close()
	var change func(*Config)
	b := rereading(t, model, &change)
	path := "/v1/chat/completions"
	whole := strings.Replace(streams[path], "true", "false", 1)
	ask := func(key, body string) (int, string) {
		status, text, _ := b.ask(path, secretOf(key), body)
		return status, text
	}
	stream, err := b.post(t.Context(), path, secretOf("one"), streams[path])
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	if status, _ := ask("two", whole); status != http.StatusOK {
		t.Fatal(status)
	}
	token := b.login("two", "u1")

	change = func(c *Config) {
		c.Keys[0] = keyOf("three", Limit{store.Money, 1e9, time.Hour})
		c.Keys[1].Limits = []Limit{{store.Requests, 2, 0}, {store.Tokens, 1e6, 0}}
		c.Upstream.Upstreams[0] = modelOf(other.Listener.Addr())
		c.Upstream.Upstreams[0].Price = upstream.Prices{{Prompt: 10, Completion: 10}}
		c.Upstream.Upstreams[0].Models = map[string]string{"dyno-1": "dyno-1", "new": "new"}
	}
	if err := b.reload(); err != nil {
		t.Fatal(err)
	}
	if status, text := ask("one", whole); status != http.StatusUnauthorized {
		t.Errorf("a key that is gone: %d %s", status, text)
	}
	for _, body := range []string{whole, strings.Replace(whole, "dyno-1", "new", 1)} {
		if status, text := ask("three", body); status != http.StatusOK || !strings.Contains(text, "from another") {
			t.Errorf("a new key: %d %s", status, text)
		}
	}
	if e := b.ledger("three", 2)[0]; e.Money != 100 {
		t.Errorf("the price is the old one: %+v", e)
	}
	if status, text := ask("two", whole); status != http.StatusOK {
		t.Errorf("the second of two requests: %d %s", status, text)
	}
	if status, text := ask("two", whole); status != http.StatusTooManyRequests {
		t.Errorf("a limit that is smaller, and of which some was used: %d %s", status, text)
	}
	until(t, "a new limit counts what was used before", func() bool {
		u, refused := b.usageOf(t.Context(), b.live.Load().payers["two"], time.Now())
		return refused == nil && u.Limits[0].Used == 2 && u.Limits[1].Used == 20
	})
	if status, text := b.get("/v1/models", token); status != http.StatusOK || !strings.Contains(text, `"new"`) {
		t.Errorf("a token of a key that stays: %d %s", status, text)
	}

	close(proceed)
	if text, err := io.ReadAll(stream.Body); err != nil || !slices.Equal(datas(t, string(text)), datas(t, aWord+aStop+aDone)) {
		t.Errorf("the stream under way: %q, %v", text, err)
	}
	if e := b.ledger("one", 1)[0]; e.Outcome != "ok" || e.Money != 7*100+3*1000 {
		t.Errorf("its price is the one that it began with: %+v", e)
	}
}

// A configuration with a fault changes nothing, nor does one that does not go with what is not read again.
func TestReloadChangesAllOrNothing(t *testing.T) {
	var change func(*Config)
	b := rereading(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, aWhole) }, &change)
	before := b.live.Load()
	for want, bad := range map[string]func(*Config){
		`keys[1].sha256: "x" is not possible`:        func(c *Config) { c.Keys[1].SHA256 = "x" },
		`upstreams[0].prices.none: "none" is`:        func(c *Config) { c.Upstream.Upstreams[0].Prices = map[string]upstream.Prices{"none": {}} },
		"upstreams: there is none":                   func(c *Config) { c.Upstream.Upstreams = nil },
		`keys[0].models[0]: no upstream has`:         func(c *Config) { c.Keys[0].Models = []string{"none"} },
		"gets some, or loses all, only by a restart": func(c *Config) { c.Keys = nil },
		"with the fields that only a restart changes: upstreams[0].url": func(c *Config) {
			c.AllowNetworks = append(c.AllowNetworks, "10.0.0.0/8")
			c.Upstream.Upstreams[0].URL = "http://10.0.0.1/v1"
		},
	} {
		change = bad
		if err := b.reload(); err == nil || !strings.Contains(err.Error(), want) || b.live.Load() != before {
			t.Errorf("%v, want %s", err, want)
		}
	}
	b.cfg.Reread = func() (Config, error) { return Config{}, errors.New("bot.yaml:3:5: nonsense") }
	if err := b.reload(); err == nil || b.live.Load() != before {
		t.Error(err)
	}
	if status, text, _ := b.ask("/v1/chat/completions", secretOf("one"), strings.Replace(streams["/v1/chat/completions"], "true", "false", 1)); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
}

// What is not read again is named, and nothing else is.
func TestRestarts(t *testing.T) {
	was := Defaults()
	is := was
	if got := restarts(was, is); got != nil {
		t.Error(got)
	}
	is.Keys, is.Model = []Key{keyOf("one")}, "m"
	is.Upstream.Upstreams = []upstream.Upstream{{Name: "u"}}
	is.Listen, is.Admin, is.Token.Lifetime, is.Upstream.Attempts, is.Upstream.Client.Idle = "127.0.0.1:1", "127.0.0.1:2", time.Hour, 5, 7
	is.Token.Secret, is.Plugins = []byte("secret"), []Plugin{{Name: "p"}}
	if got, want := fmt.Sprint(restarts(was, is)), "[admin listen plugins token.lifetime upstream.attempts upstream.idle_connections]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A cool-down ends with a reload, and what was counted of an upstream goes on.
func TestReloadEndsCoolDowns(t *testing.T) {
	bad := true
	var change func(*Config)
	b := rereading(t, func(w http.ResponseWriter, _ *http.Request) {
		if bad {
			w.Header().Set("Retry-After", "3000")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		_, _ = io.WriteString(w, aWhole)
	}, &change)
	path := "/v1/chat/completions"
	body := strings.Replace(streams[path], "true", "false", 1)
	if status, _, _ := b.ask(path, secretOf("one"), body); status != http.StatusTooManyRequests {
		t.Error(status)
	}
	bad = false
	if status, _, _ := b.ask(path, secretOf("one"), body); status != http.StatusServiceUnavailable {
		t.Error(status)
	}
	if err := b.reload(); err != nil {
		t.Fatal(err)
	}
	if status, _, _ := b.ask(path, secretOf("one"), body); status != http.StatusOK {
		t.Error(status)
	}
	if s := b.live.Load().pool.States()[0]; s.Asked != 2 || s.Failures != 1 {
		t.Errorf("%+v", s)
	}
}
