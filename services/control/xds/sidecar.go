package xds

import (
	"maps"
	"slices"
	"strings"

	matchers "github.com/cncf/xds/go/xds/core/v3"
	matching "github.com/cncf/xds/go/xds/type/matcher/v3"
	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacs "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	rbac "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	ssl "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/ssl/v3"
	tls "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcher "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"dyno/services/control/identity"
	"dyno/services/control/resource"
)

// A proxy's own resources, by kind and name. No service has such a name.
const (
	outboundName = "/outbound" // the listener that leads to all services
	inboundName  = "/inbound"  // the listener, the routes and the cluster of the proxy's own service
	identityName = "/identity" // the service's certificate
	rootsName    = "/roots"    // the authority's
)

// rbacFilter lets those in who may be.
const rbacFilter = "envoy.filters.http.rbac"

// own returns a proxy's own resource of a name; nil is none.
func (s *session) own(k kind, name string) *built {
	switch {
	case k == listeners && name == outboundName && s.node.outbound != nil:
		return seal(k, outbound(s.node.outbound, s.node.control), 0, nil)
	case k == listeners && name == inboundName && s.node.inbound != nil:
		return seal(k, inbound(s.node.inbound), 0, nil)
	case k == clusters && name == inboundName && s.node.inbound != nil:
		return seal(k, local(s.node.forward), 0, nil)
	case k == routes && name == inboundName && s.node.inbound != nil:
		h := s.view.hosted(s.node.service, &s.node.audience)
		return seal(k, h.inboundRoutes(s.node.audience.domain), 0, h.policies(routes))
	case k == secrets && s.certificate != nil && name == identityName:
		return seal(k, &tls.Secret{Name: name, Type: &tls.Secret_TlsCertificate{TlsCertificate: &tls.TlsCertificate{
			CertificateChain: inline(s.certificate.Chain), PrivateKey: inline(s.certificate.Key),
		}}}, 0, nil)
	case k == secrets && s.certificate != nil && name == rootsName:
		return seal(k, &tls.Secret{Name: name, Type: &tls.Secret_ValidationContext{ValidationContext: &tls.CertificateValidationContext{TrustedCa: inline(s.roots)}}}, 0, nil)
	}
	return nil
}

// isOwn reports whether a name is of a proxy's own resources.
func isOwn(name string) bool { return len(name) > 0 && name[0] == '/' }

func inline(text []byte) *core.DataSource {
	return &core.DataSource{Specifier: &core.DataSource_InlineBytes{InlineBytes: text}}
}

func listenerAt(name string, address *core.SocketAddress, manager *hcm.HttpConnectionManager, secured *core.TransportSocket) *listener.Listener {
	return &listener.Listener{
		Name: name, Address: &core.Address{Address: &core.Address_SocketAddress{SocketAddress: address}},
		FilterChains: []*listener.FilterChain{{
			Filters: []*listener.Filter{{
				Name:       "envoy.filters.network.http_connection_manager",
				ConfigType: &listener.Filter_TypedConfig{TypedConfig: packed(manager)},
			}},
			TransportSocket: secured,
		}},
	}
}

// inbound makes a proxy's listener for its own service's requests. Callers show certificates of the authority.
func inbound(address *core.SocketAddress) *listener.Listener {
	manager := managerOf("inbound", inboundName, filterOf(rbacFilter, &rbac.RBAC{}))
	manager.ForwardClientCertDetails = hcm.HttpConnectionManager_SANITIZE_SET
	manager.SetCurrentClientCertDetails = &hcm.HttpConnectionManager_SetCurrentClientCertDetails{Uri: true}
	return listenerAt(inboundName, address, manager, secured(&tls.DownstreamTlsContext{
		RequireClientCertificate: wrapperspb.Bool(true),
		CommonTlsContext: &tls.CommonTlsContext{
			AlpnProtocols:                  []string{"h2", "http/1.1"},
			TlsCertificateSdsSecretConfigs: []*tls.SdsSecretConfig{fetched(identityName)},
			ValidationContextType:          &tls.CommonTlsContext_ValidationContextSdsSecretConfig{ValidationContextSdsSecretConfig: fetched(rootsName)},
		},
	}))
}

// secured makes a transport socket of a TLS context.
func secured(context proto.Message) *core.TransportSocket {
	return &core.TransportSocket{Name: "envoy.transport_sockets.tls", ConfigType: &core.TransportSocket_TypedConfig{TypedConfig: packed(context)}}
}

// fetched names a secret that comes on the same stream. So it is exchanged without a new listener or cluster.
func fetched(name string) *tls.SdsSecretConfig {
	return &tls.SdsSecretConfig{Name: name, SdsConfig: fromADS()}
}

// mutual is the transport socket to instances of a service that want the caller's certificate. It verifies the service's. The
// protocol (ALPN) is that of the connection's requests.
func mutual(prefix string, services []string) *core.TransportSocket {
	var names []*tls.SubjectAltNameMatcher
	for _, one := range services {
		names = append(names, &tls.SubjectAltNameMatcher{
			SanType: tls.SubjectAltNameMatcher_URI,
			Matcher: &matcher.StringMatcher{MatchPattern: &matcher.StringMatcher_Exact{Exact: prefix + one}},
		})
	}
	return secured(&tls.UpstreamTlsContext{CommonTlsContext: &tls.CommonTlsContext{
		TlsCertificateSdsSecretConfigs: []*tls.SdsSecretConfig{fetched(identityName)},
		ValidationContextType: &tls.CommonTlsContext_CombinedValidationContext{CombinedValidationContext: &tls.CommonTlsContext_CombinedCertificateValidationContext{
			DefaultValidationContext:         &tls.CertificateValidationContext{MatchTypedSubjectAltNames: names},
			ValidationContextSdsSecretConfig: fetched(rootsName),
		}},
	}})
}

// tlsLabel of an instance's metadata, with the value tlsMutual, says that its callers must show certificates.
const (
	tlsLabel  = "tls"
	tlsMutual = "mutual"
)

// socketMatch is Envoy's key of what chooses an instance's transport socket.
const socketMatch = "envoy.transport_socket_match"

func mutualFields() *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{tlsLabel: structpb.NewStringValue(tlsMutual)}}
}

// local is the cluster of a proxy's own service, on its machine.
func local(port uint32) *cluster.Cluster {
	return &cluster.Cluster{
		Name: inboundName, ClusterDiscoveryType: &cluster.Cluster_Type{Type: cluster.Cluster_STATIC}, ConnectTimeout: durationpb.New(connectTimeout),
		LoadAssignment: &endpoint.ClusterLoadAssignment{ClusterName: inboundName, Endpoints: []*endpoint.LocalityLbEndpoints{{
			LbEndpoints: []*endpoint.LbEndpoint{{HostIdentifier: &endpoint.LbEndpoint_Endpoint{Endpoint: &endpoint.Endpoint{Address: &core.Address{
				Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{Address: "127.0.0.1", PortSpecifier: &core.SocketAddress_PortValue{PortValue: port}}},
			}}}}},
		}}},
		TypedExtensionProtocolOptions: asItsClient(),
	}
}

// inboundRoutes lead to the proxy's own service those whom access rules let in.
func (h hosted) inboundRoutes(domain string) *route.RouteConfiguration {
	from := h.policies(routes)
	v := &route.VirtualHost{Name: inboundName, Domains: []string{"*"}, Metadata: metadataOf(from), Routes: []*route.Route{{
		Match:  &route.RouteMatch{PathSpecifier: &route.RouteMatch_Prefix{Prefix: "/"}},
		Action: &route.Route_Route{Route: &route.RouteAction{ClusterSpecifier: &route.RouteAction_Cluster{Cluster: inboundName}, Timeout: durationpb.New(0)}},
	}}}
	if len(h.traffic.Access) > 0 {
		v.TypedPerFilterConfig = map[string]*anypb.Any{rbacFilter: packed(&rbac.RBACPerRoute{Rbac: &rbac.RBAC{Matcher: accessMatcher(h.traffic.Access, domain)}})}
	}
	return &route.RouteConfiguration{Name: inboundName, VirtualHosts: []*route.VirtualHost{v}}
}

// accessMatcher decides by the first rule that matches; without one, it allows.
func accessMatcher(rules []resource.Rule, domain string) *matching.Matcher {
	action := func(name string, a rbacs.RBAC_Action) *matching.Matcher_OnMatch {
		return &matching.Matcher_OnMatch{OnMatch: &matching.Matcher_OnMatch_Action{Action: &matchers.TypedExtensionConfig{
			Name: name, TypedConfig: packed(&rbacs.Action{Name: name, Action: a}),
		}}}
	}
	list := &matching.Matcher_MatcherList{}
	m := &matching.Matcher{OnNoMatch: action("allow", rbacs.RBAC_ALLOW)}
	for i := range rules {
		does := action("allow", rbacs.RBAC_ALLOW)
		if rules[i].Action == resource.Deny {
			does = action("deny", rbacs.RBAC_DENY)
		}
		matches := predicateOf(&rules[i].Match, domain)
		if matches == nil {
			m.OnNoMatch = does
			break
		}
		list.Matchers = append(list.Matchers, &matching.Matcher_MatcherList_FieldMatcher{Predicate: matches, OnMatch: does})
	}
	if len(list.Matchers) > 0 {
		m.MatcherType = &matching.Matcher_MatcherList_{MatcherList: list}
	}
	return m
}

type predicate = matching.Matcher_MatcherList_Predicate

// predicateOf is the conjunction of what a match has; nil matches everything.
func predicateOf(m *resource.Match, domain string) *predicate {
	var all []*predicate
	header := func(name string, matches ...*matching.StringMatcher) {
		all = append(all, oneOf("envoy.matching.inputs.request_headers", &matcher.HttpRequestHeaderMatchInput{HeaderName: name}, matches))
	}
	if len(m.Identities) > 0 {
		var ids []*matching.StringMatcher
		for _, one := range m.Identities {
			ids = append(ids, identityMatcher(one, domain))
		}
		all = append(all, oneOf("envoy.matching.inputs.uri_san", &ssl.UriSanInput{}, ids))
	}
	if len(m.Methods) > 0 {
		header(":method", exactly(m.Methods)...)
	}
	if len(m.Hosts) > 0 {
		matches := exactly(m.Hosts)
		for _, host := range m.Hosts {
			matches = append(matches, beginning(host+":")) // with a port
		}
		header(":authority", matches...)
	}
	switch {
	case m.Path != "": // with any query
		header(":path", append(exactly([]string{m.Path}), beginning(m.Path+"?"))...)
	case m.PathPrefix != "":
		header(":path", beginning(m.PathPrefix))
	}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		header(strings.ToLower(name), exactly([]string{m.Headers[name]})...)
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return &predicate{MatchType: &matching.Matcher_MatcherList_Predicate_AndMatcher{AndMatcher: &matching.Matcher_MatcherList_Predicate_PredicateList{Predicate: all}}}
}

// oneOf holds if an input matches one of a list.
func oneOf(name string, input proto.Message, matches []*matching.StringMatcher) *predicate {
	var any []*predicate
	for _, m := range matches {
		any = append(any, &predicate{MatchType: &matching.Matcher_MatcherList_Predicate_SinglePredicate_{SinglePredicate: &matching.Matcher_MatcherList_Predicate_SinglePredicate{
			Input:   &matchers.TypedExtensionConfig{Name: name, TypedConfig: packed(input)},
			Matcher: &matching.Matcher_MatcherList_Predicate_SinglePredicate_ValueMatch{ValueMatch: m},
		}}})
	}
	if len(any) == 1 {
		return any[0]
	}
	return &predicate{MatchType: &matching.Matcher_MatcherList_Predicate_OrMatcher{OrMatcher: &matching.Matcher_MatcherList_Predicate_PredicateList{Predicate: any}}}
}

func exactly(values []string) (list []*matching.StringMatcher) {
	for _, v := range values {
		list = append(list, &matching.StringMatcher{MatchPattern: &matching.StringMatcher_Exact{Exact: v}})
	}
	return list
}

func beginning(prefix string) *matching.StringMatcher {
	return &matching.StringMatcher{MatchPattern: &matching.StringMatcher_Prefix{Prefix: prefix}}
}

// identityMatcher matches the SPIFFE ID of NAMESPACE/SERVICE, or of any service with NAMESPACE/*.
func identityMatcher(one, domain string) *matching.StringMatcher {
	namespace, name, _ := strings.Cut(one, "/")
	if name == "*" {
		return beginning(identity.Prefix(domain, namespace))
	}
	return exactly([]string{identity.Prefix(domain, namespace) + name})[0]
}
