package bot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dyno/services/bot/upstream"
)

// atKeeping runs a gateway with two keys before two such servers, of which the second gets uploads.
func atKeeping(t *testing.T, change func(*Config)) (b *bed, first, second *keeping) {
	list := []*keeping{newKeeping(t, "a"), newKeeping(t, "b")}
	b = serving(t, newLLM(t, nil), func(c *Config) {
		c.Keys, c.Upstream.Upstreams = []Key{keyOf("key"), keyOf("other")}, nil
		for _, k := range list {
			s := httptest.NewServer(k)
			t.Cleanup(s.Close)
			u := modelOf(s.Listener.Addr())
			u.Name, u.Models, u.Files = k.name, map[string]string{"dyno-1": "own-1", "dyno-2": "own-2"}, k.name == "b"
			c.Upstream.Upstreams = append(c.Upstream.Upstreams, u)
		}
		if change != nil {
			change(c)
		}
	})
	return b, list[0], list[1]
}

// idOf asks, and returns the ID of what the answer is.
func (b *bed) idOf(path, who, body string) string {
	b.t.Helper()
	status, text, _ := b.ask(path, who, body)
	text, _, _ = strings.Cut(text[max(0, strings.Index(text, `{`)):], "\n") // of a stream, the first event
	var v struct {
		ID       string
		Response struct{ ID string }
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil || status != http.StatusOK {
		b.t.Fatalf("%s: %d %s %v", body, status, text, err)
	}
	return v.ID + v.Response.ID
}

// put uploads a file; key is the name of a key, or a secret.
func (b *bed) put(key, purpose, content string) (int, string) {
	b.t.Helper()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	part, err := w.CreateFormFile("file", "in.jsonl")
	if err == nil {
		_, err = part.Write([]byte(content))
	}
	if err != nil || w.WriteField("purpose", purpose) != nil || w.Close() != nil {
		b.t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, b.url+"/v1/files", &form)
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Content-Type", w.FormDataContentType())
	if !strings.HasPrefix(key, "sk-") {
		key = secretOf(key)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	resp, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	status, text, _ := b.whole(resp)
	return status, text
}

// TestObjectsAreOwned: what one key has made is not found by another key.
func TestObjectsAreOwned(t *testing.T) {
	eachStore(t, func(t *testing.T, set func(*Config)) {
		b, first, second := atKeeping(t, set)
		key, other := secretOf("key"), secretOf("other")
		for i, more := range []string{"", `,"stream":true`, `,"background":true`} {
			for range 4 {
				id := b.idOf("/v1/responses", key, `{"model":"dyno-1","input":"hi"`+more+`}`)
				maker := map[bool]*keeping{true: first, false: second}[strings.HasPrefix(id, "resp_a")]
				for _, request := range []string{"GET /v1/responses/" + id, "GET /v1/responses/" + id + "/input_items?limit=1", "POST /v1/responses/" + id + "/cancel", "DELETE /v1/responses/" + id} {
					method, path, _ := strings.Cut(request, " ")
					if status, text := b.request(method, path, other); status != http.StatusNotFound || !strings.Contains(text, "response_not_found") {
						t.Errorf("another's %s: %d %s", request, status, text)
					}
				}
				if status, text, _ := b.ask("/v1/responses", other, `{"model":"dyno-1","input":"hi","previous_response_id":"`+id+`"}`); status != http.StatusNotFound || !strings.Contains(text, "previous_response_not_found") {
					t.Errorf("another's is continued: %d %s", status, text)
				}
				if next := b.idOf("/v1/responses", key, `{"model":"dyno-1","input":"hi","previous_response_id":"`+id+`"}`); next[:6] != id[:6] {
					t.Errorf("%s continued by %s", id, next)
				}
				if status, text := b.request(http.MethodPost, "/v1/responses/"+id+"/cancel", key); i < 2 && (status != http.StatusBadRequest || !strings.Contains(text, "synchronous")) || i == 2 && (status != http.StatusOK || !strings.Contains(text, "cancelled")) {
					t.Errorf("cancel: %d %s", status, text)
				}
				if status, text := b.get("/v1/responses/"+id+"?include=x&stream=true&starting_after=1", key); status != http.StatusOK || !strings.HasPrefix(text, "event: response.completed") {
					t.Errorf("%d %s", status, text)
				}
				maker.mu.Lock()
				last := maker.asked[len(maker.asked)-1]
				maker.mu.Unlock()
				if last != "GET /v1/responses/"+id+"?include=x&starting_after=1&stream=true" {
					t.Error(last)
				}
				if status, text := b.request(http.MethodDelete, "/v1/responses/"+id, key); status != http.StatusOK || !strings.Contains(text, `"deleted":true`) {
					t.Errorf("%d %s", status, text)
				}
				if status, text := b.get("/v1/responses/"+id, key); status != http.StatusNotFound {
					t.Errorf("after it was deleted: %d %s", status, text)
				}
			}
		}
		if status, text, _ := b.ask("/v1/responses", key, `{"model":"dyno-1","input":"hi","previous_response_id":"resp_x"}`); status != http.StatusNotFound {
			t.Errorf("unknown: %d %s", status, text)
		}
		kept := b.idOf("/v1/responses", key, `{"model":"dyno-1","input":"hi","store":false}`)
		if status, text := b.get("/v1/responses/"+kept, key); status != http.StatusNotFound {
			t.Errorf("not stored: %d %s", status, text)
		}
	})
}

// TestUnknownResponses: by the setting, and without keys, responses that others made are continued by who has them.
func TestUnknownResponses(t *testing.T) {
	for name, change := range map[string]func(*Config){"setting": func(c *Config) { c.UnknownResponses = true }, "no keys": func(c *Config) { c.Keys = nil }} {
		t.Run(name, func(t *testing.T) {
			b, first, second := atKeeping(t, change)
			for _, k := range []*keeping{first, second} {
				id := k.add("resp", map[string]any{"object": "response"})["id"].(string)
				if next := b.idOf("/v1/responses", secretOf("key"), `{"model":"dyno-1","input":"hi","previous_response_id":"`+id+`"}`); next[:6] != id[:6] {
					t.Errorf("%s continued by %s", id, next)
				}
			}
		})
	}
}

// idIn is the ID in an answer.
func (b *bed) idIn(status int, text string) string {
	b.t.Helper()
	var v struct{ ID string }
	if err := json.Unmarshal([]byte(text), &v); err != nil || status != http.StatusOK {
		b.t.Fatalf("%d %s", status, text)
	}
	return v.ID
}

// listed are the IDs of a list, and whether there are more.
func (b *bed) listed(path, who string) (ids []string) {
	b.t.Helper()
	status, text := b.get(path, who)
	var v struct {
		Data []struct{ ID string }
		More bool `json:"has_more"`
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil || status != http.StatusOK {
		b.t.Fatalf("%s: %d %s", path, status, text)
	}
	for _, o := range v.Data {
		ids = append(ids, o.ID)
	}
	return append(ids, fmt.Sprint(v.More))
}

// TestFiles: files go to the upstream that keeps them. Lists have what is the key's.
func TestFiles(t *testing.T) {
	eachStore(t, func(t *testing.T, set func(*Config)) {
		b, _, second := atKeeping(t, set)
		key, other := secretOf("key"), secretOf("other")
		large := strings.Repeat("0123456789", 100_000)
		var ids []string
		for range 3 {
			ids = append(ids, b.idIn(b.put("key", "user_data", large)))
		}
		if status, text := b.get("/v1/files/"+ids[0]+"/content", key); status != http.StatusOK || text != large {
			t.Errorf("%d, %d bytes", status, len(text))
		}
		for path, want := range map[string][]string{"/v1/files": {ids[2], ids[1], ids[0], "false"}, "/v1/files?limit=2": {ids[2], ids[1], "true"}, "/v1/files?limit=2&after=" + ids[1]: {ids[0], "false"}} {
			if diff := cmp.Diff(want, b.listed(path, key)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", path, diff)
			}
			if got := b.listed(path, other); len(got) != 1 {
				t.Errorf("another's %s: %v", path, got)
			}
		}
		for _, request := range []string{"GET /v1/files/" + ids[0], "GET /v1/files/" + ids[0] + "/content", "DELETE /v1/files/" + ids[0]} {
			method, path, _ := strings.Cut(request, " ")
			if status, text := b.request(method, path, other); status != http.StatusNotFound {
				t.Errorf("another's %s: %d %s", request, status, text)
			}
		}
		const asking = `{"model":"dyno-1","input":[{"role":"user","content":[{"type":"input_file",%q:%q}]}]}`
		if status, text, _ := b.ask("/v1/responses", other, fmt.Sprintf(asking, "file_id", ids[0])); status != http.StatusNotFound {
			t.Errorf("another's file is read: %d %s", status, text)
		}
		if status, text, _ := b.ask("/v1/responses", other, strings.Replace(fmt.Sprintf(asking, "file_id", ids[0]), "file_id", `file\u005fid`, 1)); status != http.StatusNotFound {
			t.Errorf("another's file is read by an escaped name: %d %s", status, text)
		}
		for range 4 {
			if id := b.idOf("/v1/responses", key, fmt.Sprintf(asking, "file_id", ids[0])); !strings.HasPrefix(id, "resp_b") {
				t.Errorf("%s does not have the file", id)
			}
		}
		delete(second.objects, ids[0]) // by somebody else
		if got := b.listed("/v1/files", key); len(got) != 3 {
			t.Error(got)
		}
		if status, text := b.request(http.MethodDelete, "/v1/files/"+ids[1], key); status != http.StatusOK {
			t.Errorf("%d %s", status, text)
		}
		if got := b.listed("/v1/files", key); len(got) != 2 {
			t.Error(got)
		}
		for _, e := range b.ledger("key", 14) {
			if (e.Endpoint == "responses") != (e.Money > 0) {
				t.Errorf("%+v", e)
			}
		}
	})
}

// TestFileRefusals: what is at fault is refused before an upstream is asked.
func TestFileRefusals(t *testing.T) {
	b, first, second := atKeeping(t, func(c *Config) {
		c.Keys[1].Models = []string{"claude"}
		u := upstream.DefaultUpstream()
		u.Name, u.URL, u.Dialect, u.Models = "anthropic", c.Upstream.Upstreams[0].URL, upstream.Anthropic, map[string]string{"claude": "c"}
		c.Upstream.Upstreams = append(c.Upstream.Upstreams, u)
	})
	if status, text := b.put("other", "user_data", ""); status != http.StatusNotFound || !strings.Contains(text, "keeps files") {
		t.Errorf("%d %s", status, text)
	}
	for path, want := range map[string]int{"/v1/files?limit=0": 400, "/v1/files?limit=x": 400, "/v1/files?order=asc": 400, "/v1/files?purpose=batch": 400, "/v1/files?after=%00": 400, "/v1/files/%00": 404, "/v1/responses/" + strings.Repeat("a", 200): 404} {
		if status, text := b.get(path, secretOf("key")); status != want {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if len(first.asked)+len(second.asked) > 0 {
		t.Error(first.asked, second.asked)
	}
}

// TestObjectsMasked: with mask_out, contents and streams are refused, and the rest is masked.
func TestObjectsMasked(t *testing.T) {
	b, _, _ := atKeeping(t, func(c *Config) { c.MaskIn, c.MaskOut = true, true })
	key := secretOf("key")
	id := b.idOf("/v1/responses", key, `{"model":"dyno-1","input":"hi"}`)
	for _, path := range []string{"/v1/responses/" + id + "?stream=true", "/v1/responses/" + id + "?stream=1", "/v1/files/x/content"} {
		if status, text := b.get(path, key); status != http.StatusBadRequest || !strings.Contains(text, "mask_out") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}

// Clients that others wrote for OpenAI use files, responses, conversations and vector stores.
func TestClientsOfObjects(t *testing.T) {
	want := map[string]any{
		"background": []any{"in_progress", "completed", 24.0, "hello"}, "streamed": "response.completed", "items": "hi", "cancelled": "cancelled", "deleted": 404.0, "continued": "hello",
		"file": []any{"processed", "user_data"}, "content": "hello", "files": 2.0, "file_deleted": true,
		"conversation": []any{true, 2.0, true}, "conversation_updated": "b", "conversation_deleted": true, "vector_store": []any{"completed", true, "hello", true},
	}
	for _, c := range packages {
		t.Run(c.name, func(t *testing.T) {
			b, _, _ := atKeeping(t, nil)
			var got map[string]any
			if err := json.Unmarshal(c.run(t, "objects", b.url+"/v1", secretOf("key")), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
