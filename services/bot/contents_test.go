package bot

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"dyno/services/bot/mask"
	"dyno/services/bot/store"
	"dyno/services/bot/upstream"
)

// What fakeGemini answers, after the reference "Generating content" of v1beta of 2026-11.
const (
	aContent  = `{"candidates": [{"content": {"parts": [{"text": "hello"}],"role": "model"},"finishReason": "STOP","index": 0}],"usageMetadata": {"promptTokenCount": 25,"candidatesTokenCount": 2,"thoughtsTokenCount": 1,"cachedContentTokenCount": 20}}`
	toContent = `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`
)

// contentEvents is a stream of pieces.
func contentEvents(pieces ...string) string {
	var b strings.Builder
	for _, piece := range pieces {
		fmt.Fprintf(&b, `data: {"candidates": [{"content": {"parts": [{"text": %q}],"role": "model"}}]}`+"\r\n\r\n", piece)
	}
	return b.String() + "data: " + strings.Replace(aContent, "hello", "", 1) + "\r\n\r\n"
}

// fakeGemini runs a gateway before a server of Gemini's dialect that answer stands in for.
func fakeGemini(t *testing.T, answer http.HandlerFunc, change func(*Config)) *bed {
	t.Helper()
	return atHandler(t, answer, func(c *Config) {
		u := &c.Upstream.Upstreams[0]
		u.Dialect, u.Key, u.Models = upstream.Gemini, "own-key", map[string]string{"a/dyno:1": "own"}
		if change != nil {
			change(c)
		}
	})
}

// TestContents: requests, answers and streams of the Gemini API pass as they are, but for the model's name in the path.
// They are limited and accounted, and the key may be in the query, which the upstream does not get.
func TestContents(t *testing.T) {
	var asked string
	b := fakeGemini(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = fmt.Sprintf("%s %s %s", r.URL, body, r.Header.Get("X-Goog-Api-Key"))
		if strings.Contains(r.URL.Path, ":stream") {
			_, _ = io.WriteString(w, contentEvents("he", "llo"))
			return
		}
		_, _ = io.WriteString(w, aContent)
	}, func(c *Config) { c.Keys = []Key{keyOf("key", Limit{Resource: store.Tokens, Amount: 2100})} })
	const bounded = `{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"generationConfig":{"maxOutputTokens":1024}} own-key`
	for _, c := range []struct{ path, asked, answer string }{
		{"/v1beta/models/a/dyno:1:generateContent?key=", "/v1/models/own:generateContent " + bounded, aContent},
		{"/v1/models/a%2Fdyno:1:streamGenerateContent?alt=sse&key=", "/v1/models/own:streamGenerateContent?alt=sse " + bounded, contentEvents("he", "llo")},
	} {
		status, text, _ := b.headed(c.path+secretOf("key"), toContent, nil)
		if status != http.StatusOK || text != c.answer || asked != c.asked {
			t.Errorf("%s: %d %s, asked %s", c.path, status, text, asked)
		}
	}
	for _, e := range b.ledger("key", 2) {
		if e.Endpoint != "contents" || e.Outcome != "ok" || e.Prompt != 25 || e.Completion != 3 || e.Estimated {
			t.Errorf("%+v", e)
		}
	}
	for _, c := range []struct {
		path, body, says string
		status           int
	}{
		{"/v1/models/a/dyno:1:generateContent", toContent, `"status":"UNAUTHENTICATED"`, 401},
		{"/v1/models/other:generateContent?key=" + secretOf("key"), toContent, `"status":"NOT_FOUND"`, 404},
		{"/v1/models/a/dyno:1:predict?key=" + secretOf("key"), toContent, `nothing is served by POST /v1/models/a/dyno:1:predict"`, 404},
		{"/v1/models/a/dyno:1:streamGenerateContent?key=" + secretOf("key"), toContent, `"alt: want sse`, 400},
		{"/v1/models/a/dyno:1:generateContent?key=" + secretOf("key"), `{"contents":1}`, `"contents: must be there`, 400},
		{"/v1/models/a/dyno:1:generateContent?key=" + secretOf("key"), strings.Replace(toContent, "{", `{"generationConfig":{"maxOutputTokens":9999},`, 1), `this request may use 1`, 400},
		{"/v1/chat/completions?key=" + secretOf("key"), `{}`, `"authentication_error"`, 401},
	} {
		if status, text, _ := b.headed(c.path, c.body, nil); status != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%s: %d %s", c.path, status, text)
		}
	}
}

// TestContentsMasked: secrets are replaced in requests and in answers, however a stream cuts them. A stream that is cut
// says so.
func TestContentsMasked(t *testing.T) {
	const secret = "sk-abcdefghijklmnopqrstuvwxyz"
	b := fakeGemini(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.Contains(string(body), secret):
			t.Errorf("%s", body)
		case strings.Contains(string(body), "cut"):
			_, _ = io.WriteString(w, strings.Split(contentEvents("he", "llo"), "\r\n\r\n")[0]+"\r\n\r\n")
		case strings.Contains(r.URL.Path, ":stream"):
			_, _ = io.WriteString(w, contentEvents("it is "+secret[:9], secret[9:]))
		default:
			_, _ = io.WriteString(w, strings.Replace(aContent, "hello", secret, 1))
		}
	}, func(c *Config) { c.MaskIn, c.MaskOut, c.MaskRules = true, true, mask.Defaults() })
	for _, method := range []string{"generateContent", "streamGenerateContent?alt=sse"} {
		_, text, _ := b.headed("/v1beta/models/a/dyno:1:"+method, strings.Replace(toContent, "hi", secret, 1), nil)
		if !strings.Contains(text, "[api-key]") || strings.Contains(text, "klmnop") || !strings.Contains(text, "STOP") {
			t.Error(text)
		}
	}
	_, text, _ := b.headed("/v1beta/models/a/dyno:1:streamGenerateContent?alt=sse", strings.Replace(toContent, "hi", "cut", 1), nil)
	if !strings.Contains(text, `data: {"error":{"code":502,"message":"upstream up: the stream was cut","status":"UNAVAILABLE","details":[{`) || !strings.HasSuffix(text, "]}}\n\n") {
		t.Error(text)
	}
}
