package bot

import (
	"context"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	exports "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// TestTraces: a request's time is told to a collector, piece by piece, in the trace that
// the request came with; plugins and upstreams are told it too. What was said, answered
// or shown as a proof is in none of it.
func TestTraces(t *testing.T) {
	var mu sync.Mutex // guards what follows
	var spans []*otlp.Span
	var exported []byte
	headers := map[string]string{}
	server := func(name, answer string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			headers[name] = r.Header.Get("traceparent")
			if name == "collector" {
				var q exports.ExportTraceServiceRequest
				if err := proto.Unmarshal(body, &q); err != nil {
					t.Error(err)
				}
				exported = append(exported, body...)
				for _, resource := range q.ResourceSpans {
					for _, scope := range resource.ScopeSpans {
						spans = append(spans, scope.Spans...)
					}
				}
				return
			}
			w.Header().Set("Content-Type", "application/json")
			if strings.Contains(string(body), `"stream":true`) {
				_, _ = io.WriteString(w, "data: {\"id\":\"answer-1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"the-answer\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
				return
			}
			_, _ = io.WriteString(w, answer)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	to := server("collector", "")
	c := Defaults()
	c.AllowNetworks, c.StoreTimeout = []string{"127.0.0.0/8"}, time.Minute
	u := modelOf(&net.TCPAddr{})
	u.URL, u.Key = server("upstream", `{"id":"answer-1","choices":[{"text":"the-answer","message":{"content":"the-answer"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2}}`)+"/v1", "the-upstream-key"
	c.Upstream.Upstreams = append(c.Upstream.Upstreams, u)
	c.Plugins = []Plugin{{Name: "lookup", URL: server("plugin", `{"text":"the-result"}`)}}
	c.Keys = []Key{keyOf("key")}
	c.TraceEndpoint, c.TraceRatio = to+"/v1/traces", 0 // those that say so themselves
	g, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	ask := func(path, who, body string, sampled bool) int {
		t.Helper()
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+secretOf(who))
		if sampled {
			r.Header.Set("traceparent", "00-"+trace+"-"+parent+"-01")
		}
		w := httptest.NewRecorder()
		g.Handler().ServeHTTP(w, r)
		return w.Code
	}
	for _, stream := range []string{"false", "true"} {
		if status := ask("/v1/bot/chat", "key", `{"bot_id":"b","user_id":"the-user","history_id":"h`+stream+`","query":"the-question","stream":`+stream+`}`, true); status != http.StatusOK {
			t.Errorf("%s: %d", stream, status)
		}
	}
	if status := ask("/v1/chat/completions", "wrong", `{}`, true); status != http.StatusUnauthorized {
		t.Errorf("%d", status)
	}
	if status := ask("/the-secret-path", "key", `{}`, true); status != http.StatusNotFound {
		t.Errorf("%d", status)
	}
	if status := ask("/v1/bot/chat", "key", `{"bot_id":"b","user_id":"u","query":"quiet"}`, false); status != http.StatusOK {
		t.Errorf("%d", status)
	}
	if mu.Lock(); !strings.HasSuffix(headers["upstream"], "-00") || !strings.HasSuffix(headers["plugin"], "-00") {
		t.Errorf("not sampled: told %v", headers)
	}
	mu.Unlock()
	if status := ask("/v1/bot/chat", "key", `{"bot_id":"b","user_id":"u","query":"last"}`, true); status != http.StatusOK {
		t.Errorf("%d", status)
	}
	for _, stream := range []string{"false", "true"} { // passed on as it is
		if status := ask("/v1/completions", "key", `{"model":"dyno-1","prompt":"the-question","stream":`+stream+`}`, true); status != http.StatusOK {
			t.Errorf("%d", status)
		}
	}
	metrics := httptest.NewRecorder()
	promhttp.HandlerFor(g.host.Registry(), promhttp.HandlerOpts{}).ServeHTTP(metrics, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		`gen_ai_client_token_usage_sum{gen_ai_operation_name="completions",gen_ai_provider_name="openai",gen_ai_request_model="dyno-1",gen_ai_token_type="input"}`,
		`gen_ai_client_operation_duration_seconds_count{error_type="",gen_ai_operation_name="chat",gen_ai_provider_name="openai",gen_ai_request_model="dyno-1"} 4`,
	} {
		if !strings.Contains(metrics.Body.String(), want) {
			t.Errorf("no %s in %s", want, metrics.Body)
		}
	}
	if err := g.Close(context.Background()); err != nil {
		t.Error(err)
	}

	names := map[string]int{}
	byID := map[string]*otlp.Span{}
	for _, s := range spans {
		names[s.Name]++
		byID[hex.EncodeToString(s.SpanId)] = s
		if hex.EncodeToString(s.TraceId) != trace || s.EndTimeUnixNano < s.StartTimeUnixNano {
			t.Errorf("%v", s)
		}
	}
	for name, want := range map[string]int{
		"POST /v1/bot/chat": 3, "POST /v1/chat/completions": 1, "none": 1, "authenticate": 6, "intent": 3, "plugin": 3, "queue": 5, "chat dyno-1": 3, "POST /v1/completions": 2, "completions dyno-1": 2, "archive": 3, "archive read": 2,
	} {
		if names[name] != want {
			t.Errorf("%d spans of %q, want %d", names[name], name, want)
		}
		delete(names, name)
	}
	if len(names) != 0 {
		t.Errorf("others: %v", names)
	}
	for _, s := range spans {
		above := byID[hex.EncodeToString(s.ParentSpanId)]
		if s.Kind == otlp.Span_SPAN_KIND_SERVER {
			if hex.EncodeToString(s.ParentSpanId) != parent {
				t.Errorf("%v", s)
			}
			continue
		}
		if above == nil || above.Kind != otlp.Span_SPAN_KIND_SERVER || s.StartTimeUnixNano < above.StartTimeUnixNano || s.EndTimeUnixNano > above.EndTimeUnixNano {
			t.Errorf("%v is within %v", s, above)
		}
	}
	for name, span := range map[string]string{"upstream": "completions dyno-1", "plugin": "plugin"} {
		parts := strings.Split(headers[name], "-")
		if len(parts) != 4 || parts[1] != trace || byID[parts[2]] == nil || byID[parts[2]].Name != span {
			t.Errorf("%s was told %q", name, headers[name])
		}
	}
	for _, s := range spans {
		operation, isCall := strings.CutSuffix(s.Name, " dyno-1")
		if !isCall {
			continue
		}
		has := map[string]string{}
		for _, a := range s.Attributes {
			has[a.Key] = a.Value.GetStringValue()
			for _, v := range a.Value.GetArrayValue().GetValues() {
				has[a.Key] += v.GetStringValue() + ";"
			}
			if n := a.Value.GetIntValue(); n > 0 {
				has[a.Key] = "some"
			}
		}
		for name, want := range map[string]string{"gen_ai.operation.name": operation, "gen_ai.response.id": "answer-1", "gen_ai.response.finish_reasons": "stop;", "gen_ai.provider.name": "openai", "gen_ai.request.model": "dyno-1", "server.address": "127.0.0.1",
			"gen_ai.usage.input_tokens": "some", "gen_ai.usage.output_tokens": "some", "upstream.name": "up", "http.response.status_code": "some"} {
			if has[name] != want {
				t.Errorf("%s: %q, want %q", name, has[name], want)
			}
		}
	}
	for _, secret := range []string{"the-question", "the-answer", "the-result", "the-user", "the-upstream-key", "the-secret-path", secretOf("key"), secretOf("wrong"), "quiet"} {
		if strings.Contains(string(exported), secret) {
			t.Errorf("the collector knows %q", secret)
		}
	}
}
