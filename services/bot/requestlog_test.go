package bot

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRequestLog: each request has a line that says what it was, what came of it and what it cost, without its text.
func TestRequestLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "requests.json")
	b := atHandler(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.Contains(string(body), "refuse"):
			w.WriteHeader(http.StatusBadRequest)
		case strings.Contains(string(body), "cut"):
			_, _ = io.WriteString(w, aWord)
		case strings.Contains(string(body), `"stream":true`):
			_, _ = io.WriteString(w, aWord+aStop+`data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":2}}}`+"\n\n"+aDone)
		default:
			_, _ = io.WriteString(w, aWhole)
		}
	}, func(c *Config) {
		c.LogRequests = path
	})
	stream := streams["/v1/chat/completions"]
	var ids []string
	for _, body := range []string{stream, strings.Replace(stream, "true", "false", 1), strings.Replace(stream, "hi", "refuse", 1), strings.Replace(stream, "hi", "cut", 1), "{"} {
		_, _, h := b.ask("/v1/chat/completions", "", body)
		ids = append(ids, h.Get("X-Dyno-Id"))
	}
	_, _, h := b.ask("/nothing", "", "{}")
	ids = append(ids, h.Get("X-Dyno-Id"))
	var text []byte
	until(t, "a line for each request", func() bool {
		var err error
		if text, err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), "\n") == len(ids)
	})
	if strings.Contains(string(text), "word") || strings.Contains(string(text), `"hi"`) {
		t.Errorf("the log has content: %s", text)
	}
	got := map[any]map[string]any{}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		got[m["id"]] = m
	}
	want := []map[string]any{
		{"http.response.status_code": 200., "outcome": "ok", "stream": true, "gen_ai.usage.input_tokens": 7., "gen_ai.usage.output_tokens": 3., "gen_ai.usage.cache_read.input_tokens": 2., "cost_billionths": 3700., "deployment": "up", "key": "local", "gen_ai.request.model": "dyno-1", "gen_ai.response.model": "dyno-1", "tries": 1., "http.request.method": "POST", "url.path": "/v1/chat/completions"},
		{"http.response.status_code": 200., "outcome": "ok", "stream": nil},
		{"http.response.status_code": 400., "outcome": "refused", "error.type": "upstream_error"},
		{"http.response.status_code": 200., "outcome": "failed"},
		{"http.response.status_code": 400., "outcome": nil, "error.type": "400", "key": "local"},
		{"http.response.status_code": 404., "key": nil},
	}
	if len(got) != len(want) {
		t.Fatalf("%s", text)
	}
	for i, m := range want {
		got := got[ids[i]]
		for name, value := range m {
			if got[name] != value {
				t.Errorf("line %d: %s: %v, want %v", i, name, got[name], value)
			}
		}
		if got == nil || got["duration_ms"].(float64) <= 0 || got["http.response.body.size"].(float64) == 0 || got["client.address"] == "" {
			t.Errorf("line %d: %v", i, got)
		}
	}
	if first := got[ids[0]]["first_token_ms"].(float64); first <= 0 {
		t.Errorf("%v", first)
	}
}

// TestLogContent: with log_content, a line has the texts of the request and of the answer, up to a size, without secrets: also
// without those that come in pieces, or are cut.
func TestLogContent(t *testing.T) {
	const secret = "sk-abcdefghijklmnopqrstuvwxyz"
	path := filepath.Join(t.TempDir(), "requests.json")
	say := func(choice int, text string) string {
		return fmt.Sprintf("data: {\"choices\":[{\"index\":%d,\"delta\":{\"content\":%q}}]}\n\n", choice, text)
	}
	b := atHandler(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.Contains(string(body), "long"):
			_, _ = io.WriteString(w, say(0, strings.Repeat("界", 333))+say(0, secret)+say(0, " and more")+aStop+aDone)
		case strings.Contains(string(body), `"stream":true`):
			_, _ = io.WriteString(w, say(0, "it is "+secret[:7])+say(1, "other")+say(0, secret[7:])+say(0, "!")+aStop+aDone)
		default:
			_, _ = io.WriteString(w, strings.Replace(aWhole, "hello", "whole "+secret, 1))
		}
	}, func(c *Config) { c.LogRequests, c.LogContent = path, 1000 })
	ask := func(path, body string) string {
		_, _, h := b.ask(path, "", body)
		return h.Get("X-Dyno-Id")
	}
	chat := func(text string, stream bool) string {
		return fmt.Sprintf(`{"model":"dyno-1","stream":%t,"messages":[{"role":"user","content":%q}]}`, stream, text)
	}
	masked := strings.ReplaceAll(chat("say "+secret, false), secret, "[api-key]")
	want := map[string]map[string]any{
		ask("/v1/chat/completions", chat("say "+secret, false)):                        {"request.text": masked, "answer.text": "whole [api-key]"},
		ask("/v1/chat/completions", chat("say "+secret, true)):                         {"request.text": strings.Replace(masked, "false", "true", 1), "answer.text": "it is [api-key]!"},
		ask("/v1/chat/completions", chat("long "+strings.Repeat("x", 2000), true)):     {"request.text": chat("long "+strings.Repeat("x", 2000), true)[:1000], "request.cut": true, "answer.text": strings.Repeat("界", 333) + "[", "answer.cut": true},
		ask("/v1/bot/chat", `{"bot_id":"b","user_id":"u","query":"hi","stream":true}`): {"request.text": `{"bot_id":"b","user_id":"u","query":"hi","stream":true}`, "answer.text": "it is [api-key]!"},
		ask("/v1/chat/completions", `{"model":"`+secret):                               {"request.text": nil, "answer.text": nil},
	}
	until(t, "a line for each request", func() bool {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), secret[:10]) {
			t.Fatalf("%s", text)
		}
		return strings.Count(string(text), "\n") == len(want)
	})
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var got map[string]any
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		id, _ := got["id"].(string)
		for _, name := range []string{"request.text", "request.cut", "answer.text", "answer.cut"} {
			if want[id] == nil || got[name] != want[id][name] {
				t.Errorf("%s: %v, want %v", name, got[name], want[id][name])
			}
		}
	}
}
