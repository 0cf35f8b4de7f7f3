// Package events is a server for package hub, the hub for server-sent events: it adds a
// listener, an admin listener and a life cycle, and nothing else.
//
//	server, err := events.New(config)
//	err = server.Serve(ctx)
//
// To stop, it accepts no more connections, refuses new subscribers, and disconnects the existing ones one by one.
package events

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"dyno/hub"
	"dyno/services/internal/flood"
	"dyno/services/internal/serve"
)

// A Server is one hub with its listeners. Its methods may be called from any goroutine,
// Listen and Serve once each.
type Server struct {
	serve.Front
	cfg    Config
	host   *serve.Host
	log    *slog.Logger
	hub    *hub.Hub
	server *http.Server

	closed   sync.Once
	closeErr error
}

// The bounds of requests and connections.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 5 * time.Minute
	maxHeader     = 64 << 10
	maxStreams    = 1000 // requests at the same time on one HTTP/2 connection
)

// New checks cfg, opens the history, and returns a server that is not listening yet. The
// error lists every fault of cfg, or says why the history cannot be used. Serve calls
// Close at its end; if Serve is not called, call Close.
func New(cfg Config) (*Server, error) {
	cfg = cfg.withKeys()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg}
	var err error
	if s.host, err = serve.New(serve.Config{
		Name: "events", AdminListener: cfg.AdminListener, AllowRemote: cfg.AllowRemote,
		DrainTimeout: cfg.DrainTimeout, Logger: cfg.Logger,
		Pages: []serve.Page{{Path: "/subscribers", About: "subscribers that are furthest behind, as JSON; ?slow=N of them", Handler: http.HandlerFunc(s.serveSubscribers)}},
	}); err != nil {
		return nil, err
	}
	s.log, s.Front = s.host.Logger(), serve.NewFront(s.host, cfg.Listen)
	inner := cfg.Config
	inner.Logger, inner.Registerer = s.log, s.host.Registry()
	inner.AnonymousPublish = cfg.AnonymousPublish || cfg.PublisherKey == nil && cfg.local()
	if serve.Guarded(cfg.Listen) {
		inner.Foreign = cfg.foreign
	}
	if s.hub, err = hub.New(inner); err != nil {
		return nil, err
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(cfg.HTTP2)
	s.server = &http.Server{
		Handler:           serve.Timely(s.hub.Handler()),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		Protocols:         protocols,
		// A browser holds all its subscriptions on one connection. A subscriber past its deadline ends when its
		// connection accepts bytes, or after this time.
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: min(cfg.MaxPerAddress, maxStreams), WriteByteTimeout: cfg.WriteTimeout},
		ConnState:   s.hub.ConnState,
		ConnContext: s.hub.ConnContext,
		ErrorLog:    serve.ErrorLog(s.log),
	}
	if err := flood.Guard(s.server, s.log); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Serve answers clients until ctx ends, and then drains. It returns nil after that, even
// if subscribers had to be cut at the deadline, which it logs. Otherwise it returns the
// error. It calls Listen unless that has been done, and Close at the end.
func (s *Server) Serve(ctx context.Context) error {
	if err := s.Listen(); err != nil {
		return errors.Join(err, s.Close())
	}
	s.log.Info("listening", "address", s.Addr().String(), "history", s.cfg.History, "outcome", s.cfg.Outcome)
	parts := []serve.Part{{Name: "hub", Serve: func() error { return serve.HTTP(s.server, s.Listener) }, Drain: s.drain}}
	if s.cfg.EventLoop {
		parts = append(parts, serve.Part{Name: "event loop", Serve: s.hub.Wait, Drain: func(context.Context) int { return 0 }}) // the hub drains it
	}
	err := s.host.Run(ctx, parts...)
	return errors.Join(err, s.Close())
}

// drainShare is the share of the drain's time over which the ends of subscribers are spread. In the rest, the last of
// them can receive events on their way.
const drainShare = 0.8

// drain accepts no more connections and ends the subscribers. It returns how many were
// cut when ctx ended.
func (s *Server) drain(ctx context.Context) (cut int) {
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		_ = s.server.Shutdown(ctx) // its only error is ctx's, which cut shows
	}()
	cut = s.hub.Drain(ctx, time.Duration(drainShare*float64(s.cfg.DrainTimeout)))
	_ = s.server.Close() // cuts responses that are still being written
	<-finished
	return cut
}

// Close ends all subscribers and connections at once, and frees what New and Listen
// opened.
func (s *Server) Close() error {
	s.closed.Do(func() {
		s.closeErr = s.hub.Close()
		_ = s.server.Close() // its connections are of no use any more
		if s.Listener != nil {
			s.Listener.Close() // the server knows the listener only if it was served
		}
		// If Serve ran, the admin listener is already closed, and closing it again fails.
		_ = s.host.Close()
	})
	return s.closeErr
}
