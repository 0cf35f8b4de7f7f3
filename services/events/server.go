// Package events is a server that is a hub for server-sent events, and nothing else:
// package hub with a listener, an admin listener and a life cycle.
//
//	server, err := events.New(config)
//	err = server.Serve(ctx)
//
// When told to stop it accepts no more connections, refuses new subscribers, and
// disconnects those it has one after the other.
package events

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"dyno/hub"
	"dyno/services/internal/serve"
)

// A Server is one hub with its listeners. Its methods may be called from any goroutine,
// Listen and Serve once each.
type Server struct {
	cfg      Config
	host     *serve.Host
	log      *slog.Logger
	hub      *hub.Hub
	server   *http.Server
	listener net.Listener // nil before Listen

	closed   sync.Once
	closeErr error
}

// Bounds of requests and connections.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 5 * time.Minute
	maxHeader     = 64 << 10
	maxStreams    = 1000 // requests at once on one connection of HTTP/2
)

// New checks cfg, opens the history, and returns a server that is not listening. The
// error lists every fault of cfg, or says why the history cannot be used. Serve ends
// with Close; who does not call Serve calls Close.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg}
	var err error
	if s.host, err = serve.New(serve.Config{
		Name: "events", Admin: cfg.Admin, AllowRemote: cfg.AllowRemote,
		DrainTimeout: cfg.DrainTimeout, Logger: cfg.Logger,
		Pages: []serve.Page{{Path: "/subscribers", About: "subscribers that are furthest behind, as JSON; ?slow=N of them", Handler: http.HandlerFunc(s.serveSubscribers)}},
	}); err != nil {
		return nil, err
	}
	s.log = s.host.Logger()
	inner := cfg.Config
	inner.Logger, inner.Registerer = s.log, s.host.Registry()
	inner.AnonymousPublish = cfg.AnonymousPublish || cfg.PublisherKey == nil && cfg.local()
	if s.hub, err = hub.New(inner); err != nil {
		return nil, err
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(cfg.HTTP2)
	s.server = &http.Server{
		Handler:           s.hub.Handler(),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		Protocols:         protocols,
		// One browser holds all its subscriptions on one connection.
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: min(cfg.MaxPerAddress, maxStreams)},
		ConnState:   s.hub.ConnState,
		ConnContext: s.hub.ConnContext,
		ErrorLog:    slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// Listen opens the listeners. When it has returned nil, Addr is known and clients
// may connect; they are served once Serve runs.
func (s *Server) Listen() error {
	l, err := serve.Listen(context.Background(), s.cfg.Listen, nil)
	if err != nil {
		return err
	}
	if err := s.host.Listen(); err != nil {
		return errors.Join(err, l.Close())
	}
	s.listener = serve.Patient(l)
	return nil
}

// Addr is where clients connect; nil before Listen.
func (s *Server) Addr() net.Addr {
	if s.listener == nil {
		return nil
	}
	return s.listener.Addr()
}

// AdminAddr is where the admin listener listens; nil without one or before Listen.
func (s *Server) AdminAddr() net.Addr { return s.host.AdminAddr() }

// Serve answers clients until ctx ends and drains then. It returns nil after that,
// also when subscribers had to be cut at the deadline, which is logged; otherwise
// what failed. It calls Listen unless that has been done, and Close at the end.
func (s *Server) Serve(ctx context.Context) error {
	if s.listener == nil {
		if err := s.Listen(); err != nil {
			return errors.Join(err, s.Close())
		}
	}
	s.log.Info("listening", "address", s.Addr().String(), "history", s.cfg.History, "outcome", s.cfg.Outcome)
	parts := []serve.Part{{
		Name: "hub",
		Serve: func() error {
			if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		},
		Drain: s.drain,
	}}
	if s.cfg.EventLoop {
		parts = append(parts, serve.Part{Name: "event loop", Serve: s.hub.Wait, Drain: func(context.Context) int { return 0 }}) // the hub drains it
	}
	err := s.host.Run(ctx, parts...)
	return errors.Join(err, s.Close())
}

// drainShare is how much of the drain's time subscribers are spread over; the rest
// is for the last of them to take what is on its way.
const drainShare = 0.8

// drain accepts no more and ends the subscribers. It returns how many were cut when ctx
// ended.
func (s *Server) drain(ctx context.Context) (cut int) {
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		_ = s.server.Shutdown(ctx) // its only error is ctx's, which cut tells
	}()
	cut = s.hub.Drain(ctx, time.Duration(drainShare*float64(s.cfg.DrainTimeout)))
	_ = s.server.Close() // a response that is still being written is cut
	<-finished
	return cut
}

// Close ends all subscribers and connections at once, and frees what New and Listen
// opened.
func (s *Server) Close() error {
	s.closed.Do(func() {
		s.closeErr = s.hub.Close()
		_ = s.server.Close() // of connections that nobody needs any more
		if s.listener != nil {
			s.listener.Close() // which the server does not know unless it was served
		}
		// The admin listener has been closed when Serve ran: closing it again fails.
		_ = s.host.Close()
	})
	return s.closeErr
}
