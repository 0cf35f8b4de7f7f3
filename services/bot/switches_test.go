package bot

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dyno/services/bot/cache"
	"dyno/services/bot/codec"
	"dyno/services/bot/middleware"
	"dyno/services/bot/store/storetest"
)

// changing is what differs from one time to the next.
var changing = regexp.MustCompile(`"(id|seconds|queue_seconds|created|access_token|expires_at)":("[^"]*"|[0-9.e+-]+)|id: [a-z0-9]+-`)

// script is what is asked of each form of the gateway: whole and streamed answers,
// plugins, what is refused.
var script = []struct{ path, body string }{
	{"/v1/login", `{"user_id":"u1"}`},
	{"/v1/bot/chat", `{"bot_id":"b","user_id":"u1","history_id":"%s","query":"3 + 4 = \u003c你好\u003e"}`},
	{"/v1/bot/chat", `{"bot_id":"b","user_id":"u1","history_id":"%s","query":"again \"quoted\"","stream":true,"message_id":"m"}`},
	{"/v1/bot/chat", `{"BOT_ID":"b","user_id":"u1","history_id":"%s","query":"first"}`},
	{"/v1/bot/chat", `{"bot_id":"b","user_id":"u1","history_id":"%s","query":"first","query":"second"}`},
	{"/v1/bot/chat", `{"bot_id":"b","user_id":"u1","history_id":"%s","query":"second"}`},
	{"/v1/chat/completions", `{"model":"dyno-1","temperature":0,"messages":[{"role":"user","content":"hi"}],"seed":9007199254740993}`},
	{"/v1/chat/completions", `{"model":"dyno-1","temperature":0,"messages":[{"role":"user","content":"hi"}],"seed":9007199254740993}`},
	{"/v1/chat/completions", `{"model":"dyno-1","messages":[{"role":"user","content":"hi"}],"stream":true}`},
	{"/v1/bot/chat", `{"bot_id":"b",`},
	{"/v1/bot/chat", `{"bot_id":5}`},
	{"/v1/bot/chat", `{"bot_id":"b","user_id":"u1","query":""}`},
	{"/v1/chat/completions", `{"model":"other","messages":[{}]}`},
	{"/v1/chat/completions", strings.Repeat(" ", 5000)},
	{"/v1/elsewhere", `{}`},
}

// play asks all of the script and returns what was answered.
func (b *bed) play(history string) string {
	b.t.Helper()
	var said strings.Builder
	for _, s := range script {
		body := s.body
		if strings.Contains(body, "%s") {
			body = fmt.Sprintf(body, history)
		}
		var status int
		var text string
		var header http.Header
		if len(body) < 4096 {
			status, text, header = b.ask(s.path, "", body)
		} else { // without a network: a server closes such a connection, and takes half a second
			w := httptest.NewRecorder()
			b.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, s.path, strings.NewReader(body)))
			status, text, header = w.Code, w.Body.String(), w.Header()
		}
		if status == http.StatusBadRequest { // each library has its own words for a fault
			var e struct {
				Error struct{ Message, Type string }
			}
			if err := json.Unmarshal([]byte(text), &e); err != nil || e.Error.Message == "" {
				b.t.Errorf("%s", text)
			}
			text = e.Error.Type
		}
		fmt.Fprintln(&said, s.path, status, header.Get("Content-Type"), header.Get("Cache-Control"), header.Get("X-Dyno-Cache"), changing.ReplaceAllString(text, "$1"))
	}
	return strings.ReplaceAll(said.String(), history, "HISTORY")
}

// TestSwitches: whatever is switched on or off, the same is answered and accounted; and
// among many at once everybody has their own answer.
func TestSwitches(t *testing.T) {
	model := newRecorder(t)
	model.text = func(asked string) string {
		var q struct{ Messages []struct{ Content string } }
		if err := json.Unmarshal([]byte(asked), &q); err != nil || len(q.Messages) == 0 {
			return "what?"
		}
		return strings.Map(func(r rune) rune { // the recorder takes ASCII only
			if r < ' ' || r > '~' {
				return '?'
			}
			return r
		}, q.Messages[len(q.Messages)-1].Content)
	}
	second := httptest.NewUnstartedServer(model.Config.Handler)
	second.Config.Protocols = new(http.Protocols)
	second.Config.Protocols.SetUnencryptedHTTP2(true)
	second.Start()
	t.Cleanup(second.Close)
	type form struct {
		name string
		set  func(*testing.T, *Config)
	}
	forms := []form{
		{"no buffer pool", func(_ *testing.T, c *Config) { c.BufferPool = false }},
		{"no scan", func(_ *testing.T, c *Config) { c.JSONScan = false }},
		{"no buffer pool, no prealloc", func(_ *testing.T, c *Config) { c.BufferPool, c.JSONPrealloc = false, false }},
		{"rwmutex", func(_ *testing.T, c *Config) { c.CacheKind = cache.RWMutex }},
		{"snapshot", func(_ *testing.T, c *Config) { c.CacheKind = cache.Snapshot }},
		{"unmatched", func(_ *testing.T, c *Config) { c.UnmatchedMiddleware = true }},
		{"per request", func(_ *testing.T, c *Config) { c.Middleware = middleware.PerRequest }},
		{"per request, unmatched", func(_ *testing.T, c *Config) { c.Middleware, c.UnmatchedMiddleware = middleware.PerRequest, true }},
		{"few connections", func(_ *testing.T, c *Config) {
			c.Upstream.Client.Connections, c.Upstream.Client.Idle, c.Upstream.Client.IdleTime = 2, 1, time.Second
		}},
		{"http2", func(_ *testing.T, c *Config) {
			c.Upstream.Client.HTTP2 = true
			c.Upstream.Upstreams[0].URL = second.URL + "/v1"
		}},
		{"reno", func(_ *testing.T, c *Config) { c.Congestion, c.Upstream.Client.Congestion = "reno", "reno" }},
		{"sqlite", func(t *testing.T, c *Config) { embedded(ArchiveSQLite, filepath.Join(t.TempDir(), "db"))(c) }},
		{"sqlite, single", func(t *testing.T, c *Config) {
			embedded(ArchiveSQLite, filepath.Join(t.TempDir(), "db"))(c)
			c.ArchiveWrites = Single
		}},
		{"postgres, copy", func(t *testing.T, c *Config) {
			c.Archive, c.Postgres, c.ArchiveWrites = ArchivePostgres, postgresServer().use(t), Copy
			if err := storetest.Clear(t.Context(), c.Postgres); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for _, l := range codec.Libraries() {
		forms = append(forms, form{string(l), func(_ *testing.T, c *Config) { c.JSON = l }},
			form{string(l) + ", no prealloc", func(_ *testing.T, c *Config) { c.JSON, c.JSONPrealloc = l, false }})
	}
	usual := ""
	for _, f := range append([]form{{"usual", func(*testing.T, *Config) {}}}, forms...) {
		t.Run(f.name, func(t *testing.T) {
			b := serving(t, newLLM(t, nil), func(c *Config) {
				model.at(c)
				c.CacheAge, c.MaxBodyBytes, c.SystemPrompt = time.Minute, 4096, "be <kind> & brief"
				c.Plugins = []Plugin{{Name: "calculator", Builtin: "calculator"}}
				f.set(t, c)
			})
			history := unique("h")
			got := b.play(history)
			if usual == "" {
				usual = got
			}
			if got != usual {
				t.Errorf("got\n%s\nwant\n%s", got, usual)
			}
			var all sync.WaitGroup
			const many = 24
			for i := range many {
				all.Go(func() {
					want := strings.Repeat(fmt.Sprint("question ", i, " "), i%5*2+1)
					for _, stream := range []bool{false, true} {
						_, text, _ := b.ask("/v1/bot/chat", "", fmt.Sprintf(`{"bot_id":"b","user_id":"u2","query":%q,"stream":%v}`, want, stream))
						said := ""
						if !stream {
							var r chatReply
							if err := json.Unmarshal([]byte(text), &r); err != nil || r.Reply == nil {
								t.Errorf("%v: %s", err, text)
								return
							}
							said = *r.Reply
						} else {
							for _, e := range frames(t, strings.NewReader(text)) {
								var d deltaEvent
								if err := json.Unmarshal([]byte(e.data), &d); err != nil {
									t.Error(err)
								}
								said += d.Text
							}
						}
						if said != want {
							t.Errorf("%d: %q\nwant %q", i, said, want)
						}
					}
				})
			}
			all.Wait()
			outcomes := map[string]int{}
			for _, e := range b.ledger("local", 6+2*many) {
				outcomes[e.Outcome]++
			}
			if outcomes["ok"] != 6+2*many {
				t.Errorf("%v", outcomes)
			}
			turns, n, err := b.archive.Turns(t.Context(), "local/b/u1/"+history, 10)
			if err != nil || n != 3 || len(turns) != 3 || turns[0].User != "3 + 4 = <你好>" || turns[2].Reply != "second" {
				t.Errorf("%+v, %d, %v", turns, n, err)
			}
		})
	}
}

// TestSwitchFaults: what a switch cannot be is said.
func TestSwitchFaults(t *testing.T) {
	c := Defaults()
	c.CacheKind, c.ArchiveWrites, c.JSON, c.Middleware, c.Congestion = "disk", Copy, "fast", "none", "warp"
	c.ResumeBytes, c.TraceEndpoint, c.TraceRatio, c.IdleTimeout = 1, "collector", 2, 0
	c.Upstream.Client.Connections, c.Upstream.Client.Idle, c.Upstream.Client.IdleTime, c.Upstream.Client.Congestion = -1, 0, 0, "warp 2"
	err := c.Validate()
	for _, want := range []string{`cache "disk"`, `archive writes: "copy": goes with archive postgres`, `JSON library "fast"`, `middleware "none"`, `congestion control "warp"`,
		"resume: bytes", `trace endpoint: "collector"`, "trace ratio: 2", "idle timeout: 0s", "connections: -1", "idle connections: 0", "idle connection time: 0s", `congestion control "warp 2"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not reported: %s in %v", want, err)
		}
	}
	c = Defaults()
	c.ArchiveWrites, c.TraceEndpoint = "now", "http://10.0.0.1/v1/traces"
	err = c.Validate()
	for _, want := range []string{`archive writes: "now"`, "trace endpoint: address not allowed"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not reported: %s in %v", want, err)
		}
	}
	if !slices.Contains(codec.Libraries(), codec.V2) {
		c.JSON = codec.V2
		if err := c.Validate(); !strings.Contains(err.Error(), "built without GOEXPERIMENT=jsonv2") {
			t.Errorf("%v", err)
		}
	}
}

// TestNull: a field that is null stays so, whichever library reads it.
func TestNull(t *testing.T) {
	model := newRecorder(t)
	for _, library := range []codec.Library{codec.Standard, codec.Sonic, codec.Jsoniter} {
		b := serving(t, newLLM(t, nil), func(c *Config) { model.at(c); c.JSON = library })
		b.ask("/v1/chat/completions", "", `{"model":"dyno-1","stop":null,"messages":[{"role":"user","content":"hi"}]}`)
		if want := `{"messages":[{"role":"user","content":"hi"}],"model":"dyno-1","stop":null}`; model.last() != want {
			t.Errorf("%s: %s", library, model.last())
		}
	}
}
