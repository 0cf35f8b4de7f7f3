// Package xds has the control plane's services found over xDS, version 3: the protocol by
// which gRPC's clients (xds:///shop.default) and Envoy learn where services are. It is the
// aggregated discovery service (ADS), state of the world and incremental ("delta"), as
// https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol describes it.
//
// A service SERVICE in a namespace NAMESPACE is found as SERVICE.NAMESPACE, for as long as
// it has an instance. There are four resources of that name:
//
//	Listener               of gRPC's kind (an API listener), which refers to the routes
//	RouteConfiguration     all requests go to the cluster
//	Cluster                its instances come by EDS, and take turns
//	ClusterLoadAssignment  the instances: addresses, zones, weights, health
//
// A listener may also be asked for as SERVICE, without a dot: that is the one in the
// namespace "default". The routes "services" lead to all services, by host: they are for a
// proxy.
//
// # Order
//
// Traffic never meets what is not there yet, or is gone already: a new cluster is told
// first, then its instances, and when the client has acknowledged both, listeners and
// routes that refer to it. What goes is told in the other direction: listeners and routes
// first, and when the client has acknowledged that, the cluster. A client that acknowledges
// nothing is waited for, for Config.Patience.
//
// A refusal (NACK) is an answer, too: listeners and routes are then told as after an
// acknowledgement. The protocol wants clusters to be in place before routes lead to them,
// and they are: Envoy ends the warming of a cluster whose instances it has refused, and a
// client of gRPC fails its calls with the reason. What the client had before of such a
// service, it keeps. A refusal is of a whole response, whose other instances the client may
// well use, and does not say which one was wrong. Were routes held back, one service that a
// client cannot use would keep it from up to a thousand others, and its own requests would
// fail all the same, as if there was no such service (404 rather than 503). Who has refused
// what, and why, is in the service's rollout.
//
// # Bounds
//
// A client has one response of each type that it has not answered. Whatever changes
// meanwhile is remembered by name, once: a slow client costs as much memory as the names
// that it asked for, and then gets the newest. One that takes nothing for
// Config.WriteTimeout is ended.
//
// # Versions
//
// A resource's version is a hash of its content. All replicas have the same ones, also
// after a restart: nobody is sent again what he has. A response's version is the store's
// epoch and the revision as of which it holds; its resources may be newer.
//
// # Why it is our own
//
// go-control-plane has a server with caches. Its order is that of responses that happen to
// be ready at the same time: it waits for no acknowledgement. Its cache of snapshots
// answers no client of ADS that asks for some of a snapshot's resources, and the other one
// knows nothing of other types. Neither knows what a principal may read. So only the
// messages are from there.
//
// To read the source: name.go says how services are called, translate.go what their
// resources are, session.go what one client is to be told and when; these do no I/O.
// cache.go follows the catalog for all clients, and server.go carries the messages.
package xds
