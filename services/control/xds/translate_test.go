package xds

import (
	"fmt"
	"math"
	"strings"
	"testing"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	upstream "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"dyno/services/control/resource"
)

// A message has Envoy's own rules for its fields.
type message interface {
	proto.Message
	ValidateAll() error
}

// open reads a resource into m, which must keep to Envoy's rules.
func open(t testing.TB, a *anypb.Any, m message) {
	t.Helper()
	if err := a.UnmarshalTo(m); err != nil {
		t.Fatal(err)
	}
	if err := m.ValidateAll(); err != nil {
		t.Fatalf("%v\n%v", err, m)
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		kind  kind
		name  string
		want  service
		alias string
	}{
		{listeners, "shop", service{"default", "shop"}, "shop"},
		{listeners, "shop.default", service{"default", "shop"}, "shop"},
		{listeners, "shop.eu", service{"eu", "shop"}, ""},
		{listeners, "shop.eu.default", service{"default", "shop.eu"}, ""},
		{clusters, "Shop_1:a.b.eu", service{"eu", "Shop_1:a.b"}, ""},
		{clusters, "shop", service{}, ""},
		{listeners, "", service{}, ""},
		{listeners, "shop.", service{}, ""},
		{listeners, ".default", service{}, ""},
		{listeners, "shop.EU", service{}, ""},
		{listeners, "a/b.default", service{}, ""},
		{listeners, "läden", service{}, ""},
		{clusters, "a*.default", service{}, ""},
		{listeners, "xdstp://control/envoy.config.listener.v3.Listener/shop", service{}, ""},
	} {
		got, ok := parse(c.kind, c.name)
		if ok != (c.want != service{}) || ok && (got != c.want || got.alias() != c.alias) {
			t.Errorf("%v %q: %v %v, alias %q", c.kind, c.name, got, ok, got.alias())
		}
	}
}

// FuzzNames: a name that means a service is its name, or its other one.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"a", "a.b", "a.b.c", "", ".", "..", "a.", ".a", "a:1.b", "A.b"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		for k := range kind(kinds) {
			if s, ok := parse(k, name); ok && s.String() != name && (k != listeners || s.alias() != name) {
				t.Errorf("%v %q means %v, of which %q is no name", k, name, s, name)
			}
		}
	})
}

// plainly makes a resource without policies.
func plainly(k kind, name string, s service) *built {
	return hosted{s, plainTable, audience{}}.resource(k, name)
}

// TestPlain: what a service is found by keeps to Envoy's rules, and leads to it.
func TestPlain(t *testing.T) {
	s := service{"eu", "shop"}
	var l listener.Listener
	open(t, plainly(listeners, "shop.eu", s).any, &l)
	var manager hcm.HttpConnectionManager
	open(t, l.GetApiListener().GetApiListener(), &manager)
	if l.GetName() != "shop.eu" || manager.GetRds().GetRouteConfigName() != "shop.eu" {
		t.Errorf("%v\n%v", &l, &manager)
	}
	var r route.RouteConfiguration
	open(t, plainly(routes, "shop.eu", s).any, &r)
	if to := r.GetVirtualHosts()[0].GetRoutes()[0].GetRoute().GetCluster(); r.GetName() != "shop.eu" || to != "shop.eu" {
		t.Errorf("%v", &r)
	}
	var c cluster.Cluster
	open(t, plainly(clusters, "shop.eu", s).any, &c)
	for _, options := range c.GetTypedExtensionProtocolOptions() {
		open(t, options, &upstream.HttpProtocolOptions{})
	}
	if c.GetName() != "shop.eu" || c.GetType() != cluster.Cluster_EDS {
		t.Errorf("%v", &c)
	}
	if a, b := plainly(clusters, "shop.eu", s), plainly(clusters, "shop.eu", s); a.version != b.version {
		t.Error("one content has two versions")
	}
	if alias := plainly(listeners, "shop", service{"default", "shop"}); alias.version == plainly(listeners, "shop.default", service{"default", "shop"}).version {
		t.Error("two contents have one version")
	}
}

func plainServices(services ...service) (list []hosted) {
	for _, s := range services {
		list = append(list, hosted{s, plainTable, audience{}})
	}
	return list
}

func TestRoutesToAllServices(t *testing.T) {
	var r route.RouteConfiguration
	open(t, routesTo(plainServices(service{"eu", "Shop"}, service{"default", "a"}, service{"eu", "shop"}, service{"default", "b.c"})).any, &r)
	var got []string
	for _, h := range r.GetVirtualHosts() {
		got = append(got, fmt.Sprintf("%s %v", h.GetName(), h.GetDomains()))
	}
	want := `a.default [a.default a.default:* a a:*]
b.c.default [b.c.default b.c.default:*]
Shop.eu [shop.eu shop.eu:*]`
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("%s\nwant\n%s", text, want)
	}
}

// TestAssignments is a table of instances and what is told of them.
func TestAssignments(t *testing.T) {
	up := func(id string, port int, change func(*resource.Instance)) *resource.Instance {
		i := &resource.Instance{ID: id, Address: "192.0.2.1", Port: port, Weight: resource.DefaultWeight, Status: resource.Up}
		if change != nil {
			change(i)
		}
		return i
	}
	for name, c := range map[string]struct {
		instances []*resource.Instance // those whose identifiers begin with "late" are
		want      string
	}{
		"none": {nil, ""},
		"one":  {[]*resource.Instance{up("1", 80, nil)}, "/ 100: 192.0.2.1:80*100 HEALTHY"},
		"zones, in order": {[]*resource.Instance{
			up("1", 1, func(i *resource.Instance) { i.Zone = "b" }), up("2", 2, func(i *resource.Instance) { i.Zone = "a" }), up("3", 3, func(i *resource.Instance) { i.Zone = "b" }),
		}, "a/ 100: 192.0.2.1:2*100 HEALTHY; b/ 200: 192.0.2.1:1*100 HEALTHY, 192.0.2.1:3*100 HEALTHY"},
		"weights are localities": {[]*resource.Instance{
			up("1", 1, nil), up("2", 2, func(i *resource.Instance) { i.Weight = 300 }), up("3", 3, func(i *resource.Instance) { i.Weight = 300 }),
		}, "/ 100: 192.0.2.1:1*100 HEALTHY; /weight-300 600: 192.0.2.1:2*300 HEALTHY, 192.0.2.1:3*300 HEALTHY"},
		"only those that take requests have weight": {[]*resource.Instance{
			up("1", 1, nil), up("2", 2, func(i *resource.Instance) { i.Status = resource.Down }),
			up("3", 3, func(i *resource.Instance) { i.Status = resource.Draining }), up("4", 4, func(i *resource.Instance) { i.Weight = 0 }),
		}, "/weight-1 0: 192.0.2.1:4*1 DRAINING; / 100: 192.0.2.1:1*100 HEALTHY, 192.0.2.1:2*100 UNHEALTHY, 192.0.2.1:3*100 DRAINING"},
		"late ones come last": {[]*resource.Instance{up("1", 1, nil), up("late", 2, nil)}, "/ 100: 192.0.2.1:1*100 HEALTHY, 192.0.2.1:2*100 DEGRADED"},
		"late ones, where there are no others": {[]*resource.Instance{
			up("late1", 1, nil), up("2", 2, func(i *resource.Instance) { i.Status = resource.Down }),
		}, "/ 100: 192.0.2.1:1*100 HEALTHY, 192.0.2.1:2*100 UNHEALTHY"},
		"addresses": {[]*resource.Instance{
			up("1", 1, func(i *resource.Instance) { i.Address = "shop.example" }), up("2", 2, func(i *resource.Instance) { i.Address = "2001:db8::1" }),
			up("3", 3, func(i *resource.Instance) { i.Address = "fe80::1%eth0" }), up("4", 4, func(i *resource.Instance) { i.Address = "::ffff:192.0.2.9" }),
		}, "/ 200: 192.0.2.9:4*100 HEALTHY, 2001:db8::1:2*100 HEALTHY"},
		"two at one address": {[]*resource.Instance{
			up("1", 1, func(i *resource.Instance) { i.Status = resource.Down }), up("2", 1, nil),
		}, "/ 100: 192.0.2.1:1*100 HEALTHY"},
	} {
		t.Run(name, func(t *testing.T) {
			var list []instance
			for _, i := range c.instances {
				if one, ok := instanceOf(i, strings.HasPrefix(i.ID, "late")); ok {
					list = append(list, one)
				}
			}
			var a endpoint.ClusterLoadAssignment
			open(t, assign(service{"default", "a"}, list, "", 1).any, &a)
			if got := write(&a); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

// write is an assignment for people.
func write(a *endpoint.ClusterLoadAssignment) string {
	var localities []string
	for _, l := range a.GetEndpoints() {
		var list []string
		for _, e := range l.GetLbEndpoints() {
			at := e.GetEndpoint().GetAddress().GetSocketAddress()
			list = append(list, fmt.Sprintf("%s:%d*%d %v", at.GetAddress(), at.GetPortValue(), e.GetLoadBalancingWeight().GetValue(), e.GetHealthStatus()))
		}
		localities = append(localities, fmt.Sprintf("%s/%s %d: %s", l.GetLocality().GetZone(), l.GetLocality().GetSubZone(), l.GetLoadBalancingWeight().GetValue(), strings.Join(list, ", ")))
	}
	return strings.Join(localities, "; ")
}

// TestManyWeights: a zone with many weights is one locality, and the sum of many large
// weights is one that clients take.
func TestManyWeights(t *testing.T) {
	var list []instance
	for i := range 5000 {
		one, ok := instanceOf(&resource.Instance{ID: fmt.Sprint(i), Address: fmt.Sprintf("10.0.%d.%d", i/250, i%250), Port: 80, Weight: 1_000_000 - i%2, Status: resource.Up}, false)
		if !ok {
			t.Fatal("left out")
		}
		list = append(list, one)
	}
	var a endpoint.ClusterLoadAssignment
	open(t, assign(service{"default", "a"}, list, "", 1).any, &a)
	var sum, count uint64
	for _, l := range a.GetEndpoints() {
		sum += uint64(l.GetLoadBalancingWeight().GetValue())
		count += uint64(len(l.GetLbEndpoints()))
	}
	if sum > math.MaxUint32 || sum < mostWeight/2 || count != 5000 {
		t.Errorf("sum %d of %d", sum, count)
	}
	for i := range list {
		list[i].weight = uint32(i%(mostWeights+1)) + 1
	}
	open(t, assign(service{"default", "a"}, list, "", 1).any, &a)
	if len(a.GetEndpoints()) != 1 || a.GetEndpoints()[0].GetLocality().GetSubZone() != "weights" {
		t.Errorf("%d localities", len(a.GetEndpoints()))
	}
}
