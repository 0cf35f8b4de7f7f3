// Package xds serves the control plane's services over xDS, version 3: the protocol by which gRPC's clients
// (xds:///shop.default) and Envoy find services. It implements the aggregated discovery service (ADS), in both
// variants, state of the world and incremental ("delta"):
//
// A service SERVICE in a namespace NAMESPACE has the name SERVICE.NAMESPACE, as long as it has an instance. Four
// resources have that name:
//
//	Listener               of gRPC's kind (an API listener), which refers to the routes
//	RouteConfiguration     requests go to the cluster, or as policies say
//	Cluster                its instances come by EDS, and take turns
//	ClusterLoadAssignment  the instances: addresses, zones, weights, health
//
// A listener is also found as SERVICE, without a dot: that is the one in the namespace "default". The routes
// "services" lead to all services, by host: they are for a proxy, which may have a listener for them.
//
// # Order
//
// Traffic never goes to a cluster that does not exist yet, or not any more. A new cluster is sent first, then its
// instances. After the client has acknowledged both, it gets listeners and routes that refer to them. Removals have
// the opposite order: listeners and routes first, and after the acknowledgement the cluster. The server waits for
// acknowledgements for up to Config.Patience.
//
// A refusal (NACK) counts as an answer: listeners and routes are then sent as after an acknowledgement. The protocol
// requires clusters to be in place before routes lead to them, and they are. Envoy ends the warming of a cluster
// whose instances it has refused. A gRPC client fails its calls with the reason. The client keeps its previous
// version of such a service. A refusal covers a whole response, and does not name the wrong resource; the client may
// use the others. If routes were held back, one unusable service would block up to a thousand others. Its own
// requests would fail anyway, with 404 instead of 503. A service's rollout lists refusals, with their reasons.
//
// # Bounds
//
// A client has at most one unanswered response of each type. Changes meanwhile are remembered by name, once. So a
// slow client costs as much memory as its names, and then gets the newest state. A client that accepts nothing for
// Config.WriteTimeout is disconnected.
//
// # Versions
//
// A resource's version is a hash of its content. All replicas have the same versions, also after a restart: no client
// gets a resource again that it has. A response's version is the store's epoch and a revision; its resources are not
// newer. In the incremental variant, each resource's version has the response's after an "@". A client returns with
// these. A replica that does not know the revision yet waits for a second, and then refuses the stream (UNAVAILABLE): it
// would take back policies and instances that the client has.
//
// # Why it is our own
//
// go-control-plane has a server with caches. It orders only responses that are ready at the same time, and waits for
// no acknowledgement. Its snapshot cache does not answer ADS clients that ask for a part of a snapshot's resources.
// Its other cache is for one type only. Neither checks a principal's permissions. So this package uses only its
// messages.
//
// To read the source: name.go has the names of services, translate.go and policy.go their resources, and session.go the
// responses to one client and their order. These do no I/O. cache.go follows the catalog for all clients, and server.go carries
// the messages.
package xds
