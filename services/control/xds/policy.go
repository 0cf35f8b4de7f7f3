package xds

import (
	"cmp"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	ratelimits "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	faults "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/fault/v3"
	fault "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	localratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/local_ratelimit/v3"
	router "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	upstream "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	matcher "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	percent "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"dyno/services/control/identity"
	"dyno/services/control/resource"
	"dyno/services/control/traffic"
)

// An audience is who gets resources: clients of a kind, with labels.
type audience struct {
	kind   string // of data plane
	id     string
	labels map[string]string
	zone   string
	domain string // the trust domain of a proxy with an identity; "" is without one
	asks   bool   // it asks the control plane about shared limits
}

// grpc reports whether these are clients of gRPC, which refuse what they do not know.
func (a *audience) grpc() bool { return traffic.IsGRPC(a.kind) }

// A hosted service has what holds for requests to it.
type hosted struct {
	service
	traffic  *traffic.Table
	audience audience
}

// policies returns the versions of the policies that the service's resource of a kind is made from: its routes, or its
// cluster.
func (h hosted) policies(k kind) (list []policyVersion) {
	for _, p := range h.traffic.Policies {
		one := policyVersion{Ref: p.Ref(), version: p.Version}
		one.kinds[routes], one.kinds[clusters] = p.Routes, p.Service
		if one.kinds[k] {
			list = append(list, one)
		}
	}
	return list
}

// metadataOf names policies and their versions in a resource: it differs for each version, so that clients answer to
// each. People find it in Envoy's /config_dump.
func metadataOf(from []policyVersion) *core.Metadata {
	if len(from) == 0 {
		return nil
	}
	fields := map[string]*structpb.Value{}
	for _, p := range from {
		fields[p.Namespace+"/"+p.Name] = structpb.NewNumberValue(float64(p.version))
	}
	return &core.Metadata{FilterMetadata: map[string]*structpb.Struct{"policies": {Fields: fields}}}
}

// resource returns the service's resource of a kind, other than its instances.
func (h hosted) resource(k kind, name string) *built {
	switch k {
	case clusters:
		return seal(k, h.cluster(), 0, h.policies(clusters))
	case listeners:
		return seal(k, listenerOf(name, h.service), 0, nil)
	case assignments:
		return noInstances(name)
	}
	return seal(k, &route.RouteConfiguration{Name: name, VirtualHosts: []*route.VirtualHost{h.host([]string{"*"})}}, 0, h.policies(routes))
}

// The filters of requests, by the names that routes use for their settings. Routes switch them on.
const (
	faultFilter = "envoy.filters.http.fault"
	limitFilter = "envoy.filters.http.local_ratelimit"
)

// managerOf takes requests by routes, which come on the same stream.
func managerOf(statistics, routeName string, filters ...*hcm.HttpFilter) *hcm.HttpConnectionManager {
	filters = append(filters, filterOf("envoy.filters.http.router", &router.Router{}))
	return &hcm.HttpConnectionManager{
		StatPrefix:     statistics,
		RouteSpecifier: &hcm.HttpConnectionManager_Rds{Rds: &hcm.Rds{ConfigSource: fromADS(), RouteConfigName: routeName}},
		HttpFilters:    filters,
	}
}

func filterOf(name string, settings proto.Message) *hcm.HttpFilter {
	return &hcm.HttpFilter{Name: name, ConfigType: &hcm.HttpFilter_TypedConfig{TypedConfig: packed(settings)}}
}

// listenerOf is for gRPC clients, which look up the first part of an address as the listener's name.
func listenerOf(name string, s service) *listener.Listener {
	manager := managerOf(s.String(), s.String(), filterOf(faultFilter, &fault.HTTPFault{}))
	return &listener.Listener{Name: name, ApiListener: &listener.ApiListener{ApiListener: packed(manager)}}
}

// outbound makes a proxy's listener at an address, for requests to all services. The proxy knows the control plane by the name
// of a cluster; "" is none.
func outbound(address *core.SocketAddress, control string) *listener.Listener {
	filters := []*hcm.HttpFilter{filterOf(faultFilter, &fault.HTTPFault{}), filterOf(limitFilter, &localratelimit.LocalRateLimit{StatPrefix: "limit"})}
	if control != "" {
		filters = append(filters, filterOf("envoy.filters.http.ratelimit", sharedLimits(control)))
	}
	manager := managerOf("outbound", allRoutes, filters...)
	return listenerAt(outboundName, address, manager, nil)
}

// host makes the virtual host of a service: its routes, for domains.
func (h hosted) host(domains []string) *route.VirtualHost {
	v := &route.VirtualHost{Name: h.String(), Domains: domains, Metadata: metadataOf(h.policies(routes))}
	buckets := map[string]*traffic.Limit{}
	for i := range h.traffic.Routes {
		r := &h.traffic.Routes[i]
		if h.audience.grpc() && (len(r.Match.Hosts) > 0 || !traffic.HasCalls(r.Match.Methods)) {
			continue
		}
		v.Routes = append(v.Routes, h.route(r))
		if r.Limit != nil && !h.audience.grpc() && !h.shares(r.Limit) {
			buckets[r.Limit.Name] = r.Limit
		}
	}
	if len(buckets) > 0 {
		v.TypedPerFilterConfig = map[string]*anypb.Any{limitFilter: packed(limitsOf(buckets))}
	}
	return v
}

// route makes one route.
func (h hosted) route(r *traffic.Route) *route.Route {
	one := &route.Route{Match: h.matchOf(&r.Match)}
	switch {
	case h.audience.grpc() && (r.Deny || r.Redirect != nil): // its clients fail the calls, as UNAVAILABLE
		one.Action = &route.Route_NonForwardingAction{NonForwardingAction: &route.NonForwardingAction{}}
	case r.Deny:
		one.Action = &route.Route_DirectResponse{DirectResponse: &route.DirectResponseAction{
			Status: 403, Body: &core.DataSource{Specifier: &core.DataSource_InlineString{InlineString: "a policy denies this request\n"}},
		}}
	case r.Redirect != nil:
		one.Action = &route.Route_Redirect{Redirect: redirectOf(r)}
	default:
		one.Action = &route.Route_Route{Route: h.destination(r)}
	}
	if r.Fault != nil && !r.Deny {
		one.TypedPerFilterConfig = map[string]*anypb.Any{faultFilter: packed(faultOf(r.Fault))}
	}
	return one
}

// destination says where a route's requests go, and how.
func (h hosted) destination(r *traffic.Route) *route.RouteAction {
	a := &route.RouteAction{Timeout: seconds(r.Timeout)}
	switch len(r.To) {
	case 0:
		a.ClusterSpecifier = &route.RouteAction_Cluster{Cluster: h.String()}
	case 1:
		a.ClusterSpecifier = &route.RouteAction_Cluster{Cluster: h.sibling(r.To[0].Service)}
	default:
		split := &route.WeightedCluster{}
		for _, b := range r.To {
			split.Clusters = append(split.Clusters, &route.WeightedCluster_ClusterWeight{Name: h.sibling(b.Service), Weight: wrapperspb.UInt32(uint32(b.Weight))}) //nolint:gosec // bounded when it was put
		}
		a.ClusterSpecifier = &route.RouteAction_WeightedClusters{WeightedClusters: split}
	}
	if r.Timeout > 0 && h.audience.grpc() {
		a.MaxStreamDuration = &route.RouteAction_MaxStreamDuration{MaxStreamDuration: seconds(r.Timeout)}
	}
	if r.Retry != nil {
		a.RetryPolicy = h.retries(r.Retry)
	}
	if b := h.traffic.Balance; b != nil && b.By == "ring-hash" {
		a.HashPolicy = []*route.RouteAction_HashPolicy{h.hash(b)}
	}
	if h.audience.grpc() {
		return a
	}
	for _, m := range r.Mirror {
		a.RequestMirrorPolicies = append(a.RequestMirrorPolicies, &route.RouteAction_RequestMirrorPolicy{
			Cluster: h.sibling(m.Service), RuntimeFraction: &core.RuntimeFractionalPercent{DefaultValue: portion(m.Percent)},
		})
	}
	if w := r.Rewrite; w != nil {
		if w.PathPrefix != "" {
			a.RegexRewrite = rewriteOf(w.Replaced, w.PathPrefix)
		}
		if w.Host != "" {
			a.HostRewriteSpecifier = &route.RouteAction_HostRewriteLiteral{HostRewriteLiteral: w.Host}
		}
	}
	if r.Limit != nil {
		a.RateLimits = []*route.RateLimit{{Actions: []*route.RateLimit_Action{descriptorOf(limitKey, r.Limit.Name)}}}
		if h.shares(r.Limit) {
			a.RateLimits[0].Stage = wrapperspb.UInt32(sharedStage)
			a.RateLimits[0].Actions = append(a.RateLimits[0].Actions, descriptorOf(sharedKey, sharedText(&r.Limit.RateLimit)))
		}
	}
	return a
}

// limitKey names a limit rule in a descriptor.
const limitKey = "rule"

func descriptorOf(key, value string) *route.RateLimit_Action {
	return &route.RateLimit_Action{ActionSpecifier: &route.RateLimit_Action_GenericKey_{
		GenericKey: &route.RateLimit_Action_GenericKey{DescriptorKey: key, DescriptorValue: value},
	}}
}

// shares reports whether a limit is kept by the control plane. A proxy that does not say how to ask it keeps its own.
func (h hosted) shares(l *traffic.Limit) bool { return l.Shared && h.audience.asks }

// sibling is the name of another service's resources, in the same namespace.
func (h hosted) sibling(name string) string { return service{h.namespace, name}.String() }

// matchOf matches requests.
func (h hosted) matchOf(m *traffic.Match) *route.RouteMatch {
	one := &route.RouteMatch{PathSpecifier: &route.RouteMatch_Prefix{Prefix: cmp.Or(m.PathPrefix, "/")}}
	if m.Path != "" {
		one.PathSpecifier = &route.RouteMatch_Path{Path: m.Path}
	}
	among := func(name, pattern string) {
		one.Headers = append(one.Headers, &route.HeaderMatcher{Name: name, HeaderMatchSpecifier: &route.HeaderMatcher_StringMatch{
			StringMatch: &matcher.StringMatcher{MatchPattern: &matcher.StringMatcher_SafeRegex{SafeRegex: &matcher.RegexMatcher{Regex: pattern}}},
		}})
	}
	if len(m.Methods) > 0 && !h.audience.grpc() { // its clients see no methods: all are POST
		among(":method", strings.Join(m.Methods, "|"))
	}
	if len(m.Hosts) > 0 {
		quoted := make([]string, len(m.Hosts))
		for i, host := range m.Hosts {
			quoted[i] = regexp.QuoteMeta(host)
		}
		among(":authority", "(?i:"+strings.Join(quoted, "|")+")(:[0-9]+)?")
	}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		one.Headers = append(one.Headers, &route.HeaderMatcher{Name: name, HeaderMatchSpecifier: &route.HeaderMatcher_StringMatch{
			StringMatch: &matcher.StringMatcher{MatchPattern: &matcher.StringMatcher_Exact{Exact: m.Headers[name]}},
		}})
	}
	return one
}

// rewriteOf exchanges the beginning of a path, which may be all of it.
func rewriteOf(replaced, by string) *matcher.RegexMatchAndSubstitute {
	return &matcher.RegexMatchAndSubstitute{
		Pattern:      &matcher.RegexMatcher{Regex: "^" + regexp.QuoteMeta(cmp.Or(replaced, "/"))},
		Substitution: strings.ReplaceAll(by, `\`, `\\`),
	}
}

// redirects has Envoy's names of the statuses. 0 is 302.
var redirects = map[int]route.RedirectAction_RedirectResponseCode{
	0: route.RedirectAction_FOUND, 301: route.RedirectAction_MOVED_PERMANENTLY, 302: route.RedirectAction_FOUND, 303: route.RedirectAction_SEE_OTHER,
	307: route.RedirectAction_TEMPORARY_REDIRECT, 308: route.RedirectAction_PERMANENT_REDIRECT,
}

func redirectOf(r *traffic.Route) *route.RedirectAction {
	to := r.Redirect
	a := &route.RedirectAction{HostRedirect: to.Host, ResponseCode: redirects[to.Status]}
	if to.HTTPS {
		a.SchemeRewriteSpecifier = &route.RedirectAction_HttpsRedirect{HttpsRedirect: true}
	}
	switch {
	case to.Path != "":
		a.PathRewriteSpecifier = &route.RedirectAction_PathRedirect{PathRedirect: to.Path}
	case to.PathPrefix != "":
		a.PathRewriteSpecifier = &route.RedirectAction_RegexRewrite{RegexRewrite: rewriteOf(r.Replaced, to.PathPrefix)}
	}
	return a
}

// defaultRetries are the conditions of a rule that names none: requests that no instance has carried out, and those
// that it could not carry out.
var defaultRetries = []string{"connect-failure", "reset", "5xx", "unavailable"}

func (h hosted) retries(t *resource.Retries) *route.RetryPolicy {
	on := t.On
	if len(on) == 0 {
		on = defaultRetries
	}
	if h.audience.grpc() {
		on = slices.DeleteFunc(slices.Clone(on), func(one string) bool { return !slices.Contains(traffic.GRPCCodes, one) })
	}
	p := &route.RetryPolicy{RetryOn: strings.Join(on, ","), NumRetries: wrapperspb.UInt32(uint32(t.Attempts))} //nolint:gosec // bounded when it was put
	if t.Backoff > 0 {
		least := max(t.Backoff, traffic.MinBackoff[h.audience.kind])
		p.RetryBackOff = &route.RetryPolicy_RetryBackOff{BaseInterval: seconds(least), MaxInterval: seconds(10 * least)}
	}
	if t.Each > 0 {
		p.PerTryTimeout = seconds(t.Each)
	}
	return p
}

func (h hosted) hash(b *resource.Balancer) *route.RouteAction_HashPolicy {
	switch {
	case b.Header != "":
		return &route.RouteAction_HashPolicy{PolicySpecifier: &route.RouteAction_HashPolicy_Header_{Header: &route.RouteAction_HashPolicy_Header{HeaderName: b.Header}}}
	case h.audience.grpc(): // a client is one caller
		return &route.RouteAction_HashPolicy{PolicySpecifier: &route.RouteAction_HashPolicy_FilterState_{FilterState: &route.RouteAction_HashPolicy_FilterState{Key: "io.grpc.channel_id"}}}
	}
	return &route.RouteAction_HashPolicy{PolicySpecifier: &route.RouteAction_HashPolicy_ConnectionProperties_{
		ConnectionProperties: &route.RouteAction_HashPolicy_ConnectionProperties{SourceIp: true},
	}}
}

// limitsOf makes a bucket of each limit rule, which all routes of the host share.
func limitsOf(buckets map[string]*traffic.Limit) *localratelimit.LocalRateLimit {
	always := &core.RuntimeFractionalPercent{DefaultValue: portion(100)}
	l := &localratelimit.LocalRateLimit{
		StatPrefix: "limit", FilterEnabled: always, FilterEnforced: always,
		// Requests without a rule pass here. The filter needs a bucket for them.
		TokenBucket:                     &percent.TokenBucket{MaxTokens: math.MaxUint32, FillInterval: durationpb.New(time.Second)},
		AlwaysConsumeDefaultTokenBucket: wrapperspb.Bool(false),
		EnableXRatelimitHeaders:         ratelimits.XRateLimitHeadersRFCVersion_OFF,
		RateLimitedAsResourceExhausted:  true,
	}
	for _, name := range slices.Sorted(maps.Keys(buckets)) {
		l.Descriptors = append(l.Descriptors, &ratelimits.LocalRateLimitDescriptor{
			Entries:     []*ratelimits.RateLimitDescriptor_Entry{{Key: limitKey, Value: name}},
			TokenBucket: bucketOf(&buckets[name].RateLimit),
		})
	}
	return l
}

// The shortest time in which Envoy fills a bucket, and the longest that is of use.
const (
	shortestFill = 50 * time.Millisecond
	longestFill  = time.Hour
)

// bucketOf fills a bucket as often as makes a whole number of tokens, within a thousandth of the rate.
func bucketOf(l *resource.RateLimit) *percent.TokenBucket {
	tokens := max(1, math.Round(l.PerSecond*shortestFill.Seconds()))
	every := time.Duration(tokens / l.PerSecond * float64(time.Second))
	if every < shortestFill {
		tokens++
		every = time.Duration(tokens / l.PerSecond * float64(time.Second))
	}
	return &percent.TokenBucket{
		MaxTokens: uint32(min(max(l.Capacity(), tokens), math.MaxUint32)), TokensPerFill: wrapperspb.UInt32(uint32(min(tokens, math.MaxUint32))), FillInterval: durationpb.New(min(every, longestFill)),
	}
}

func faultOf(i *resource.Injected) *fault.HTTPFault {
	f := &fault.HTTPFault{}
	if i.Delay > 0 {
		f.Delay = &faults.FaultDelay{FaultDelaySecifier: &faults.FaultDelay_FixedDelay{FixedDelay: seconds(i.Delay)}, Percentage: portion(cmp.Or(i.DelayPercent, 100))}
	}
	if i.Status > 0 {
		f.Abort = &fault.FaultAbort{ErrorType: &fault.FaultAbort_HttpStatus{HttpStatus: uint32(i.Status)}, Percentage: portion(cmp.Or(i.Percent, 100))} //nolint:gosec // bounded when it was put
	}
	return f
}

// portion converts a percentage; data planes count millionths.
func portion(p float64) *percent.FractionalPercent {
	return &percent.FractionalPercent{Numerator: uint32(math.Round(p * 10_000)), Denominator: percent.FractionalPercent_MILLION}
}

// seconds converts a time of a policy. What is shorter than a millisecond becomes one: 0 has another meaning.
func seconds(s float64) *durationpb.Duration {
	if s > 0 {
		s = max(s, 0.001)
	}
	return durationpb.New(time.Duration(s * float64(time.Second)))
}

// connectTimeout bounds a proxy's connection to an instance.
const connectTimeout = 5 * time.Second

var balancers = map[string]cluster.Cluster_LbPolicy{
	"round-robin": cluster.Cluster_ROUND_ROBIN, "least-request": cluster.Cluster_LEAST_REQUEST, "random": cluster.Cluster_RANDOM, "ring-hash": cluster.Cluster_RING_HASH,
}

// cluster makes the service's cluster. A proxy never sends a
// request to an instance that wants none, even if most want none ("panic threshold").
func (h hosted) cluster() *cluster.Cluster {
	c := &cluster.Cluster{
		Name:                          h.String(),
		ClusterDiscoveryType:          &cluster.Cluster_Type{Type: cluster.Cluster_EDS},
		EdsClusterConfig:              &cluster.Cluster_EdsClusterConfig{EdsConfig: fromADS()},
		ConnectTimeout:                durationpb.New(connectTimeout),
		LbPolicy:                      cluster.Cluster_ROUND_ROBIN,
		CommonLbConfig:                &cluster.Cluster_CommonLbConfig{HealthyPanicThreshold: &percent.Percent{Value: 0}},
		TypedExtensionProtocolOptions: asItsClient(),
		CircuitBreakers:               h.circuits(),
		Metadata:                      metadataOf(h.policies(clusters)),
	}
	if h.audience.domain != "" {
		names := []string{h.name}
		for _, other := range h.traffic.Failover {
			name, _, _ := strings.Cut(other, "@") // another centre's has the identity that it has there
			names = append(names, name)
		}
		c.TransportSocketMatches = []*cluster.Cluster_TransportSocketMatch{{
			Name: tlsMutual, Match: mutualFields(), TransportSocket: mutual(identity.Prefix(h.audience.domain, h.namespace), names),
		}}
	}
	if h.audience.grpc() {
		c.LrsServer = &core.ConfigSource{ConfigSourceSpecifier: &core.ConfigSource_Self{Self: &core.SelfConfigSource{TransportApiVersion: core.ApiVersion_V3}}} // Envoy's are all of one server, which its own configuration names
	}
	if b := h.traffic.Balance; b != nil && traffic.Balances(h.audience.kind, b.By) {
		c.LbPolicy = balancers[b.By]
	}
	if o := h.traffic.Outliers; o != nil && !h.audience.grpc() {
		c.OutlierDetection = &cluster.OutlierDetection{
			Consecutive_5Xx: wrapperspb.UInt32(uint32(o.Errors)), //nolint:gosec // bounded when it was put
			Interval:        seconds(cmp.Or(o.Interval, 10)), BaseEjectionTime: seconds(cmp.Or(o.Ejection, 30)),
			MaxEjectionTime: seconds(max(300, o.Ejection)), MaxEjectionPercent: wrapperspb.UInt32(uint32(cmp.Or(o.MaxPercent, 10))), //nolint:gosec // bounded when it was put
			EnforcingSuccessRate: wrapperspb.UInt32(0),
		}
	}
	return c
}

// asItsClient has a proxy use its client's protocol, HTTP/1.1 or HTTP/2.
func asItsClient() map[string]*anypb.Any {
	return map[string]*anypb.Any{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": packed(&upstream.HttpProtocolOptions{
		UpstreamProtocolOptions: &upstream.HttpProtocolOptions_UseDownstreamProtocolConfig{
			UseDownstreamProtocolConfig: &upstream.HttpProtocolOptions_UseDownstreamHttpConfig{
				HttpProtocolOptions: &core.Http1ProtocolOptions{}, Http2ProtocolOptions: &core.Http2ProtocolOptions{},
			},
		},
	})}
}

// defaultBudget is the share of requests under way that may be retries, where rules set none.
const defaultBudget = 20

// circuits bounds requests under way. Envoy's own bounds are 1024 of each, and three retries. Here there are none,
// apart from a budget of retries, unless a rule sets them.
func (h hosted) circuits() *cluster.CircuitBreakers {
	t := &cluster.CircuitBreakers_Thresholds{}
	bounds := resource.Circuits{}
	if h.traffic.Circuit != nil {
		bounds = *h.traffic.Circuit
	}
	bound := func(n int) *wrapperspb.UInt32Value {
		if n == 0 {
			n = math.MaxInt32
		}
		return wrapperspb.UInt32(uint32(n)) //nolint:gosec // bounded when it was put
	}
	t.MaxConnections, t.MaxPendingRequests, t.MaxRequests = bound(bounds.Connections), bound(bounds.Pending), bound(bounds.Requests)
	if bounds.Retries > 0 {
		t.MaxRetries = bound(bounds.Retries)
		return &cluster.CircuitBreakers{Thresholds: []*cluster.CircuitBreakers_Thresholds{t}}
	}
	budget := 0.0
	for _, r := range h.traffic.Retries {
		budget = max(budget, r.Budget)
	}
	t.RetryBudget = &cluster.CircuitBreakers_Thresholds_RetryBudget{BudgetPercent: &percent.Percent{Value: cmp.Or(budget, defaultBudget)}}
	return &cluster.CircuitBreakers{Thresholds: []*cluster.CircuitBreakers_Thresholds{t}}
}

// noInstances is the assignment of a service without instances.
func noInstances(name string) *built {
	return seal(assignments, &endpoint.ClusterLoadAssignment{ClusterName: name}, 0, nil)
}
