// Package control is the control plane as a service: discovery, configuration and policy
// over HTTP, kept in etcd, which is embedded unless a cluster is given.
//
//	server, err := control.New(config)
//	err = server.Serve(ctx)
//
// To read the source: resource says what is kept and what makes it valid, store how it is
// kept, catalog and push what a replica knows and whom it tells, plane joins them, access
// says who may, and rest answers.
package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"

	"dyno/services/control/access"
	"dyno/services/control/plane"
	"dyno/services/control/rest"
	"dyno/services/control/store"
	"dyno/services/internal/serve"
)

// A Server is one control plane, or one replica of one. Listen and Serve may be called
// once each.
type Server struct {
	cfg      Config
	host     *serve.Host
	log      *slog.Logger
	book     *access.Book
	listener net.Listener
	server   *http.Server
}

// New checks cfg, whose error lists every fault, and returns a Server that does nothing
// yet.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg}
	var err error
	if s.book, err = cfg.book(); err != nil {
		return nil, err
	}
	if s.host, err = serve.New(serve.Config{
		Name: "control", Admin: cfg.Admin, AllowRemote: cfg.AllowRemote, DrainTimeout: cfg.DrainTimeout, Logger: cfg.Logger,
	}); err != nil {
		return nil, err
	}
	s.log = s.host.Logger()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(cfg.HTTP2)
	protocols.SetUnencryptedHTTP2(cfg.HTTP2)
	s.server = &http.Server{
		ReadTimeout: cfg.ReadTimeout, WriteTimeout: cfg.WriteTimeout, IdleTimeout: cfg.IdleTimeout,
		MaxHeaderBytes: 64 << 10, Protocols: protocols,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	if s.server.TLSConfig, err = cfg.tls(); err != nil {
		return nil, err
	}
	return s, nil
}

// Listen opens the listeners. When it has returned nil, Addr is known and clients may
// connect; they are answered once Serve has opened the store.
func (s *Server) Listen() error {
	l, err := serve.Listen(context.Background(), s.cfg.Listen, nil)
	if err != nil {
		return err
	}
	if err := s.host.Listen(); err != nil {
		return errors.Join(err, l.Close())
	}
	s.listener = l
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

// Serve opens the store and answers clients until ctx ends, and drains then: requests end,
// watchers are told to come back, and what waits for the store is written. It calls Listen
// unless that has been done. It returns nil after that, otherwise what failed.
func (s *Server) Serve(ctx context.Context) (err error) {
	if s.listener == nil {
		if err := s.Listen(); err != nil {
			return err
		}
	}
	unserved := func(err error) error {
		s.listener.Close()
		return errors.Join(err, s.host.Close())
	}
	opening, cancel := context.WithTimeout(ctx, s.cfg.OpenTimeout)
	defer cancel()
	sc := s.cfg.Store
	sc.Logger = s.log
	st, err := store.Open(opening, sc)
	if err != nil {
		return unserved(err)
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	pc := s.cfg.Plane
	pc.Logger = s.log
	p, err := plane.Open(opening, st, pc)
	if err != nil {
		return unserved(err)
	}
	defer p.Close()
	ac := s.cfg.api()
	ac.Plane, ac.Book, ac.Logger = p, s.book, s.log
	api, err := rest.New(ac)
	if err != nil {
		return unserved(err)
	}
	defer api.Close()
	s.server.Handler = api
	s.host.Registry().MustRegister(st, p, api)
	where := "embedded in " + sc.Dir
	if !sc.Embedded() {
		where = fmt.Sprintf("a cluster at %v", sc.Endpoints)
	}
	s.log.Info("listening", "address", s.Addr().String(), "store", where, "epoch", st.Epoch(), "replica", pc.Replica)
	return s.host.Run(ctx,
		serve.Part{Name: "api", Serve: s.answer, Drain: func(ctx context.Context) int { return s.drain(ctx, api) }},
		watchdog(st),
	)
}

// answer serves the API.
func (s *Server) answer() error {
	var err error
	if s.server.TLSConfig != nil {
		err = s.server.ServeTLS(s.listener, "", "")
	} else {
		err = s.server.Serve(s.listener)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// drain lets requests end, and ends watches, which would go on for ever.
func (s *Server) drain(ctx context.Context, api *rest.API) (cut int) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		api.Close()
	}()
	if err := s.server.Shutdown(ctx); err != nil {
		_ = s.server.Close() // what is left is cut
		cut = 1
	}
	<-ended
	return cut
}

// watchdog ends the server when the embedded etcd has ended by itself.
func watchdog(st *store.Store) serve.Part {
	done := make(chan struct{})
	return serve.Part{
		Name: "etcd",
		Serve: func() error {
			select {
			case <-st.Failed():
				return errors.New("the embedded etcd has stopped: the log says why")
			case <-done:
				return nil
			}
		},
		Drain: func(context.Context) int { close(done); return 0 },
	}
}

// Restore fills the store that cfg names from a backup, before it is served for the first
// time.
func Restore(ctx context.Context, cfg store.Config, backup io.ReadSeeker) error {
	return store.Restore(ctx, cfg, backup)
}
