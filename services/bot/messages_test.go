package bot

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"dyno/services/bot/mask"
	"dyno/services/bot/openai"
	"dyno/services/bot/store"
	"dyno/services/bot/upstream"
)

// What fakeAnthropic answers, after the Messages API reference of 2026-11.
const (
	aMessage   = `{"id":"msg_1","type":"message","role":"assistant","model":"own","content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":5,"cache_read_input_tokens":20,"cache_creation_input_tokens":100,"output_tokens":3}}`
	aBegin     = "event: message_start\ndata: " + `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"own","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":5,"cache_read_input_tokens":20,"cache_creation_input_tokens":100,"output_tokens":1}}}` + "\n\n"
	aBlock     = "event: content_block_start\ndata: " + `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\nevent: ping\ndata: {\"type\": \"ping\"}\n\n"
	aPiece     = "event: content_block_delta\ndata: " + `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello"}}` + "\n\n"
	aBlockStop = "event: content_block_stop\ndata: " + `{"type":"content_block_stop","index":0}` + "\n\n"
	anEnd      = "event: message_delta\ndata: " + `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":3}}` + "\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	aStream    = aBegin + aBlock + aPiece + aBlockStop + anEnd

	toMessages = `{"model":"dyno-1","max_tokens":64,"messages":[{"role":"user","content":"hi"}],"stream":true}`
)

// fakeAnthropic runs a gateway before a server of Anthropic's dialect that answer stands in for.
func fakeAnthropic(t *testing.T, answer http.HandlerFunc, change func(*Config)) *bed {
	t.Helper()
	return atHandler(t, answer, func(c *Config) {
		u := &c.Upstream.Upstreams[0]
		u.Dialect, u.Key, u.Models = upstream.Anthropic, "own-key", map[string]string{"dyno-1": "own"}
		if change != nil {
			change(c)
		}
	})
}

// TestMessages: requests, answers and streams of the Messages API pass as they are, but for the model's name, with the
// client's versions and the upstream's limits. They are accounted with the tokens of the cache.
func TestMessages(t *testing.T) {
	var asked []string
	b := fakeAnthropic(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		h := r.Header
		asked = append(asked, fmt.Sprintf("%s %s %s|%s|%s|%s%s", r.URL.Path, body, h.Get("Anthropic-Version"), h.Get("Anthropic-Beta"), h.Get("X-Api-Key"), h.Get("Authorization"), h.Get("X-Own")))
		w.Header().Set("Request-Id", "req_1")
		w.Header().Set("Anthropic-Ratelimit-Input-Tokens-Remaining", "7") // of another account than the key's limit
		w.Header().Set("Anthropic-Organization-Id", "secret")
		if strings.Contains(string(body), `"stream":true`) {
			_, _ = io.WriteString(w, aStream)
			return
		}
		_, _ = io.WriteString(w, aMessage)
	}, func(c *Config) { c.Keys = []Key{keyOf("key", Limit{Resource: store.Tokens, Amount: 1e6})} })
	header := map[string]string{"X-Api-Key": secretOf("key"), "Anthropic-Version": "2024-01-01", "Anthropic-Beta": "new", "X-Own": "x"}
	for body, want := range map[string]string{toMessages: aStream, strings.Replace(toMessages, "true", "false", 1): aMessage} {
		status, text, h := b.headed("/v1/messages", body, header)
		if status != http.StatusOK || text != want {
			t.Errorf("%d %s", status, text)
		}
		if h.Get("Request-Id") != "req_1" || h.Get("Anthropic-Ratelimit-Tokens-Limit") != "1000000" || h.Get("Anthropic-Ratelimit-Input-Tokens-Remaining") != "" || h.Get("Anthropic-Organization-Id") != "" || h.Get("X-Dyno-Id") == "" {
			t.Errorf("%v", h)
		}
		asked0 := `/v1/messages {"max_tokens":64,"messages":[{"role":"user","content":"hi"}],"model":"own","stream":` + fmt.Sprint(body == toMessages) + `} 2024-01-01|new|own-key|`
		if got := asked[len(asked)-1]; got != asked0 {
			t.Errorf("%s\nwant %s", got, asked0)
		}
	}
	for _, e := range b.ledger("key", 2) {
		if e.Endpoint != "messages" || e.Outcome != "ok" || e.Prompt != 125 || e.Completion != 3 || e.Estimated || e.Money != 125*100+3*1000 {
			t.Errorf("%+v", e)
		}
	}
	delete(header, "Anthropic-Version")
	b.headed("/v1/messages", strings.Replace(toMessages, `"max_tokens":64,`, "", 1), header)
	if got := asked[len(asked)-1]; !strings.Contains(got, `{"max_tokens":1024,`) || !strings.Contains(got, "} 2023-06-01|new|") {
		t.Error(got)
	}
}

// TestMessagesFaults: errors have the form of the Messages API, wherever they come from.
func TestMessagesFaults(t *testing.T) {
	const upstreams = `{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: too many"},"request_id":"req_2"}`
	b := fakeAnthropic(t, func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ System string }
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		w.Header().Set("Request-Id", "req_2")
		switch asked.System {
		case "refuse":
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, upstreams)
		case "busy":
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(529)
			_, _ = io.WriteString(w, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)
		case "cut":
			_, _ = io.WriteString(w, aBegin+aBlock+aPiece+aBlockStop)
		case "fail":
			_, _ = io.WriteString(w, aBegin+"event: error\ndata: "+`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`+"\n\n")
		}
	}, func(c *Config) { c.MaxBodyBytes, c.Upstream.Attempts, c.Upstream.Failures = 1000, 1, 100 })
	says := func(system string) string { return strings.Replace(toMessages, "{", `{"system":"`+system+`",`, 1) }
	// In a stream, the client learns that the answer is not complete.
	for system, want := range map[string]string{"cut": `{"error":{"message":"upstream up: the stream was cut","type":"api_error"},"request_id":"ID","type":"error"}`, "fail": `{"error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"ID","type":"error"}`} {
		_, text, h := b.headed("/v1/messages", says(system), nil)
		list := frames(t, strings.NewReader(text))
		if last := list[len(list)-1]; last.name != "error" || last.data != strings.Replace(want, "ID", h.Get("X-Dyno-Id"), 1) || strings.Contains(text, "[DONE]") {
			t.Errorf("%s: %s", system, text)
		}
	}
	for _, c := range []struct {
		path, body   string
		status       int
		kind, begins string
	}{
		{"/v1/messages/x", toMessages, 404, "not_found_error", "nothing is served by POST /v1/messages/x"},
		{"/v1/messages", `{`, 400, "invalid_request_error", "body: "},
		{"/v1/messages", strings.Repeat(" ", 2000), 413, "request_too_large", "a request has "},
		{"/v1/messages", strings.Replace(toMessages, "dyno-1", "other", 1), 404, "not_found_error", "model: "},
		{"/v1/messages/count_tokens", strings.Replace(toMessages, "dyno-1", "other", 1), 404, "not_found_error", "model: "},
		{"/v1/messages", says("refuse"), 400, "invalid_request_error", "max_tokens: too many"},
		{"/v1/messages", says("busy"), 503, "overloaded_error", "upstream up: status 529: Overloaded"}, // it is not asked again for a while
	} {
		status, text, h := b.headed(c.path, c.body, nil)
		var e struct {
			Type  string
			Error struct{ Type, Message string }
			ID    *string `json:"request_id"`
		}
		if err := json.Unmarshal([]byte(text), &e); err != nil || status != c.status || e.Type != "error" || e.Error.Type != c.kind || !strings.HasPrefix(e.Error.Message, c.begins) {
			t.Errorf("%s %.60s: %d %s", c.path, c.body, status, text)
		}
		if id := h.Get("X-Dyno-Id"); c.body != says("refuse") && (id == "" || e.ID == nil || *e.ID != id || h.Get("Request-Id") != id || h.Get("X-Request-Id") != id) {
			t.Errorf("%s: %v, %s", c.body, h, text)
		} else if c.body == says("refuse") && h.Get("Request-Id") != "req_2" {
			t.Errorf("%s: %v, %s", c.body, h, text)
		}
	}
	if status, text, h := b.headed("/v1/messages", toMessages, map[string]string{"Anthropic-Beta": strings.Repeat("x", maxVersions+1)}); status != http.StatusBadRequest || !strings.Contains(text, "anthropic-beta: ") {
		t.Errorf("%d %s %v", status, text, h)
	}
	outcomes := map[string]int{}
	for _, e := range b.ledger("local", 4) {
		outcomes[e.Outcome]++
		if e.Prompt == 125 && (e.Completion == 0 || e.Outcome != "failed") {
			t.Errorf("%+v", e)
		}
	}
	if outcomes["refused"] != 1 || outcomes["failed"] != 3 {
		t.Error(outcomes)
	}
}

// TestCountTokens: an upstream of Anthropic's dialect counts, and others' tokens are estimated. Neither costs tokens.
func TestCountTokens(t *testing.T) {
	var path string
	count := func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.Path
		_, _ = io.WriteString(w, `{"input_tokens":2095}`)
	}
	limits := []Limit{{Resource: store.Tokens, Amount: 1025}, {Resource: store.Requests, Amount: 2}}
	const body = `{"model":"dyno-1","system":"be kind!","messages":[{"role":"user","content":"hi"}]}`
	for _, dialect := range []upstream.Dialect{upstream.Anthropic, upstream.OpenAI} {
		path = ""
		b := fakeAnthropic(t, count, func(c *Config) {
			c.Upstream.Upstreams[0].Dialect, c.Keys = dialect, []Key{keyOf("key", limits...)}
		})
		want, at, estimated := `{"input_tokens":2095}`, "/v1/messages/count_tokens", ""
		if dialect == upstream.OpenAI {
			want, at, estimated = `{"input_tokens":11}`, "", "true"
		}
		for range 2 {
			status, text, h := b.headed("/v1/messages/count_tokens", body, map[string]string{"X-Api-Key": secretOf("key")})
			if status != http.StatusOK || text != want || path != at || h.Get("X-Dyno-Estimated") != estimated || (h.Get("X-Dyno-Upstream") == "up") == (estimated != "") {
				t.Errorf("%s: %d %s %q %v", dialect, status, text, path, h)
			}
		}
		if status, text, _ := b.headed("/v1/messages/count_tokens", body, map[string]string{"X-Api-Key": secretOf("key")}); status != http.StatusTooManyRequests {
			t.Errorf("%d %s", status, text)
		}
		for _, e := range b.ledger("key", 2) {
			if e.Endpoint != "count_tokens" || e.Outcome != "ok" || e.Prompt+e.Completion+e.Money != 0 || e.Estimated {
				t.Errorf("%+v", e)
			}
		}
	}
}

// TestMessagesTranslated: an upstream of another dialect answers in the form of the Messages API, too, and does not get
// Anthropic's fields.
func TestMessagesTranslated(t *testing.T) {
	b := atHandler(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Anthropic-Version") != "" || r.URL.Path != "/v1/chat/completions" {
			t.Errorf("%s %v", r.URL.Path, r.Header)
		}
		var asked struct{ Stream bool }
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		if asked.Stream {
			_, _ = io.WriteString(w, aWord+aStop+aUsage+aDone)
			return
		}
		_, _ = io.WriteString(w, aWhole)
	}, nil)
	header := map[string]string{"Anthropic-Version": "2023-06-01"}
	_, whole, _ := b.headed("/v1/messages", strings.Replace(toMessages, "true", "false", 1), header)
	if r, err := openai.Standard().ParseReply(openai.Messages, []byte(whole)); err != nil || r.Text != "hello" || r.Usage.Prompt != 7 || r.Usage.Completion != 3 {
		t.Errorf("%v: %s", err, whole)
	}
	_, stream, _ := b.headed("/v1/messages", toMessages, header)
	text, usage := "", (*openai.Usage)(nil)
	for in := openai.NewReader(strings.NewReader(stream)); ; {
		f, err := in.Next()
		if err != nil {
			break
		}
		var v openai.Event
		if err := openai.Standard().ParseEvent(openai.Messages, f, &v); err != nil {
			t.Error(err)
		}
		for _, d := range v.Deltas {
			text += d.Text
		}
		usage = openai.Messages.Latest(usage, v.Usage)
	}
	if text != "hello" || usage == nil || usage.Prompt != 7 || usage.Completion != 3 || !strings.HasSuffix(stream, "data: {\"type\":\"message_stop\"}\n\n") {
		t.Errorf("%s", stream)
	}
	for _, e := range b.ledger("local", 2) {
		if e.Outcome != "ok" || e.Prompt != 7 || e.Completion != 3 || e.Estimated {
			t.Errorf("%+v", e)
		}
	}
}

// TestMessagesCached: an answer from the cache is for the client's versions, and has no ID of an upstream's request.
func TestMessagesCached(t *testing.T) {
	b := fakeAnthropic(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Request-Id", "req_1")
		_, _ = io.WriteString(w, aMessage)
	}, func(c *Config) { c.CacheAge = time.Hour })
	body := strings.Replace(toMessages, `"stream":true`, `"temperature":0`, 1)
	for _, c := range []struct{ beta, cached string }{{"a", ""}, {"a", "hit"}, {"b", ""}} {
		_, text, h := b.headed("/v1/messages", body, map[string]string{"Anthropic-Beta": c.beta})
		if text != aMessage || h.Get("X-Dyno-Cache") != c.cached || (h.Get("Request-Id") == "") != (c.cached == "hit") {
			t.Errorf("%+v: %s %v", c, text, h)
		}
	}
}

// TestMessagesMasked: secrets are replaced in requests and in answers, whole and streamed.
func TestMessagesMasked(t *testing.T) {
	const secret = "sk-abcdefghijklmnopqrstuvwxyz"
	b := fakeAnthropic(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), secret) {
			t.Errorf("%s", body)
		}
		if !strings.Contains(string(body), `"stream":true`) {
			_, _ = io.WriteString(w, strings.Replace(aMessage, "hello", "say "+secret, 1))
			return
		}
		for _, piece := range []string{aBegin, aBlock, strings.Replace(aPiece, "hello", "say "+secret[:9], 1), strings.Replace(aPiece, "hello", secret[9:], 1), aBlockStop, anEnd} {
			_, _ = io.WriteString(w, piece)
		}
	}, func(c *Config) { c.MaskIn, c.MaskOut, c.MaskRules = true, true, mask.Defaults() })
	body := strings.Replace(toMessages, "hi", secret, 1)
	for _, body := range []string{body, strings.Replace(body, "true", "false", 1)} {
		if _, text, _ := b.headed("/v1/messages", body, nil); strings.Contains(text, "klmnop") || !strings.Contains(text, "[api-key]") {
			t.Error(text)
		}
	}
}
