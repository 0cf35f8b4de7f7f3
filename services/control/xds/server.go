package xds

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	load "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	limiting "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"dyno/internal/rate"
	"dyno/services/control/access"
	"dyno/services/control/identity"
	"dyno/services/control/plane"
	"dyno/services/control/push"
	"dyno/services/control/resource"
)

// Config configures a Server. Its numbers are within the bounds of the service's configuration. Start from Defaults.
type Config struct {
	Plane *plane.Plane
	// Caller returns the caller of a call.
	Caller func(context.Context) plane.Caller
	// MaxStreams bounds streams at a time; more get RESOURCE_EXHAUSTED.
	MaxStreams int
	// WriteTimeout bounds the time for which a stream's client may accept nothing.
	WriteTimeout time.Duration
	// Timeout bounds the wait for the answer to a response, and for a client's request of a new cluster's instances.
	// After it, the client gets more anyway.
	Timeout time.Duration
	// LoadInterval is the time between two reports of who calls whom.
	LoadInterval time.Duration
	// Authority issues certificates to proxies of services, for CertificateTTL; nil issues none.
	Authority      *identity.Authority
	CertificateTTL time.Duration
	Logger         *slog.Logger // nil discards
}

// Defaults returns the Config that every field starts from; it has no Plane and no Caller.
func Defaults() Config {
	return Config{MaxStreams: 20_000, WriteTimeout: 10 * time.Second, Timeout: 5 * time.Second, LoadInterval: 5 * time.Second}
}

// A Server answers the aggregated discovery service's two calls. Its methods may be
// called from any goroutine.
type Server struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer
	limiting.UnimplementedRateLimitServiceServer
	load.UnimplementedLoadReportingServiceServer
	cfg   Config
	log   *slog.Logger
	plane *plane.Plane
	cache *snapshotCache

	limits *rate.Limiter // those that proxies share
	began  time.Time

	start   sync.Once // at the first client: without clients, it costs nothing
	streams [2]atomic.Int64
	loads   atomic.Int64           // streams of load reports
	count   *prometheus.CounterVec // of responses and their answers
	ctx     context.Context
	stop    context.CancelFunc

	mu     sync.Mutex // guards closed; nothing is added to running after it is set
	closed bool
	// running are the goroutines other than grpc-go's.
	running sync.WaitGroup
}

// New returns a Server.
func New(cfg Config) *Server {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		cfg: cfg, log: cfg.Logger, plane: cfg.Plane, cache: newSnapshotCache(cfg.Plane, cfg.Logger), limits: rate.NewLimiter(0, 0, maxShared), began: time.Now(),
		count: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "control_xds_responses_total", Help: "Responses over xDS, by result: sent, applied, refused.",
		}, []string{"type", "state"}),
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Register registers s with a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	discovery.RegisterAggregatedDiscoveryServiceServer(r, s)
	limiting.RegisterRateLimitServiceServer(r, s)
	load.RegisterLoadReportingServiceServer(r, s)
}

// Close ends all streams, and waits for all goroutines other than grpc-go's.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.running.Wait()
}

// goes runs f in the background. It returns false if the server is closed.
func (s *Server) goes(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Go(f)
	return true
}

var _ prometheus.Collector = (*Server)(nil)

var descStreams = prometheus.NewDesc("control_xds_streams", "Open streams over xDS.", []string{"protocol"}, nil)

// protocols are the variants of streams.
var protocols = [2]string{"sotw", "delta"} // state of the world, incremental

// Describe implements prometheus.Collector.
func (s *Server) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(s, ch) }

// Collect implements prometheus.Collector.
func (s *Server) Collect(ch chan<- prometheus.Metric) {
	for i, protocol := range protocols {
		ch <- prometheus.MustNewConstMetric(descStreams, prometheus.GaugeValue, float64(s.streams[i].Load()), protocol)
	}
	s.count.Collect(ch)
}

// A client is one stream.
type client struct {
	server *Server
	wake   chan struct{} // capacity 1: a response may be due
	stuck  *time.Timer   // ends the stream of a client that accepts nothing

	mu      sync.Mutex // guards what follows
	session *session
	reader  *plane.Reader // the node in the ledger
	left    func()        // says that the data plane is gone; nil before the first request
	greet   bool          // the first request has come
	over    bool          // its further requests are ignored
	// policies has what the client has made of policies. Several resources are made from one: it counts as applied
	// when all of them are.
	policies map[resource.Ref]*policyAnswer
}

// A policyAnswer is what a client has made of a version of a policy.
type policyAnswer struct {
	version int64
	// By the kind of resource: in which it was sent, and what became of these.
	needed, accepted [kinds]bool
	applied          bool
}

// need notes the kinds of resources that a policy is in.
func (a *policyAnswer) need(k [kinds]bool) {
	for i := range k {
		a.needed[i] = a.needed[i] || k[i]
	}
}

// StreamAggregatedResources serves the variant state of the world.
func (s *Server) StreamAggregatedResources(stream discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	return s.serve(stream.Context(), false,
		func() (*core.Node, *request, *rpcstatus.Status, error) {
			m, err := stream.Recv()
			if err != nil {
				return nil, nil, nil, err
			}
			q, err := requestOf(m.GetTypeUrl(), m.GetResponseNonce(), m.GetErrorDetail())
			if q != nil {
				q.names, q.after = m.GetResourceNames(), s.revisionOf(m.GetVersionInfo())
			}
			return m.GetNode(), q, m.GetErrorDetail(), err
		},
		func(r *response) error {
			m := &discovery.DiscoveryResponse{VersionInfo: r.revision, TypeUrl: types[r.kind], Nonce: r.nonce, ControlPlane: s.itself()}
			for _, one := range r.resources {
				m.Resources = append(m.Resources, one.any)
			}
			return stream.Send(m)
		})
}

// DeltaAggregatedResources serves the incremental variant.
func (s *Server) DeltaAggregatedResources(stream discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	return s.serve(stream.Context(), true,
		func() (*core.Node, *request, *rpcstatus.Status, error) {
			m, err := stream.Recv()
			if err != nil {
				return nil, nil, nil, err
			}
			q, err := requestOf(m.GetTypeUrl(), m.GetResponseNonce(), m.GetErrorDetail())
			if q != nil {
				q.subscribe, q.unsubscribe, q.known = m.GetResourceNamesSubscribe(), m.GetResourceNamesUnsubscribe(), m.GetInitialResourceVersions()
				for name, version := range q.known {
					hash, revision, _ := strings.Cut(version, "@")
					q.known[name], q.after = hash, max(q.after, s.revisionOf(revision))
				}
			}
			return m.GetNode(), q, m.GetErrorDetail(), err
		},
		func(r *response) error {
			m := &discovery.DeltaDiscoveryResponse{
				SystemVersionInfo: r.revision, TypeUrl: types[r.kind], Nonce: r.nonce, RemovedResources: r.removed, ControlPlane: s.itself(),
			}
			for _, one := range r.resources {
				m.Resources = append(m.Resources, &discovery.Resource{Name: one.name, Version: one.version + "@" + r.revision, Resource: one.any})
			}
			return stream.Send(m)
		})
}

// revisionOf returns the revision that a client has by a response's version; 0 if that is not of this store.
func (s *Server) revisionOf(version string) int64 {
	if t := plane.ParseToken(version, ""); t.Epoch == s.plane.Now().Epoch {
		return t.Revision
	}
	return 0
}

// itself identifies the replica to clients.
func (s *Server) itself() *core.ControlPlane {
	return &core.ControlPlane{Identifier: s.plane.Replica()}
}

// requestOf returns a request without its names. It returns nil for a type that is not served; such requests get no
// answer: clients ask for more than they need.
func requestOf(typeURL, nonce string, detail *rpcstatus.Status) (*request, error) {
	if typeURL == "" {
		return nil, status.Error(codes.InvalidArgument, "type_url: must be given: this is the aggregated discovery service")
	}
	k, ok := kindOf(typeURL)
	if !ok {
		return nil, nil
	}
	return &request{kind: k, nonce: nonce, refused: detail != nil}, nil
}

// serve carries one stream.
func (s *Server) serve(ctx context.Context, delta bool, recv func() (*core.Node, *request, *rpcstatus.Status, error), send func(*response) error) error {
	who := s.cfg.Caller(ctx)
	if len(who.Grants) == 0 {
		return status.Error(codes.PermissionDenied, "this caller may read nothing")
	}
	protocol := 0
	if delta {
		protocol = 1
	}
	defer s.streams[protocol].Add(-1)
	if s.streams[protocol].Add(1)+s.streams[1-protocol].Load() > int64(s.cfg.MaxStreams) {
		return status.Errorf(codes.ResourceExhausted, "there are %d streams already", s.cfg.MaxStreams)
	}
	s.start.Do(func() {
		s.goes(func() {
			if err := s.cache.follow(s.ctx); s.ctx.Err() == nil {
				s.log.Warn("xds: changes are not followed any more", "error", err)
				s.stop()
			}
		})
		s.goes(func() { s.cache.lookLate(s.ctx) })
	})
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(status.Error(codes.Unavailable, "the control plane ends here")) })()
	select {
	case <-s.cache.complete:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	may := func(namespace string) bool { return who.May(access.Read, namespace) }
	c := &client{server: s, wake: make(chan struct{}, 1), session: newSession(delta, s.cache, may, s.cfg.Timeout), policies: map[resource.Ref]*policyAnswer{}}
	c.stuck = time.AfterFunc(s.cfg.WriteTimeout, func() {
		cancel(status.Errorf(codes.ResourceExhausted, "nothing was taken for %v", s.cfg.WriteTimeout))
	})
	c.stuck.Stop()
	// The return of this function ends the stream, which wakes goroutines in send and recv. So it waits for neither.
	failed := make(chan error, 2)
	if !s.goes(func() {
		defer c.end()
		failed <- c.sendDue(ctx, send)
	}) || !s.goes(func() { failed <- c.hear(ctx, who, recv) }) {
		return context.Cause(s.ctx)
	}
	select {
	case err := <-failed:
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// touch notes changes of services.
func (c *client) touch(services map[service]touch) {
	c.mu.Lock()
	for one, what := range services {
		c.session.touch(one, what)
	}
	c.mu.Unlock()
	c.signal()
}

func (c *client) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// end removes the client everywhere.
func (c *client) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server.cache.unsubscribe(c, c.session.wanted, c.session.subscriptionDelta)
	c.reader.Leave()
	if c.left != nil {
		c.left()
	}
	c.over = true
}

// hear handles the client's requests, until the client closes its side or makes an error. Without requests it cannot
// acknowledge, so its stream ends, too.
func (c *client) hear(ctx context.Context, who plane.Caller, recv func() (*core.Node, *request, *rpcstatus.Status, error)) error {
	for {
		node, q, detail, err := recv()
		if err != nil {
			return err
		}
		if q != nil && q.nonce == "" && q.after > 0 && !c.server.cache.reach(ctx, q.after) {
			return status.Errorf(codes.Unavailable, "this replica does not know revision %d yet, which the client has: ask another one", q.after)
		}
		acks, err := c.take(who, node, q, detail)
		if err != nil {
			return err
		}
		c.reader.Ack(ctx, acks) // outside the lock: it may take a while
		c.signal()
	}
}

// take handles a request, and returns the acknowledgements for the ledger.
func (c *client) take(who plane.Caller, node *core.Node, q *request, detail *rpcstatus.Status) ([]resource.Ack, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return nil, nil
	}
	if !c.greet {
		c.greet = true
		if err := c.enter(who, node); err != nil {
			return nil, err
		}
	}
	if q == nil {
		return nil, nil
	}
	a, err := c.session.take(q)
	var much *excess
	if errors.As(err, &much) {
		return nil, status.Error(codes.InvalidArgument, much.text)
	}
	c.server.cache.subscribe(c, c.session.subscriptionDelta, c.session.everything())
	clear(c.session.subscriptionDelta)
	if a == nil {
		return nil, nil
	}
	return c.acks(a, detail), nil
}

// enter notes the node in the ledger, if it has a name, and what it says of itself. A client cannot answer for another
// principal's.
func (c *client) enter(who plane.Caller, node *core.Node) error {
	if err := plane.CheckClientName("node.id", node.GetId()); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	about, err := parseNode(node)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if one := about.service; one.name != "" {
		authority := c.server.cfg.Authority
		switch {
		case !who.May(access.Register, one.namespace):
			return status.Errorf(codes.PermissionDenied, "node.metadata.service: %s: needs a role that may register instances of namespace %s", one.name, one.namespace)
		case authority == nil:
			return status.Error(codes.FailedPrecondition, "node.metadata.service: this control plane issues no certificates")
		}
		about.audience.domain = authority.Domain()
		c.session.roots = authority.Roots()
		c.session.issue = func(now time.Time) (*identity.Certificate, error) {
			certificate, err := authority.Issue(one.namespace, one.name, now, c.server.cfg.CertificateTTL)
			if err != nil {
				c.server.log.Error("xds: a certificate cannot be issued", "client", node.GetId(), "service", one.String(), "error", err)
			}
			return certificate, err
		}
	}
	c.session.begin(about)
	c.reader = c.server.plane.Enter(who, node.GetId())
	c.left = c.server.plane.EnterDataPlane(about.audience.kind)
	return nil
}

// acks counts an answer, and returns the acknowledgements for the ledger. The ledger has services by the revisions of
// their instances, and policies. A refusal of another resource than instances counts as one of the policies that the
// client has not applied yet; without such policies, as one of the service.
func (c *client) acks(a *answer, detail *rpcstatus.Status) (acks []resource.Ack) {
	state := resource.Applied
	reason := ""
	if a.refused {
		state = resource.Refused
		reason = a.kind.String() + ": " + cut(detail.GetMessage())
		c.server.log.Warn("xds: a client has refused a response", "client", c.reader.Name(), "type", a.kind.String(), "resources", len(a.names), "error", cut(detail.GetMessage()))
	}
	c.server.count.WithLabelValues(a.kind.String(), string(state)).Inc()
	if c.reader == nil {
		return nil
	}
	blamed := false
	for _, one := range a.names {
		for _, from := range one.from {
			if c.answered(from, a.kind, a.refused) {
				acks = append(acks, resource.Ack{Ref: from.Ref, Version: from.version, State: state, Reason: reason})
				blamed = true
			}
		}
	}
	if a.kind != assignments && (!a.refused || blamed) {
		return acks
	}
	for name, sent := range a.names {
		one, ok := parse(a.kind, name)
		revision := sent.revision
		if !ok || revision == 0 {
			continue // it is gone
		}
		if a.kind != assignments { // a refusal of another resource counts for the newest instances
			revision = max(c.server.plane.NewestSent(one.ref()), 1)
		}
		acks = append(acks, resource.Ack{Ref: one.ref(), Version: revision, State: state, Reason: reason})
	}
	return acks
}

// answered notes the answer to a resource that was made from a policy. It reports whether that says something new of
// the policy.
func (c *client) answered(p policyVersion, k kind, refused bool) bool {
	known := c.policies[p.Ref]
	if known == nil || known.version != p.version {
		known = &policyAnswer{version: p.version}
		c.policies[p.Ref] = known
	}
	if refused && known.accepted[k] {
		return false // something else is wrong
	}
	known.need(p.kinds)
	known.accepted[k] = !refused
	if refused || known.applied {
		return refused
	}
	for i, needed := range known.needed {
		if needed && !known.accepted[i] {
			return false
		}
	}
	known.applied = true
	return true
}

// cut makes a client's text fit for a log.
func cut(text string) string { return strings.ToValidUTF8(text[:min(len(text), push.MaxReason)], "") }

// sendDue sends responses that are due, until ctx ends.
func (c *client) sendDue(ctx context.Context, send func(*response) error) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		r, again := c.next()
		if r != nil {
			c.stuck.Reset(c.server.cfg.WriteTimeout)
			err := send(r)
			c.stuck.Stop()
			if err != nil {
				return err
			}
			c.server.count.WithLabelValues(r.kind.String(), string(resource.Sent)).Inc()
			continue
		}
		timer.Stop()
		if !again.IsZero() {
			timer.Reset(time.Until(again))
		}
		select {
		case <-c.wake:
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// next returns the response that is due, or nil and the time at which one may become due by itself.
func (c *client) next() (*response, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.session.next(time.Now())
	if r == nil {
		return nil, c.session.again
	}
	for _, one := range r.resources {
		if of, ok := parse(r.kind, one.name); ok && r.kind == assignments {
			c.reader.Sent([]push.Change{{Ref: of.ref(), Version: one.revision, Removed: one.revision == 0}})
		}
		for _, p := range one.from {
			if known := c.policies[p.Ref]; known == nil || known.version != p.version {
				c.policies[p.Ref] = &policyAnswer{version: p.version}
				c.reader.Sent([]push.Change{{Ref: p.Ref, Version: p.version}})
			}
			c.policies[p.Ref].need(p.kinds)
		}
	}
	return r, c.session.again
}
