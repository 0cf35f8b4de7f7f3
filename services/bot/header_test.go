package bot

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"dyno/services/bot/store"
)

// TestHeaderOfUpstreams: clients get the ID of the upstream's request and its limits, whole, streamed and refused, and
// nothing else of its header. An error that the gateway words has the ID of the gateway's request.
func TestHeaderOfUpstreams(t *testing.T) {
	b := atHandler(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for name, value := range map[string]string{"Request-Id": "r1", "X-Request-Id": "r2", "X-Ratelimit-Remaining-Requests": "3", "Anthropic-Ratelimit-Tokens-Limit": "4", "Set-Cookie": "own", "X-Ratelimit-Long": strings.Repeat("x", 300)} {
			w.Header().Set(name, value)
		}
		switch {
		case strings.Contains(string(body), "refuse"):
			w.WriteHeader(http.StatusBadRequest)
		case strings.Contains(string(body), `"stream":true`):
			_, _ = io.WriteString(w, aWord+aStop+aDone)
		default:
			_, _ = io.WriteString(w, aWhole)
		}
	}, nil)
	stream := streams["/v1/chat/completions"]
	for body, want := range map[string]int{stream: http.StatusOK, strings.Replace(stream, "true", "false", 1): http.StatusOK, strings.Replace(stream, "hi", "refuse", 1): http.StatusBadRequest} {
		status, text, h := b.ask("/v1/chat/completions", "", body)
		id, other := "r1", "r2"
		if want == http.StatusBadRequest {
			id, other = h.Get("X-Dyno-Id"), h.Get("X-Dyno-Id")
		}
		if status != want || h.Get("Request-Id") != id || h.Get("X-Request-Id") != other || want != http.StatusOK && !strings.Contains(text, `"request_id":"`+id+`"`) || h.Get("X-Ratelimit-Remaining-Requests") != "3" || h.Get("Anthropic-Ratelimit-Tokens-Limit") != "4" {
			t.Errorf("%d %s %v", status, text, h)
		}
		if h.Get("Set-Cookie") != "" || h.Get("X-Ratelimit-Long") != "" {
			t.Errorf("%v", h)
		}
	}
}

// TestOwnLimits: a client is told what is left of its key's limits, the one with the least of each resource, in the form of
// its API: with answers, and when one is reached. The upstream's are left out then. A key with other limits gets these.
func TestOwnLimits(t *testing.T) {
	eachStore(t, func(t *testing.T, set func(*Config)) {
		ids := map[string]string{"calls": unique("calls"), "tokens": unique("tokens"), "money": unique("money")}
		b := atHandler(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("X-Ratelimit-Remaining-Images", "3")
			w.Header().Set("X-Request-Id", "r")
			switch {
			case strings.Contains(string(body), "refuse"):
				w.WriteHeader(http.StatusBadRequest)
			case strings.Contains(string(body), `"stream":true`):
				_, _ = io.WriteString(w, aWord+aStop+aUsage+aDone)
			default:
				_, _ = io.WriteString(w, aWhole)
			}
		}, func(c *Config) {
			set(c)
			c.Keys = []Key{
				keyOf(ids["calls"], Limit{store.Requests, 100, 0}, Limit{store.Requests, 5, 1000 * time.Hour}, Limit{store.Parallel, 9, 0}),
				keyOf(ids["tokens"], Limit{store.Tokens, 1 << 40, 24 * time.Hour}),
				keyOf(ids["money"], Limit{store.Money, 1 << 50, 0}),
			}
		})
		told := func(h http.Header) string {
			var list []string
			for _, what := range []string{"limit", "remaining"} {
				for _, of := range []string{"requests", "tokens"} {
					list = append(list, h.Get("x-ratelimit-"+what+"-"+of)+h.Get("anthropic-ratelimit-"+of+"-"+what))
				}
			}
			return strings.Join(append(list, h.Get("X-Ratelimit-Remaining-Images"), h.Get("Retry-After")), " ")
		}
		check := func(who, path, body, want string, status int) http.Header {
			t.Helper()
			got, text, h := b.ask(path, secretOf(ids[who]), body)
			b.settled()
			after := h.Get("Retry-After") // until the window ends
			if status == http.StatusTooManyRequests && after != "" {
				want += after
			}
			if got != status || told(h) != want || (after != "") != (status == http.StatusTooManyRequests) {
				t.Errorf("%s %s: %d %s: %q, want %q", path, body, got, text, told(h), want)
			}
			return h
		}
		const path = "/v1/chat/completions"
		stream := streams[path]
		h := check("calls", path, question, "5  4   ", 200)
		if d, err := time.ParseDuration(h.Get("x-ratelimit-reset-requests")); err != nil || d <= 0 || d > 1000*time.Hour || h.Get("X-Request-Id") != "r" {
			t.Errorf("%v, %v, %v", d, err, h)
		}
		check("calls", path, stream, "5  3   ", 200)
		h = check("calls", "/v1/messages", `{"model":"dyno-1","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`, "5  2   ", 200)
		if at, err := time.Parse(time.RFC3339, h.Get("anthropic-ratelimit-requests-reset")); err != nil || time.Until(at) > 1000*time.Hour {
			t.Errorf("%v, %v", at, err)
		}
		check("calls", "/v1/bot/chat", `{"bot_id":"b","user_id":"u","query":"hi"}`, "5  1   ", 200)
		check("calls", path, strings.Replace(question, "hi", "refuse", 1), "5  0   ", 400)
		check("calls", path, question, "5  0   ", 429)
		check("calls", path, question, "5  0   ", 429) // without asking the store
		check("calls", "/v1/bot/chat", `{"bot_id":"b","user_id":"u","query":"hi"}`, "5  0   ", 429)
		check("money", path, question, "    3 ", 200)
		const bound = 16
		body := strings.Replace(question, "{", fmt.Sprintf(`{"max_tokens":%d,`, bound), 1)
		_, _, h = b.ask(path, secretOf(ids["tokens"]), body)
		var left int64
		if n, err := fmt.Sscan(h.Get("x-ratelimit-remaining-tokens"), &left); n != 1 || 1<<40-left < bound || 1<<40-left > bound+20 || h.Get("x-ratelimit-limit-tokens") != fmt.Sprint(1<<40) {
			t.Errorf("%d, %v, %v", left, err, h)
		}
	})
}
