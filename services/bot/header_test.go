package bot

import (
	"io"
	"net/http"
	"strings"
	"testing"
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
