// Package echo answers with what it was sent: over TCP byte for byte, over HTTP/1.1 body
// for body. It is used behind a relay, or as a target that does almost nothing.
//
// The TCP side is one readiness loop: it must cost less than what is measured in front of
// it.
//
// The folder rpc has the echo over gRPC, as programs of their own in several languages.
package echo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"dyno/services/internal/serve"

	"github.com/prometheus/client_golang/prometheus"
)

// Config says where to listen. Start from Defaults.
type Config struct {
	// TCP and HTTP are the addresses of the two end points: host:port, [ipv6]:port
	// or unix:PATH; port 0 picks one, "" means none, and at least one is needed.
	// They must be loopback addresses unless AllowRemote is set.
	TCP  string
	HTTP string
	// AllowRemote permits addresses that other machines reach.
	AllowRemote bool
	serve.AdminListener

	// BufferBytes bounds what is held for a TCP connection whose client does not read its
	// echo. When the buffer is full, the client's bytes are not read any more.
	BufferBytes int
	// MaxConnections bounds the TCP connections served at once. Further ones wait
	// in the listener's queue.
	MaxConnections int
	// MaxBodyBytes bounds HTTP bodies, both echoed ones and those requested by ?size=. A
	// longer one is answered with 413 or 400.
	MaxBodyBytes int64
	// DrainTimeout is how long open connections may go on when Serve's context has
	// ended. The rest are reset.
	DrainTimeout time.Duration

	// Logger receives the service's events; nil discards them.
	Logger *slog.Logger
}

// Defaults returns a Config with every default. It has no addresses.
func Defaults() Config {
	return Config{
		BufferBytes:    64 << 10,
		MaxConnections: 16384,
		MaxBodyBytes:   16 << 20,
		DrainTimeout:   10 * time.Second,
	}
}

// Validate reports every fault at once: the field, its value, and what would be right.
func (c Config) Validate() error {
	var errs []error
	if c.TCP == "" && c.HTTP == "" {
		errs = append(errs, errors.New("tcp, http: both empty: at least one address is needed"))
	}
	for _, a := range []struct{ field, address string }{{"tcp", c.TCP}, {"http", c.HTTP}} {
		if a.address == "" {
			continue
		}
		if err := serve.CheckListen(a.field, a.address, c.AllowRemote); err != nil {
			errs = append(errs, err)
		}
	}
	if err := c.CheckAdmin(c.AllowRemote); err != nil {
		errs = append(errs, err)
	}
	between := func(field string, value, low, high int64) {
		if value < low || value > high {
			errs = append(errs, fmt.Errorf("%s: %d: must be from %d to %d", field, value, low, high))
		}
	}
	between("buffer bytes", int64(c.BufferBytes), 4<<10, 16<<20)
	between("max connections", int64(c.MaxConnections), 1, 1<<20)
	between("max body bytes", c.MaxBodyBytes, 1, 1<<30)
	if c.DrainTimeout < 0 {
		errs = append(errs, fmt.Errorf("drain timeout: %v: must be 0 (cut at once) or more", c.DrainTimeout))
	}
	return errors.Join(errs...)
}

// A Server is one echo service. Use New, then Listen and Serve, or Serve alone.
type Server struct {
	cfg  Config
	host *serve.Host
	log  *slog.Logger
	tcp  *tcpEcho  // nil without TCP, or before Listen
	http *httpEcho // nil without HTTP, or before Listen
	metrics
	listening bool
}

type metrics struct {
	open     prometheus.Gauge
	accepted prometheus.Counter
	resets   prometheus.Counter
	echoed   prometheus.Counter
	requests *prometheus.CounterVec
}

// New checks cfg and returns a service that is not listening yet. The error
// lists every fault of cfg.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	host, err := serve.New(serve.Config{
		Name: "echo", AdminListener: cfg.AdminListener, AllowRemote: cfg.AllowRemote,
		DrainTimeout: cfg.DrainTimeout, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, host: host, log: host.Logger(), metrics: metrics{
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "echo_tcp_connections_open", Help: "TCP connections being served."}),
		accepted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "echo_tcp_connections_total", Help: "TCP connections accepted."}),
		resets: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "echo_tcp_resets_total", Help: "TCP connections that did not end in order."}),
		echoed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "echo_tcp_bytes_total", Help: "Bytes written back."}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "echo_http_requests_total", Help: "HTTP requests by answer."}, []string{"status"}),
	}}
	host.Registry().MustRegister(s.open, s.accepted, s.resets, s.echoed, s.requests)
	return s, nil
}

// Listen opens the listeners. After it has returned nil, the addresses are known and
// clients may connect; they are served once Serve runs.
func (s *Server) Listen() (err error) {
	defer func() {
		if err != nil {
			_ = s.Close()
		}
	}()
	if s.cfg.TCP != "" {
		if s.tcp, err = newTCP(s); err != nil {
			return fmt.Errorf("tcp: %w", err)
		}
	}
	if s.cfg.HTTP != "" {
		if s.http, err = newHTTP(s); err != nil {
			return fmt.Errorf("http: %w", err)
		}
	}
	if err = s.host.Listen(); err != nil {
		return err
	}
	s.listening = true
	return nil
}

// TCPAddr is the address of the TCP end point; nil without one or before Listen.
func (s *Server) TCPAddr() net.Addr {
	if s.tcp == nil {
		return nil
	}
	return s.tcp.addr
}

// HTTPAddr is the address of the HTTP end point; nil without one or before
// Listen.
func (s *Server) HTTPAddr() net.Addr {
	if s.http == nil {
		return nil
	}
	return s.http.listener.Addr()
}

// AdminAddr is the address of the admin listener; nil without one or before Listen.
func (s *Server) AdminAddr() net.Addr { return s.host.AdminAddr() }

// Close frees the listeners of a service whose Serve is never called.
func (s *Server) Close() error {
	if s.tcp != nil {
		s.tcp.close()
	}
	if s.http != nil {
		_ = s.http.listener.Close()
	}
	return s.host.Close()
}

// Serve echoes until ctx ends, and then drains. It returns nil after that, even if
// connections had to be cut at the deadline, which it logs. Otherwise it returns the
// error. It calls Listen unless that has been done, and may be called once.
func (s *Server) Serve(ctx context.Context) error {
	if !s.listening {
		if err := s.Listen(); err != nil {
			return err
		}
	}
	var parts []serve.Part
	if s.tcp != nil {
		s.log.Info("listening", "protocol", "tcp", "address", s.TCPAddr().String())
		parts = append(parts, serve.Part{Name: "tcp", Serve: s.tcp.serve, Drain: s.tcp.drain})
	}
	if s.http != nil {
		s.log.Info("listening", "protocol", "http", "address", s.HTTPAddr().String())
		parts = append(parts, serve.Part{Name: "http", Serve: s.http.serve, Drain: s.http.drain})
	}
	return s.host.Run(ctx, parts...)
}
