package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"dyno/experiments/subjects/bot/codec"
	"dyno/internal/leak"
	"dyno/services/bot"
	"dyno/services/bot/program"
	"dyno/services/bot/upstream"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A model is a model server that answers what it was asked last.
type model struct {
	*httptest.Server
	mu   sync.Mutex // guards last
	last string     // what was asked
}

func newModel(t *testing.T) *model {
	m := &model{}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var q struct {
			Stream   bool
			Messages []struct{ Content string }
		}
		if err != nil || json.Unmarshal(body, &q) != nil || len(q.Messages) == 0 {
			t.Errorf("%v: %s", err, body)
			return
		}
		m.mu.Lock()
		m.last = string(body)
		m.mu.Unlock()
		text := q.Messages[len(q.Messages)-1].Content
		if !q.Stream {
			quoted, _ := json.Marshal(text)
			fmt.Fprintf(w, `{"choices":[{"message":{"content":%s},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3}}`, quoted)
			return
		}
		for _, c := range text {
			quoted, _ := json.Marshal(string(c))
			fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%s},\"finish_reason\":null}]}\n\n", quoted)
		}
		// Numbers in unusual forms.
		fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\": 7.0,\"completion_tokens\": \"3\"}}\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(m.Close)
	return m
}

// gateway returns the address of a gateway with the variants that flags say. Without any, its parts are its own.
func gateway(t *testing.T, m *model, flags ...string) string {
	t.Helper()
	cmd := &cobra.Command{}
	apply := extend(cmd)
	if err := cmd.Flags().Parse(flags); err != nil {
		t.Fatal(err)
	}
	c := bot.Defaults()
	u := upstream.DefaultUpstream()
	u.Name, u.URL, u.Models = "up", m.URL+"/v1", map[string]string{"dyno-1": "dyno-1"}
	c.Upstream.Upstreams, c.AllowNetworks = []upstream.Upstream{u}, []string{"127.0.0.0/8"}
	c.CacheAge, c.MaxBodyBytes, c.SystemPrompt = time.Minute, 4096, "be <kind> & brief"
	c.Plugins = []bot.Plugin{{Name: "calculator", Builtin: "calculator"}}
	c.Archive, c.File = bot.ArchiveSQLite, filepath.Join(t.TempDir(), "db")
	if len(flags) > 0 {
		if err := apply(&c); err != nil {
			t.Fatal(err)
		}
	}
	g, err := bot.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(g.Handler())
	t.Cleanup(func() {
		s.Close()
		if err := g.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s.URL
}

func ask(t *testing.T, url, body string) (int, string, http.Header) {
	t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return 0, "", nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp.StatusCode, string(text), resp.Header
}

// changing is what differs from one time to the next.
var changing = regexp.MustCompile(`"(id|request_id|seconds|queue_seconds|created|access_token|expires_at|at)":("[^"]*"|[0-9.e+-]+)|id: [a-z0-9]+-`)

// script is what is asked of each form of the gateway: whole and streamed answers,
// plugins, what is refused, and what was kept.
var script = []struct{ path, body string }{
	{"/v1/login", `{"user_id":"u1"}`},
	{"/v1/bot/chat", `{"bot_id":"b","user_id":"u1","history_id":"h","query":"3 + 4 = \u003c你好\u003e"}`},
	{"/v1/bot/chat", `{"bot_id":"b","user_id":"u1","history_id":"h","query":"again \"quoted\"","stream":true,"message_id":"m"}`},
	{"/v1/bot/chat", `{"BOT_ID":"b","user_id":"u1","history_id":"h","query":"first"}`},
	{"/v1/bot/chat", `{"bot_id":"b","user_id":"u1","history_id":"h","query":"first","query":"second"}`},
	{"/v1/bot/chat", `{"bot_id":"b","user_id":"u1","history_id":"h","query":"second"}`},
	{"/v1/chat/completions", `{"model":"dyno-1","temperature":0,"messages":[{"role":"user","content":"hi"}],"seed":9007199254740993}`},
	{"/v1/chat/completions", `{"model":"dyno-1","temperature":0,"messages":[{"role":"user","content":"hi"}],"seed":9007199254740993}`},
	{"/v1/chat/completions", `{"model":"dyno-1","messages":[{"role":"user","content":"hi"}],"stream":true}`},
	{"/v1/bot/chat", `{"bot_id":"b",`},
	{"/v1/bot/chat", `{"bot_id":5}`},
	{"/v1/bot/chat", `{"bot_id":"b","user_id":"u1","query":""}`},
	{"/v1/chat/completions", `{"model":"other","messages":[{}]}`},
	{"/v1/elsewhere", `{}`},
	{"/v1/bot/history?bot_id=b&user_id=u1&history_id=h", ""},
}

// play asks all of the script and returns what was answered.
func play(t *testing.T, url string) string {
	t.Helper()
	var answers strings.Builder
	for _, s := range script {
		status, text, header := ask(t, url+s.path, s.body)
		if status == http.StatusBadRequest { // each library has its own words for a fault
			var e struct {
				Error struct{ Message, Type string }
			}
			if err := json.Unmarshal([]byte(text), &e); err != nil || e.Error.Message == "" {
				t.Errorf("%s", text)
			}
			text = e.Error.Type
		}
		fmt.Fprintln(&answers, s.path, status, header.Get("Content-Type"), header.Get("Cache-Control"), header.Get("X-Dyno-Cache"), changing.ReplaceAllString(text, "$1"))
	}
	return answers.String()
}

// TestVariants: whatever the parts, the same is answered and kept; and among many at once everybody has their own answer.
func TestVariants(t *testing.T) {
	m := newModel(t)
	forms := [][]string{
		nil,
		{"--buffer-pool=false"},
		{"--buffer-pool=false", "--json-prealloc=false"},
		{"--cache-kind=rwmutex"},
		{"--cache-kind=snapshot"},
		{"--unmatched-middleware"},
		{"--middleware=per-request"},
		{"--middleware=per-request", "--unmatched-middleware"},
		{"--archive-writes=single"},
	}
	for _, l := range codec.Libraries() {
		forms = append(forms, []string{"--json=" + string(l)}, []string{"--json=" + string(l), "--json-prealloc=false"})
	}
	usual := ""
	for _, flags := range forms {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			url := gateway(t, m, flags...)
			got := play(t, url)
			if flags == nil {
				usual = got
				if strings.Count(got, " 200 ") != 8 || !strings.Contains(got, " hit ") || !strings.Contains(got, `"reply":"second"`) {
					t.Errorf("as usual:\n%s", got)
				}
			}
			if got != usual {
				t.Errorf("got\n%s\nwant\n%s", got, usual)
			}
			var all sync.WaitGroup
			for i := range 24 {
				all.Go(func() {
					want := strings.Repeat(fmt.Sprint("question ", i, " "), i%5*2+1)
					_, text, _ := ask(t, url+"/v1/bot/chat", fmt.Sprintf(`{"bot_id":"b","user_id":"u2","query":%q}`, want))
					if !strings.Contains(text, fmt.Sprintf(`"reply":%q`, want)) {
						t.Errorf("%q: %s", want, text)
					}
					_, text, _ = ask(t, url+"/v1/bot/chat", fmt.Sprintf(`{"bot_id":"b","user_id":"u2","query":%q,"stream":true}`, want))
					answer := ""
					for _, piece := range regexp.MustCompile(`"text":"([^"]*)"`).FindAllStringSubmatch(text, -1) {
						answer += piece[1]
					}
					if answer != want {
						t.Errorf("%q: %s", want, text)
					}
				})
			}
			all.Wait()
		})
	}
}

// TestNull: a field that is null stays so, whichever library reads it.
func TestNull(t *testing.T) {
	m := newModel(t)
	for _, l := range codec.Libraries() {
		ask(t, gateway(t, m, "--json="+string(l))+"/v1/chat/completions", `{"model":"dyno-1","stop":null,"messages":[{"role":"user","content":"hi"}]}`)
		if want := `{"messages":[{"role":"user","content":"hi"}],"model":"dyno-1","stop":null}`; m.last != want {
			t.Errorf("%s: %s", l, m.last)
		}
	}
}

// TestCommand: single parts are measured, and faults of flags are reported.
func TestCommand(t *testing.T) {
	for _, c := range []struct {
		args, says string
		code       int
	}{
		{"micro middleware --form per-request --unmatched --duration 1ms", `"request_seconds":`, 0},
		{"micro json --library jsoniter --prealloc --operation encode --duration 1ms", `"bytes_per_second":`, 0},
		{"micro cache --kind rwmutex --keys 100 --duration 1ms", `"p99_seconds":`, 0},
		{"micro rows --writes single --rows 10 --duration 1ms", `"rows_per_second":`, 0},
		{"micro json --library fast", "--library: ", 2},
		{"micro rows --archive postgres --postgres-file none", "--postgres-file: ", 2},
		{"micro fast", "unexpected argument", 2},
		{"--listen 127.0.0.1:0 --upstream http://127.0.0.1:1/v1 --models m --allow-network 127.0.0.1 --json fast --archive-writes copy --cache-kind disk --middleware none",
			"JSON library \"fast\": must be one of jsoniter, sonic, std\narchive writes \"copy\": must be batch or single\nmiddleware \"none\": must be composed or per-request\ncache \"disk\": must be sharded, rwmutex or snapshot", 2},
	} {
		var out bytes.Buffer
		if code := program.Main(t.Context(), strings.Fields(c.args), &out, &out, extend); code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: exit code %d: %s", c.args, code, &out)
		}
	}
}
