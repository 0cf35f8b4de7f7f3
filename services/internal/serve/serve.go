// Package serve has the common parts of services. It has their life cycle: listen, ready, drain with a deadline,
// stop. It keeps them local to this machine unless configured otherwise. It has the admin listener, with profiles,
// metrics and health.
//
// A service makes a Host, registers its metrics, opens its listeners, and gives the Host
// its parts:
//
//	host, err := serve.New(serve.Config{Name: "echo", Admin: "127.0.0.1:0", …})
//	err = host.Listen()
//	err = host.Run(ctx, serve.Part{Name: "tcp", Serve: …, Drain: …})
package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"dyno/internal/descriptors"
	"dyno/internal/fields"
	"dyno/internal/hangup"
)

// Config configures a Host.
type Config struct {
	Name string // the service's name, in logs and on the admin's home page
	AdminListener
	AllowRemote  bool          // lets other machines reach Admin
	DrainTimeout time.Duration // how long Run lets open work finish; 0 means that it does not wait
	Logger       *slog.Logger  // nil discards
	Pages        []Page        // of the service, for the admin listener
	// Operators returns whom a token that is not the listener's own names; nil knows nobody. The errors are
	// ErrUnavailable and why the token is refused.
	Operators func(token string) (Operator, error)
	// Health reports whether the running service accepts work, and its fault, in words without secrets: probes have
	// no credentials. nil means always healthy.
	Health func() (accepts bool, wrong string)
	// Reload is called when SIGHUP asks for it, while the service runs, by one goroutine at a time. It reads files
	// again, or changes nothing and returns the reason. nil is for a service that reads again its Files at most, which
	// are looked at first.
	Reload func() error
}

// A Page is one of the service's own pages on the admin listener.
type Page struct {
	Path    string // begins with a slash and has no wildcards
	About   string // one line for the home page
	Handler http.Handler
	// Changes passes requests of all methods, and of paths below, if they come from the page's own site.
	Changes bool
}

// A Part is one thing a service does until it is asked to stop: usually one
// listener.
type Part struct {
	Name string

	// Serve runs until Drain has done its work, and then returns nil. If it returns
	// earlier, the whole service ends.
	Serve func() error

	// Drain stops accepting work at once, lets open work finish until ctx ends, and then
	// cuts the rest. It returns how many pieces of work it cut.
	Drain func(ctx context.Context) (cut int)
}

type state int32

const (
	starting state = iota
	ready
	draining
)

func (s state) String() string { return [...]string{"starting", "ready", "draining"}[s] }

// A Host runs one service. Its methods may be called from any goroutine; Listen
// and Run once each, in this order.
type Host struct {
	cfg      Config
	log      *slog.Logger
	registry *prometheus.Registry
	state    atomic.Int32
	files    *Files
	token    []byte      // the admin listener's token; nil: none is needed
	tls      *tls.Config // of the admin listener; nil without TLS
	admin    *http.Server
	listener net.Listener // the admin listener; nil if there is none
}

// runtimeMetrics are the metrics of runtime/metrics that show why a program is slow: the time of the garbage
// collector and the scheduler. Reading them stops nothing.
var runtimeMetrics = collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(
	`^/(sched/latencies:seconds|sched/pauses/total/gc:seconds|cpu/classes/gc/total:cpu-seconds|gc/heap/live:bytes|gc/cycles/total:gc-cycles)$`)}

// New returns a host whose registry already holds the metrics of the process and the Go
// runtime. It also enlarges the process's descriptor table.
func New(cfg Config) (*Host, error) {
	if err := fields.Validate(cfg.AdminListener, func(r *fields.Report) { cfg.Check(r, cfg.AllowRemote) }); err != nil {
		return nil, err
	}
	token, err := cfg.token()
	if err != nil {
		return nil, err
	}
	if err := descriptors.Enlarge(descriptors.Many); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	h := &Host{cfg: cfg, log: cfg.Logger.With("service", cfg.Name), registry: prometheus.NewRegistry(), token: token}
	h.files = NewFiles(h.log)
	h.registry.MustRegister(
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(runtimeMetrics)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return h, nil
}

// Registry is where the service registers its metrics.
func (h *Host) Registry() *prometheus.Registry { return h.registry }

// Logger is the service's logger. Every record of it names the service.
func (h *Host) Logger() *slog.Logger { return h.log }

// Files are what is read again while the service runs, when it changes and at SIGHUP.
func (h *Host) Files() *Files { return h.files }

// UseTLS gives the admin listener TLS; nil is none. Call it before Listen.
func (h *Host) UseTLS(c *tls.Config) { h.tls = c }

// Listen opens the admin listener, if one is configured. The listener answers once Run
// has begun.
func (h *Host) Listen() error {
	if h.cfg.Admin == "" {
		return nil
	}
	l, err := Listen(context.Background(), h.cfg.Admin, nil)
	if err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	h.listener = l
	h.admin = &http.Server{
		Handler:           Timely(h.handler()),
		TLSConfig:         h.tls,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       30 * time.Second,
		ErrorLog:          ErrorLog(h.log),
		// There is no write timeout: a CPU profile takes as long as the request says.
	}
	return nil
}

// AdminAddr is the address of the admin listener; nil without one.
func (h *Host) AdminAddr() net.Addr {
	if h.listener == nil {
		return nil
	}
	return h.listener.Addr()
}

// Close frees the admin listener of a Host whose Run is never called.
func (h *Host) Close() error {
	if h.listener == nil {
		return nil
	}
	return h.listener.Close()
}

// Run serves every part until ctx ends or one of them fails, and then drains them all. It
// stops the admin listener last, so that the drain can be watched. It returns nil if ctx
// ended it, even if the drain's deadline cut work off (which it logs). Otherwise it
// returns the error.
func (h *Host) Run(ctx context.Context, parts ...Part) error {
	var (
		running sync.WaitGroup
		mu      sync.Mutex // guards errs
		errs    []error
	)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fail := func(name string, err error) {
		mu.Lock()
		errs = append(errs, fmt.Errorf("%s: %w", name, err))
		mu.Unlock()
		cancel()
	}

	stopAdmin := h.startAdmin(fail)
	if len(h.files.groups) > 0 {
		parts = append(slices.Clip(parts), h.files.Part())
	}
	for _, p := range parts {
		running.Go(func() {
			if err := p.Serve(); err != nil {
				fail(p.Name, err)
			} else if ctx.Err() == nil {
				fail(p.Name, errors.New("stopped unasked"))
			}
		})
	}
	running.Go(func() { h.reload(ctx) })
	h.state.Store(int32(ready))
	h.log.Info("ready")

	<-ctx.Done()
	h.state.Store(int32(draining))
	h.log.Info("draining", "timeout", h.cfg.DrainTimeout)
	deadline, stop := context.WithTimeout(context.WithoutCancel(ctx), h.cfg.DrainTimeout)
	defer stop()
	for _, p := range parts {
		running.Go(func() {
			if cut := p.Drain(deadline); cut > 0 {
				h.log.Warn("drain deadline passed", "part", p.Name, "cut", cut)
			}
		})
	}
	running.Wait()
	stopAdmin()
	h.log.Info("stopped")
	return errors.Join(errs...)
}

// reload reads the configuration again at each request, until ctx ends.
func (h *Host) reload(ctx context.Context) {
	for requests := hangup.Requests(ctx); ; {
		select {
		case <-requests:
		case <-ctx.Done():
			return
		}
		var err error
		if len(h.files.groups) > 0 {
			err = h.files.LookNow()
		} else if h.cfg.Reload == nil {
			h.log.Info("SIGHUP: this service reads nothing again; restart it to change its configuration")
			continue
		}
		if err == nil && h.cfg.Reload != nil {
			err = h.cfg.Reload()
		}
		if err != nil {
			h.log.Error("SIGHUP: nothing has changed", "error", err)
		} else {
			h.log.Info("SIGHUP: the files were read again")
		}
	}
}

// startAdmin serves the admin listener and returns a function that stops it.
func (h *Host) startAdmin(fail func(string, error)) (stop func()) {
	if h.listener == nil {
		return func() {}
	}
	h.log.Info("admin", "address", h.listener.Addr().String())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := HTTP(h.admin, h.listener); err != nil {
			fail("admin", err)
		}
	}()
	return func() {
		// Close and not Shutdown: a running profile must not delay the end.
		_ = h.admin.Close()
		<-done
	}
}
