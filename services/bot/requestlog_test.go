package bot

import (
	"encoding/json"
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
