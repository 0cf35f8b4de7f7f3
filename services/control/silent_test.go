package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Instance n of a test has port 1+n and is of service n%services. The first of them die after they registered. The others send
// no heartbeats either, but have a long lease. Each service has some of both.
const services = 5

// A reader is one way by which clients find instances. healthy returns the ports of those that it shows as healthy.
type reader struct {
	name    string
	healthy func(ctx context.Context) (map[int]bool, error)
}

// TestSilentInstances: what DNS, HTTP and xDS show of instances that die, many times a second, until they are removed. None is
// shown as healthy again.
func TestSilentInstances(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: waits for the leases of thousands of instances to end")
	}
	const lease = 10 * time.Second
	for name, s := range map[string]struct {
		dead, all int
		change    func(*Config)
		fill      bool
		watch     time.Duration // how long, at most
	}{
		"400 of 3,000":                    {400, 3000, func(*Config) {}, false, 5 * time.Minute},
		"3,000 of 3,010, no protection":   {3000, 3010, func(c *Config) { c.Plane.Liveness.Threshold = 1 }, false, 5 * time.Minute},
		"3,000 of 3,010, protected 15 s":  {3000, 3010, func(c *Config) { c.Plane.Liveness.ProtectFor = 15 * time.Second }, false, 5 * time.Minute},
		"1 of 10, and a full database":    {1, 10, func(c *Config) { c.Store.Quota = 16 << 20 }, true, 45 * time.Second},
		"5 of 10, and a full database":    {5, 10, func(c *Config) { c.Store.Quota, c.Plane.Liveness.Threshold = 16<<20, 1 }, true, 45 * time.Second},
		"300 of 3,000, with a slow store": {300, 3000, func(c *Config) { c.Store.NoSync, c.Store.GroupRequests, c.Store.MaxInflightTxns = false, 1, 1 }, false, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			c := config(t)
			c.DNS, c.GRPC = "127.0.0.1:0", "127.0.0.1:0"
			s.change(&c)
			server, _ := serving(t, c)
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
			defer client.CloseIdleConnections()
			base := "http://" + server.Addr().String()
			registered := time.Now()
			var all sync.WaitGroup
			next := make(chan int)
			for range 64 {
				all.Go(func() {
					for n := range next {
						ttl := 3600.0
						if n < s.dead {
							ttl = lease.Seconds()
						}
						if status, text := do(t, client, "PUT", fmt.Sprintf("%s/v1/services/s%d/instances/%d", base, n%services, n), fmt.Sprintf(`{"address":"10.0.0.1","port":%d,"weight":100,"ttl_seconds":%v}`, 1+n, ttl)); status != 201 {
							t.Errorf("%d %s", status, text)
						}
					}
				})
			}
			for n := range s.all {
				next <- n
			}
			close(next)
			all.Wait()
			dead := registered.Add(lease) // the first of them
			last := time.Now().Add(lease)
			for n := 0; s.fill; n++ {
				status, text := do(t, client, "PUT", fmt.Sprintf("%s/v1/configs/c%d", base, n), fmt.Sprintf(`{"content":"%0200000d"}`, n))
				if status == http.StatusInsufficientStorage {
					break
				}
				if status != 201 {
					t.Fatalf("%d %s", status, text)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			readers := []reader{{"DNS", namesOf(server.DNSAddr().String())}, {"HTTP", listsOf(client, base, s.dead)}, {"xDS", assignmentsOf(ctx, t, server.GRPCAddr().String())}}
			removed := time.Duration(0)
			var reading sync.WaitGroup
			over := make(chan struct{})
			for _, r := range readers {
				reading.Go(func() {
					hidden, again, samples := map[int]bool{}, map[int]bool{}, 0
					late, seconds := time.Duration(0), 0.0 // after the lease, of the last instance that was still healthy; in which one was healthy again
					ticker := time.NewTicker(100 * time.Millisecond)
					defer ticker.Stop()
					for {
						select {
						case <-over:
							t.Logf("%-4s %4d samples; the last dead instance was healthy until %v after its lease; healthy again: %d instances, %.1f s", r.name, samples, late.Round(100*time.Millisecond), len(again), seconds)
							if len(again) > 0 {
								t.Errorf("%s shows %d dead instances as healthy again", r.name, len(again))
							}
							return
						case <-ticker.C:
						}
						healthy, err := r.healthy(ctx)
						if err != nil {
							t.Errorf("%s: %v", r.name, err)
							<-over
							return
						}
						samples++
						ghosts := false
						for port := 1; port <= s.dead; port++ {
							switch {
							case healthy[port] && hidden[port]:
								again[port], ghosts = true, true
							case healthy[port]:
								late = max(0, time.Since(last))
							default:
								hidden[port] = true
							}
						}
						if ghosts {
							seconds += 0.1
						}
					}
				})
			}
			for end := time.Now().Add(s.watch); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
				left := 0
				for n := range services {
					count, err := count(ctx, client, base, n)
					if err != nil {
						t.Fatal(err)
					}
					left += count
				}
				if left == s.all-s.dead {
					removed = time.Since(dead)
					break
				}
			}
			close(over)
			reading.Wait()
			switch {
			case removed > 0:
				t.Logf("all %d are removed %v after the first lease ended, %v after the last", s.dead, removed.Round(100*time.Millisecond), (removed - last.Sub(dead)).Round(100*time.Millisecond))
			case s.fill:
				t.Logf("watched for %v", s.watch)
			default:
				t.Errorf("not all %d are removed", s.dead)
			}
		})
	}
}

// count returns how many instances a service has.
func count(ctx context.Context, client *http.Client, base string, service int) (int, error) {
	var list struct {
		Items []struct {
			Instances int `json:"instances"`
		} `json:"items"`
	}
	err := getJSON(ctx, client, fmt.Sprintf("%s/v1/services?search=s%d&stale=true", base, service), &list)
	total := 0
	for _, one := range list.Items {
		total += one.Instances
	}
	return total, err
}

func getJSON(ctx context.Context, client *http.Client, address string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	a, err := client.Do(r)
	if err != nil {
		return err
	}
	return errors.Join(json.NewDecoder(a.Body).Decode(into), a.Body.Close())
}

// namesOf reads services over DNS.
func namesOf(address string) func(context.Context) (map[int]bool, error) {
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}}
	return func(ctx context.Context) (map[int]bool, error) {
		healthy := map[int]bool{}
		for n := range services {
			_, list, err := resolver.LookupSRV(ctx, "", "", fmt.Sprintf("s%d.default.control.internal.", n))
			if none := new(net.DNSError); err != nil && (!errors.As(err, &none) || !none.IsNotFound) {
				return nil, err
			}
			for _, one := range list {
				healthy[int(one.Port)] = true
			}
		}
		return healthy, nil
	}
}

// listsOf reads services over HTTP.
func listsOf(client *http.Client, base string, dead int) func(context.Context) (map[int]bool, error) {
	return func(ctx context.Context) (map[int]bool, error) {
		healthy := map[int]bool{}
		for n := range min(services, dead) {
			var list struct {
				Items []struct {
					Port    int  `json:"port"`
					Overdue bool `json:"overdue"`
				} `json:"items"`
			}
			if err := getJSON(ctx, client, fmt.Sprintf("%s/v1/services/s%d/instances?limit=1000&stale=true", base, n), &list); err != nil {
				return nil, err
			}
			for _, one := range list.Items {
				healthy[one.Port] = !one.Overdue
			}
		}
		return healthy, nil
	}
}

// assignmentsOf follows services over xDS.
func assignmentsOf(ctx context.Context, t *testing.T, address string) func(context.Context) (map[int]bool, error) {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	const kind = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	ask := &discovery.DiscoveryRequest{TypeUrl: kind, Node: &core.Node{Id: "test"}}
	for n := range services {
		ask.ResourceNames = append(ask.ResourceNames, fmt.Sprintf("s%d.default", n))
	}
	if err := stream.Send(ask); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // guards shown and failed
	shown := map[string]map[int]bool{}
	var failed error
	first := make(chan struct{})
	var once sync.Once
	learn := func() error {
		answer, err := stream.Recv()
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for _, packed := range answer.GetResources() {
			var one endpoint.ClusterLoadAssignment
			if err := packed.UnmarshalTo(&one); err != nil {
				return err
			}
			healthy := map[int]bool{}
			for _, locality := range one.GetEndpoints() {
				for _, e := range locality.GetLbEndpoints() {
					status := e.GetHealthStatus()
					healthy[int(e.GetEndpoint().GetAddress().GetSocketAddress().GetPortValue())] = status == core.HealthStatus_HEALTHY || status == core.HealthStatus_UNKNOWN
				}
			}
			shown[one.GetClusterName()] = healthy
		}
		once.Do(func() { close(first) })
		return stream.Send(&discovery.DiscoveryRequest{TypeUrl: kind, ResourceNames: ask.ResourceNames, VersionInfo: answer.GetVersionInfo(), ResponseNonce: answer.GetNonce()})
	}
	go func() {
		for {
			if err := learn(); err != nil {
				mu.Lock()
				failed = err
				mu.Unlock()
				return
			}
		}
	}()
	<-first
	return func(context.Context) (map[int]bool, error) {
		mu.Lock()
		defer mu.Unlock()
		all := map[int]bool{}
		for _, healthy := range shown {
			for port, ok := range healthy {
				all[port] = ok
			}
		}
		return all, failed
	}
}
