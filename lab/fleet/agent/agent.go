// Package agent carries parts of loads for dyno on another machine, and starts and observes targets there.
//
//	GET  /v1/agent   what the agent is
//	GET  /v1/clock   when the request was received, and when it was answered
//	GET  /v1/logs    the last lines of its log
//	POST /v1/parts   upgrades to dyno-part: from then on the connection's bytes go to and from a
//	                 process that carries a part of a load, as package generator starts them
//	POST /v1/targets upgrades to dyno-target: they go to and from a process that starts a target or
//	                 observes one, the other side of package remote. It is a part like the others
//
// Dyno-Fence identifies the holder, if the run has exclusive use of the machine.
//
// Dyno-Version is the sender's version. Requests of other versions are refused: the exchange between versions is not
// defined. A part ends with its connection, and with the agent, from which it reads its orders. An agent with an
// identity is a member of a fleet: it answers coordinators only. A plan cannot exceed the limits of the agent's
// owner: the part's process gets them from the agent, and checks the plan.
package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	"dyno/lab/fleet/identity"
	"dyno/lab/generator"
)

// The names of the exchange.
const (
	PartsPath      = "/v1/parts"
	TargetsPath    = "/v1/targets"
	Protocol       = "dyno-part"
	TargetProtocol = "dyno-target"
	VersionHeader  = "Dyno-Version"
)

// The bounds of the exchange.
const (
	headerTimeout     = 5 * time.Second
	maxHeaderBytes    = 16 << 10
	idleTimeout       = time.Minute // of a connection between requests
	orderTimeout      = 30 * time.Second
	writeTimeout      = 30 * time.Second // bound on a part's report: dyno reads it at once
	endTimeout        = 5 * time.Second  // of a part without more orders
	silence           = 40 * time.Second // of the other machine, until its connections end
	keepAliveIdle     = 10 * time.Second
	keepAliveInterval = 5 * time.Second
	keepAliveCount    = 6
)

// KeepAlive probes the other machine on an idle connection.
var KeepAlive = net.KeepAliveConfig{Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount}

// A Server is an agent that listens.
type Server struct {
	config   Config
	info     Info
	member   *identity.Member // nil: it has no identity
	listener net.Listener
	kinds    map[string]kind // of parts, by path
	places   chan struct{}   // one for each part; when full, further parts are refused
	admitted admission
}

// A kind of parts has a protocol, and processes that carry them.
type kind struct {
	protocol string
	start    func(context.Context) (process, error)
}

// A process runs a part.
type process interface {
	io.ReadWriter
	CloseWrite() error
	Kill()
	Wait() error
}

// New returns an agent that has joined its fleet and listens already. Serve ends it.
func New(ctx context.Context, c Config) (*Server, error) {
	m, err := c.member(ctx)
	if err != nil {
		return nil, err
	}
	info, err := c.info(runtime.NumCPU(), m)
	if err != nil {
		return nil, err
	}
	kinds, err := c.kinds()
	if err != nil {
		return nil, err
	}
	listen := net.ListenConfig{KeepAliveConfig: KeepAlive, Control: BoundSilence}
	l, err := listen.Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return nil, err
	}
	return &Server{config: c, info: info, member: m, listener: l, kinds: kinds, places: make(chan struct{}, c.MaxParts)}, nil
}

// Addr returns where the agent listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Info returns what the agent is.
func (s *Server) Info() Info {
	info := s.info
	info.Parts = len(s.places)
	return info
}

// SetTerms sets the terms. Without terms the agent accepts all parts.
func (s *Server) SetTerms(t Terms) { s.admitted.set(t) }

// Serve serves until ctx ends, and then ends all parts.
func (s *Server) Serve(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/agent", s.introduce)
	mux.HandleFunc("GET /v1/clock", func(w http.ResponseWriter, _ *http.Request) {
		received := generator.Monotonic()
		s.answer(w, Times{Received: received, Answered: generator.Monotonic()})
	})
	mux.HandleFunc("GET /v1/logs", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write(s.config.Lines.Text()) // a failure means that the client has gone
	})
	for path, k := range s.kinds {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) { s.carry(ctx, k, w, r) })
	}
	idle := newIdleTimer(s.config.IdleTimeout, func() {
		s.config.Logger.Info("no coordinator is there", "idle_timeout", s.config.IdleTimeout.String())
		end()
	})
	defer idle.Stop()
	server := &http.Server{
		Handler: idle.watch(s.sameVersion(mux)), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(s.config.Logger.Handler(), slog.LevelWarn),
	}
	// HTTP/2 has no upgrades.
	server.Protocols = &http.Protocols{}
	server.Protocols.SetHTTP1(true)
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // its error only says that the listener is closed
	defer stop()
	s.config.Logger.Info("listening", "address", s.Addr().String(), "name", s.info.Name, "version", s.info.Version)
	l := s.listener
	var ended error // the certificate
	var keeping sync.WaitGroup
	if s.member != nil {
		l = tls.NewListener(l, s.member.Server(identity.Coordinator))
		keeping.Go(func() {
			if ended = s.keep(ctx); ended != nil {
				end()
			}
		})
	}
	err := server.Serve(l)
	end()
	keeping.Wait()
	for range s.config.MaxParts {
		s.places <- struct{}{} // all parts have ended, and no other begins
	}
	if errors.Is(err, http.ErrServerClosed) {
		s.config.Logger.Info("stopped")
		err = nil
	}
	return errors.Join(err, ended)
}

// introduce sends the agent's Info, with a reason if it refuses this coordinator.
func (s *Server) introduce(w http.ResponseWriter, r *http.Request) {
	fence, err := fenceOf(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	info := s.Info()
	if err := s.admitted.check(fence); err != nil {
		info.Refuses = err.Error()
	}
	s.answer(w, info)
}

// Times are when an agent received and answered a request: nanoseconds of its CLOCK_MONOTONIC.
type Times struct {
	Received int64 `json:"received"`
	Answered int64 `json:"answered"`
}

func (s *Server) answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // a failure means that the client has gone
}

// SetRevoked sets the fleet's revocations. The error says that the agent itself is revoked.
func (s *Server) SetRevoked(r *identity.Revocations) error {
	if s.member == nil {
		return nil
	}
	return s.member.SetRevoked(r)
}

// sameVersion refuses requests of another version, and of members revoked since the connection began.
func (s *Server) sameVersion(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil {
			if err := s.member.Admits(r.TLS.PeerCertificates[0]); err != nil {
				http.Error(w, err.Error(), http.StatusForbidden)
				return
			}
		}
		if v := r.Header.Get(VersionHeader); v != s.info.Version && (v != "" || r.Method != http.MethodGet) {
			http.Error(w, fmt.Sprintf("it is dyno %s, and is asked by dyno %s: use the same version on both machines", s.info.Version, v), http.StatusConflict)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// carry starts a part, and passes its bytes on until it or the connection ends.
func (s *Server) carry(ctx context.Context, k kind, w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), k.protocol) {
		w.Header().Set("Upgrade", k.protocol)
		http.Error(w, "want Upgrade: "+k.protocol, http.StatusUpgradeRequired)
		return
	}
	fence, err := fenceOf(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, leave, err := s.admitted.enter(ctx, fence)
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	defer leave()
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	default:
		http.Error(w, fmt.Sprintf("it carries %d parts of loads already: wait, or raise --max-parts", s.config.MaxParts), http.StatusServiceUnavailable)
		return
	}
	part, err := k.start(ctx)
	if err != nil {
		http.Error(w, "start a process: "+err.Error(), http.StatusInternalServerError)
		return
	}
	log := s.config.Logger.With("from", r.RemoteAddr)
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		log.Error("a connection cannot be upgraded", "error", err)
		part.Kill()
		_ = part.Wait() // it was killed
		return
	}
	defer s.member.Track(conn)()
	defer context.AfterFunc(ctx, func() {
		part.Kill()
		_ = conn.Close()
	})()
	defer time.AfterFunc(s.config.MaxTime+endTimeout, part.Kill).Stop() // it ends itself before, and says why
	log.Info("a part begins")
	err = pass(conn, k.protocol, buffered.Reader, part)
	log.Info("a part ended", "error", err)
}

// pass passes orders from a connection to a part, and the part's reports to the connection. It returns
// when the part has ended, and closes the connection.
func pass(conn net.Conn, protocol string, orders io.Reader, part process) error {
	var ordering sync.WaitGroup
	ordering.Go(func() {
		_, err := io.Copy(part, &orderReader{conn: conn, of: orders, until: time.Now().Add(orderTimeout)})
		_ = part.CloseWrite() // if this fails, it has ended
		if err != nil {
			part.Kill()
			return
		}
		time.AfterFunc(endTimeout, part.Kill)
	})
	_, err := fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", protocol)
	if err == nil {
		_, err = io.Copy(timedWriter{conn}, part)
	}
	if err != nil {
		part.Kill() // the reports have no reader any more
	}
	err = errors.Join(err, part.Wait(), conn.Close())
	ordering.Wait()
	return err
}

// An orderReader reads orders. The first must come in time. Later dyno may be silent during the load; the kernel
// detects a lost connection.
type orderReader struct {
	conn  net.Conn
	of    io.Reader
	until time.Time // deadline of the first order; zero: it has come
}

func (r *orderReader) Read(b []byte) (int, error) {
	if err := r.conn.SetReadDeadline(r.until); err != nil {
		return 0, err
	}
	n, err := r.of.Read(b)
	if bytes.IndexByte(b[:n], '\n') >= 0 {
		r.until = time.Time{}
	}
	return n, err
}

// A timedWriter writes to a connection whose reader must not fall behind.
type timedWriter struct{ net.Conn }

func (w timedWriter) Write(b []byte) (int, error) {
	if err := w.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return w.Conn.Write(b)
}
