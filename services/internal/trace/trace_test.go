package trace

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A receiver stands in for a collector.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex // guards spans
	spans  []*otlp.Span
	status int           // that it answers
	wait   chan struct{} // nil, or closed when it answers
}

func newReceiver(t *testing.T) *receiver {
	c := &receiver{status: http.StatusOK}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the tracer gave up
		}
		if c.wait != nil {
			<-c.wait
		}
		var q collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &q); err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%s: %v, %v", r.URL, r.Header, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, resource := range q.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
		w.WriteHeader(c.status)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *receiver) tracer(t *testing.T, change func(*Config)) *Tracer {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	cfg := Defaults()
	cfg.Endpoint, cfg.Ratio, cfg.Client, cfg.Logger = c.URL+"/v1/traces", 1, &http.Client{Transport: transport}, slog.New(slog.DiscardHandler)
	if change != nil {
		change(&cfg)
	}
	tr, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

const incoming = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func request(parent string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	if parent != "" {
		r.Header.Set("traceparent", parent)
		r.Header.Set("tracestate", "vendor=1")
	}
	return r
}

// TestSpans: spans are within one another, in the trace that the request came with, and
// go on to others.
func TestSpans(t *testing.T) {
	c := newReceiver(t)
	tr := c.tracer(t, nil)
	r, root := tr.Begin(request(incoming), "POST /")
	ctx, child := Start(r.Context(), "child")
	child.Text("text", "a")
	child.Number("number", 5)
	callCtx, call := StartCall(ctx, "call")
	h := http.Header{}
	Inject(callCtx, h)
	call.Fail("late")
	call.End()
	child.End()
	root.End()
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := tr.Stats(); s != (Stats{Ended: 3, Sent: 3}) {
		t.Errorf("%+v", s)
	}
	got := map[string]*otlp.Span{}
	for _, s := range c.spans {
		got[s.Name] = s
		if hex(s.TraceId) != incoming[3:35] {
			t.Errorf("%s: trace %x", s.Name, s.TraceId)
		}
	}
	if len(got) != 3 {
		t.Fatalf("%v", got)
	}
	if hex(got["POST /"].ParentSpanId) != incoming[36:52] || hex(got["child"].ParentSpanId) != hex(got["POST /"].SpanId) || hex(got["call"].ParentSpanId) != hex(got["child"].SpanId) {
		t.Errorf("%v", got)
	}
	if k := got["call"]; k.Kind != otlp.Span_SPAN_KIND_CLIENT || k.Status.Code != otlp.Status_STATUS_CODE_ERROR || k.Status.Message != "late" || got["POST /"].Kind != otlp.Span_SPAN_KIND_SERVER {
		t.Errorf("%v", got)
	}
	if a := got["child"].Attributes; len(a) != 2 || a[0].Value.GetStringValue() != "a" || a[1].Value.GetIntValue() != 5 {
		t.Errorf("%v", a)
	}
	if want := "00-" + incoming[3:35] + "-" + hex(got["call"].SpanId) + "-01"; h.Get("traceparent") != want || h.Get("tracestate") != "vendor=1" {
		t.Errorf("%v, want %s", h, want)
	}
}

func hex(b []byte) string {
	const digits = "0123456789abcdef"
	var text []byte
	for _, c := range b {
		text = append(text, digits[c>>4], digits[c&15])
	}
	return string(text)
}

// TestCollectorAway: a collector that does not answer, or answers faults, holds nobody up,
// and what waits for it is bounded.
func TestCollectorAway(t *testing.T) {
	for name, wait := range map[string]bool{"silent": true, "faulty": false} {
		t.Run(name, func(t *testing.T) {
			c := newReceiver(t)
			c.status = http.StatusInternalServerError
			release := make(chan struct{})
			if wait {
				c.wait = release
			}
			tr := c.tracer(t, func(c *Config) { c.Queue, c.Pause, c.Timeout = batch, time.Millisecond, 20*time.Millisecond })
			const spans = 20 * batch
			for range spans {
				_, s := tr.Begin(request(""), "POST /")
				s.End()
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_ = tr.Close(ctx) // says that it could not send, or not
			close(release)
			if s := tr.Stats(); s.Ended != spans || s.Sent != 0 || s.Failed == 0 || s.Failed > spans {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestCheckEndpoint(t *testing.T) {
	for endpoint, right := range map[string]bool{"": false, "collector:4318": false, "http://collector": false, "ftp://collector/x": false, "http://collector:4318/": false, "http://127.0.0.1:4318/v1/traces": true} {
		if err := CheckEndpoint(endpoint); (err == nil) != right {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
}

// TestOff: a tracer that is nil, and a request without one, do nothing.
func TestOff(t *testing.T) {
	var off *Tracer
	r, s := off.Begin(request(incoming), "POST /")
	ctx, within := StartCall(r.Context(), "b")
	h := http.Header{}
	Inject(ctx, h)
	within.Text("text", "a")
	within.Number("number", 5)
	within.Fail("late")
	within.End()
	s.End()
	if err := off.Close(t.Context()); err != nil || off.Stats() != (Stats{}) || len(h) != 0 {
		t.Errorf("%v, %+v, %v", err, off.Stats(), h)
	}
}
