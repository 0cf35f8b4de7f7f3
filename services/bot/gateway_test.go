package bot

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	golangjwt "github.com/golang-jwt/jwt/v5"

	"dyno/internal/jwt"
	"dyno/internal/pipes"
	"dyno/services/bot/openai"
	"dyno/services/bot/relay"
	"dyno/services/bot/reply"
	"dyno/services/bot/store"
	"dyno/services/bot/store/storetest"
	"dyno/services/bot/upstream"
	"dyno/services/llm"
)

const ms = time.Millisecond

// names are different in every test: Redis is the same for all.
var lastName atomic.Int64

func unique(prefix string) string { return fmt.Sprint(prefix, lastName.Add(1)) }

// ledger returns a key's entries, when there are as many as there should be.
func (b *bed) ledger(key string, want int) []store.Entry {
	b.t.Helper()
	if err := b.batch.Flush(b.t.Context()); err != nil {
		b.t.Error(err)
	}
	list, err := b.archive.Entries(b.t.Context(), key, want+10)
	if err != nil || len(list) != want {
		b.t.Errorf("%d entries, want %d, %v", len(list), want, err)
	}
	return list
}

// settled waits until all that was claimed is given back.
func (b *bed) settled() { b.claims.Wait() }

// TestConversation: a user logs in and talks; the model is told what was said; all of it
// is kept and accounted, whole and streamed.
func TestConversation(t *testing.T) {
	eachStore(t, func(t *testing.T, set func(*Config)) {
		model, key := newRecorder(t), unique("key")
		b := serving(t, newLLM(t, nil), func(c *Config) {
			set(c)
			model.at(c)
			c.Keys, c.SystemPrompt, c.HistoryTokens = []Key{keyOf(key, Limit{store.Tokens, 100_000, 0})}, "be kind", 100
		})
		token := b.login(key, "u1")
		one, status, text := b.say(token, "", "first question")
		if status != http.StatusOK || *one.Reply != "fine" || one.Turn.State != historyKept || one.Turn.Turn != 1 || one.History == "" || one.Intent.Name != "chat" || one.By != "up" {
			t.Fatalf("%d %s", status, text)
		}
		if *one.Usage != (usageReply{7, 3, 10, false}) {
			t.Errorf("%+v", one.Usage)
		}
		two, _, text := b.say(token, one.History, "second question")
		if two.Turn == nil || two.Turn.Turn != 2 || two.Turn.ContextTurns != 1 {
			t.Errorf("%s", text)
		}
		want := `"messages":[{"role":"system","content":"be kind"},{"role":"user","content":"first question"},{"role":"assistant","content":"fine"},{"role":"user","content":"second question"}]`
		if !strings.Contains(model.last(), want) {
			t.Errorf("asked %s\nwant %s", model.last(), want)
		}
		// Streamed, in the same conversation.
		resp, err := b.post(t.Context(), "/v1/bot/chat", token, fmt.Sprintf(`{"bot_id":"b","history_id":%q,"query":"third","stream":true,"message_id":"m"}`, one.History))
		if err != nil {
			t.Fatal(err)
		}
		got := frames(t, resp.Body)
		resp.Body.Close()
		var start, done chatReply
		said := ""
		for i, f := range got {
			var err error
			switch {
			case i == 0 && f.name == "start":
				err = json.Unmarshal([]byte(f.data), &start)
			case i == len(got)-1 && f.name == "done":
				err = json.Unmarshal([]byte(f.data), &done)
			case f.name == "delta":
				var d struct{ Text string }
				err = json.Unmarshal([]byte(f.data), &d)
				said += d.Text
			default:
				t.Errorf("frame %d: %+v", i, f)
			}
			if err != nil {
				t.Error(err)
			}
		}
		if said != "fine" || start.User != "u1" || start.Message != "m" || done.Turn == nil || done.Turn.State != historyKept || done.Turn.Turn != 3 || done.Usage.Total != 10 {
			t.Errorf("%q, %+v, %+v", said, start, done)
		}
		// A long conversation is told from its end.
		long := strings.Repeat("long ", 70) // 88 tokens and some
		b.say(token, one.History, long)
		last, _, text := b.say(token, one.History, "and now?")
		if last.Turn.ContextTurns != 1 || last.Turn.Turn != 5 || strings.Contains(model.last(), "third") {
			t.Errorf("%s\nasked %s", text, model.last())
		}
		// Another user's conversation of that name is another one.
		other, _, text := b.say(secretOf(key), one.History, "who am I?") // u1 by the API key
		if other.Turn.Turn != 6 {
			t.Errorf("the same user: %s", text)
		}
		if _, text, _ := b.ask("/v1/bot/chat", b.login(key, "u2"), fmt.Sprintf(`{"bot_id":"b","history_id":%q,"query":"mine?"}`, one.History)); !strings.Contains(text, `"turn":1`) || strings.Contains(model.last(), "question") {
			t.Errorf("another user: %s", text)
		}
		entries := b.ledger(key, 7)
		e := entries[len(entries)-1]
		if e.Outcome != "ok" || e.User != "u1" || e.Model != "dyno-1" || e.Upstream != "up" || e.Prompt != 7 || e.Completion != 3 || e.Money != 3700 || e.Estimated || e.Stream || e.Attempts != 1 || e.Endpoint != "bot" || e.Took <= 0 || e.FirstByte <= 0 {
			t.Errorf("%+v", e)
		}
		if !entries[4].Stream {
			t.Errorf("%+v", entries[4])
		}
		b.settled()
		if status, text := b.get("/v1/usage", token); status != http.StatusOK || !strings.Contains(text, `"resource":"tokens","amount":100000,"window_seconds":0,"used":70`) || !strings.Contains(text, `"today":{"requests":7,"tokens":70,"money":25900}`) {
			t.Errorf("%d %s", status, text)
		}
	})
}

// TestWhoAsks: the table of credentials.
func TestWhoAsks(t *testing.T) {
	m := newLLM(t, nil)
	secret := []byte(strings.Repeat("s", 32))
	b := serving(t, m, func(c *Config) {
		limited := keyOf("few")
		limited.Models = []string{"other"}
		c.Keys, c.Token.Secret, c.Token.Previous = []Key{keyOf("test"), limited}, secret, []byte(strings.Repeat("p", 32))
		c.Upstream.Upstreams[0].Models["other"] = "other"
	})
	sign := func(secret []byte, change map[string]any) string {
		claims := golangjwt.MapClaims{"iss": "dyno-bot", "aud": "dyno-bot", "sub": "u1", "key": "test", "iat": time.Now().Unix(), "exp": time.Now().Add(10 * time.Minute).Unix()}
		for name, v := range change {
			claims[name] = v
		}
		text, err := golangjwt.NewWithClaims(golangjwt.SigningMethodHS256, claims).SignedString(secret)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for name, c := range map[string]struct {
		who    string
		status int
		want   string
	}{
		"nobody":            {"", 401, "no_credentials"},
		"an API key":        {secretOf("test"), 200, ""},
		"an unknown key":    {secretOf("x"), 401, "invalid_api_key"},
		"a token":           {b.login("test", "u1"), 200, ""},
		"the same secret":   {sign(secret, nil), 200, ""},
		"the secret before": {sign([]byte(strings.Repeat("p", 32)), nil), 200, ""},
		"another secret":    {sign([]byte(strings.Repeat("x", 32)), nil), 401, "wrong signature"},
		"a clock ahead":     {sign(secret, map[string]any{"iat": time.Now().Add(2 * time.Second).Unix()}), 200, ""},
		"a clock far ahead": {sign(secret, map[string]any{"iat": time.Now().Add(time.Minute).Unix()}), 401, "not valid yet"},
		"a key that went":   {sign(secret, map[string]any{"key": "gone"}), 401, "not known here any more"},
		"no subject":        {sign(secret, map[string]any{"sub": ""}), 401, "subject"},
		"another user":      {sign(secret, map[string]any{"sub": "u2"}), 403, "other_user"},
		"another model":     {secretOf("few"), 404, "model_not_found"},
	} {
		_, status, text := b.say(c.who, "", "hello")
		if status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %s, want %d %s", name, status, text, c.status, c.want)
		}
	}
	if status, text, _ := b.ask("/v1/login", "", fmt.Sprintf(`{"user_id":"u","api_key":%q}`, b.login("test", "u1"))); status != 401 {
		t.Errorf("a token for a token: %d %s", status, text)
	}
	if status, text, _ := b.ask("/v1/login", secretOf("test"), `{"user_id":"a\u0000b"}`); status != 400 {
		t.Errorf("a strange user: %d %s", status, text)
	}
	if status, text := b.get("/v1/models", secretOf("few")); status != 200 || !strings.Contains(text, `"data":[{"id":"other",`) || strings.Contains(text, "dyno-1") {
		t.Errorf("models of one who has another: %d %s", status, text)
	}
	// Without API keys everybody may, at a loopback address.
	open := serving(t, m, nil)
	if _, status, text := open.say("", "", "hello"); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	if _, status, text := open.say("whatever", "", "hello"); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	if _, status, _ := open.say(sign(secret, nil), "", "hello"); status != 401 {
		t.Errorf("a token of another gateway: %d", status)
	}
}

func TestRefusals(t *testing.T) {
	b := serving(t, newLLM(t, nil), func(c *Config) { c.MaxBodyBytes, c.MaxQueryBytes = 500, 100 })
	for name, c := range map[string]struct {
		path, body string
		status     int
		want       string
	}{
		"no JSON":       {"/v1/bot/chat", `{`, 400, "want a JSON object"},
		"no bot":        {"/v1/bot/chat", `{"user_id":"u","query":"x"}`, 400, "bot_id"},
		"no user":       {"/v1/bot/chat", `{"bot_id":"b","query":"x"}`, 400, "user_id"},
		"no query":      {"/v1/bot/chat", `{"bot_id":"b","user_id":"u","query":" "}`, 400, "query"},
		"long query":    {"/v1/bot/chat", `{"bot_id":"b","user_id":"u","query":"` + strings.Repeat("x", 101) + `"}`, 400, "1 to 100 bytes"},
		"long history":  {"/v1/bot/chat", `{"bot_id":"b","user_id":"u","query":"x","history_id":"` + strings.Repeat("x", 129) + `"}`, 400, "history_id"},
		"long body":     {"/v1/bot/chat", strings.Repeat(" ", 501), 413, "500 bytes at most"},
		"other model":   {"/v1/chat/completions", `{"model":"gpt","messages":[{}]}`, 404, "model_not_found"},
		"no messages":   {"/v1/chat/completions", `{"model":"dyno-1"}`, 400, `"param":"messages"`},
		"its own fault": {"/v1/chat/completions", `{"model":"dyno-1","messages":[{}],"max_tokens":99999999}`, 400, "must be 32768 at most"},
		"elsewhere":     {"/v1/fine_tuning/jobs", `{}`, 404, "nothing is served"},
	} {
		status, text, _ := b.ask(c.path, "", c.body)
		var e struct {
			Error struct{ Message, Type string }
		}
		if err := json.Unmarshal([]byte(text), &e); err != nil || e.Error.Message == "" || status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %s, want %d %s", name, status, text, c.status, c.want)
		}
	}
}

// TestPassedOn: what a model server says is what the client gets, byte for byte.
func TestPassedOn(t *testing.T) {
	m := newLLM(t, nil)
	b := serving(t, m, func(c *Config) { c.MaskIn, c.MaskOut = true, true })
	const tools = `"tools":[{"type":"function","function":{"name":"weather","parameters":{"properties":{"city":{"type":"string"}}}}}]`
	for name, c := range map[string]struct{ path, body string }{
		"whole":            {"/chat/completions", `{"model":"dyno-1","messages":[{"role":"user","content":"hi"}]}`},
		"tools":            {"/chat/completions", `{"model":"dyno-1","messages":[{"role":"user","content":"hi"}],` + tools + `}`},
		"streamed":         {"/chat/completions", `{"model":"dyno-1","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true}}`},
		"tools, streamed":  {"/chat/completions", `{"model":"dyno-1","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true},` + tools + `}`},
		"response":         {"/responses", `{"model":"dyno-1","input":"hi"}`},
		"response, stream": {"/responses", `{"model":"dyno-1","input":"hi","stream":true}`},
	} {
		direct, err := http.Post("http://"+m.Addr().String()+"/v1"+c.path, "application/json", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		want, err := io.ReadAll(direct.Body)
		direct.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		status, got, header := b.ask("/v1"+c.path, "", c.body)
		if status != http.StatusOK || timeless(got) != timeless(string(want)) {
			t.Errorf("%s: %d\n%s\nwant\n%s", name, status, got, want)
		}
		if kind := header.Get("Content-Type"); kind != direct.Header.Get("Content-Type") {
			t.Errorf("%s: %s", name, kind)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	// Usage was not asked for: the gateway knows it, the client is not told.
	_, got, _ := b.ask("/v1/chat/completions", "", `{"model":"dyno-1","messages":[{"role":"user","content":"hi"}],"stream":true}`)
	if strings.Contains(got, "prompt_tokens") || !strings.HasSuffix(got, "data: [DONE]\n\n") {
		t.Errorf("%s", got)
	}
	for _, e := range b.ledger("local", 7) {
		if e.Completion == 0 || e.Prompt == 0 || e.Estimated || e.Outcome != "ok" {
			t.Errorf("%+v", e)
		}
	}
}

// timeless is an answer without the second in which it was made.
func timeless(text string) string {
	for _, field := range []string{`"created":`, `"created_at":`} {
		parts := strings.Split(text, field)
		for i := range parts[1:] {
			parts[i+1] = strings.TrimLeft(parts[i+1], "0123456789")
		}
		text = strings.Join(parts, "")
	}
	return text
}

// TestBudget: 1,000 calls at once against a limit of 100, over two gateways: 100 pass.
func TestBudget(t *testing.T) {
	eachStore(t, func(t *testing.T, set func(*Config)) {
		m, key := newLLM(t, func(c *llm.Config) { c.FirstToken = llm.Delay{A: 5 * ms} }), unique("key")
		one := serving(t, m, func(c *Config) {
			set(c)
			c.Keys = []Key{keyOf(key, Limit{store.Requests, 100, 0}, Limit{store.Money, 1 << 50, 0})}
		})
		gateways := []*bed{one, one}
		if one.redis != nil {
			gateways[1] = serving(t, m, func(c *Config) { *c = one.cfg; c.Listen = "127.0.0.1:0" })
		}
		var passed, refused atomic.Int64
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() {
				switch status, text, _ := gateways[i%2].ask("/v1/chat/completions", secretOf(key), `{"model":"dyno-1","messages":[{"role":"user","content":"hi"}]}`); status {
				case http.StatusOK:
					passed.Add(1)
				case http.StatusTooManyRequests:
					refused.Add(1)
				default:
					t.Errorf("%d %s", status, text)
				}
			})
		}
		all.Wait()
		if passed.Load() != 100 || refused.Load() != 900 {
			t.Errorf("%d passed, %d were refused", passed.Load(), refused.Load())
		}
		for _, b := range gateways {
			if err := b.batch.Flush(t.Context()); err != nil {
				t.Error(err)
			}
			b.settled()
		}
		entries := one.ledger(key, 100)
		money := int64(0)
		for _, e := range entries {
			money += e.Money
		}
		used, err := one.claims.Coordinator.Used(t.Context(), key, one.live.Load().payers[key].limits, time.Now())
		if err != nil || !slices.Equal(used, []int64{100, money}) || money == 0 {
			t.Errorf("used %v, ledger %d, %v", used, money, err)
		}
	})
}

// TestBudgetOutlives: what a key has used is counted after a restart, wherever the ledger is. It has been
// summed up before the gateway listens, and no request reads the ledger for it.
func TestBudgetOutlives(t *testing.T) {
	m := newLLM(t, nil)
	for _, kind := range []Archive{ArchiveSQLite, ArchivePostgres} {
		t.Run(string(kind), func(t *testing.T) {
			stores := embedded(ArchiveSQLite, filepath.Join(t.TempDir(), "db"))
			if kind == ArchivePostgres {
				url := storetest.SharedPostgres.Use(t)
				stores = func(c *Config) { c.Archive, c.Postgres, c.Redis = kind, url, "" }
			}
			key := unique("key")
			change := func(c *Config) {
				stores(c)
				c.Keys = []Key{keyOf(key, Limit{store.Requests, 1, 0})}
			}
			say := func(b *bed, want int) {
				t.Helper()
				if status, text, _ := b.ask("/v1/chat/completions", secretOf(key), `{"model":"dyno-1","messages":[{"role":"user","content":"hi"}]}`); status != want {
					t.Errorf("%d %s, want %d", status, text, want)
				}
			}
			t.Run("before", func(t *testing.T) { say(serving(t, m, change), http.StatusOK) })
			b := serving(t, m, change)
			ended, end := context.WithCancel(t.Context())
			end()
			var beyond *store.LimitError
			r := &store.Reservation{ID: "r", Key: key, Limits: b.live.Load().payers[key].limits, Cost: store.Cost{Requests: 1}, At: time.Now(), Lease: time.Minute}
			if _, err := b.claims.Coordinator.Begin(ended, nil, r); !errors.As(err, &beyond) {
				t.Errorf("without the ledger: %v", err)
			}
			say(b, http.StatusTooManyRequests)
		})
	}
}

// TestAborted: clients leave streams in the middle. Every one is in the ledger with what
// was used so far, the upstream is left too, and nothing stays.
func TestAborted(t *testing.T) {
	eachStore(t, func(t *testing.T, set func(*Config)) { aborted(t, set) })
	t.Run("HTTP/2", func(t *testing.T) { aborted(t, func(c *Config) { c.Upstream.Client.HTTP2 = true }) })
}

func aborted(t *testing.T, set func(*Config)) {
	m := newLLM(t, func(c *llm.Config) { c.Tokens, c.InterToken = 10_000, llm.Delay{A: 10 * ms} })
	b := serving(t, m, func(c *Config) { set(c); c.ChatDisconnect = Cancel })
	const n = 64 // with more, a busy machine has no time left for connecting
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			path, body := "/v1/chat/completions", `{"model":"dyno-1","messages":[{"role":"user","content":"hi"}],"stream":true}`
			if i%2 == 0 {
				path, body = "/v1/bot/chat", `{"bot_id":"b","user_id":"u","query":"hi","stream":true}`
			}
			resp, err := b.post(ctx, path, "", body)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if _, err := io.ReadFull(resp.Body, make([]byte, 700)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	b.places.Wait()
	for _, e := range b.ledger("local", n) {
		if e.Outcome != "aborted" || !e.Estimated || e.Completion < 1 || e.Prompt < 1 || e.Money < 1 {
			t.Fatalf("%+v", e)
		}
	}
	if s := b.live.Load().pool.States()[0]; s.Active != 0 || s.Failures != 0 {
		t.Errorf("%+v", s)
	}
	// A stream ends a moment after its place is free.
	until(t, "no stream is left", func() bool { return b.stats.Streams.Load() == 0 })
}

// TestSharedConnections: with HTTP/2, streams share a connection to their upstream. Those that are
// left take no other with them.
func TestSharedConnections(t *testing.T) {
	m := newLLM(t, func(c *llm.Config) { c.InterToken = llm.Delay{A: 10 * time.Minute} })
	var connections atomic.Int32
	front := httptest.NewUnstartedServer(m.Handler())
	front.Config.Protocols = new(http.Protocols)
	front.Config.Protocols.SetUnencryptedHTTP2(true)
	front.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	front.Start()
	t.Cleanup(front.Close)
	b := serving(t, m, func(c *Config) {
		c.Upstream.Client.HTTP2 = true
		c.Upstream.Upstreams[0].URL = front.URL + "/v1"
	})
	ctx, leave := context.WithCancel(t.Context())
	for range 150 {
		resp, err := b.post(ctx, "/v1/chat/completions", "", `{"model":"dyno-1","messages":[{"role":"user","content":"hi"}],"stream":true}`)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.ReadFull(resp.Body, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.stats.Streams.Load(); n != 150 {
		t.Errorf("%d streams", n)
	}
	leave()
	if status, text, _ := b.ask("/v1/chat/completions", "", `{"model":"dyno-1","messages":[{"role":"user","content":"hi"}],"max_tokens":1}`); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
	b.places.Wait()
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// TestDrained: where the route says so, an answer comes to its end without its client,
// and the turn is kept.
func TestDrained(t *testing.T) {
	for name, stream := range map[string]bool{"stream": true, "whole": false} {
		t.Run(name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, set func(*Config)) { drained(t, set, stream) })
		})
	}
}

func drained(t *testing.T, set func(*Config), stream bool) {
	model, history := newRecorder(t), unique("h")
	asked, proceed := make(chan struct{}), make(chan struct{})
	var begun atomic.Bool
	model.text = func(string) string {
		if begun.CompareAndSwap(false, true) {
			close(asked)
			<-proceed
		}
		return "fine"
	}
	b := serving(t, newLLM(t, nil), func(c *Config) { set(c); model.at(c) })
	ctx, cancel := context.WithCancel(t.Context())
	left := b.direct(ctx, httptest.NewRecorder(), "/v1/bot/chat", fmt.Sprintf(`{"bot_id":"b","user_id":"u1","history_id":%q,"query":"hi","stream":%v}`, history, stream))
	<-asked
	cancel()
	next := make(chan chatReply)
	go func() {
		r, _, _ := b.say("", history, "what did I say?") // waits for the turn before it
		next <- r
	}()
	close(proceed)
	<-left
	if r := <-next; r.Turn == nil || r.Turn.Turn != 2 || r.Turn.ContextTurns != 1 {
		t.Errorf("the next turn: %+v", r)
	}
	outcomes := map[string]int{}
	for _, e := range b.ledger("local", 2) {
		outcomes[e.Outcome]++
		if e.Completion != 3 || e.Estimated {
			t.Errorf("%+v", e)
		}
	}
	if outcomes["ok"] != 1 || outcomes["drained"] != 1 {
		t.Errorf("%v", outcomes)
	}
}

// TestDisconnect: each route has a policy of its own for clients that leave.
func TestDisconnect(t *testing.T) {
	routes := []struct {
		path, body string
		set        func(c *Config, d Disconnect)
	}{
		{"/v1/bot/chat", `{"bot_id":"b","user_id":"u","query":"hi"}`, func(c *Config, d Disconnect) { c.ChatDisconnect = d }},
		{"/v1/chat/completions", `{"model":"dyno-1","messages":[{"role":"user","content":"hi"}]}`, func(c *Config, d Disconnect) { c.ModelDisconnect = d }},
		{"/v1/responses", `{"model":"dyno-1","input":"hi"}`, func(c *Config, d Disconnect) { c.ResponsesDisconnect = d }},
		{"/v1/messages", `{"model":"dyno-1","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`, func(c *Config, d Disconnect) { c.MessagesDisconnect = d }},
	}
	for i, drains := range routes {
		t.Run(strings.TrimPrefix(drains.path, "/v1/"), func(t *testing.T) {
			asked, proceed, ended := make(chan struct{}), make(chan struct{}), make(chan struct{}, len(routes))
			b := atHandler(t, func(w http.ResponseWriter, r *http.Request) {
				defer func() { ended <- struct{}{} }()
				_, _ = io.Copy(io.Discard, r.Body)
				asked <- struct{}{}
				select {
				case <-proceed:
					_, _ = io.WriteString(w, `{"status":"completed","output":[],"choices":[{"message":{"content":"fine"}}]}`)
				case <-r.Context().Done():
				}
			}, func(c *Config) {
				for _, other := range routes {
					other.set(c, Cancel)
				}
				drains.set(c, Drain)
			})
			for j, route := range routes {
				ctx, leave := context.WithCancel(t.Context())
				left := b.direct(ctx, httptest.NewRecorder(), route.path, route.body)
				<-asked
				leave()
				want := outcomeAborted // by itself: the model does not go on
				if i == j {
					want = outcomeDrained
					proceed <- struct{}{}
				}
				<-left
				<-ended // or it would be told to proceed in place of the next
				if e := b.ledger("local", j+1)[0]; e.Outcome != want {
					t.Errorf("%s drains, %s: %s, want %s", drains.path, route.path, e.Outcome, want)
				}
			}
		})
	}
}

// TestMasked: secrets reach neither the model nor the client nor the archive, however a
// stream is cut.
func TestMasked(t *testing.T) {
	const secret = "sk-abcdefghijklmnopqrstuvwxyz"
	model := newRecorder(t)
	model.text = func(string) string { return "take " + secret + ", it is sk-good" }
	b := serving(t, newLLM(t, nil), func(c *Config) { model.at(c); c.MaskIn, c.MaskOut = true, true })
	const want = "take [api-key], it is sk-good"
	r, _, text := b.say("", "h", "mine is "+secret)
	if r.Reply == nil || *r.Reply != want || strings.Contains(model.last(), secret) || !strings.Contains(model.last(), "mine is [api-key]") {
		t.Errorf("%s, asked %s", text, model.last())
	}
	turns, _, err := b.archive.Turns(t.Context(), "local/b/u1/h", 1)
	if err != nil || len(turns) != 1 || turns[0].User != "mine is [api-key]" || turns[0].Reply != want {
		t.Errorf("kept %+v, %v", turns, err)
	}
	for path, body := range map[string]string{
		"/v1/bot/chat":         `{"bot_id":"b","user_id":"u1","query":"` + secret + `","stream":true}`,
		"/v1/chat/completions": `{"model":"dyno-1","messages":[{"role":"user","content":"` + secret + `"}],"stream":true}`,
	} {
		_, text, _ := b.ask(path, "", body)
		said := ""
		for _, f := range frames(t, strings.NewReader(text)) {
			var d struct {
				Text    string
				Choices []struct{ Delta struct{ Content string } }
			}
			if f.data == "[DONE]" {
				continue
			}
			if err := json.Unmarshal([]byte(f.data), &d); err != nil {
				t.Error(err)
			}
			said += d.Text
			for _, c := range d.Choices {
				said += c.Delta.Content
			}
		}
		if said != want || strings.Contains(model.last(), secret) {
			t.Errorf("%s: %q", path, said)
		}
	}
	if _, text, _ := b.ask("/v1/chat/completions", "", `{"model":"dyno-1","messages":[{"role":"user","content":"x"}]}`); strings.Contains(text, secret) || !strings.Contains(text, "[api-key]") {
		t.Errorf("%s", text)
	}
}

// TestCache: those who ask the same at once, or later, have one answer, each key its own.
func TestCache(t *testing.T) {
	m := newLLM(t, func(c *llm.Config) { c.FirstToken = llm.Delay{A: 50 * ms} })
	b := serving(t, m, func(c *Config) {
		c.CacheAge, c.Keys = time.Minute, []Key{keyOf("one", Limit{store.Tokens, 1 << 40, 0}), keyOf("two")}
	})
	const question = `{"model":"dyno-1","temperature":0,"messages":[{"role":"user","content":"hi"}]}`
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if status, text, _ := b.ask("/v1/chat/completions", secretOf("one"), question); status != http.StatusOK {
				t.Errorf("%d %s", status, text)
			}
		})
	}
	all.Wait()
	if n := m.Stats().Asked; n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
	_, _, header := b.ask("/v1/chat/completions", secretOf("one"), question)
	if header.Get("X-Dyno-Cache") != "hit" {
		t.Errorf("%v", header)
	}
	b.ask("/v1/chat/completions", secretOf("two"), question)
	b.ask("/v1/chat/completions", secretOf("one"), `{"model":"dyno-1","messages":[{"role":"user","content":"hi"}]}`)
	b.ask("/v1/chat/completions", secretOf("one"), `{"model":"dyno-1","temperature":0,"stream":true,"messages":[{"role":"user","content":"hi"}]}`)
	if n := m.Stats().Asked; n != 4 {
		t.Errorf("the model was asked %d times, want 4", n)
	}
	paid := 0
	for _, e := range b.ledger("one", 23) {
		if e.Money > 0 {
			paid++
		}
		if e.Cached != (e.Money == 0) || e.Completion != 4 {
			t.Errorf("%+v", e)
		}
	}
	if paid != 3 {
		t.Errorf("%d were paid for", paid)
	}
}

// TestExceeds: a request that alone is more than a limit is refused for good, and is told by how much: it is of no use to
// come again later. What is left of the limit stays.
func TestExceeds(t *testing.T) {
	m := newLLM(t, nil)
	b := serving(t, m, func(c *Config) {
		c.ReplyTokens = 50
		c.Keys = []Key{keyOf("tokens", Limit{store.Tokens, 100, time.Hour}), keyOf("money", Limit{store.Money, 100_000, 0})}
	})
	for key, want := range map[string]string{"tokens": "may use 208 tokens, with its answer, and the limit of the key is 100", "money": "may use 200800 money, with its answer, and the limit of the key is 100000"} {
		status, text, header := b.ask("/v1/chat/completions", secretOf(key), `{"model":"dyno-1","max_tokens":200,"messages":[{"role":"user","content":"hi"}]}`)
		if status != http.StatusBadRequest || !strings.Contains(text, want) || !strings.Contains(text, "request_exceeds_limit") || header.Get("Retry-After") != "" {
			t.Errorf("%s: %d %s", key, status, text)
		}
		if status, text, _ := b.ask("/v1/chat/completions", secretOf(key), `{"model":"dyno-1","max_tokens":50,"messages":[{"role":"user","content":"hi"}]}`); status != http.StatusOK {
			t.Errorf("%s: %d %s", key, status, text)
		}
	}
}

// TestBounded: a request that has no bound gets one if its key has a limit of what an answer uses: that is
// what is reserved. Others are passed on as they are.
func TestBounded(t *testing.T) {
	model := newRecorder(t)
	b := serving(t, newLLM(t, nil), func(c *Config) {
		model.at(c)
		c.Upstream.Attempts, c.Upstream.Failures, c.ReplyTokens = 1, 100, 50
		c.Keys = []Key{keyOf("tokens", Limit{store.Tokens, 1000, 0}), keyOf("money", Limit{store.Money, 1 << 40, 0}), keyOf("requests", Limit{store.Requests, 100, 0}), keyOf("free")}
	})
	const chat, responses = `{"model":"dyno-1","messages":[{}]`, `{"model":"dyno-1","input":"hi"`
	for _, c := range []struct{ key, path, body, want string }{
		{"tokens", "chat/completions", chat + `}`, `{"max_tokens":50,"messages":[{}],"model":"dyno-1"}`},
		{"tokens", "chat/completions", chat + `,"max_output_tokens":1}`, `{"max_output_tokens":1,"max_tokens":50,"messages":[{}],"model":"dyno-1"}`},
		{"tokens", "chat/completions", chat + `,"max_tokens":7}`, `{"max_tokens":7,"messages":[{}],"model":"dyno-1"}`},
		{"tokens", "responses", responses + `}`, `{"input":"hi","max_output_tokens":50,"model":"dyno-1"}`},
		{"tokens", "responses", responses + `,"max_output_tokens":7}`, `{"input":"hi","max_output_tokens":7,"model":"dyno-1"}`},
		{"money", "chat/completions", chat + `}`, `{"max_tokens":50,"messages":[{}],"model":"dyno-1"}`},
		{"requests", "chat/completions", chat + `}`, `{"messages":[{}],"model":"dyno-1"}`},
		{"free", "chat/completions", chat + `}`, `{"messages":[{}],"model":"dyno-1"}`},
	} {
		if b.ask("/v1/"+c.path, secretOf(c.key), c.body); model.last() != c.want {
			t.Errorf("%s, %s: asked %s, want %s", c.key, c.body, model.last(), c.want)
		}
	}
}

// away is an archive that keeps nothing.
type away struct{ store.Archive }

func (away) Write(context.Context, []store.Record) ([]error, error) { return nil, errors.New("away") }

// archiveAway has nothing be kept until back is called.
func (b *bed) archiveAway() (back func()) {
	own, c := b.batch, b.cfg.batches()
	c.Pause = time.Hour // nothing goes meanwhile
	b.batch = store.NewBatcher(away{}, c)
	return func() {
		ended, end := context.WithCancel(b.t.Context())
		end()
		b.batch.Close(ended)
		b.batch = own
	}
}

// TestLeftAtOnce: who has left before the model was asked pays nothing.
func TestLeftAtOnce(t *testing.T) {
	b := serving(t, newLLM(t, nil), nil)
	gone, leave := context.WithCancel(t.Context())
	leave()
	for i, stream := range []string{"false", "true"} {
		<-b.direct(gone, httptest.NewRecorder(), "/v1/chat/completions", `{"model":"dyno-1","stream":`+stream+`,"messages":[{"role":"user","content":"hi"}]}`)
		if e := b.ledger("local", i+1)[0]; e.Outcome != outcomeAborted || e.Prompt != 0 || e.Money != 0 {
			t.Errorf("%+v", e)
		}
	}
}

// TestLedgerBound: while the archive is away, all answers and turns find room to wait for it. Requests that waited
// for a place then get no answer any more.
func TestLedgerBound(t *testing.T) {
	model := newStepper(t)
	b := serving(t, newLLM(t, nil), func(c *Config) {
		model.at(c)
		c.MaxConcurrent, c.Batch.Most, c.Batch.Pending, c.StoreTimeout = 2, 1, 1, 50*ms
	})
	defer b.archiveAway()()
	// Without a network, whose goroutines would know of the other batcher.
	answers := make(chan *httptest.ResponseRecorder)
	for i := range 3 {
		go func() {
			w := httptest.NewRecorder()
			<-b.direct(t.Context(), w, "/v1/bot/chat", fmt.Sprintf(`{"bot_id":"b","user_id":"u%d","query":"hi","stream":true}`, i))
			answers <- w
		}()
	}
	<-model.asked
	<-model.asked
	until(t, "somebody waits", func() bool { return b.places.Waiting() > 0 })
	close(model.words)
	answered, refused := 0, 0
	for range 3 {
		w := <-answers
		if w.Code == http.StatusOK && strings.Contains(w.Body.String(), string(historyNotConfirmed)) {
			answered++
		} else if strings.Contains(w.Body.String(), "ledger_full") {
			refused++
		}
	}
	if answered != 2 || refused != 1 {
		t.Errorf("%d answered, %d refused", answered, refused)
	}
	if accepts, wrong := b.health(); accepts || !strings.Contains(wrong, "records wait to be written") {
		t.Errorf("a gateway that answers nothing is healthy: %v, %q", accepts, wrong)
	}
	families, err := b.host.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if n := f.GetMetric()[0].GetCounter().GetValue(); f.GetName() == "bot_unaccounted_total" && n != 0 {
			t.Errorf("%v answers are not in the ledger", n)
		}
	}
}

// cacheable asks a question, whose answer has come, or has been given up, when left is closed.
func (b *bed) cacheable(question string) (left chan struct{}, leave context.CancelFunc) {
	ctx, leave := context.WithCancel(b.t.Context())
	return b.direct(ctx, httptest.NewRecorder(), "/v1/chat/completions", question), leave
}

// joined returns when that many wait for answers that others have asked for.
func (b *bed) joined(n uint64) {
	b.t.Helper()
	until(b.t, "others wait", func() bool { return b.cache.Stats().Joined >= n })
}

// TestJoinedAndLeft: who waited for an answer that another has asked for, and left, pays nothing.
func TestJoinedAndLeft(t *testing.T) {
	model := newStepper(t)
	b := serving(t, newLLM(t, nil), func(c *Config) { model.at(c); c.CacheAge = time.Minute })
	const question = `{"model":"dyno-1","temperature":0,"messages":[{"role":"user","content":"hi"}]}`
	first, leave := b.cacheable(question)
	defer leave()
	<-model.asked
	second, leave := b.cacheable(question)
	b.joined(1)
	leave()
	<-second
	if e := b.ledger("local", 1)[0]; e.Outcome != "aborted" || e.Prompt != 0 || e.Money != 0 {
		t.Errorf("%+v", e)
	}
	close(model.words)
	<-first
}

// TestAllLeft: an answer for which several wait is given up when the last of them has left, not before.
func TestAllLeft(t *testing.T) {
	asked, given := make(chan struct{}), make(chan struct{})
	b := atHandler(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(asked)
		<-r.Context().Done()
		close(given)
	}, func(c *Config) { c.CacheAge = time.Minute })
	first, leave := b.cacheable(`{"model":"dyno-1","temperature":0,"messages":[{"role":"user","content":"hi"}]}`)
	<-asked
	second, leaveSecond := b.cacheable(`{"model":"dyno-1","messages":[{"role":"user","content":"hi"}],"temperature":0}`)
	b.joined(1)
	leave()
	leaveSecond()
	<-given // until go test gives up
	<-first
	<-second
	paid := 0
	for _, e := range b.ledger("local", 2) {
		if e.Outcome != "aborted" {
			t.Errorf("%+v", e)
		}
		if e.Prompt > 0 {
			paid++
		}
	}
	if paid != 1 {
		t.Errorf("%d pay for it", paid)
	}
}

// TestContextIsReserved: what an upstream keeps and a request refers to is reserved, too, for keys whose tokens or money
// are limited. It is paid as the upstream tells.
func TestContextIsReserved(t *testing.T) {
	b := atHandler(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status":"completed","output":[],"usage":{"input_tokens":30,"output_tokens":7}}`)
	}, func(c *Config) {
		c.ContextTokens, c.ReplyTokens, c.UnknownResponses = 800, 100, true
		c.Keys = []Key{keyOf("tokens", Limit{store.Tokens, 1000, 0}), keyOf("money", Limit{store.Money, 182_000, 0}), keyOf("requests", Limit{store.Requests, 100, 0})}
	})
	ask := func(key, fields string, want int) {
		t.Helper()
		status, text, _ := b.ask("/v1/responses", secretOf(key), `{"model":"dyno-1","input":"hi","max_output_tokens":100`+fields+`}`)
		if status != want {
			t.Errorf("%s%s: %d %s, want %d", key, fields, status, text, want)
		}
	}
	for _, fields := range []string{`,"previous_response_id":"r"`, `,"conversation":{"id":"c"}`, `,"prompt":{"id":"p"}`} {
		ask("requests", fields, 200)
	}
	ask("tokens", `,"previous_response_id":"r"`, 200) // 901, and 37 are paid
	for range 5 {
		ask("tokens", ``, 200)
	}
	ask("tokens", `,"previous_response_id":"r"`, 429)
	ask("tokens", `,"conversation":"c"`, 429)
	ask("tokens", `,"prompt":{"id":"p"}`, 429)
	for _, c := range []struct {
		answer string
		want   int
	}{
		{`[{"type":"item_reference","id":"i"}]`, 429},
		{`[{"role":"user","content":"hi"},{"id":"i"}]`, 429},
		{`[{"role":"user","content":[{"type":"input_file","file_id":"f"}]}]`, 429},
		{`[{"role":"user","content":[{"type":"input_file","file\u005furl":"https://x/"}]}]`, 429},
		{`[{"type":"function_call_output","call_id":"c","output":[{"type":"input_image","file_id":"f"}]}]`, 429},
		{`"x","tools":[{"type":"function","name":"f"},{"type":"web_search_preview"}]`, 429},
		// What is in the request, or a text.
		{`[{"type":"message","id":"i","role":"assistant","content":[{"type":"output_text","text":"\"file_id\"","annotations":[{"type":"file_citation","file_id":"f"}]}]}]`, 200},
		{`"item_reference"`, 200},
		{`"x","tools":[{"type":"function","name":"file_id"}]`, 200},
	} {
		if status, text, _ := b.ask("/v1/responses", secretOf("tokens"), `{"model":"dyno-1","max_output_tokens":10,"input":`+c.answer+`}`); status != c.want {
			t.Errorf("%s: %d %s, want %d", c.answer, status, text, c.want)
		}
	}
	if status, text, _ := b.ask("/v1/chat/completions", secretOf("tokens"), `{"model":"dyno-1","max_tokens":100,"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]}]}`); status != 429 {
		t.Errorf("%d %s", status, text)
	}
	ask("money", `,"previous_response_id":"r"`, 200)
	ask("money", `,"previous_response_id":"r"`, 429)
	ask("money", ``, 200)
	ask("tokens", `,"previous_response_id":"r","instructions":"`+strings.Repeat("word ", 200)+`"`, 400) // more than may ever be
}

// TestBackgroundLeft: an answer that continues at the upstream without its client is paid as all that was requested.
func TestBackgroundLeft(t *testing.T) {
	began := make(chan struct{}, 1)
	b := atHandler(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"stream":true`) {
			_, _ = io.WriteString(w, "data: {\"type\":\"response.output_text.delta\",\"item_id\":\"i\",\"delta\":\"word\"}\n\n")
			_ = http.NewResponseController(w).Flush()
		}
		began <- struct{}{}
		<-r.Context().Done()
	}, nil)
	for i, c := range []struct {
		fields string
		least  int64
		most   int64
	}{{`"background":true,`, 5000, 5000}, {`"background":true,"stream":true,`, 5000, 5000}, {`"stream":true,`, 1, 1}, {``, 0, 0}} {
		ctx, leave := context.WithCancel(t.Context())
		w := &firstWrite{ResponseRecorder: httptest.NewRecorder(), written: make(chan struct{}, 1)}
		left := b.direct(ctx, w, "/v1/responses", `{"model":"dyno-1","input":"hi","max_output_tokens":5000,`+c.fields+`"store":true}`)
		<-began
		if strings.Contains(c.fields, "stream") {
			<-w.written
		}
		leave()
		<-left
		if e := b.ledger("local", i+1)[0]; e.Outcome != "aborted" || e.Completion < c.least || e.Completion > c.most || e.Prompt == 0 || !e.Estimated {
			t.Errorf("%s: %+v", c.fields, e)
		}
	}
}

// firstWrite tells when something has been written.
type firstWrite struct {
	*httptest.ResponseRecorder
	written chan struct{}
}

func (w *firstWrite) Write(b []byte) (int, error) {
	select {
	case w.written <- struct{}{}:
	default:
	}
	return w.ResponseRecorder.Write(b)
}

// TestTooManyTexts: an answer with more texts at once than can be masked ends with an error, not with gaps.
func TestTooManyTexts(t *testing.T) {
	b := atHandler(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range relay.MaxTexts + 1 {
			fmt.Fprintf(w, "data: {\"type\":\"response.output_text.delta\",\"item_id\":\"%d\",\"delta\":\"word\"}\n\n", i)
		}
		_, _ = io.WriteString(w, "data: {\"type\":\"response.completed\",\"response\":{\"output\":[],\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n")
	}, func(c *Config) { c.MaskOut = true })
	status, text, _ := b.ask("/v1/responses", "", `{"model":"dyno-1","input":"hi","stream":true}`)
	if status != http.StatusOK || !strings.Contains(text, relay.ErrTexts.Error()) || strings.Contains(text, "response.completed") || strings.Contains(text, `"delta":""`) {
		t.Errorf("%d …%s", status, text[max(0, len(text)-300):])
	}
	if e := b.ledger("local", 1)[0]; e.Outcome != "failed" || e.Completion == 0 {
		t.Errorf("%+v", e)
	}
}

// TestCacheOfResponses: an answer of /v1/responses that says whose it is, or that the upstream keeps, is
// nobody else's. One that failed is none, and is not kept.
func TestCacheOfResponses(t *testing.T) {
	var asked atomic.Int64
	status := make(chan string, 10)
	b := atHandler(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		var q struct{ User string }
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
		}
		said := "completed"
		select {
		case said = <-status:
		default:
		}
		fmt.Fprintf(w, `{"status":%q,"error":{"message":"overheated"},"user":%q,"output":[]}`, said, q.User)
	}, func(c *Config) { c.CacheAge, c.Upstream.Attempts = time.Minute, 1 })
	for i, c := range []struct {
		fields, status string
		code           int
		want           string
		asked          int64
	}{
		{`"store":false,"user":"a"`, "failed", 502, "overheated", 1},
		{`"store":false,"user":"a"`, "in_progress", 502, "still to come", 2},
		{`"store":false,"user":"a"`, "", 200, `"user":"a"`, 3},
		{`"store":false,"user":"a"`, "", 200, `"user":"a"`, 3},
		{`"store":false,"user":"b"`, "", 200, `"user":"b"`, 4},
		{`"user":"c"`, "", 200, `"user":"c"`, 5},
		{`"user":"c"`, "", 200, `"user":"c"`, 6},
		{`"background":true`, "queued", 200, `"queued"`, 7},
	} {
		if c.status != "" {
			status <- c.status
		}
		code, text, _ := b.ask("/v1/responses", "", `{"model":"dyno-1","input":"hi","temperature":0,`+c.fields+`}`)
		if code != c.code || !strings.Contains(text, c.want) || asked.Load() != c.asked {
			t.Errorf("%d: %d %s, asked %d times, want %+v", i, code, text, asked.Load(), c)
		}
	}
}

// TestTooLargeIsPaid: an answer too large to be passed on was made, so it counts in the ledger and in the limits.
func TestTooLargeIsPaid(t *testing.T) {
	model := newRecorder(t)
	model.text = func(string) string { return strings.Repeat("word ", 1000) }
	b := serving(t, newLLM(t, nil), func(c *Config) {
		model.at(c)
		c.Keys, c.Upstream.MaxAnswerBytes = []Key{keyOf("key", Limit{store.Tokens, 100_000, 0})}, 1000
	})
	status, text, _ := b.ask("/v1/chat/completions", secretOf("key"), `{"model":"dyno-1","max_tokens":200,"messages":[{"role":"user","content":"hi"}]}`)
	if status != http.StatusBadGateway || !strings.Contains(text, "more than 1000 bytes") {
		t.Errorf("%d %s", status, text)
	}
	if e := b.ledger("key", 1)[0]; e.Completion != 3 || e.Prompt != 7 || e.Estimated || e.Money == 0 || e.Attempts != 1 {
		t.Errorf("%+v", e)
	}
	if status, text := b.get("/v1/usage", secretOf("key")); status != http.StatusOK || strings.Contains(text, `"used":0`) {
		t.Errorf("%d %s", status, text)
	}
}

// TestTurnsFollow: turns of one conversation that come at once, at two gateways, follow one another: each is told of all
// before it. They reserve for what the conversation has become meanwhile, and give back what they reserved before: the
// limits count what the ledger has.
func TestTurnsFollow(t *testing.T) {
	eachStore(t, func(t *testing.T, set func(*Config)) {
		model, key := newRecorder(t), unique("key")
		var inside atomic.Int64
		model.text = func(string) string {
			if inside.Add(1) != 1 {
				t.Error("two turns at once")
			}
			defer inside.Add(-1)
			return "fine"
		}
		one := serving(t, newLLM(t, nil), func(c *Config) {
			set(c)
			model.at(c)
			c.SessionWaiters, c.HistoryTokens = 100, 1<<20
			c.Keys = []Key{keyOf(key, Limit{store.Requests, 1 << 40, 0}, Limit{store.Tokens, 1 << 40, 0})}
		})
		gateways := []*bed{one, one}
		if one.redis != nil {
			gateways[1] = serving(t, newLLM(t, nil), func(c *Config) { *c = one.cfg; c.Listen = "127.0.0.1:0" })
		}
		history := unique("h")
		const n = 20
		var all sync.WaitGroup
		var mu sync.Mutex
		seen := map[int64]int{}
		for i := range n {
			all.Go(func() {
				r, status, text := gateways[i%2].say(secretOf(key), history, fmt.Sprint("question ", i))
				if status != http.StatusOK || r.Turn.State != historyKept {
					t.Errorf("%d %s", status, text)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				seen[r.Turn.Turn] = r.Turn.ContextTurns
			})
		}
		all.Wait()
		for i := range int64(n) {
			if sent, ok := seen[i+1]; !ok || int64(sent) != i {
				t.Errorf("turn %d: there %v, told %d", i+1, ok, sent)
			}
		}
		for _, b := range gateways {
			if b.settled(); b.batch.Flush(t.Context()) != nil {
				t.Error("not flushed")
			}
		}
		var tokens int64
		for _, e := range one.ledger(key, n) {
			tokens += e.Prompt + e.Completion
		}
		if used, err := one.claims.Coordinator.Used(t.Context(), key, one.live.Load().payers[key].limits, time.Now()); err != nil || !slices.Equal(used, []int64{n, tokens}) {
			t.Errorf("used %v, %v, the ledger has %d answers with %d tokens", used, err, n, tokens)
		}
	})
}

// TestQueue: who waits is told how long, and beyond the bound nobody waits.
func TestQueue(t *testing.T) {
	model := newStepper(t)
	b := serving(t, newLLM(t, nil), func(c *Config) {
		model.at(c)
		c.MaxConcurrent, c.MaxWaiting, c.MaxWait = 1, 1, time.Minute
	})
	type answer struct {
		status int
		queue  string
		after  string
	}
	answers := make(chan answer)
	for range 3 {
		go func() {
			status, _, header := b.ask("/v1/chat/completions", "", `{"model":"dyno-1","messages":[{"role":"user","content":"hi"}],"stream":true}`)
			answers <- answer{status, header.Get("X-Dyno-Queue-Seconds"), header.Get("Retry-After")}
		}()
	}
	<-model.asked
	// One is answered and one waits, for as long as nothing is said.
	if a := <-answers; a.status != http.StatusServiceUnavailable || a.after == "" {
		t.Errorf("beyond the bound: %+v", a)
	}
	close(model.words)
	waited := 0
	for range 2 {
		a := <-answers
		if a.status != http.StatusOK {
			t.Errorf("%+v", a)
		}
		if a.queue != "0.000000" {
			waited++
		}
	}
	if waited != 1 {
		t.Errorf("%d waited", waited)
	}
}

// TestGivenUp: an answer that does not come in time costs what was asked, as the upstream has worked on
// it. One that never comes for another reason costs nothing. The ledger knows how often it was tried.
func TestGivenUp(t *testing.T) {
	for fault, late := range map[string]bool{"hang": true, "500": false} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprint(fault, stream), func(t *testing.T) {
				f, err := llm.ParseFault(fault)
				if err != nil {
					t.Fatal(err)
				}
				m := newLLM(t, func(c *llm.Config) { c.Faults = []llm.FaultRate{{Fault: f, Probability: 1}} })
				b := serving(t, m, func(c *Config) {
					c.Upstream.Attempts, c.Upstream.Failures, c.Upstream.FirstByte, c.Upstream.Total = 2, 100, 2*time.Second, 2*time.Second // a busy machine takes a while to send the request
				})
				status, text, _ := b.ask("/v1/chat/completions", "", fmt.Sprintf(`{"model":"dyno-1","messages":[{"role":"user","content":"hi"}],"stream":%v}`, stream))
				if (status == http.StatusGatewayTimeout) != late {
					t.Errorf("%d %s", status, text)
				}
				e := b.ledger("local", 1)[0]
				attempts := int64(2)
				if late { // it has the request
					attempts = 1
				}
				if e.Outcome != "failed" || e.Attempts != attempts || e.Upstream != "up" || e.Completion != 0 || (e.Prompt > 0) != late || (e.Money > 0) != late || e.Estimated != late {
					t.Errorf("%+v", e)
				}
			})
		}
	}
}

// TestTakesNothing: a client that asks and reads nothing is left after a time. One that is slow gets all
// of its answer, and has as much time as it likes to ask again.
func TestTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := make([]byte, 3*reply.WritePiece)
		left := make(chan struct{})
		server := &http.Server{ //nolint:gosec // in a test
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { reply.Body(w, time.Second, http.StatusOK, body) }),
			ConnState: func(_ net.Conn, s http.ConnState) {
				if s == http.StateClosed {
					close(left)
				}
			},
		}
		l := pipes.Listen()
		go func() { _ = server.Serve(l) }()
		defer server.Close()
		client, err := l.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		ask := func() {
			if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
		}
		ask()
		resp, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			time.Sleep(900 * ms)
			if _, err := io.ReadFull(resp.Body, body[:reply.WritePiece]); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		ask()
		began := time.Now()
		<-left
		if d := time.Since(began); d != time.Second {
			t.Errorf("left after %v", d)
		}
	})
}

// TestCutStream: a client of a stream that is cut is told, and the ledger knows.
func TestCutStream(t *testing.T) {
	m := newLLM(t, func(c *llm.Config) {
		c.InterToken = llm.Delay{A: ms}
		c.Faults = []llm.FaultRate{{Fault: llm.Fault{Kind: llm.FaultCut, After: 2}, Probability: 1}}
	})
	b := serving(t, m, nil)
	_, text, _ := b.ask("/v1/chat/completions", "", `{"model":"dyno-1","messages":[{"role":"user","content":"hi"}],"stream":true}`)
	if strings.Contains(text, "[DONE]") || !strings.Contains(text, `data: {"error":{"message":"upstream up: the stream was cut"`) {
		t.Errorf("%s", text)
	}
	_, text, _ = b.ask("/v1/bot/chat", "", `{"bot_id":"b","user_id":"u1","history_id":"h","query":"hi","stream":true}`)
	if strings.Contains(text, "event: done") || !strings.Contains(text, "event: error\n") {
		t.Errorf("%s", text)
	}
	for _, e := range b.ledger("local", 2) {
		if e.Outcome != "failed" || e.Completion < 1 || !e.Estimated {
			t.Errorf("%+v", e)
		}
	}
	if _, n, err := b.archive.Turns(t.Context(), "local/b/u1/h", 1); err != nil || n != 0 {
		t.Errorf("half a turn is kept: %d, %v", n, err)
	}
}

// TestPlugins: what they say reaches the model, and what is missing is stated.
func TestPlugins(t *testing.T) {
	model := newRecorder(t)
	release, ids := make(chan struct{}), make(chan string, 1)
	plugins := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/weather":
			var q struct{ ID string }
			if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
				t.Error(err)
			}
			ids <- q.ID
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"text":"sunny"}`)
		case "/slow":
			select {
			case <-release:
			case <-r.Context().Done():
			}
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(plugins.Close)
	t.Cleanup(func() { close(release) })
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte("fallback: chat\nintents: [{name: weather, terms: [{text: 天气}]}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := serving(t, newLLM(t, nil), func(c *Config) {
		model.at(c)
		c.Rules, c.PluginBudget = rules, time.Minute
		c.Plugins = []Plugin{
			{Name: "weather", URL: plugins.URL + "/weather", Intents: []string{"weather"}, Timeout: time.Minute}, {Name: "slow", URL: plugins.URL + "/slow", Timeout: 50 * ms},
			{Name: "broken", URL: plugins.URL + "/broken", Timeout: time.Minute}, {Name: "calculator", Builtin: "calculator"},
		}
	})
	r, _, text := b.say("", "", "今天北京天气怎么样? 3+4")
	got := map[string]string{}
	for _, p := range r.Plugins {
		got[p.Name] = string(p.Outcome)
	}
	if id := <-ids; id == "" || id != r.ID {
		t.Errorf("a plugin was told the turn %q, want %q", id, r.ID)
	}
	if fmt.Sprint(got) != "map[broken:failed calculator:ok slow:late weather:ok]" || r.Intent.Name != "weather" {
		t.Errorf("%s", text)
	}
	if asked := model.last(); !strings.Contains(asked, `instruction: \"sunny\"`) || !strings.Contains(asked, `instruction: \"3+4 = 7\"`) {
		t.Errorf("asked %s", asked)
	}
	if r, _, text := b.say("", "", "hello"); r.Intent.Name != "chat" || strings.Contains(text, `"weather"`) {
		t.Errorf("%s", text)
	}
}

// TestOutages: without PostgreSQL answers say that their turns are not kept; without
// Redis requests with limits are refused, or counted here. What was acknowledged is there
// afterwards, and the gateway needs no restart.
func TestOutages(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: kills PostgreSQL and Redis")
	}
	database, url := storetest.Own(t, storetest.Postgres)
	redis, address := storetest.Own(t, storetest.Redis)
	m := newLLM(t, nil)
	set := func(c *Config) {
		c.Archive, c.Postgres, c.Redis, c.StoreTimeout = ArchivePostgres, url, address, 3*time.Second
		c.Keys = []Key{keyOf("limited", Limit{store.Requests, 100, 0}), keyOf("free")}
	}
	b := serving(t, m, set)
	say := func(b *bed, key, history string, want int) chatReply {
		t.Helper()
		r, status, text := b.say(secretOf(key), history, "hello")
		if status != want {
			t.Errorf("%d %s, want %d", status, text, want)
		}
		return r
	}
	if r := say(b, "limited", "h", 200); r.Turn == nil || r.Turn.State != historyKept {
		t.Errorf("%+v", r.Turn)
	}
	database.Kill()
	if r := say(b, "free", "", 200); r.Turn == nil || r.Turn.State != historyNotConfirmed {
		t.Errorf("a new conversation without a database: %+v", r.Turn)
	}
	if r := say(b, "free", "h", 200); r.Turn == nil || r.Turn.State != historyUnavailable {
		t.Errorf("an old one: %+v", r.Turn)
	}
	if err := database.Start(); err != nil {
		t.Fatal(err)
	}
	if err := b.batch.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	if r := say(b, "limited", "h", 200); r.Turn == nil || r.Turn.State != historyKept || r.Turn.Turn != 2 || r.Turn.ContextTurns != 1 {
		t.Errorf("afterwards: %+v", r.Turn)
	}
	b.ledger("free", 2)
	redis.Kill()
	if _, status, text := b.say(secretOf("limited"), "h", "hello"); status != http.StatusServiceUnavailable || !strings.Contains(text, "limits_unavailable") {
		t.Errorf("limits without Redis: %d %s", status, text)
	}
	if r := say(b, "free", "h2", 200); r.Turn == nil || r.Turn.State != historyKept {
		t.Errorf("sessions without Redis: %+v", r.Turn)
	}
	local := serving(t, m, func(c *Config) { set(c); c.LimitsOutage = Local })
	if r := say(local, "limited", "h", 200); r.Turn == nil || r.Turn.State != historyKept || r.Turn.Turn != 3 {
		t.Errorf("counted here: %+v", r.Turn)
	}
	if err := redis.Start(); err != nil {
		t.Fatal(err)
	}
	// Its connections come back by themselves, in their time.
	for end := time.Now().Add(time.Minute); ; {
		r, status, text := b.say(secretOf("limited"), "h", "hello")
		if status == http.StatusOK {
			if r.Turn == nil || r.Turn.State != historyKept || r.Turn.Turn != 4 {
				t.Errorf("afterwards: %+v", r.Turn)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatalf("a minute after Redis has come back: %d %s", status, text)
		}
	}
}

func TestConfigFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("secret", strings.Repeat("s", 32)+"\n")
	write("up.key", "key\n")
	write("admin", strings.Repeat("a", 20)+"\n")
	write("empty", "\n")
	c, err := ReadConfig(write("bot.yaml", `
listen: 127.0.0.1:0
admin_token_file: admin
token_secret_file: secret
token: {lifetime: 5m}
allow_networks: [127.0.0.0/8]
allow_origins: [https://app.example]
upstreams:
  - {name: a, url: "http://127.0.0.1:1/v1", key_file: up.key, models: {m: own/m}, priority: 1, price: {prompt: 150, completion: 600}}
  - {name: b, url: "https://example.org/v1", models: {m: m}, weight: 3, max_concurrent: 10, bound: max_completion_tokens, stream_options: false, first_byte_timeout: 2m, idle_timeout: 90s}
upstream: {idle_timeout: 9s, attempts: 2}
keys:
  - id: k
    sha256: 52f6dbd7b1f6a7b2ff0ec6b2a0a8dcdcbf0a1b8ae2bf0cb7e2a9ed3a1d1a0f00
    limits: [{resource: money, amount: 5000000000, window: 24h}]
mask_rules: [{name: x, prefix: "x-", class: "a-z", min: 3}, {kind: email}, {name: ticket, pattern: "TCK-[0-9]{6}"}]
plugins: [{name: clock, builtin: clock, timeout: 100ms}]
`))
	if err != nil {
		t.Fatal(err)
	}
	u := c.Upstream.Upstreams
	if c.AdminTokenFile != filepath.Join(dir, "admin") || len(c.Token.Secret) != 32 || c.Token.Lifetime != 5*time.Minute || c.Token.Issuer != "dyno-bot" || len(u) != 2 || u[0].Key != "key" || u[0].Weight != 1 || u[0].Price[0].Completion != 600 || u[1].MaxConcurrent != 10 || u[1].Bound != openai.MaxCompletionTokens ||
		u[0].NoStreamOptions || u[0].FirstByte != 0 || !u[1].NoStreamOptions || u[1].FirstByte != 2*time.Minute || u[1].Idle != 90*time.Second || len(c.AllowOrigins) != 1 ||
		c.Upstream.Idle != 9*time.Second || c.Upstream.Attempts != 2 || c.Upstream.Total != 5*time.Minute || c.Keys[0].Limits[0] != (Limit{store.Money, 5e9, 24 * time.Hour}) || c.MaskRules[0].Min != 3 || c.Plugins[0].Timeout != 100*ms {
		t.Errorf("%+v", c)
	}
	for text, want := range map[string]string{
		"listne: x": "wrong.yaml:1:1: listne: unknown field; did you mean \"listen\"?",
		"upstreams: [{name: a, key_file: empty}]":             "wrong.yaml:1:33: upstreams[0].key_file: " + dir + "/empty: is empty",
		"redis: x:1\nredis_file: secret":                      "redis_file: excludes redis",
		`mask_rules: [{name: ticket, pattern: "TCK-[0-9]+"}]`: `mask_rules: rule 1, "ticket": pattern "TCK-[0-9]+": a match may have more than 256 characters`,
		// Zero is not taken for what is not given.
		`upstreams: [{name: a, url: "https://example.org/v1", models: {m: m}, weight: 0}]`:         "upstreams[0].weight: 0 is too little",
		`upstreams: [{name: a, url: "https://example.org/v1", models: {m: m}, max_concurrent: 0}]`: "upstreams[0].max_concurrent: 0 is too little",
		`upstreams: [{name: a, url: "https://example.org/v1", models: {m: m}, bound: other}]`:      `upstreams[0].bound: "other" is not possible`,
	} {
		if _, err := ReadConfig(write("wrong.yaml", text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if c, _ := ReadConfig(write("redis.yaml", "redis_file: up.key")); c.Redis != "key" {
		t.Errorf("%q", c.Redis)
	}
}

// TestValidateIsComplete: what New would refuse, and what could never work, is found before anything is opened, all at
// once.
func TestValidateIsComplete(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte("fallback: chat\nintents: [{name: buy, terms: [{text: buy}]}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	faults := map[string]struct {
		change func(*Config)
		want   string
	}{
		"nobody to ask":           {func(c *Config) { c.Upstream.Upstreams = nil }, "upstreams: there is none"},
		"two upstreams of a name": {func(c *Config) { c.Upstream.Upstreams = append(c.Upstream.Upstreams, c.Upstream.Upstreams[0]) }, `upstreams[1].name: "up" is there twice`},
		"an upstream of no model": {func(c *Config) { c.Upstream.Upstreams[0].Models = nil }, "upstreams[0].models: "},
		"a model of no name":      {func(c *Config) { c.Upstream.Upstreams[0].Models["x"] = "" }, "upstreams[0].models.x: is empty"},
		"everybody may ask":       {func(c *Config) { c.Listen, c.AllowRemote, c.Keys = "0.0.0.0:1", true, nil }, "keys: there is none"},
		"everybody may operate":   {func(c *Config) { c.Admin, c.AllowRemote = "0.0.0.0:2", true }, "admin_token_file: is missing"},
		"a network of no form":    {func(c *Config) { c.AllowNetworks = []string{"x"} }, "allow_networks"},
		"a short secret":          {func(c *Config) { c.Token.Secret = []byte("short") }, "token_secret_file: a secret of 5 bytes"},
		"a hash of no form":       {func(c *Config) { c.Keys[0].SHA256 = "xyz" }, "keys[0].sha256"},
		"keys of one name":        {func(c *Config) { c.Keys = append(c.Keys, c.Keys[0]) }, `keys[1].id: "test"`},
		"limits of one window": {func(c *Config) {
			c.Keys[0].Limits = []Limit{{store.Tokens, 10_000, time.Hour}, {store.Tokens, 20_000, time.Hour}}
		}, "keys[0].limits[1]"},
		"requests under way have no window": {func(c *Config) { c.Keys[0].Limits = []Limit{{store.Parallel, 1, time.Minute}} }, "keys[0].limits[0].window: requests under way have none"},
		"a window of no second":             {func(c *Config) { c.Keys[0].Limits = []Limit{{store.Requests, 1, ms}} }, "keys[0].limits[0].window: 1ms"},
		"a collector of no path":            {func(c *Config) { c.TraceEndpoint = "collector" }, "trace_endpoint: "},
		"a collector inside":                {func(c *Config) { c.TraceEndpoint = "http://10.0.0.1/v1/traces" }, "trace_endpoint: address not allowed"},
		"no room for a stream":              {func(c *Config) { c.ResumeBytes = c.ResumeStreamBytes }, "resume_bytes: "},
		"two plugins of a name":             {func(c *Config) { c.Plugins[1].Name = "clock" }, `plugins[1].name: "clock"`},
		"a plugin of no kind":               {func(c *Config) { c.Plugins[0].Builtin = "" }, "plugins[0]: there must be one of url and builtin"},
		"a plugin that nobody asks":         {func(c *Config) { c.Plugins[0].Intents = []string{"buy", "sell"} }, `plugins[0].intents[1]: the rules have no "sell"`},
		"an issuer of no algorithm":         {func(c *Config) { c.Issuers[0].Algorithms = nil }, "issuers[0].algorithms"},
		"an issuer of a secret":             {func(c *Config) { c.Issuers[0].Algorithms = []jwt.Algorithm{jwt.HS256} }, "issuers[0].algorithms"},
		"issuers of one key":                {func(c *Config) { c.Issuers = append(c.Issuers, c.Issuers[0]); c.Issuers[1].Name = "other" }, `issuers[1].key: "test"`},
		"an issuer twice":                   {func(c *Config) { c.Issuers = append(c.Issuers, c.Issuers[0]) }, `issuers[1].name: "idp"`},
		"a secret before none":              {func(c *Config) { c.Token.Previous = []byte(strings.Repeat("p", 32)) }, "token_previous_file: goes with"},
		"rules that are not there":          {func(c *Config) { c.Rules += ".none" }, "rules: stat "},
		"rules that are none":               {func(c *Config) { c.Rules = filepath.Dir(rules) }, "rules: "},
		"a model of nobody":                 {func(c *Config) { c.Keys[0].Models = []string{"dyno-1", "dyno-2"} }, `keys[0].models[1]: no upstream has "dyno-2"`},
		"a store that is slow":              {func(c *Config) { c.Redis, c.StoreTimeout = "127.0.0.1:1", c.SessionWait }, "store_timeout: 10s is too much"},
		"an address of nothing":             {func(c *Config) { c.Redis = "redis" }, "redis: want host:port"},
		"a database of nothing":             {func(c *Config) { c.Archive, c.Postgres = ArchivePostgres, "nothing" }, "postgres_file: postgres: the connection string"},
		"money that costs nothing": {func(c *Config) {
			c.Keys[0].Limits, c.Upstream.Upstreams[0].Price = []Limit{{store.Money, 1, 0}}, nil
		}, "keys[0].limits[0].resource: money: no upstream that it may use has a price"},
		"a key over plain HTTP":     {func(c *Config) { c.Upstream.Upstreams[0].URL, c.Upstream.Upstreams[0].Key = "http://8.8.8.8/v1", "k" }, "use https://"},
		"a key set over plain HTTP": {func(c *Config) { c.Issuers[0].KeySet = "http://8.8.8.8/keys" }, "issuers[0].key_set: address not allowed"},
		"an origin with a path":     {func(c *Config) { c.AllowOrigins = []string{"https://a.example/"} }, `allow_origins[0]: "https://a.example/"`},
		"an origin in capitals":     {func(c *Config) { c.AllowOrigins = []string{"https://A.example"} }, `allow_origins[0]: "https://A.example"`},
		"all origins, and another":  {func(c *Config) { c.AllowOrigins = []string{"app://a.b", "*"} }, `allow_origins[1]: "*"`},
		"all origins, without keys": {func(c *Config) { c.AllowOrigins, c.Keys = []string{"*"}, nil }, `allow_origins[0]: "*" goes with keys`},
		"an issuer of two kinds":    {func(c *Config) { c.Issuers[0].Secret = "a secret that two services share" }, "issuers[0].key_set: "},
		"an issuer's short secret":  {func(c *Config) { c.Issuers = []Issuer{{Lifetime: time.Hour, Secret: "short", Key: "test"}} }, "issuers[0].secret_file: a secret of 5 bytes"},
		"an issuer without a name":  {func(c *Config) { c.Issuers[0].Name = "" }, "issuers[0].name: "},
		"an issuer for nobody":      {func(c *Config) { c.Issuers[0].Audience = "" }, "issuers[0].audience: "},
		"a query for all":           {func(c *Config) { c.Upstream.Upstreams[0].URL += "?x=y" }, "upstreams[0].url: "},
	}
	config := func() Config {
		c := Defaults()
		c.AllowNetworks, c.Rules = []string{"127.0.0.0/8"}, rules
		c.Upstream.Upstreams = []upstream.Upstream{modelOf(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1})}
		c.Keys = []Key{keyOf("test")}
		c.Plugins = []Plugin{{Name: "clock", Builtin: "clock", Intents: []string{"buy", "chat"}}, {Name: "calculator", Builtin: "calculator"}}
		c.Issuers = []Issuer{{Name: "idp", Audience: "bot", Algorithms: []jwt.Algorithm{jwt.ES256}, Lifetime: time.Hour, KeySet: "https://example.org/keys", Key: "test"}}
		return c
	}
	if err := config().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, f := range faults {
		c := config()
		f.change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), f.want) {
			t.Errorf("%s: not reported: %s in %v", name, f.want, err)
		}
	}
	c := config()
	for _, name := range []string{"a plugin of no kind", "an issuer of no algorithm", "a short secret", "rules that are not there", "an address of nothing"} {
		faults[name].change(&c)
	}
	for _, want := range []string{"plugins[0]", "issuers[0]", "token_secret_file", "rules: ", "redis: "} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("all at once: not reported: %s in %v", want, err)
		}
	}
	if _, err := New(t.Context(), c); err == nil {
		t.Error("New accepts what Validate does not")
	}
}

// TestReady: a probe hears that the archive takes nothing, and is refused when there is no room for
// what waits.
func TestReady(t *testing.T) {
	b := serving(t, newLLM(t, nil), func(c *Config) { c.Admin, c.Batch.Most, c.Batch.Pending = "127.0.0.1:0", 1, 2 })
	ready := func() (int, string) {
		t.Helper()
		resp, err := b.client.Get("http://" + b.AdminAddr().String() + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		status, text, _ := b.whole(resp)
		return status, text
	}
	until(t, "it is ready", func() bool { // just after serving
		status, _ := ready()
		return status == http.StatusOK
	})
	defer b.archiveAway()()
	for waiting, want := range []int{http.StatusOK, http.StatusServiceUnavailable} {
		if err := b.batch.Later(store.Record{Entry: &store.Entry{}}); err != nil {
			t.Fatal(err)
		}
		until(t, "the archive is away", func() bool { return b.batch.State().Failing })
		if status, text := ready(); status != want || !strings.Contains(text, fmt.Sprintf("%d records wait to be written", waiting+1)) {
			t.Errorf("%d %s", status, text)
		}
	}
}

// TestLibrariesLog: what net/http says is in the gateway's log.
func TestLibrariesLog(t *testing.T) {
	var logged bytes.Buffer
	c := Defaults()
	c.Upstream.Upstreams = []upstream.Upstream{modelOf(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1})}
	c.AllowNetworks, c.Logger = []string{"127.0.0.0/8"}, slog.New(slog.NewJSONHandler(&logged, nil))
	g, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close(t.Context()) //nolint:errcheck // nothing was kept
	if g.server.ErrorLog == nil {
		t.Fatal("it goes to standard error as it is")
	}
	if g.server.ErrorLog.Print("http: Accept error: on purpose"); !strings.Contains(logged.String(), `"msg":"http: Accept error: on purpose"`) {
		t.Errorf("%s", &logged)
	}
}
