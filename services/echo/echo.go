// Package echo sends back its input: over TCP byte for byte, over HTTP/1.1 body for body, over WebSocket message for message. It is used behind a relay,
// or as a target that does almost nothing.
//
// The TCP side is one readiness loop: it must cost less than what is measured in front of
// it.
//
// The folder rpc has the echo over gRPC, as programs of their own in several languages.
package echo

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"dyno/internal/fields"
	"dyno/services/internal/serve"

	"github.com/prometheus/client_golang/prometheus"
)

// Config says where to listen. Start from Defaults.
type Config struct {
	TCP         string `yaml:"tcp" otherwise:"none" doc:"address of the echo over TCP: host:port, [ipv6]:port or unix:PATH; port 0 picks one. It must be a loopback address unless allow_remote is set"`
	HTTP        string `yaml:"http" otherwise:"none" doc:"address of the echo over HTTP/1.1 and WebSocket, in the same forms"`
	AllowRemote bool   `yaml:"allow_remote" doc:"permit addresses that other machines reach"`
	serve.AdminListener

	BufferBytes    int   `yaml:"buffer" kind:"size" range:"4KiB..16MiB" default:"64KiB" doc:"bytes held of a TCP connection whose client does not read; when they are full, its bytes are not read either"`
	MaxConnections int   `yaml:"max_connections" range:"1..1048576" default:"16384" doc:"TCP connections served at once; further ones wait"`
	MaxBodyBytes   int64 `yaml:"max_body" kind:"size" range:"1..1GiB" default:"16MiB" doc:"bytes of an HTTP body, echoed or requested by ?size=, and of a WebSocket message; beyond: 413, 400 or close code 1009"`
	// Connections that outlast DrainTimeout are reset.
	DrainTimeout time.Duration `yaml:"drain_timeout" range:"0..24h" default:"10s" doc:"how long open connections may continue at the end"`

	// Logger receives the service's events; nil discards them.
	Logger *slog.Logger
}

// Defaults returns a Config with every default. It has no addresses.
func Defaults() Config { return fields.Default[Config]() }

// Validate reports every fault at once.
func (c Config) Validate() error { return fields.Validate(c, c.Check) }

// Check reports violations of rules across fields, which tags cannot express.
func (c Config) Check(r *fields.Report) {
	r.Check(c.TCP != "" || c.HTTP != "", "tcp", "there is no address", "such as --tcp 127.0.0.1:7000 or --http 127.0.0.1:8080")
	if c.TCP != "" {
		serve.CheckListener(r, "tcp", c.TCP, c.AllowRemote)
	}
	if c.HTTP != "" {
		serve.CheckListener(r, "http", c.HTTP, c.AllowRemote)
	}
	c.AdminListener.Check(r, c.AllowRemote)
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
	messages prometheus.Counter
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
		messages: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "echo_websocket_messages_total", Help: "WebSocket messages sent back."}),
	}}
	host.Registry().MustRegister(s.open, s.accepted, s.resets, s.echoed, s.requests, s.messages)
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
		parts = append(parts, serve.Part{Name: "http", Serve: func() error { return serve.HTTP(s.http.server, s.http.listener) }, Drain: s.http.drain})
	}
	return s.host.Run(ctx, parts...)
}
