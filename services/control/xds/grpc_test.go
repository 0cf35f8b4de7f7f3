package xds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	xdsclient "google.golang.org/grpc/xds"

	"dyno/services/control/access"
	"dyno/services/control/plane"
	"dyno/services/control/plane/planetest"
	"dyno/services/control/resource"
	"dyno/services/internal/serve"
	"dyno/services/internal/wait"
)

// hangGuard bounds every wait of these tests. It is no expectation of speed.
const hangGuard = time.Minute

// A bed is xDS of the shared plane.
type bed struct {
	t       *testing.T
	plane   *plane.Plane
	server  *Server
	address string
	ctx     context.Context
	end     func() // of the server; the store and the plane stay
}

func newBed(t *testing.T, change func(*Config)) *bed {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hangGuard)
	t.Cleanup(cancel)
	p, _ := planetest.Open(t, plane.Defaults())
	b := &bed{t: t, plane: p, address: "127.0.0.1:0", ctx: ctx}
	b.serve(change)
	return b
}

// serve begins to answer, at the address that it had.
func (b *bed) serve(change func(*Config)) {
	b.t.Helper()
	c := Defaults()
	c.Plane = b.plane
	c.Caller = func(context.Context) plane.Caller { return planetest.Anybody }
	if change != nil {
		change(&c)
	}
	b.server = New(c)
	l, err := serve.Listen(b.t.Context(), b.address, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	b.address = l.Addr().String()
	calls := grpc.NewServer(grpc.WaitForHandlers(true))
	b.server.Register(calls)
	served := make(chan error, 1)
	go func() { served <- calls.Serve(l) }()
	var once sync.Once
	b.end = func() {
		once.Do(func() {
			b.server.Close()
			calls.Stop()
			// A test may end, or be skipped, before it serves at all.
			if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
				b.t.Error(err)
			}
		})
	}
	b.t.Cleanup(b.end)
}

// put registers an instance, and returns when the replica knows it, and so does a server that had a stream before: the
// first response to the next stream may be of the state before otherwise.
func (b *bed) put(i *resource.Instance) {
	b.t.Helper()
	if i.Namespace == "" {
		i.Namespace = "default"
	}
	if _, err := b.plane.Register(b.ctx, planetest.Anybody, i, plane.Options{}); err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.plane.Sync(b.ctx, false); err != nil {
		b.t.Fatal(err)
	}
	if b.server.closed {
		return
	}
	select {
	case <-b.server.cache.complete:
	default:
		return // the first stream has it read everything
	}
	for revision := b.plane.Revision(); !b.server.cache.watch.Handled(revision); {
		if !wait.For(b.ctx, time.Millisecond) {
			b.t.Fatalf("the server has not handled revision %d", revision)
		}
	}
}

func (b *bed) remove(i *resource.Instance) {
	b.t.Helper()
	if _, err := b.plane.Remove(b.ctx, planetest.Anybody, i.Ref(), plane.Options{}); err != nil {
		b.t.Fatal(err)
	}
}

// A backend is an instance: a server that counts its calls.
type backend struct {
	grpc_health_v1.UnimplementedHealthServer
	name     string
	calls    atomic.Int64
	failures atomic.Int64 // how many further calls fail
	stuck    atomic.Bool  // calls last as long as the caller wants
	instance *resource.Instance
}

func (b *backend) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	b.calls.Add(1)
	if b.stuck.Load() {
		<-ctx.Done()
	}
	if b.failures.Add(-1) >= 0 {
		return nil, status.Error(codes.Unavailable, "on purpose")
	}
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}

func newBackend(t *testing.T, service, id string, weight int) *backend {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &backend{name: id, instance: &resource.Instance{
		Namespace: "default", Service: service, ID: id, Address: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port, Weight: weight, TTL: 3600,
	}}
	calls := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(calls, b)
	served := make(chan error, 1)
	go func() { served <- calls.Serve(l) }()
	t.Cleanup(func() {
		calls.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return b
}

// bootstrap is what a client of gRPC's has to be told.
func bootstrap(address string) []byte {
	text, err := json.Marshal(map[string]any{
		"xds_servers": []any{map[string]any{
			"server_uri": address, "channel_creds": []any{map[string]any{"type": "insecure"}}, "server_features": []string{"xds_v3"},
		}},
		"node": map[string]any{"id": "test"},
	})
	if err != nil {
		panic(err)
	}
	return text
}

// dial is grpc-go's client of xds:///.
func (b *bed) dial(target string) grpc_health_v1.HealthClient {
	b.t.Helper()
	resolver, err := xdsclient.NewXDSResolverWithConfigForTesting(bootstrap(b.address))
	if err != nil {
		b.t.Fatal(err)
	}
	c, err := grpc.NewClient("xds:///"+target, grpc.WithResolvers(resolver), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			b.t.Error(err)
		}
	})
	return grpc_health_v1.NewHealthClient(c)
}

// call calls until it is answered.
func (b *bed) call(c grpc_health_v1.HealthClient) {
	b.t.Helper()
	if _, err := c.Check(b.ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true)); err != nil {
		b.t.Fatal(err)
	}
}

// until calls until something holds.
func (b *bed) until(c grpc_health_v1.HealthClient, what string, holds func() bool) {
	b.t.Helper()
	for !holds() {
		if _, err := c.Check(b.ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true)); b.ctx.Err() != nil {
			b.t.Fatalf("%s: %v", what, err)
		}
	}
}

// share fails where calls were not divided by the weights 1 and 3. Clients draw lots: six
// standard deviations are allowed.
func share(t *testing.T, one, two *backend, calls float64) {
	t.Helper()
	got := float64(two.calls.Load())
	if float64(one.calls.Load())+got != calls || math.Abs(got-calls*3/4) > 6*math.Sqrt(calls*3/16) {
		t.Errorf("weights 1 and 3: %v and %v of %v calls", one.calls.Load(), got, calls)
	}
}

// TestGRPC: grpc-go finds a service, by either name.
func TestGRPC(t *testing.T) {
	t.Parallel()
	b := newBed(t, nil)
	short, long := b.dial("shop"), b.dial("shop.default")
	b.follows("shop", short, codes.Unavailable)
	b.call(long)
}

// follows checks a client's discovery. It finds a service, divides calls by weight, and follows instances. It goes on
// while the control plane is away. A service of nobody has the status nobody. At the end there is one instance.
func (b *bed) follows(service string, c grpc_health_v1.HealthClient, nobody codes.Code) {
	b.t.Helper()
	one, two, three := newBackend(b.t, service, "1", 100), newBackend(b.t, service, "2", 300), newBackend(b.t, service, "3", 100)
	b.put(one.instance)
	b.put(two.instance)
	b.until(c, "both are found", func() bool { return one.calls.Load() > 0 && two.calls.Load() > 0 })
	// All are connected: from here on, the order of calls is the balancer's alone.
	for _, x := range []*backend{one, two} {
		x.calls.Store(0)
	}
	const calls = 400
	for range calls {
		b.call(c)
	}
	share(b.t, one, two, calls)

	b.put(three.instance)
	b.until(c, "a new one is found", func() bool { return three.calls.Load() > 0 })
	b.remove(one.instance)
	b.remove(two.instance)
	// Calls go to nobody else as soon as the client knows.
	quiet := func() bool {
		before := one.calls.Load() + two.calls.Load()
		for range 20 {
			b.call(c)
		}
		return one.calls.Load()+two.calls.Load() == before
	}
	b.until(c, "those that left are left alone", quiet)

	b.end()
	for range 20 {
		b.call(c) // nobody is there to ask
	}
	b.put(two.instance)
	b.serve(nil)
	before := two.calls.Load()
	b.until(c, "the control plane is back", func() bool { return two.calls.Load() > before })

	b.remove(two.instance)
	b.remove(three.instance)
	for {
		_, err := c.Check(b.ctx, &grpc_health_v1.HealthCheckRequest{})
		if status.Code(err) == nobody {
			break
		}
		if b.ctx.Err() != nil {
			b.t.Fatalf("a service of nobody: %v", err)
		}
	}
	b.put(one.instance)
	before = one.calls.Load()
	b.until(c, "the service is back", func() bool { return one.calls.Load() > before })
}

// A wire is a stream of the incremental protocol, by hand.
type wire struct {
	b      *bed
	stream discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
}

func (b *bed) connect() discovery.AggregatedDiscoveryServiceClient {
	b.t.Helper()
	c, err := grpc.NewClient(b.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			b.t.Error(err)
		}
	})
	return discovery.NewAggregatedDiscoveryServiceClient(c)
}

func (b *bed) delta() *wire {
	b.t.Helper()
	stream, err := b.connect().DeltaAggregatedResources(b.ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	return &wire{b, stream}
}

func (w *wire) say(m *discovery.DeltaDiscoveryRequest) {
	w.b.t.Helper()
	if err := w.stream.Send(m); err != nil {
		w.b.t.Fatal(err)
	}
}

func (w *wire) hear() *discovery.DeltaDiscoveryResponse {
	w.b.t.Helper()
	m, err := w.stream.Recv()
	if err != nil {
		w.b.t.Fatal(err)
	}
	return m
}

// TestRefusedCluster: who refuses a cluster does not have others wait for newer instances than there are.
func TestRefusedCluster(t *testing.T) {
	b := newBed(t, nil)
	b.put(&resource.Instance{Service: "clustered", ID: "1", Address: "192.0.2.1", Port: 1, Weight: 100, TTL: 3600})
	// answer has a client answer what it is told of one kind. The next response is the sign that the answer was heard.
	answer := func(node string, k kind, detail *rpcstatus.Status) {
		w := b.delta()
		w.say(&discovery.DeltaDiscoveryRequest{Node: &core.Node{Id: node}, TypeUrl: types[k], ResourceNamesSubscribe: []string{"clustered.default"}})
		w.say(&discovery.DeltaDiscoveryRequest{TypeUrl: types[k], ResponseNonce: w.hear().GetNonce(), ErrorDetail: detail})
		w.say(&discovery.DeltaDiscoveryRequest{TypeUrl: types[listeners], ResourceNamesSubscribe: []string{"none"}})
		w.hear()
	}
	answer("good", assignments, nil)
	b.put(&resource.Instance{Service: "elsewhere", ID: "1", Address: "192.0.2.1", Port: 1, Weight: 100, TTL: 3600})
	answer("bad", clusters, &rpcstatus.Status{Message: "no"})
	out, err := b.plane.Rollout(b.ctx, planetest.Anybody, resource.Ref{Kind: resource.Instances, Namespace: "default", Name: "clustered"}, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range out.Holdings {
		if want := map[string]resource.AckState{"good": resource.Applied, "bad": resource.Refused}[h.Client]; h.State != want || h.Version != out.Version {
			t.Errorf("version %d: %+v", out.Version, h)
		}
	}
	if out.Applied != 1 || out.Refused != 1 {
		t.Errorf("%d applied, %d refused", out.Applied, out.Refused)
	}
}

// TestRefusals: a refusal is in the ledger, with its reason, and so is what was applied.
func TestRefusals(t *testing.T) {
	b := newBed(t, nil)
	i := &resource.Instance{Service: "refused", ID: "1", Address: "192.0.2.1", Port: 1, Weight: 100, TTL: 3600}
	b.put(i)
	b.put(&resource.Instance{Service: "other", ID: "1", Address: "192.0.2.1", Port: 1, Weight: 100, TTL: 3600})
	w := b.delta()
	w.say(&discovery.DeltaDiscoveryRequest{Node: &core.Node{Id: "node"}, TypeUrl: types[assignments], ResourceNamesSubscribe: []string{"refused.default"}})
	first := w.hear()
	if first.GetControlPlane().GetIdentifier() != "control" || !strings.Contains(first.GetSystemVersionInfo(), "-") {
		t.Errorf("%v", first)
	}
	rollout := func() resource.Rollout {
		t.Helper()
		out, err := b.plane.Rollout(b.ctx, planetest.Anybody, resource.Ref{Kind: resource.Instances, Namespace: "default", Name: "refused"}, 10)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if out := rollout(); out.Clients != 1 || out.Pending != 1 || out.Holdings[0].Client != "node" || !out.Holdings[0].Connected {
		t.Errorf("sent: %+v", out.Holdings)
	}
	// The next response is the sign that the answer to the one before was heard.
	w.say(&discovery.DeltaDiscoveryRequest{TypeUrl: types[assignments], ResponseNonce: first.GetNonce()})
	again := *i
	again.Port = 2
	b.put(&again)
	second := w.hear()
	if out := rollout(); out.Pending != 1 || out.Holdings[0].Running == 0 || out.Version <= out.Holdings[0].Running {
		t.Errorf("applied, and sent the next: %+v", out.Holdings)
	}
	w.say(&discovery.DeltaDiscoveryRequest{TypeUrl: types[assignments], ResponseNonce: second.GetNonce(), ErrorDetail: &rpcstatus.Status{Message: "no such port"}})
	w.say(&discovery.DeltaDiscoveryRequest{TypeUrl: types[clusters]})
	cds := w.hear()
	if out := rollout(); out.Refused != 1 || out.Holdings[0].Reason != "eds: no such port" {
		t.Errorf("refused: %+v", out.Holdings)
	}
	w.say(&discovery.DeltaDiscoveryRequest{TypeUrl: types[clusters], ResponseNonce: cds.GetNonce(), ErrorDetail: &rpcstatus.Status{Message: "no clusters"}})
	w.say(&discovery.DeltaDiscoveryRequest{TypeUrl: types[listeners], ResourceNamesSubscribe: []string{"none"}})
	w.hear()
	other, err := b.plane.Rollout(b.ctx, planetest.Anybody, resource.Ref{Kind: resource.Instances, Namespace: "default", Name: "other"}, 10)
	if err != nil || other.Refused != 1 || other.Holdings[0].Reason != "cds: no clusters" {
		t.Errorf("refused: %+v, %v", other.Holdings, err)
	}
	if _, err := b.plane.Rollout(b.ctx, planetest.Anybody, resource.Ref{Kind: resource.Instances, Namespace: "default", Name: "none"}, 10); err == nil {
		t.Error("a service that is not there has a rollout")
	}
	if err := w.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if m, err := w.stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the end: %v, %v", m, err)
	}
}

// TestReplicaBehind: a client that comes with resources of another replica gets none that are older. A replica that
// does not know these yet waits for a moment, and then sends the client elsewhere. Those of another store are no reason.
func TestReplicaBehind(t *testing.T) {
	b := newBed(t, nil)
	b.put(&resource.Instance{Service: "shop", ID: "1", Address: "192.0.2.1", Port: 1, Weight: 100, TTL: 3600})
	now := b.plane.Now()
	later := now
	later.Revision += 1000
	foreign := later
	foreign.Epoch = "another"
	for _, c := range []struct {
		has    plane.Token
		behind bool
	}{{now, false}, {later, true}, {foreign, false}} {
		w := b.delta()
		w.say(&discovery.DeltaDiscoveryRequest{
			TypeUrl: types[clusters], Node: &core.Node{Id: "node"}, InitialResourceVersions: map[string]string{"shop.default": "old@" + c.has.String()},
		})
		m, err := w.stream.Recv()
		if (status.Code(err) == codes.Unavailable) != c.behind || !c.behind && len(m.GetResources()) != 1 {
			t.Errorf("incremental, with %s: %v, %v", c.has, m, err)
		}
		whole, err := b.connect().StreamAggregatedResources(b.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := whole.Send(&discovery.DiscoveryRequest{TypeUrl: types[clusters], Node: &core.Node{Id: "node"}, VersionInfo: c.has.String()}); err != nil {
			t.Fatal(err)
		}
		all, err := whole.Recv()
		if (status.Code(err) == codes.Unavailable) != c.behind || !c.behind && len(all.GetResources()) != 1 {
			t.Errorf("state of the world, with %s: %v, %v", c.has, all, err)
		}
	}
	// A client that has what there is gets it once: versions are equal whatever response they came in.
	w := b.delta()
	w.say(&discovery.DeltaDiscoveryRequest{TypeUrl: types[clusters], Node: &core.Node{Id: "node"}, ResourceNamesSubscribe: []string{"shop.default"}})
	has := w.hear().GetResources()[0]
	b.put(&resource.Instance{Service: "other", ID: "1", Address: "192.0.2.1", Port: 1, Weight: 100, TTL: 3600})
	w = b.delta()
	w.say(&discovery.DeltaDiscoveryRequest{TypeUrl: types[clusters], Node: &core.Node{Id: "node"}, InitialResourceVersions: map[string]string{"shop.default": has.GetVersion()}})
	if m := w.hear(); len(m.GetResources()) != 1 || m.GetResources()[0].GetName() != "other.default" {
		t.Errorf("%v", m)
	}
}

// TestPrincipals: a client knows of the namespaces that it may read, and its node's name is
// its own in the ledger.
func TestPrincipals(t *testing.T) {
	who := &access.Principal{Name: "p", Grants: []access.Grant{{Namespace: "shop", Role: access.Reader}}}
	b := newBed(t, func(c *Config) {
		c.Caller = func(context.Context) plane.Caller { return plane.Caller{Principal: who, ClientPrefix: "p/"} }
	})
	for _, namespace := range []string{"shop", "bank"} {
		b.put(&resource.Instance{Namespace: namespace, Service: "s", ID: "1", Address: "192.0.2.1", Port: 1, Weight: 100, TTL: 3600})
	}
	w := b.delta()
	w.say(&discovery.DeltaDiscoveryRequest{Node: &core.Node{Id: "node"}, TypeUrl: types[clusters], ResourceNamesSubscribe: []string{"*", "s.bank"}})
	m := w.hear()
	if len(m.GetResources()) != 1 || m.GetResources()[0].GetName() != "s.shop" || fmt.Sprint(m.GetRemovedResources()) != "[s.bank]" {
		t.Errorf("%v", m)
	}
	w.say(&discovery.DeltaDiscoveryRequest{TypeUrl: types[assignments], ResourceNamesSubscribe: []string{"s.shop", "s.bank"}})
	for _, r := range w.hear().GetResources() {
		var a endpoint.ClusterLoadAssignment
		open(t, r.GetResource(), &a)
		if known := len(a.GetEndpoints()) > 0; known != (r.GetName() == "s.shop") {
			t.Errorf("%v", &a)
		}
	}
	out, err := b.plane.Rollout(b.ctx, planetest.Anybody, resource.Ref{Kind: resource.Instances, Namespace: "shop", Name: "s"}, 10)
	if err != nil || len(out.Holdings) != 1 || out.Holdings[0].Client != "p/node" {
		t.Errorf("%+v, %v", out.Holdings, err)
	}
}

// TestStreamsRefused is a table of streams that come to nothing.
func TestStreamsRefused(t *testing.T) {
	nobody := func(c *Config) {
		c.Caller = func(context.Context) plane.Caller { return plane.Caller{Principal: &access.Principal{}} }
	}
	for name, c := range map[string]struct {
		change func(*Config)
		say    *discovery.DeltaDiscoveryRequest
		want   codes.Code
	}{
		"nobody":        {nobody, &discovery.DeltaDiscoveryRequest{TypeUrl: types[clusters]}, codes.PermissionDenied},
		"no type":       {nil, &discovery.DeltaDiscoveryRequest{}, codes.InvalidArgument},
		"a long name":   {nil, &discovery.DeltaDiscoveryRequest{TypeUrl: types[clusters], ResourceNamesSubscribe: []string{strings.Repeat("x", 1000)}}, codes.InvalidArgument},
		"a node's name": {nil, &discovery.DeltaDiscoveryRequest{TypeUrl: types[clusters], Node: &core.Node{Id: "a\nb"}}, codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, c.change)
			w := b.delta()
			_ = w.stream.Send(c.say) // the stream may have ended already
			if m, err := w.stream.Recv(); status.Code(err) != c.want {
				t.Errorf("%v, %v; want %v", m, err, c.want)
			}
		})
	}
}

// TestTooManyStreams: beyond the bound a stream is refused, and one that ends makes room.
func TestTooManyStreams(t *testing.T) {
	b := newBed(t, func(c *Config) { c.MaxStreams = 1 })
	first := b.delta()
	first.say(&discovery.DeltaDiscoveryRequest{TypeUrl: "type.googleapis.com/envoy.service.runtime.v3.Runtime"}) // left without an answer
	first.say(&discovery.DeltaDiscoveryRequest{TypeUrl: types[clusters]})
	first.hear()
	if m, err := b.delta().stream.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("%v, %v", m, err)
	}
	if err := first.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := first.stream.Recv(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	for {
		w := b.delta()
		_ = w.stream.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: types[clusters]})
		_, err := w.stream.Recv()
		if err == nil {
			break
		}
		if status.Code(err) != codes.ResourceExhausted {
			t.Fatal(err)
		}
	}
	b.end()
	if n := b.server.streams[0].Load() + b.server.streams[1].Load(); n != 0 {
		t.Errorf("%d streams after the end", n)
	}
	if n := len(b.server.cache.all) + len(b.server.cache.watchers); n != 0 {
		t.Errorf("%d clients are told of changes after the end", n)
	}
}

// TestExcessLeavesNothing: a client whose request is refused gets no more notifications, not even of earlier names.
func TestExcessLeavesNothing(t *testing.T) {
	for name, delta := range map[string]bool{"sotw": false, "delta": true} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nil)
			many := make([]string, maxNames+1)
			for i := range many {
				many[i] = fmt.Sprintf("s%d.default", i)
			}
			var last func() error
			if delta {
				w := b.delta()
				w.say(&discovery.DeltaDiscoveryRequest{TypeUrl: types[assignments], ResourceNamesSubscribe: []string{"before.default"}})
				w.hear()
				w.say(&discovery.DeltaDiscoveryRequest{TypeUrl: types[assignments], ResourceNamesUnsubscribe: []string{"before.default"}, ResourceNamesSubscribe: many})
				last = func() error { _, err := w.stream.Recv(); return err }
			} else {
				stream, err := b.connect().StreamAggregatedResources(b.ctx)
				if err != nil {
					t.Fatal(err)
				}
				nonce := ""
				for _, names := range [][]string{{"before.default"}, many} {
					if err := stream.Send(&discovery.DiscoveryRequest{TypeUrl: types[clusters], ResourceNames: names, ResponseNonce: nonce}); err != nil {
						t.Fatal(err)
					}
					if nonce == "" {
						m, err := stream.Recv()
						if err != nil {
							t.Fatal(err)
						}
						nonce = m.GetNonce()
					}
				}
				last = func() error { _, err := stream.Recv(); return err }
			}
			var err error
			for err == nil {
				err = last()
			}
			if status.Code(err) != codes.InvalidArgument {
				t.Error(err)
			}
			b.end()
			if n := len(b.server.cache.all) + len(b.server.cache.watchers); n != 0 {
				t.Errorf("%d clients are told of changes after the end", n)
			}
		})
	}
}

// TestStuck: a client that takes nothing is ended, and holds nobody up.
func TestStuck(t *testing.T) {
	b := newBed(t, func(c *Config) { c.WriteTimeout = 100 * time.Millisecond })
	stopped := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		asked := false
		ended <- b.server.serve(b.ctx, false, func() (*core.Node, *request, *rpcstatus.Status, error) {
			if asked {
				<-stopped
				return nil, nil, nil, io.EOF
			}
			asked = true
			return nil, &request{kind: clusters}, nil, nil
		}, func(*response) error {
			<-stopped
			return io.ErrClosedPipe
		})
	}()
	if err := <-ended; status.Code(err) != codes.ResourceExhausted {
		t.Error(err)
	}
	close(stopped)
}

// TestLate: that an instance is late is told.
func TestLate(t *testing.T) {
	b := newBed(t, nil)
	b.server.cache.period = time.Hour // this test says who is late
	one := &resource.Instance{Service: "late", ID: "1", Address: "192.0.2.1", Port: 1, Weight: 100, TTL: 3600}
	two := &resource.Instance{Service: "late", ID: "2", Address: "192.0.2.1", Port: 2, Weight: 100, TTL: 3600}
	b.put(one)
	b.put(two)
	w := b.delta()
	w.say(&discovery.DeltaDiscoveryRequest{TypeUrl: types[assignments], ResourceNamesSubscribe: []string{"late.default"}})
	for _, late := range []string{"HEALTHY HEALTHY", "HEALTHY DEGRADED", "HEALTHY HEALTHY"} {
		m := w.hear()
		var a endpoint.ClusterLoadAssignment
		open(t, m.GetResources()[0].GetResource(), &a)
		var got []string
		for _, e := range a.GetEndpoints()[0].GetLbEndpoints() {
			got = append(got, e.GetHealthStatus().String())
		}
		if text := strings.Join(got, " "); text != late {
			t.Fatalf("%s, want %s", text, late)
		}
		w.say(&discovery.DeltaDiscoveryRequest{TypeUrl: types[assignments], ResponseNonce: m.GetNonce()})
		if late == "HEALTHY HEALTHY" {
			b.server.cache.notifyLate([]resource.Ref{two.Ref()})
			continue
		}
		b.server.cache.notifyLate(nil)
	}
}
