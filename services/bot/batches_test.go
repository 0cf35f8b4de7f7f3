package bot

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dyno/services/bot/store"
	"dyno/services/bot/upstream"
)

const aLine = `{"custom_id":"1","method":"POST","url":"/v1/chat/completions","body":{"model":"dyno-1","messages":[{"role":"user","content":"hello"}],"max_completion_tokens":100}}` + "\n"

// TestBatches: the requests of a batch get their upstream's name of the model. A batch is paid by an estimate when it is made.
func TestBatches(t *testing.T) {
	eachStore(t, func(t *testing.T, set func(*Config)) {
		b, _, second := atKeeping(t, set)
		key, other := secretOf("key"), secretOf("other")
		data, in := b.idIn(b.put("key", "user_data", aLine)), b.idIn(b.put("key", "batch", aLine+strings.Replace(aLine, `"max_completion_tokens":100`, `"unknown":1e400`, 1)))
		if got := string(second.content[in]); strings.Count(got, `"model":"own-1"`) != 2 || !strings.Contains(got, `"unknown":1e400`) || !strings.Contains(got, `"custom_id":"1"`) {
			t.Error(got)
		}
		const make = `{"input_file_id":%q,"endpoint":"/v1/chat/completions","completion_window":"24h"}`
		batch := b.idOf("/v1/batches", key, fmt.Sprintf(make, in))
		if e := b.ledger("key", 3)[0]; e.Endpoint != "batch" || e.Model != "dyno-1" || e.Completion != 100+1024 || e.Prompt < 10 || !e.Estimated || e.Money != 100*e.Prompt+1000*e.Completion {
			t.Errorf("%+v", e)
		}
		for status, body := range map[int]string{http.StatusNotFound: fmt.Sprintf(make, "file_x"), http.StatusBadRequest: fmt.Sprintf(make, data)} {
			if got, text, _ := b.ask("/v1/batches", key, body); got != status || !strings.Contains(text, `"param":"input_file_id"`) {
				t.Errorf("%s: %d %s", body, got, text)
			}
		}
		if status, text, _ := b.ask("/v1/batches", other, fmt.Sprintf(make, in)); status != http.StatusNotFound {
			t.Errorf("%d %s", status, text)
		}
		var out string
		for range 2 {
			status, text := b.get("/v1/batches/"+batch, key)
			var v struct {
				Output string `json:"output_file_id"`
			}
			if err := json.Unmarshal([]byte(text), &v); err != nil || status != http.StatusOK {
				t.Fatalf("%d %s", status, text)
			}
			out = v.Output
		}
		if status, text := b.get("/v1/files/"+out+"/content", key); status != http.StatusOK || !strings.Contains(text, "status_code") {
			t.Errorf("%d %s", status, text)
		}
		if status, text := b.request(http.MethodPost, "/v1/batches/"+batch+"/cancel", key); status != http.StatusConflict || !strings.Contains(text, "completed") {
			t.Errorf("%d %s", status, text)
		}
		for path, want := range map[string][]string{
			"/v1/files": {out, in, data, "false"}, "/v1/batches?limit=1": {batch, "false"},
		} {
			if diff := cmp.Diff(want, b.listed(path, key)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", path, diff)
			}
			if got := b.listed(path, other); len(got) != 1 {
				t.Errorf("another's %s: %v", path, got)
			}
		}
		for _, request := range []string{"GET /v1/files/" + out + "/content", "GET /v1/batches/" + batch, "POST /v1/batches/" + batch + "/cancel"} {
			method, path, _ := strings.Cut(request, " ")
			if status, text := b.request(method, path, other); status != http.StatusNotFound {
				t.Errorf("another's %s: %d %s", request, status, text)
			}
		}
	})
}

// TestBatchRefusals: what is at fault is refused before an upstream is asked.
func TestBatchRefusals(t *testing.T) {
	b, first, second := atKeeping(t, func(c *Config) {
		c.Keys = []Key{keyOf("key", Limit{Resource: store.Tokens, Amount: 1100, Window: 24 * time.Hour})}
		c.Keys[0].Models, c.MaxBodyBytes = []string{"dyno-1", "claude"}, 10_000
		u := upstream.DefaultUpstream()
		u.Name, u.URL, u.Dialect, u.Models = "anthropic", c.Upstream.Upstreams[0].URL, upstream.Anthropic, map[string]string{"claude": "c"}
		c.Upstream.Upstreams = append(c.Upstream.Upstreams, u)
	})
	line := func(was, is string) string { return aLine + strings.Replace(aLine, was, is, 1) }
	for _, c := range []struct {
		name, content string
		status        int
		want          string
	}{
		{"no JSON", aLine + "x\n", 400, "line 2: body"},
		{"a blank line", aLine + "\n", 400, "line 2: body"},
		{"twice", line(`"model":"dyno-1"`, `"model":"dyno-1","model":"dyno-2"`), 400, "line 2: body: "},
		{"twice outside", line(`"url"`, `"body":{},"url"`), 400, "line 2: body: "},
		{"no model", line(`"model"`, `"unknown"`), 400, "line 2: model"},
		{"another model", line(`dyno-1`, `dyno-3`), 400, `line 2: model: \"dyno-3\" is not that of the lines before`},
		{"unknown", strings.Replace(aLine, "dyno-1", "dyno-9", 1), 400, `line 1: model: \"dyno-9\" is not served here`},
		{"forbidden", strings.Replace(aLine, "dyno-1", "dyno-2", 1), 400, `line 1: model: \"dyno-2\" is not served here`},
		{"kept nowhere", strings.Replace(aLine, "dyno-1", "claude", 1), 400, "line 1: model: no upstream of"},
		{"long", line("hello", strings.Repeat("a", 10_000)), 400, "line 2: has more than 10000 bytes"},
	} {
		if status, text := b.put("key", "batch", c.content); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %s", c.name, status, text)
		}
	}
	if len(first.asked)+len(second.asked) > 0 {
		t.Error(first.asked, second.asked)
	}
	// A batch reserves what it may use, and other requests about objects none.
	for _, c := range []struct {
		content string
		want    []int
	}{{aLine, []int{200, 200, 200}}, {strings.Repeat(aLine, 12), []int{400}}} {
		in := b.idIn(b.put("key", "batch", c.content))
		for _, want := range c.want {
			if status, text, _ := b.ask("/v1/batches", secretOf("key"), `{"input_file_id":"`+in+`","endpoint":"/v1/chat/completions","completion_window":"24h"}`); status != want {
				t.Errorf("%d %s", status, text)
			}
		}
	}
	b.settled()
	if status, text, _ := b.ask("/v1/chat/completions", secretOf("key"), `{"model":"dyno-1","messages":[{"role":"user","content":"hi"}],"max_tokens":900}`); status != http.StatusTooManyRequests {
		t.Errorf("the batches count: %d %s", status, text)
	}
	if status, text := b.get("/v1/batches", secretOf("key")); status != http.StatusOK || strings.Count(text, `"object":"batch"`) != 3 {
		t.Errorf("%d %s", status, text)
	}
}

// TestBatchMasked: with mask_in, secrets in the requests of a batch are replaced.
func TestBatchMasked(t *testing.T) {
	b, _, second := atKeeping(t, func(c *Config) { c.MaskIn = true })
	const secret = "sk-abcdefghijklmnopqrstuvwxyz0123456789"
	in := b.idIn(b.put("key", "batch", strings.Replace(aLine, "hello", secret, 1)))
	if got := second.content[in]; len(got) < 100 || strings.Contains(string(got), secret) {
		t.Errorf("%s", got)
	}
}

// Clients that others wrote for OpenAI use batches.
func TestClientsOfBatches(t *testing.T) {
	want := map[string]any{"file": "batch", "batch": []any{"in_progress", "in_progress", "completed"}, "output": "1", "lists": []any{2.0, 2.0}, "cancelled": "cancelling"}
	for _, c := range packages {
		t.Run(c.name, func(t *testing.T) {
			b, _, _ := atKeeping(t, nil)
			var got map[string]any
			if err := json.Unmarshal(c.run(t, "batches", b.url+"/v1", secretOf("key")), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
