package llm

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dyno/services/internal/flood"
	"dyno/services/internal/serve"
)

// A Server is one model server. Use its Handler, or Listen and Serve, or Serve alone.
// All methods may be called from any goroutine, Listen and Serve once each.
type Server struct {
	serve.Front
	cfg     Config
	host    *serve.Host
	handler http.Handler
	server  *http.Server
	models  map[string]bool
	asked   atomic.Uint64 // requests so far, which number them
	active  atomic.Int64
	stats   stats
}

// stats counts what happens.
type stats struct {
	answered, aborted, tokens, faults atomic.Uint64
	requests                          *prometheus.CounterVec
}

// Stats is a reading of a server's counters. Each is exact; together they are not one
// moment's.
type Stats struct {
	Asked    uint64 // requests for an answer
	Answered uint64 // of these, answered to the end
	Aborted  uint64 // of these, left by the client
	Faults   uint64 // of these, with a fault
	Tokens   uint64 // of answers, written
	Active   int    // answers under way
}

// Stats reads the counters.
func (s *Server) Stats() Stats {
	return Stats{
		Asked: s.asked.Load(), Answered: s.stats.answered.Load(), Aborted: s.stats.aborted.Load(),
		Faults: s.stats.faults.Load(), Tokens: s.stats.tokens.Load(), Active: int(s.active.Load()),
	}
}

// New checks cfg and returns a server that is not listening yet. The error lists every
// fault of cfg.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	host, err := serve.New(serve.Config{
		Name: "llm", AdminListener: cfg.AdminListener, AllowRemote: cfg.AllowRemote, DrainTimeout: cfg.DrainTimeout, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	s := &Server{Front: serve.NewFront(host, cfg.Listen), cfg: cfg, host: host, models: map[string]bool{}}
	for _, m := range cfg.Models {
		s.models[m] = true
	}
	s.stats.requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "llm_requests_total", Help: "Requests by endpoint and status; 0 is a connection that was cut.",
	}, []string{"endpoint", "status"})
	count := func(name, help string, n *atomic.Uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(n.Load()) })
	}
	host.Registry().MustRegister(s.stats.requests,
		count("llm_answers_total", "Answers written to their end.", &s.stats.answered),
		count("llm_aborted_total", "Answers that the client did not wait for.", &s.stats.aborted),
		count("llm_tokens_total", "Tokens written.", &s.stats.tokens),
		count("llm_faults_total", "Answers with a fault.", &s.stats.faults),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "llm_answers", Help: "Answers under way."},
			func() float64 { return float64(s.active.Load()) }),
	)
	s.handler = s.routes()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true) // for clients that know it (RFC 9113, section 3.3)
	s.server = &http.Server{
		Handler:           serve.Timely(s.handler),
		Protocols:         protocols,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       5 * time.Minute,
		ErrorLog:          serve.ErrorLog(host.Logger()),
		HTTP2:             &http.HTTP2Config{WriteByteTimeout: writeTimeout},
	}
	return s, flood.Guard(s.server, host.Logger())
}

// Handler is the protocol, for servers of others.
func (s *Server) Handler() http.Handler { return s.handler }

// Serve answers until ctx ends and drains then. It returns nil after that, also when
// answers had to be cut at the deadline, which is logged; otherwise what failed. It
// calls Listen unless that has been done.
func (s *Server) Serve(ctx context.Context) error {
	if err := s.Listen(); err != nil {
		return err
	}
	s.host.Logger().Info("listening", "address", s.Addr().String(), "first token", s.cfg.FirstToken.String(), "inter token", s.cfg.InterToken.String())
	return s.host.Run(ctx, serve.Part{Name: "http", Serve: func() error { return serve.HTTP(s.server, s.Listener) }, Drain: s.drain})
}

func (s *Server) drain(ctx context.Context) int {
	if err := s.server.Shutdown(ctx); err != nil {
		cut := int(s.active.Load())
		_ = s.server.Close()
		return cut
	}
	return 0
}
