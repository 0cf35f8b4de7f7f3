package bot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"dyno/services/bot/openai"
	"dyno/services/bot/upstream"
)

// alive is what a stream has before the upstream says anything.
const alive = ": the upstream is at work\n\n"

// atHandler runs a gateway before what stands in for a model server.
func atHandler(t *testing.T, model http.HandlerFunc, change func(*Config)) *bed {
	s := httptest.NewServer(model)
	t.Cleanup(s.Close)
	return serving(t, newLLM(t, nil), func(c *Config) {
		c.Upstream.Upstreams = []upstream.Upstream{modelOf(s.Listener.Addr())}
		if change != nil {
			change(c)
		}
	})
}

// Requests of streams, by their paths.
var streams = map[string]string{
	"/v1/bot/chat":         `{"bot_id":"b","user_id":"u1","history_id":"h","query":"hi","stream":true}`,
	"/v1/chat/completions": `{"model":"dyno-1","messages":[{"role":"user","content":"hi"}],"stream":true}`,
	"/v1/responses":        `{"model":"dyno-1","input":"hi","stream":true}`,
}

const (
	aWord = `data: {"choices":[{"index":0,"delta":{"content":"hello"},"finish_reason":null}]}` + "\n\n"
	aStop = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
)

// TestClientsOfSlowUpstreams: while an upstream shows that it is at work, its client gets comments, before the first event and
// afterwards. A failure is told in the stream that has begun so.
func TestClientsOfSlowUpstreams(t *testing.T) {
	for path, body := range streams {
		for _, fails := range []bool{false, true} {
			if path == "/v1/responses" && !fails {
				continue // which is answered in another form
			}
			t.Run(fmt.Sprintf("%s fails %v", strings.ReplaceAll(path[1:], "/", " "), fails), func(t *testing.T) {
				seen := make(chan struct{})
				b := atHandler(t, func(w http.ResponseWriter, r *http.Request) {
					tick := time.NewTicker(20 * ms)
					defer tick.Stop()
					wait := func() {
						for {
							select {
							case <-tick.C:
								_, _ = io.WriteString(w, ": ping\n\n")
								_ = http.NewResponseController(w).Flush()
							case <-seen:
								return
							case <-r.Context().Done():
								return
							}
						}
					}
					wait()
					if fails {
						fmt.Fprint(w, `data: {"error":{"message":"worn out","type":"busy","code":"full"}}`, "\n\n")
						return
					}
					fmt.Fprint(w, aWord)
					wait()
					fmt.Fprint(w, aStop, "data: [DONE]\n\n")
				}, func(c *Config) { c.Upstream.Attempts = 1 })
				resp, err := b.post(t.Context(), path, "", body)
				if err != nil {
					t.Fatal(err)
				}
				if h := resp.Header; resp.StatusCode != http.StatusOK || h.Get("X-Dyno-Id") == "" || h.Get("Content-Type") != "text/event-stream" || h.Get("X-Dyno-Upstream") != "" {
					t.Errorf("%s %v", resp.Status, h)
				}
				in, piece := strings.Builder{}, make([]byte, 4096)
				comments := 0
				for err == nil {
					var n int
					n, err = resp.Body.Read(piece)
					in.Write(piece[:n])
					for ; strings.Count(in.String(), alive) > comments; comments++ {
						if comments < 2 && (!fails || comments < 1) {
							seen <- struct{}{}
						}
					}
				}
				resp.Body.Close()
				text := in.String()
				if !errors.Is(err, io.EOF) || !strings.HasPrefix(text, alive) {
					t.Errorf("%v, %s", err, text)
				}
				if last := frames(t, strings.NewReader(text)); fails {
					want := `{"error":{"message":"upstream up: worn out","type":"busy","param":null,"code":"full","request_id":"ID"}}`
					if path == "/v1/responses" {
						want = `{"type":"error","code":"full","message":"upstream up: worn out","param":null,"request_id":"ID","sequence_number":0}`
					}
					if n := len(last); n != 1 || last[0].data != strings.Replace(want, "ID", resp.Header.Get("X-Dyno-Id"), 1) || (last[0].name == "error") == (path == "/v1/chat/completions") {
						t.Errorf("%+v", last)
					}
				} else if n := len(last); comments < 2 || last[n-1].name != "done" && last[n-1].data != "[DONE]" {
					t.Errorf("%d comments, %+v", comments, last)
				}
				outcome := map[bool]string{false: "ok", true: "failed"}[fails]
				if e := b.ledger("local", 1)[0]; e.Outcome != outcome || e.Attempts != 1 {
					t.Errorf("%+v", e)
				}
			})
		}
	}
}

// TestReasonsReachClients: a client learns why there is no answer, or no more of it, by the upstream's own words and names.
func TestReasonsReachClients(t *testing.T) {
	long := strings.Repeat("why ", 1000)
	for _, c := range []struct {
		status     int
		text, want string
		answer     int
		kind, code string
	}{
		{429, `{"error":{"message":"used up","type":"insufficient_quota","code":"insufficient_quota"}}`, "upstream up: status 429: used up", 429, "insufficient_quota", "insufficient_quota"},
		{429, `{"error":{"message":"slow down"}}`, "upstream up: status 429: slow down", 429, "rate_limit_error", "upstream_error"},
		{500, "worn out", "upstream up: status 500: worn out", 502, "server_error", "upstream_error"},
		{500, long, "upstream up: status 500: why ", 502, "server_error", "upstream_error"},
		{400, "no such field", "upstream up: status 400: no such field", 400, "invalid_request_error", "upstream_error"},
		{200, `{"error":{"message":"full (33/32)","code":502}}`, "full (33/32)", 502, "server_error", "upstream_error"},
	} {
		b := atHandler(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.text)
		}, func(config *Config) { config.Upstream.Attempts, config.Upstream.Failures = 1, 100 })
		path := "/v1/chat/completions"
		for _, body := range []string{streams[path], strings.Replace(streams[path], "true", "false", 1)} {
			status, text, h := b.ask(path, "", body)
			var e struct{ Error openai.Error }
			if err := json.Unmarshal([]byte(text), &e); err != nil || status != c.answer || !strings.Contains(e.Error.Message, c.want) || e.Error.Type != c.kind || e.Error.Code != c.code || len(text) > 2000 {
				t.Errorf("%d %s: %d %s", c.status, c.text[:min(len(c.text), 40)], status, text)
			}
			if after := h.Get("Retry-After"); (after == "7") != (c.status > 400) {
				t.Errorf("%d: Retry-After: %q", c.status, after)
			}
			if c.status > 400 { // it is not asked again before the time that it has said
				break
			}
		}
	}
	// An event of a stream, of which something has come.
	for _, event := range []string{`data: {"error":"worn out"}`, "event: error\ndata: {\"message\":\"worn out\",\"type\":\"busy\"}", "event: error\ndata: worn out", `data: {"detail":"worn out"}`} {
		b := atHandler(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, aWord, event, "\n\n") }, nil)
		for _, path := range []string{"/v1/chat/completions", "/v1/bot/chat"} {
			if _, text, _ := b.ask(path, "", streams[path]); !strings.Contains(text, `{"error":{"message":"upstream up: worn out","type":"`) || strings.Count(text, "worn out") != 1 || strings.Contains(text, "[DONE]") {
				t.Errorf("%s: %s: %s", event, path, text)
			}
		}
	}
}
