// Package rpc is the control plane's API over gRPC. control.proto is the contract, and describes each call. It has
// the operations that programs need often. Histories, pages of services and backups are only in the HTTP API.
//
// To read the source: operations.go has the unary calls, watch.go the streams, convert.go the documents, fault.go the
// errors.
package rpc

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"dyno/services/control/access"
	"dyno/services/control/message"
	"dyno/services/control/plane"
	"dyno/services/control/resource"
	"dyno/services/control/rpc/controlpb"
	"dyno/services/internal/flood"
	"dyno/services/internal/serve"
)

// Config configures the API. Its numbers are within the bounds of the service's configuration. Start from Defaults.
type Config struct {
	Plane *plane.Plane
	Gate  *plane.Gate // admits callers
	// TLS has the server's certificate; nil is plain HTTP/2.
	TLS *tls.Config
	// More registers further services, whose callers are admitted by the same rules; nil is none.
	More func(grpc.ServiceRegistrar)
	// MaxWatchers bounds streams at a time; more get RESOURCE_EXHAUSTED.
	MaxWatchers int
	// WriteTimeout bounds the time for which a stream's client may accept nothing.
	WriteTimeout time.Duration
	// Ping is the silence after which a connection is pinged; the answer must come within PingTimeout.
	Ping, PingTimeout time.Duration
	Logger            *slog.Logger
}

// Defaults returns the Config that every field starts from; it has no Plane.
func Defaults() Config {
	return Config{Gate: plane.NewGate(nil, 0, 0), Logger: slog.New(slog.DiscardHandler), MaxWatchers: 20_000, WriteTimeout: 10 * time.Second, Ping: 30 * time.Second, PingTimeout: 10 * time.Second}
}

// Bounds of a connection: calls at once, and pings of a client.
const (
	maxStreams = 1000
	minPing    = 5 * time.Second
)

// An API answers calls. Its methods may be called from any goroutine.
type API struct {
	controlpb.UnimplementedControlServer
	cfg     Config
	log     *slog.Logger
	plane   *plane.Plane
	server  *grpc.Server
	written memo

	requests *prometheus.HistogramVec
	watchers atomic.Int64
	streams  sync.WaitGroup
	ctx      context.Context // of watches
	stop     context.CancelFunc
}

// New returns an API.
func New(cfg Config) *API {
	a := &API{
		cfg: cfg, log: cfg.Logger, plane: cfg.Plane, written: newMemo(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "grpc_request_duration_seconds", Help: "Calls without watches, by context, operation and result: ok, or the kind of problem.",
			Buckets: prometheus.ExponentialBuckets(0.00025, 2, 16),
		}, []string{"business_context", "operation", "category"}),
	}
	a.ctx, a.stop = context.WithCancel(context.Background())
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(2 * cfg.Plane.Limits().Document()), grpc.MaxConcurrentStreams(maxStreams),
		grpc.InTapHandle(a.enter), grpc.UnaryInterceptor(a.unary), grpc.StreamInterceptor(a.stream),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: cfg.Ping, Timeout: cfg.PingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
	}
	secured := insecure.NewCredentials()
	if cfg.TLS != nil {
		secured = credentials.NewTLS(cfg.TLS)
	}
	options = append(options, grpc.Creds(guarded{secured, a.log}))
	a.server = grpc.NewServer(options...)
	controlpb.RegisterControlServer(a.server, a)
	if cfg.More != nil {
		cfg.More(a.server)
	}
	return a
}

// guarded wraps credentials: their connections end when their client floods them.
type guarded struct {
	credentials.TransportCredentials
	log *slog.Logger
}

// ServerHandshake implements credentials.TransportCredentials.
func (g guarded) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := g.TransportCredentials.ServerHandshake(c)
	if err != nil {
		return nil, nil, err
	}
	return flood.Conn(c, g.log), info, nil
}

// Clone implements credentials.TransportCredentials.
func (g guarded) Clone() credentials.TransportCredentials {
	return guarded{g.TransportCredentials.Clone(), g.log}
}

// Serve answers calls on a listener until Close, and returns nil then.
func (a *API) Serve(l net.Listener) error {
	err := a.server.Serve(l)
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil // it was closed before Serve
	}
	return err
}

// Close ends watches, waits for calls until ctx ends, and closes the remaining connections. It returns how many it
// closed: 0, or 1 for all of them.
func (a *API) Close(ctx context.Context) (cut int) {
	a.stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.server.GracefulStop()
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		a.server.Stop()
		<-ended
		cut = 1
	}
	a.streams.Wait()
	return cut
}

var _ prometheus.Collector = (*API)(nil)

var descWatchers = prometheus.NewDesc("control_grpc_watchers", "Open streams of watches over gRPC.", nil, nil)

// Describe implements prometheus.Collector.
func (a *API) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(a, ch) }

// Collect implements prometheus.Collector.
func (a *API) Collect(ch chan<- prometheus.Metric) {
	a.requests.Collect(ch)
	ch <- prometheus.MustNewConstMetric(descWatchers, prometheus.GaugeValue, float64(a.watchers.Load()))
}

// callerKey is the key of the caller in a call's context.
type callerKey struct{}

// Caller returns the caller of an admitted call. The caller of any other call has no grants.
func Caller(ctx context.Context) plane.Caller {
	c, ok := ctx.Value(callerKey{}).(plane.Caller)
	if !ok {
		return plane.Caller{Principal: &access.Principal{}}
	}
	return c
}

// enter admits a call by its header. The message of an unauthenticated client is not read: it would take memory until
// it is complete.
func (a *API) enter(ctx context.Context, info *tap.Info) (context.Context, error) {
	began := time.Now()
	ctx, err := a.admit(ctx)
	if err == nil {
		return ctx, nil
	}
	// An unauthenticated client may invent names of calls. The context is a fixed one: only the message would give
	// it.
	if name := path.Base(info.FullMethodName); slices.ContainsFunc(controlpb.Control_ServiceDesc.Methods, func(m grpc.MethodDesc) bool { return m.MethodName == name }) {
		a.requests.WithLabelValues("administration", name, string(plane.ProblemOf(err).Kind)).Observe(time.Since(began).Seconds())
	}
	return nil, refuse(err)
}

// unary counts a call.
func (a *API) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (answer any, err error) {
	began := time.Now()
	method := path.Base(info.FullMethod)
	err = serve.Recovering(a.log, "call", method, func(ctx context.Context) (err error) {
		answer, err = handle(ctx, request)
		return err
	}, ctx)
	category := "ok"
	if err != nil {
		kind := plane.ProblemOf(err).Kind
		category = string(kind)
		if kind.ServerFault() {
			a.log.Warn("call failed", "operation", method, "error", err)
		}
		err = refuse(err)
	}
	a.requests.WithLabelValues(contextOf(request), method, category).Observe(time.Since(began).Seconds())
	return answer, err
}

// contextOf returns the area of a request, by the kind of its resource. The metrics over HTTP have the same areas.
func contextOf(request any) string {
	var kind resource.Kind
	switch q := request.(type) {
	case *controlpb.RegisterRequest, *controlpb.HeartbeatRequest, *controlpb.MaintainRequest: // their references need no kind
		kind = resource.Instances
	case *controlpb.BeginSessionRequest, *controlpb.RenewSessionRequest, *controlpb.AcquireRequest, *controlpb.AddRequest:
		kind = resource.Locks
	case interface{ GetKind() controlpb.Kind }:
		kind, _ = message.Kind(q.GetKind())
	case interface{ GetRef() *controlpb.Ref }:
		kind, _ = message.Kind(q.GetRef().GetKind())
	}
	return cmp.Or(kind.Traits().Area, "administration")
}

// A held stream ends when its caller's credentials or permissions change.
type held struct {
	grpc.ServerStream
	ctx context.Context
}

func (h *held) Context() context.Context { return h.ctx }

// stream converts the error with which a stream ends, like that of a call.
func (a *API) stream(server any, s grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	ctx, cancel := context.WithCancelCause(s.Context())
	defer cancel(nil)
	release, err := a.cfg.Gate.Hold(Caller(ctx), func(over error) { cancel(over) })
	defer release()
	if err == nil {
		err = serve.Recovering(a.log, "call", path.Base(info.FullMethod), func(s grpc.ServerStream) error { return handle(server, s) }, grpc.ServerStream(&held{s, ctx}))
	}
	if _, said := status.FromError(err); said {
		return err // nil stays nil
	}
	return refuse(err)
}

// admit identifies the caller, and checks its rate.
func (a *API) admit(ctx context.Context) (context.Context, error) {
	var shown plane.Credentials
	if p, ok := peer.FromContext(ctx); ok {
		shown.Address = p.Addr.String()
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			shown.TLS = &info.State
		}
	}
	if fields := metadata.ValueFromIncomingContext(ctx, "authorization"); len(fields) > 0 {
		shown.Authorization = fields[0]
	}
	c, err := a.cfg.Gate.Admit(shown)
	return context.WithValue(ctx, callerKey{}, c), err
}
