// Package rest is the control plane's API over HTTP. It has resources in JSON, problems by RFC 9457, and conditional
// requests (RFC 9110, section 13). Watches are server-sent events or long polls. GET /v1/openapi.json describes it; a
// test compares the description with responses. /console/ has a page for people, which uses the API.
//
// To read the source: routes.go is the list of operations, request.go what they have in
// common, watch.go the streams.
package rest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dyno/services/control/console"
	"dyno/services/control/plane"
	"dyno/services/internal/serve"
	"dyno/services/internal/trace"
)

// Config configures the API. Its numbers are within the bounds of the service's configuration. Start from Defaults.
type Config struct {
	Plane *plane.Plane
	// Gate admits callers. Without a book, requests must have a loopback address as their host.
	Gate *plane.Gate
	// MaxWatchers bounds streams and long polls at a time; more get 503.
	MaxWatchers int
	// Heartbeat is the time without a change after which a stream sends a comment. WriteTimeout bounds one write to a
	// stream.
	Heartbeat    time.Duration
	WriteTimeout time.Duration
	Tracer       *trace.Tracer // of requests without watches; nil traces nothing
	Logger       *slog.Logger
}

// Defaults returns the Config that every field starts from; it has no Plane.
func Defaults() Config {
	return Config{Gate: plane.NewGate(nil, 0, 0), Logger: slog.New(slog.DiscardHandler), MaxWatchers: 20_000, Heartbeat: 15 * time.Second, WriteTimeout: 10 * time.Second}
}

// An API answers requests. Its methods may be called from any goroutine.
type API struct {
	cfg         Config
	log         *slog.Logger
	plane       *plane.Plane
	mux         *http.ServeMux // the operations, and a handler for all other paths
	routes      []route
	crossOrigin *http.CrossOriginProtection
	document    []byte

	requests *prometheus.HistogramVec
	watchers atomic.Int64
	streams  sync.WaitGroup
	ctx      context.Context // of watches
	stop     context.CancelFunc
}

// New returns an API.
func New(cfg Config) (*API, error) {
	a := &API{
		cfg: cfg, log: cfg.Logger, plane: cfg.Plane, mux: http.NewServeMux(), crossOrigin: http.NewCrossOriginProtection(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "http_request_duration_seconds", Help: "Requests without watches, by context, operation and result: ok, or the kind of problem.",
			Buckets: prometheus.ExponentialBuckets(0.00025, 2, 16),
		}, []string{"business_context", "operation", "category"}),
	}
	a.ctx, a.stop = context.WithCancel(context.Background())
	a.routes = a.table()
	for _, r := range a.routes {
		if !r.stream {
			r.good = a.requests.WithLabelValues(r.context, r.id, "ok")
		}
		a.mux.HandleFunc(r.method+" "+r.path, a.answer(r))
	}
	for place, file := range console.Files() {
		a.mux.HandleFunc("GET "+place, a.page(file))
	}
	a.mux.Handle("GET /{$}", http.RedirectHandler(console.Path, http.StatusTemporaryRedirect))
	a.mux.HandleFunc("/", a.unknown)
	var err error
	a.document, err = a.describe()
	return a, err
}

// Close ends watches, and waits until they have.
func (a *API) Close() {
	a.stop()
	a.streams.Wait()
}

var _ prometheus.Collector = (*API)(nil)

var descWatchers = prometheus.NewDesc("control_watchers", "Open streams and long polls.", nil, nil)

// Describe implements prometheus.Collector.
func (a *API) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(a, ch) }

// Collect implements prometheus.Collector.
func (a *API) Collect(ch chan<- prometheus.Metric) {
	a.requests.Collect(ch)
	ch <- prometheus.MustNewConstMetric(descWatchers, prometheus.GaugeValue, float64(a.watchers.Load()))
}

// ServeHTTP answers a request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !isClean(r.URL) {
		writeProblem(w, asProblem(noSuchPath))
		return
	}
	a.mux.ServeHTTP(w, r)
}

// isClean reports whether a path has no empty or dotted parts. The mux would redirect others, by an HTML page.
func isClean(u *url.URL) bool {
	p := u.EscapedPath()
	clean := path.Clean(p)
	return p == clean || p == clean+"/"
}

// page serves a file of the console. It needs no credentials: the page has no data, and gets all of it from the API.
func (a *API) page(file http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if a.cfg.Gate.Book == nil && !localHost(r.Host) {
			writeProblem(w, asProblem(otherHost(r.Host)))
			return
		}
		file.ServeHTTP(w, r)
	}
}

var noSuchPath = &plane.Problem{Kind: noPath, Detail: "there is no such path: /v1/openapi.json lists them"}

// unknown answers requests without an operation: the path has none, or none with this method.
func (a *API) unknown(w http.ResponseWriter, r *http.Request) {
	var methods []string
	for _, method := range []string{http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut} {
		other := http.Request{Method: method, Host: r.Host, URL: r.URL}
		if _, pattern := a.mux.Handler(&other); pattern != "/" {
			methods = append(methods, method)
		}
	}
	if len(methods) == 0 {
		writeProblem(w, asProblem(noSuchPath))
		return
	}
	allowed := strings.Join(methods, ", ")
	w.Header().Set("Allow", allowed)
	writeProblem(w, asProblem(&plane.Problem{Kind: noMethod, Detail: r.Method + " is not for this path: " + allowed}))
}

// fail answers a request that has failed, and returns where its time is counted.
func (q *request) fail(err error, span trace.Span) prometheus.Observer {
	p := asProblem(err)
	span.Text("error.type", string(p.kind))
	if p.Status >= http.StatusInternalServerError {
		span.Fail(string(p.kind))
		q.api.log.Warn("request failed", "operation", q.route.id, "status", p.Status, "error", err)
	}
	header := q.w.Header()
	if p.after > 0 {
		header.Set("Retry-After", strconv.FormatInt(int64((p.after+time.Second-1)/time.Second), 10))
	}
	if p.Status == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", "Bearer")
	}
	if !q.headerWritten {
		header.Del(ageField) // of what was to be answered
		writeProblem(q.w, p)
	}
	return q.api.requests.WithLabelValues(q.route.context, q.route.id, string(p.kind))
}

// answer wraps an operation: admission, panics, problems and metrics.
func (a *API) answer(r route) http.HandlerFunc {
	return func(w http.ResponseWriter, hr *http.Request) {
		start := time.Now()
		var span trace.Span
		q := &request{api: a, route: &r, Request: hr, w: w}
		stream := r.stream || r.waits != "" && q.parameter("since") != ""
		if stream {
			q.query() // here, as a stack that it makes grow stays large for as long as the stream lasts
		} else {
			q.Request, span = a.cfg.Tracer.Begin(hr, r.id)
			defer span.End()
		}
		err := a.admit(q)
		if err == nil {
			err = serve.Recovering(a.log, "operation", r.id, r.handle, q)
		}
		took := r.good
		if err != nil {
			took = q.fail(err, span)
		}
		if !stream {
			took.Observe(time.Since(start).Seconds())
		}
		if q.headerWritten && errors.Is(err, serve.ErrPanicked) {
			panic(http.ErrAbortHandler) // the part written so far is not a valid response
		}
	}
}

// admit identifies the caller, and checks its rate.
func (a *API) admit(q *request) error {
	if err := a.crossOrigin.Check(q.Request); err != nil {
		return &plane.Problem{Kind: otherOrigin, Detail: "web pages of other origins may not ask for changes"}
	}
	if a.cfg.Gate.Book == nil && !localHost(q.Host) {
		return otherHost(q.Host)
	}
	var err error
	if q.caller, err = a.cfg.Gate.Admit(plane.Credentials{Address: q.RemoteAddr, Authorization: q.Header.Get("Authorization"), TLS: q.TLS}); err != nil {
		return err
	}
	return q.readable()
}

func otherHost(name string) error {
	return &plane.Problem{Kind: wrongHost, Detail: fmt.Sprintf("%q is not this machine: without credentials, it must be asked by a loopback address or localhost", name)}
}

// localHost reports whether a request's Host is this machine. A name that a foreign DNS server maps to a loopback
// address is not.
func localHost(name string) bool {
	if h, _, err := net.SplitHostPort(name); err == nil {
		name = h
	}
	name = strings.Trim(name, "[]")
	if name == "localhost" || name == "unix" {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.Unmap().IsLoopback()
}
