package xds

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	load "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"dyno/services/control/plane"
	"dyno/services/control/plane/planetest"
	"dyno/services/control/resource"
)

func quickReports(c *Config) { c.LoadInterval = 100 * time.Millisecond }

func (b *bed) calls(namespace string) []plane.Calls {
	b.t.Helper()
	list, err := b.plane.Calls(b.ctx, planetest.Anybody, namespace)
	if err != nil {
		b.t.Fatal(err)
	}
	return list
}

// TestCalls: reports of data planes are summed by caller and service, until their streams end.
func TestCalls(t *testing.T) {
	b := newBed(t, quickReports)
	c, err := grpc.NewClient("passthrough:///"+b.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	report := func(id string, requests, errors uint64) load.LoadReportingService_StreamLoadStatsClient {
		t.Helper()
		stream, err := load.NewLoadReportingServiceClient(c).StreamLoadStats(b.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&load.LoadStatsRequest{Node: &core.Node{Id: id, Cluster: "web"}}); err != nil {
			t.Fatal(err)
		}
		asked, err := stream.Recv()
		if err != nil || !asked.GetSendAllClusters() || asked.GetLoadReportingInterval().AsDuration() != 100*time.Millisecond {
			t.Fatalf("%v, %v", asked, err)
		}
		locality := &endpoint.UpstreamLocalityStats{TotalIssuedRequests: requests, TotalErrorRequests: errors, TotalRequestsInProgress: 3}
		if err := stream.Send(&load.LoadStatsRequest{ClusterStats: []*endpoint.ClusterStats{
			{ClusterName: "shop.default", LoadReportInterval: durationpb.New(2 * time.Second), UpstreamLocalityStats: []*endpoint.UpstreamLocalityStats{locality, locality}},
			{ClusterName: "shop.other", LoadReportInterval: durationpb.New(2 * time.Second), UpstreamLocalityStats: []*endpoint.UpstreamLocalityStats{locality}},
			{ClusterName: "control", LoadReportInterval: durationpb.New(2 * time.Second), UpstreamLocalityStats: []*endpoint.UpstreamLocalityStats{locality}},
			{ClusterName: "late.default", UpstreamLocalityStats: []*endpoint.UpstreamLocalityStats{locality}},
		}}); err != nil {
			t.Fatal(err)
		}
		return stream
	}
	becomes := func(want ...plane.Calls) {
		t.Helper()
		for {
			got := b.calls("default")
			if len(got) == len(want) && (len(got) == 0 || got[0] == want[0]) {
				return
			}
			if b.ctx.Err() != nil {
				t.Fatalf("%+v, want %+v", got, want)
			}
			<-time.After(time.Millisecond)
		}
	}
	one := report("a", 100, 10)
	becomes(plane.Calls{From: "web", Service: "shop", Reports: 1, Requests: 100, Errors: 10, Active: 6})
	two := report("b", 20, 0)
	becomes(plane.Calls{From: "web", Service: "shop", Reports: 2, Requests: 120, Errors: 10, Active: 12})
	for _, stream := range []load.LoadReportingService_StreamLoadStatsClient{one, two} {
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
	}
	becomes()

	bad, err := load.NewLoadReportingServiceClient(c).StreamLoadStats(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := bad.Send(&load.LoadStatsRequest{Node: &core.Node{Cluster: strings.Repeat("x", plane.MaxClient+1)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := bad.Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a long name: %v", err)
	}
}

// TestEnvoyReports: Envoy says whom it calls.
func TestEnvoyReports(t *testing.T) {
	b := newBed(t, quickReports)
	proxy := startEnvoy(b, "GRPC")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/broken" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	b.put(&resource.Instance{Service: "shop", ID: "1", Address: "127.0.0.1", Port: int(netip.MustParseAddrPort(server.Listener.Addr().String()).Port()), Weight: 1, TTL: 3600})
	for n := 0; ; n++ {
		path := "/"
		if n%2 == 1 {
			path = "/broken"
		}
		q, err := http.NewRequestWithContext(b.ctx, http.MethodGet, "http://"+proxy.edge+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		q.Host = "shop"
		r, err := http.DefaultTransport.RoundTrip(q)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		if list := b.calls("default"); len(list) == 1 && list[0].From == "edge" && list[0].Service == "shop" && list[0].Requests > 0 && list[0].Errors > 0 {
			return
		}
	}
}
