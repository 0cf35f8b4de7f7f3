package control

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dyno/services/internal/trace"
)

// openTraces returns a tracer, whose counts are metrics, and what ends it. Without a collector it is nil.
func (s *Server) openTraces(ctx context.Context) (t *trace.Tracer, end func(), err error) {
	if s.cfg.TraceEndpoint == "" {
		return nil, func() {}, nil
	}
	transport := &http.Transport{IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10}
	c := trace.Defaults()
	c.Service, c.Endpoint, c.Ratio, c.Logger = "dyno-control", s.cfg.TraceEndpoint, s.cfg.TraceRatio, s.log
	c.Client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if t, err = trace.New(ctx, c); err != nil {
		return nil, func() {}, err
	}
	for result, count := range map[string]func(trace.Stats) uint64{
		"ended":  func(s trace.Stats) uint64 { return s.Ended },
		"sent":   func(s trace.Stats) uint64 { return s.Sent },
		"failed": func(s trace.Stats) uint64 { return s.Failed },
	} {
		s.host.Registry().MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "control_spans_total", ConstLabels: prometheus.Labels{"result": result},
			Help: "Spans of traces: ended; of these, sent or failed. Others wait, or were dropped.",
		}, func() float64 { return float64(count(t.Stats())) }))
	}
	return t, func() {
		// The server's context has ended by then.
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Timeout)
		defer cancel()
		if err := t.Close(ending); err != nil {
			s.log.Warn("spans were not sent", slog.Any("error", err))
		}
		transport.CloseIdleConnections()
	}, nil
}
