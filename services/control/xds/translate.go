package xds

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"dyno/services/control/resource"
)

// A kind is a type of resources. New resources are sent in the order of kinds.
type kind int

const (
	clusters kind = iota
	assignments
	listeners
	routes
	secrets
	kinds int = iota
)

// types has the kinds' names on the wire.
var types = [kinds]string{
	clusters:    "type.googleapis.com/envoy.config.cluster.v3.Cluster",
	assignments: "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
	listeners:   "type.googleapis.com/envoy.config.listener.v3.Listener",
	routes:      "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
	secrets:     "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
}

// shorts has the kinds' names for people.
var shorts = [kinds]string{clusters: "cds", assignments: "eds", listeners: "lds", routes: "rds", secrets: "sds"}

func (k kind) String() string { return shorts[k] }

// whole reports whether a response (state of the world) must have all wanted resources of the kind: missing ones
// count as removed.
func (k kind) whole() bool { return k == clusters || k == listeners }

func kindOf(typeURL string) (kind, bool) {
	i := slices.Index(types[:], typeURL)
	return kind(i), i >= 0
}

// A built resource is in its encoded form. All clients share it: it must not be changed.
type built struct {
	any      *anypb.Any
	version  string // a hash of the content
	revision int64  // the store's revision when this replica found the content
	from     []policyVersion
}

// A policyVersion is a version of a policy that a resource was made from. A client has applied it when it has
// accepted all of these kinds.
type policyVersion struct {
	resource.Ref
	version int64
	kinds   [kinds]bool
}

// seal encodes a resource. Equal contents have equal bytes and versions in every process.
func seal(k kind, m proto.Message, revision int64, from []policyVersion) *built {
	value, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("xds: %T cannot be written: %v", m, err)) // its texts are names, which are checked
	}
	sum := sha256.Sum256(value)
	return &built{&anypb.Any{TypeUrl: types[k], Value: value}, hex.EncodeToString(sum[:8]), revision, from}
}

// packed returns a message to be embedded in another one.
func packed(m proto.Message) *anypb.Any {
	value, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("xds: %T cannot be written: %v", m, err)) // it has no text that could be wrong
	}
	return &anypb.Any{TypeUrl: "type.googleapis.com/" + string(m.ProtoReflect().Descriptor().FullName()), Value: value}
}

// fromADS says that a client finds referenced resources on the same stream.
func fromADS() *core.ConfigSource {
	return &core.ConfigSource{
		ConfigSourceSpecifier: &core.ConfigSource_Ads{Ads: &core.AggregatedConfigSource{}},
		ResourceApiVersion:    core.ApiVersion_V3,
	}
}

// allRoutes is the name of the routes to all services. It has no dot, so it differs from every service's.
const allRoutes = "services"

// routesTo routes requests to services, by host with any port. Hosts ignore case, so among services that differ only
// by case, the first gets the host. Hosts that policies name come after the services' own.
func routesTo(list []hosted) *built {
	slices.SortFunc(list, func(a, b hosted) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	})
	config := &route.RouteConfiguration{Name: allRoutes}
	taken := map[string]bool{}
	domains := make([][]string, len(list))
	take := func(n int, host string) {
		if host = strings.ToLower(host); host != "" && !taken[host] {
			taken[host] = true
			domains[n] = append(domains[n], host, host+":*")
		}
	}
	for n, h := range list {
		take(n, h.String())
		take(n, h.alias())
	}
	var from []policyVersion
	for n, h := range list {
		for _, host := range h.traffic.Hosts() {
			take(n, host)
		}
		if len(domains[n]) > 0 {
			config.VirtualHosts = append(config.VirtualHosts, h.host(domains[n]))
			from = append(from, h.policies(routes)...)
		}
	}
	return seal(routes, config, 0, from)
}

// An instance has the properties that clients are sent.
type instance struct {
	id     string
	at     netip.AddrPort
	zone   string
	weight uint32
	health core.HealthStatus
	mutual bool // callers must show certificates
}

// instanceOf converts an instance, which may be late: overdue. An instance with a host name is left out: clients
// refuse the whole assignment unless all addresses are IP addresses.
func instanceOf(i *resource.Instance, late bool) (instance, bool) {
	address, err := netip.ParseAddr(i.Address)
	if err != nil || address.Zone() != "" {
		return instance{}, false
	}
	one := instance{
		id: i.ID, at: netip.AddrPortFrom(address.Unmap(), uint16(i.Port)), zone: i.Zone, //nolint:gosec // bounded when it was put
		weight: uint32(max(i.Weight, 1)), health: core.HealthStatus_HEALTHY, mutual: i.Metadata[tlsLabel] == tlsMutual, //nolint:gosec // bounded when it was put
	}
	switch {
	case i.Status == resource.Down || i.Health == resource.Critical:
		one.health = core.HealthStatus_UNHEALTHY
	case i.Status == resource.Draining || i.Weight == 0 || i.Maintenance != "":
		one.health = core.HealthStatus_DRAINING // it wants no new requests
	case late:
		one.health = core.HealthStatus_DEGRADED
	}
	return one, true
}

// rank orders instances at the same address: clients get the healthiest.
var rank = map[core.HealthStatus]int{
	core.HealthStatus_HEALTHY: 0, core.HealthStatus_DEGRADED: 1, core.HealthStatus_DRAINING: 2, core.HealthStatus_UNHEALTHY: 3,
}

// A locality is a group of instances in an assignment.
type locality struct {
	zone   string
	weight uint32 // weight of each instance; 0 if they differ
}

// mostWeights bounds the weights of one zone that have localities of their own. In a zone with more, all share one.
const mostWeights = 32

// assign makes a service's assignment. Late instances are tried last: Envoy uses them after the others. gRPC's
// clients know no state between healthy and unhealthy: they get late instances only if there are no others.
//
// With a nearest zone, the others get requests only as far as too few of its instances are healthy.
//
// Instances of one zone and weight form a locality. gRPC's clients divide requests among localities by weight, and
// evenly within one. They ignore weights of instances, unless they hash. Envoy uses them, to the same effect.
func assign(s service, instances []instance, nearest string, revision int64) *built {
	slices.SortFunc(instances, func(a, b instance) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(rank[a.health], rank[b.health]), strings.Compare(a.id, b.id))
	})
	instances = slices.CompactFunc(instances, func(a, b instance) bool { return a.at == b.at })
	if !slices.ContainsFunc(instances, func(i instance) bool { return i.health == core.HealthStatus_HEALTHY }) {
		for i := range instances {
			if instances[i].health == core.HealthStatus_DEGRADED {
				instances[i].health = core.HealthStatus_HEALTHY
			}
		}
	}
	scale(instances)
	weights := map[string]map[uint32]bool{}
	for _, i := range instances {
		if weights[i.zone] == nil {
			weights[i.zone] = map[uint32]bool{}
		}
		weights[i.zone][i.weight] = true
	}
	groups := map[locality][]instance{}
	for _, i := range instances {
		at := locality{i.zone, i.weight}
		if len(weights[i.zone]) > mostWeights {
			at.weight = 0
		}
		groups[at] = append(groups[at], i)
	}
	assignment := &endpoint.ClusterLoadAssignment{ClusterName: s.String()}
	further := uint32(0) // priorities have no gaps: the lowest number that is there is 0
	for at := range groups {
		if at.zone == nearest {
			further = 1
		}
	}
	for _, at := range sortedLocalities(groups) {
		one := endpointsOf(at, groups[at])
		if nearest != "" && at.zone != nearest {
			one.Priority = further
		}
		assignment.Endpoints = append(assignment.Endpoints, one)
	}
	return seal(assignments, assignment, revision, nil)
}

// mostWeight bounds the sum of a service's weights: clients refuse one above 2³²-1.
const mostWeight = 1 << 31

// scale makes weights small enough. It never makes one 0, so the sum may exceed mostWeight by one for each instance.
func scale(instances []instance) {
	var sum uint64
	for _, i := range instances {
		sum += uint64(i.weight)
	}
	by := uint32((sum + mostWeight - 1) / mostWeight) //nolint:gosec // weights and counts are bounded
	if by <= 1 {
		return
	}
	for i := range instances {
		instances[i].weight = max(instances[i].weight/by, 1)
	}
}

func sortedLocalities(groups map[locality][]instance) []locality {
	var all []locality
	for at := range groups {
		all = append(all, at)
	}
	slices.SortFunc(all, func(a, b locality) int {
		return cmp.Or(strings.Compare(a.zone, b.zone), cmp.Compare(a.weight, b.weight))
	})
	return all
}

// endpointsOf converts a locality. Its weight is the sum for instances that accept requests; without any it has no
// weight, and gets no requests.
func endpointsOf(at locality, instances []instance) *endpoint.LocalityLbEndpoints {
	out := &endpoint.LocalityLbEndpoints{Locality: &core.Locality{Zone: at.zone}}
	if at.weight != resource.DefaultWeight {
		out.Locality.SubZone = fmt.Sprintf("weight-%d", at.weight)
		if at.weight == 0 {
			out.Locality.SubZone = "weights"
		}
	}
	var sum uint64
	for _, i := range instances {
		if i.health == core.HealthStatus_HEALTHY {
			sum += uint64(i.weight)
		}
		one := &endpoint.LbEndpoint{
			HostIdentifier: &endpoint.LbEndpoint_Endpoint{Endpoint: &endpoint.Endpoint{Address: &core.Address{
				Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{
					Address: i.at.Addr().String(), PortSpecifier: &core.SocketAddress_PortValue{PortValue: uint32(i.at.Port())},
				}},
			}}},
			HealthStatus:        i.health,
			LoadBalancingWeight: wrapperspb.UInt32(i.weight),
		}
		if i.mutual {
			one.Metadata = &core.Metadata{FilterMetadata: map[string]*structpb.Struct{socketMatch: mutualFields()}}
		}
		out.LbEndpoints = append(out.LbEndpoints, one)
	}
	if sum > 0 {
		out.LoadBalancingWeight = wrapperspb.UInt32(uint32(sum)) //nolint:gosec // see scale
	}
	return out
}
