// Package trace records where a request's time goes: a span for the request, with inner spans for its waits. It sends
// them to a collector by OpenTelemetry's protocol (OTLP over HTTP). The trace comes in the field traceparent, and is
// passed on to called servers (W3C Trace Context).
//
// Spans wait in a bounded queue and are sent in the background. A full queue drops them: a slow or missing collector
// delays no request. Without a Tracer, and for requests that are not sampled, it allocates nothing.
//
// Users' messages, models' answers and credentials must never become attributes: a collector has other readers.
package trace

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	otel "go.opentelemetry.io/otel/trace"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Config configures the sending of spans.
type Config struct {
	// Service is the name of the service in its spans: dyno-bot.
	Service string
	// Endpoint is the collector's URL, with its path: http://127.0.0.1:4318/v1/traces.
	Endpoint string
	// Ratio is the sampled share of requests without a traceparent, which otherwise decides.
	Ratio float64
	// Queue bounds the spans that wait to be sent. Further ones are dropped.
	Queue int
	// Pause is how long spans wait to be sent together; Timeout bounds the sending.
	Pause, Timeout time.Duration
	// Client sends; it must hold connections to the policy of the caller.
	Client *http.Client
	Logger *slog.Logger
}

// Defaults returns the Config that every field starts from. It has neither an endpoint nor a client.
func Defaults() Config {
	return Config{Ratio: 0.01, Queue: 2048, Pause: time.Second, Timeout: 5 * time.Second}
}

// batch bounds the spans of one message.
const batch = 512

// CheckEndpoint validates a collector's URL.
func CheckEndpoint(text string) error {
	if u, err := url.Parse(text); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Path == "" || u.Path == "/" {
		return fmt.Errorf("trace endpoint: %q: must be a URL with a path, such as http://127.0.0.1:4318/v1/traces", text)
	}
	return nil
}

// A Tracer makes spans. Its methods may be called from any goroutine. A nil Tracer makes none.
type Tracer struct {
	tracer   otel.Tracer
	provider *sdk.TracerProvider
	ended    atomic.Uint64
	sent     atomic.Uint64
	failed   atomic.Uint64
	log      *slog.Logger
}

// propagator reads and writes traceparent and tracestate.
var propagator propagation.TraceContext

// New returns a tracer, which connects at the first span.
func New(ctx context.Context, c Config) (*Tracer, error) {
	t := &Tracer{log: c.Logger}
	to, err := otlptrace.New(ctx, &poster{c.Endpoint, c.Client})
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	processor := sdk.NewBatchSpanProcessor(&exporter{to, t}, sdk.WithMaxQueueSize(c.Queue), sdk.WithMaxExportBatchSize(batch),
		sdk.WithBatchTimeout(c.Pause), sdk.WithExportTimeout(c.Timeout))
	t.provider = sdk.NewTracerProvider(
		sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(c.Ratio))),
		sdk.WithSpanProcessor(&counting{processor, t}),
		sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", c.Service))),
	)
	t.tracer = t.provider.Tracer("dyno/services")
	return t, nil
}

// poster sends spans by OTLP over HTTP, in protocol buffers. The library's own client does
// that too, and links all of gRPC for it.
type poster struct {
	endpoint string
	client   *http.Client
}

// Start implements otlptrace.Client.
func (*poster) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client. The caller owns the HTTP client's connections.
func (*poster) Stop(context.Context) error { return nil }

// maxAnswer bounds what is read of a collector's answer, so that its connection can be
// used again.
const maxAnswer = 64 << 10

// UploadTraces implements otlptrace.Client. Spans that a collector refuses are not sent again.
func (p *poster) UploadTraces(ctx context.Context, spans []*otlp.ResourceSpans) error {
	// An ExportTraceServiceRequest has equal bytes.
	body, err := proto.Marshal(&otlp.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.endpoint, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	resp, err := p.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer) // its contents do not matter
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the collector answers %s", resp.Status)
	}
	return nil
}

// exporter counts sent and failed spans. It hides errors from the library, which would write them to standard error.
type exporter struct {
	sdk.SpanExporter
	t *Tracer
}

func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.t.failed.Add(uint64(len(spans)))
		e.t.log.Debug("spans could not be sent", "spans", len(spans), "error", err)
		return nil
	}
	e.t.sent.Add(uint64(len(spans)))
	return nil
}

// counting counts spans before the queue.
type counting struct {
	sdk.SpanProcessor
	t *Tracer
}

func (c *counting) OnEnd(s sdk.ReadOnlySpan) {
	if s.SpanContext().IsSampled() {
		c.t.ended.Add(1)
	}
	c.SpanProcessor.OnEnd(s)
}

// Stats counts spans. Those neither sent nor failed still wait, or were dropped by the full queue.
type Stats struct{ Ended, Sent, Failed uint64 }

// Stats reads it.
func (t *Tracer) Stats() Stats {
	if t == nil {
		return Stats{}
	}
	return Stats{t.ended.Load(), t.sent.Load(), t.failed.Load()}
}

// Close sends waiting spans, until ctx ends.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// active is the span of a context.
type active struct {
	tracer otel.Tracer
	span   otel.Span
}

type key struct{}

// A Span is a part of a request's time. Methods of the zero value do nothing.
type Span struct{ s otel.Span }

// Begin begins the span of a request, within its trace. Serve the returned request in its place.
func (t *Tracer) Begin(r *http.Request, name string) (*http.Request, Span) {
	if t == nil {
		return r, Span{}
	}
	ctx := propagator.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, s := t.tracer.Start(ctx, name, otel.WithSpanKind(otel.SpanKindServer))
	r = r.WithContext(context.WithValue(ctx, key{}, &active{t.tracer, s}))
	if !s.IsRecording() {
		return r, Span{}
	}
	return r, Span{s}
}

// Start begins a span within that of ctx; without one, it begins none.
func Start(ctx context.Context, name string) (context.Context, Span) {
	return start(ctx, name, otel.SpanKindInternal)
}

// StartCall is Start for a call to another server.
func StartCall(ctx context.Context, name string) (context.Context, Span) {
	return start(ctx, name, otel.SpanKindClient)
}

// StartAt is Start for what began at an earlier moment, or at the zero time just now. The request may have ended.
func StartAt(ctx context.Context, name string, at time.Time) (context.Context, Span) {
	return start(ctx, name, otel.SpanKindInternal, otel.WithTimestamp(at))
}

// IsSampled reports whether Start begins spans.
func IsSampled(ctx context.Context) bool {
	a, _ := ctx.Value(key{}).(*active)
	return a != nil && a.span.SpanContext().IsSampled()
}

func start(ctx context.Context, name string, kind otel.SpanKind, more ...otel.SpanStartOption) (context.Context, Span) {
	if !IsSampled(ctx) {
		return ctx, Span{}
	}
	a := ctx.Value(key{}).(*active)
	ctx, s := a.tracer.Start(ctx, name, append(more, otel.WithSpanKind(kind))...)
	return context.WithValue(ctx, key{}, &active{a.tracer, s}), Span{s}
}

// Inject adds the trace to the header of a call.
func Inject(ctx context.Context, h http.Header) {
	if a, _ := ctx.Value(key{}).(*active); a != nil {
		propagator.Inject(otel.ContextWithSpan(ctx, a.span), propagation.HeaderCarrier(h))
	}
}

// Text sets an attribute.
func (s Span) Text(name, value string) {
	if s.s != nil {
		s.s.SetAttributes(attribute.String(name, value))
	}
}

// Texts sets an attribute of several texts; none sets nothing.
func (s Span) Texts(name string, values []string) {
	if s.s != nil && len(values) > 0 {
		s.s.SetAttributes(attribute.StringSlice(name, values))
	}
}

// Number sets an attribute.
func (s Span) Number(name string, value int64) {
	if s.s != nil {
		s.s.SetAttributes(attribute.Int64(name, value))
	}
}

// Fail marks the span as failed. why is the service's own word, and never text of others.
func (s Span) Fail(why string) {
	if s.s != nil {
		s.s.SetAttributes(attribute.String("error.type", why))
		s.s.SetStatus(codes.Error, why)
	}
}

// End ends the span.
func (s Span) End() {
	if s.s != nil {
		s.s.End()
	}
}
