// Package guard keeps requests away from a Go service, without a proxy, as policies of the control plane say:
//
//	g, err := guard.New(c, guard.Config{Service: "shop"})
//	defer g.Close()
//	http.Serve(l, g.Handler(handler))
//	grpc.NewServer(grpc.ChainUnaryInterceptor(g.Unary), grpc.ChainStreamInterceptor(g.Stream))
//
// It enforces rules about access, and limits, each program its own. A caller's identity is in its certificate, which the
// server must have verified (crypto/tls.Config.ClientCAs). Rules with sources are for callers, which know their labels. Requests before the first
// snapshot wait for it; without a server, the last known policies hold.
package guard

import (
	"context"
	"crypto/tls"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"dyno/internal/rate"
	"dyno/services/control/client"
	"dyno/services/control/resource"
	"dyno/services/control/traffic"
)

// Config says what a Guard guards.
type Config struct {
	Namespace string // "" is "default"
	Service   string
	// TrustDomain is that of the control plane; "" is the usual one.
	TrustDomain string
}

// A Guard decides about requests to one service. Its methods may be called from any goroutine.
type Guard struct {
	cfg    Config
	watch  *client.Watch
	limits *rate.Limiter
	began  time.Time
	stop   context.CancelFunc
	known  chan struct{} // closed with the first table
	ended  chan struct{}
	table  atomic.Pointer[traffic.Table]
}

// maxLimits bounds the limits that are remembered.
const maxLimits = 10_000

// New returns a Guard, which watches until Close.
func New(c *client.Client, cfg Config) (*Guard, error) {
	if cfg.Namespace == "" {
		cfg.Namespace = resource.DefaultNamespace
	}
	if cfg.TrustDomain == "" {
		cfg.TrustDomain = "control.internal"
	}
	watch, err := c.Watch(client.Query{Namespace: cfg.Namespace, Kinds: []resource.Kind{resource.Policies}})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	g := &Guard{cfg: cfg, watch: watch, limits: rate.NewLimiter(0, 0, maxLimits), began: time.Now(), stop: stop, known: make(chan struct{}), ended: make(chan struct{})}
	go g.follow(ctx)
	return g, nil
}

// Close ends the watch. Requests afterwards are decided by the last policies.
func (g *Guard) Close() {
	g.stop()
	g.watch.Close()
	<-g.ended
}

// follow compiles the policies of each snapshot, and acknowledges them. With a fault, those before hold; without any
// before, all requests are denied.
func (g *Guard) follow(ctx context.Context) {
	defer close(g.ended)
	for generation := uint64(0); ; {
		s, err := g.watch.Next(ctx, generation)
		if err != nil {
			return
		}
		generation = s.Generation
		var policies []*resource.Policy
		for _, i := range s.Items {
			if p, ok := i.Resource.(*resource.Policy); ok {
				policies = append(policies, p)
			}
		}
		table, fault := traffic.Compile(policies, g.cfg.Service, nil)
		first := g.table.Load() == nil
		switch {
		case fault == nil:
			g.table.Store(table)
		case first:
			g.table.Store(&traffic.Table{Access: []resource.Rule{{Action: resource.Deny}}})
		}
		if first {
			close(g.known)
		}
		for _, i := range s.Items {
			if fault != nil {
				g.watch.Refused(i, fault.Error())
			} else {
				g.watch.Applied(i)
			}
		}
	}
}

// A verdict is what becomes of a request.
type verdict int

const (
	permitted verdict = iota
	denied
	limited
)

// decide decides about a request.
func (g *Guard) decide(ctx context.Context, state *tls.ConnectionState, host, method, path string, header func(string) string) (verdict, error) {
	select {
	case <-g.known:
	case <-ctx.Done():
		return denied, context.Cause(ctx)
	}
	t := g.table.Load()
	host, _, _ = strings.Cut(host, ":")
	if !t.Permits(g.identity(state), host, method, path, header) {
		return denied, nil
	}
	for i := range t.Routes {
		r := &t.Routes[i]
		if !r.Match.Matches(host, method, path, header) {
			continue
		}
		if l := r.Limit; l != nil {
			if ok, _ := g.limits.Allow(l.Name, l.PerSecond, int(l.Capacity()), time.Since(g.began)); !ok {
				return limited, nil
			}
		}
		break
	}
	return permitted, nil
}

// identity returns the caller's NAMESPACE/SERVICE by its certificate; "" is none.
func (g *Guard) identity(state *tls.ConnectionState) string {
	if state == nil || len(state.VerifiedChains) == 0 {
		return ""
	}
	for _, uri := range state.PeerCertificates[0].URIs {
		if rest, ok := strings.CutPrefix(uri.String(), "spiffe://"+g.cfg.TrustDomain+"/ns/"); ok {
			if namespace, service, ok := strings.Cut(rest, "/sa/"); ok {
				return namespace + "/" + service
			}
		}
	}
	return ""
}

// Handler passes on the requests that policies permit.
func (g *Guard) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, err := g.decide(r.Context(), r.TLS, r.Host, r.Method, r.URL.EscapedPath(), r.Header.Get)
		switch {
		case err != nil:
			http.Error(w, "no policies are known yet", http.StatusServiceUnavailable)
		case v == denied:
			http.Error(w, "a policy denies this request", http.StatusForbidden)
		case v == limited:
			http.Error(w, "a policy limits these requests", http.StatusTooManyRequests)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// call decides about a call, whose path is that of its method.
func (g *Guard) call(ctx context.Context, method string) error {
	fields, _ := metadata.FromIncomingContext(ctx)
	value := func(name string) string { return strings.Join(fields.Get(name), ",") }
	var state *tls.ConnectionState
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			state = &info.State
		}
	}
	v, err := g.decide(ctx, state, value(":authority"), http.MethodPost, method, value)
	switch {
	case err != nil:
		return status.Error(codes.Unavailable, "no policies are known yet")
	case v == denied:
		return status.Error(codes.PermissionDenied, "a policy denies this call")
	case v == limited:
		return status.Error(codes.ResourceExhausted, "a policy limits these calls")
	}
	return nil
}

// Unary is a grpc.UnaryServerInterceptor.
func (g *Guard) Unary(ctx context.Context, q any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := g.call(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	return next(ctx, q)
}

// Stream is a grpc.StreamServerInterceptor.
func (g *Guard) Stream(server any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := g.call(s.Context(), info.FullMethod); err != nil {
		return err
	}
	return next(server, s)
}
