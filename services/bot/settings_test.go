package bot

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestConnections: however few connections to the upstream there are, and over HTTP/2, each of many who ask at once gets
// their own answer, whole and streamed.
func TestConnections(t *testing.T) {
	model := newRecorder(t)
	model.text = func(asked string) string {
		var q struct{ Messages []struct{ Content string } }
		if err := json.Unmarshal([]byte(asked), &q); err != nil || len(q.Messages) == 0 {
			return "what?"
		}
		return q.Messages[len(q.Messages)-1].Content
	}
	second := httptest.NewUnstartedServer(model.Config.Handler)
	second.Config.Protocols = new(http.Protocols)
	second.Config.Protocols.SetUnencryptedHTTP2(true)
	second.Start()
	t.Cleanup(second.Close)
	for name, set := range map[string]func(*Config){
		"few connections": func(c *Config) {
			c.Upstream.Client.Connections, c.Upstream.Client.Idle, c.Upstream.Client.IdleTime = 2, 1, time.Second
		},
		"HTTP/2": func(c *Config) {
			c.Upstream.Client.HTTP2 = true
			c.Upstream.Upstreams[0].URL = second.URL + "/v1"
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := serving(t, newLLM(t, nil), func(c *Config) {
				model.at(c)
				set(c)
			})
			var all sync.WaitGroup
			for i := range 24 {
				all.Go(func() {
					want := strings.Repeat(fmt.Sprint("question ", i, " "), i%5*2+1)
					var r chatReply
					_, text, _ := b.ask("/v1/bot/chat", "", fmt.Sprintf(`{"bot_id":"b","user_id":"u2","query":%q}`, want))
					if err := json.Unmarshal([]byte(text), &r); err != nil || r.Reply == nil || *r.Reply != want {
						t.Errorf("%v: %s, want %q", err, text, want)
					}
					_, text, _ = b.ask("/v1/bot/chat", "", fmt.Sprintf(`{"bot_id":"b","user_id":"u2","query":%q,"stream":true}`, want))
					said := ""
					for _, e := range frames(t, strings.NewReader(text)) {
						var d deltaEvent
						if err := json.Unmarshal([]byte(e.data), &d); err != nil {
							t.Error(err)
						}
						said += d.Text
					}
					if said != want {
						t.Errorf("%q, want %q", said, want)
					}
				})
			}
			all.Wait()
		})
	}
}

// TestControl: sockets are prepared before they listen for clients, and before they connect to upstreams.
func TestControl(t *testing.T) {
	model := newRecorder(t)
	var mu sync.Mutex // guards prepared
	prepared := map[string]bool{}
	b := serving(t, newLLM(t, nil), func(c *Config) {
		model.at(c)
		c.Parts.Control = func(_, address string, _ syscall.RawConn) error {
			mu.Lock()
			defer mu.Unlock()
			prepared[address] = true
			return nil
		}
	})
	mu.Lock()
	listens := len(prepared) == 1 // the port is not known yet
	mu.Unlock()
	b.ask("/v1/chat/completions", "", `{"model":"dyno-1","messages":[{"role":"user","content":"hi"}]}`)
	mu.Lock()
	defer mu.Unlock()
	if !listens || !prepared[model.Listener.Addr().String()] {
		t.Errorf("prepared: %v", prepared)
	}
}

// TestSettingFaults: what a setting cannot be is said.
func TestSettingFaults(t *testing.T) {
	c := Defaults()
	c.ResumeBytes, c.TraceEndpoint, c.TraceRatio, c.IdleTimeout = 1, "collector", 2, 0
	c.Upstream.Client.Connections, c.Upstream.Client.Idle, c.Upstream.Client.IdleTime = -1, 0, 0
	err := c.Validate()
	for _, want := range []string{"resume_bytes: 1B", "trace_endpoint: ", "trace_ratio: 2", "idle_timeout: 0s", "upstream.connections: -1", "upstream.idle_connections: 0", "upstream.idle_connection_time: 0s"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not reported: %s in %v", want, err)
		}
	}
	c = Defaults()
	c.TraceEndpoint = "http://10.0.0.1/v1/traces"
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "trace_endpoint: address not allowed") {
		t.Errorf("%v", err)
	}
}
