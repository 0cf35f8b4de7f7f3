// Package control is the control plane as a service: discovery, configuration and policy over HTTP and gRPC, kept in
// etcd. etcd is embedded unless a cluster is given.
//
//	server, err := control.New(config)
//	err = server.Serve(ctx)
//
// # Packages
//
//	resource  what is kept, what makes it valid, and when a silent instance is gone; pure
//	store     keys in etcd: group commit, followers, what happens when the disk is full
//	backup    the file that a control plane is backed up to
//	audit     who changed what
//	catalog   what a replica knows
//	push      sends changes to a replica's watchers
//	plane     the operations on resources, without a protocol
//	access    who may do what; pure
//	health    checks of instances: when, how, and what many results in a row say
//	traffic   compiles policies into routes; pure
//	identity  certificates that say which service a program is
//	message   resources as messages of Protocol Buffers
//	follow    copies another control plane
//	rest      HTTP; rpc: gRPC; xds: Envoy and gRPC's clients; dns
//	console   files for a browser
//	program   the command line, dyno-control
//	client    for programs that use the control plane
//	imports   reads what Consul and Nacos export; pure
//	ctl       dyno ctl, the command line of users, part of dyno
//	clients   programs in other languages that use the control plane
//	faults    only tests: replicas and members are killed, stopped and cut off under load
//
// client links nothing of the server but resource; client/transport and client/guard, which obey policies, also traffic.
//
// # How it works
//
// A plane.Watch is a cursor into the changes of a replica. Server-sent events, the long poll and gRPC's streams read
// the same cursor, so their tokens are the same. A token names a place in the order in which a replica learnt of
// changes. It is not the revision of a resource. If a replica missed changes, it lists the state, and gives all of it
// one place: the order in between is not known.
//
// A change is conditional: it applies to the version of the resource that was read. The resource, its history, its
// audit note and the record of its key change in one etcd transaction. If the resource has changed by then, the plane
// repeats the change on the new version. Group commit is below that: each request in a group keeps its own
// conditions.
//
// A read waits until the replica knows the newest revision that any replica had acknowledged before the read. The
// clocks of machines only serve notes to people. The stored form is JSON.
package control

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"

	"dyno/services/control/backup"
	"dyno/services/control/catalog"
	"dyno/services/control/dns"
	"dyno/services/control/follow"
	"dyno/services/control/identity"
	"dyno/services/control/plane"
	"dyno/services/control/resource"
	"dyno/services/control/rest"
	"dyno/services/control/rpc"
	"dyno/services/control/store"
	"dyno/services/control/xds"
	"dyno/services/internal/flood"
	"dyno/services/internal/oidc"
	"dyno/services/internal/serve"
)

// A Server is one control plane, or one replica of one. Listen and Serve may be called
// once each.
type Server struct {
	cfg      Config
	host     *serve.Host
	log      *slog.Logger
	files    *files
	listener net.Listener
	grpc     net.Listener // nil without one
	names    net.Listener // of DNS; nil without it
	packets  net.PacketConn
	server   *http.Server
	web      connections
	calling  connections
}

// New checks cfg and returns a Server that does nothing yet. The error lists every fault.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg}
	var err error
	if s.host, err = serve.New(serve.Config{
		Name: "control", AdminListener: cfg.AdminListener, AllowRemote: cfg.AllowRemote, DrainTimeout: cfg.DrainTimeout, Logger: cfg.Logger,
	}); err != nil {
		return nil, err
	}
	s.log = s.host.Logger()
	if s.files, err = readFiles(cfg, s.host.Files()); err != nil {
		return nil, err
	}
	s.web.protocol, s.calling.protocol = "http", "grpc"
	s.server = &http.Server{
		ReadTimeout: cfg.ReadTimeout, WriteTimeout: cfg.WriteTimeout, IdleTimeout: cfg.IdleTimeout,
		MaxHeaderBytes: 64 << 10, Protocols: serve.Protocols(cfg.HTTP2), ConnState: s.web.changed,
		HTTP2: &http.HTTP2Config{
			WriteByteTimeout: cfg.WriteTimeout, // a deadline alone does not end a handler whose connection accepts no bytes
		},
		ErrorLog: serve.ErrorLog(s.log),
	}
	s.server.TLSConfig = s.files.certificates.Web(tls.VerifyClientCertIfGiven, cfg.HTTP2)
	return s, flood.Guard(s.server, s.log)
}

// Listen opens the listeners. After it has returned nil, Addr is known and clients may connect; they are answered
// once Serve has opened the store.
func (s *Server) Listen() error {
	l, err := serve.Listen(context.Background(), s.cfg.Listen, nil)
	if err != nil {
		return err
	}
	s.listener = l
	if err := s.listenMore(); err != nil {
		return errors.Join(err, s.unlisten())
	}
	return nil
}

// listenMore opens the optional listeners.
func (s *Server) listenMore() (err error) {
	ctx := context.Background()
	if s.cfg.GRPC != "" {
		if s.grpc, err = serve.Listen(ctx, s.cfg.GRPC, nil); err != nil {
			return err
		}
	}
	if s.cfg.DNS != "" {
		if s.names, err = serve.Listen(ctx, s.cfg.DNS, nil); err != nil {
			return err
		}
		if s.packets, err = new(net.ListenConfig).ListenPacket(ctx, "udp", s.names.Addr().String()); err != nil {
			return err
		}
	}
	return s.host.Listen()
}

// unlisten closes the listeners for clients.
func (s *Server) unlisten() error {
	err := s.listener.Close()
	for _, l := range []net.Listener{s.grpc, s.names} {
		if l != nil {
			err = errors.Join(err, l.Close())
		}
	}
	if s.packets != nil {
		err = errors.Join(err, s.packets.Close())
	}
	return err
}

// Addr is where clients connect; nil before Listen.
func (s *Server) Addr() net.Addr {
	if s.listener == nil {
		return nil
	}
	return s.listener.Addr()
}

// GRPCAddr is where gRPC clients connect; nil without gRPC or before Listen.
func (s *Server) GRPCAddr() net.Addr {
	if s.grpc == nil {
		return nil
	}
	return s.grpc.Addr()
}

// DNSAddr is where DNS listens; nil without DNS or before Listen.
func (s *Server) DNSAddr() net.Addr {
	if s.names == nil {
		return nil
	}
	return s.names.Addr()
}

// AdminAddr is where the admin listener listens; nil without one or before Listen.
func (s *Server) AdminAddr() net.Addr { return s.host.AdminAddr() }

// Serve opens the store, answers clients until ctx ends, and then drains. While it drains, requests end, watchers are
// asked to reconnect, and waiting changes are written to the store. It calls Listen unless that has been done. It
// returns nil after draining, otherwise the error that ended it.
func (s *Server) Serve(ctx context.Context) (err error) {
	if s.listener == nil {
		if err := s.Listen(); err != nil {
			return err
		}
	}
	unserved := func(err error) error {
		return errors.Join(err, s.unlisten(), s.host.Close())
	}
	opening, cancel := context.WithTimeout(ctx, s.cfg.OpenTimeout)
	defer cancel()
	sc := s.cfg.Store
	sc.RequestBytes = max(sc.RequestBytes, s.cfg.Plane.Limits.Change())
	sc.Logger = s.log
	st, err := store.Open(opening, sc)
	if err != nil {
		return unserved(err)
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	pc := s.cfg.Plane
	pc.Logger, pc.Book, pc.Primary, pc.Centres = s.log, s.files.book, s.cfg.Follow.Primary(), s.cfg.Follow.CentreNames()
	p, err := plane.Open(opening, st, pc)
	if err != nil {
		return unserved(err)
	}
	defer p.Close()
	if pc.Primary != "" {
		unfollow, err := follow.Start(opening, s.cfg.Follow, p, s.log)
		if err != nil {
			return unserved(err)
		}
		defer unfollow()
	}
	leave, err := follow.StartCentres(s.cfg.Follow, p, s.log)
	if err != nil {
		return unserved(err)
	}
	defer leave()
	ac := s.cfg.api()
	gate := plane.NewGate(s.files.book, s.cfg.Rate, s.cfg.Burst)
	if oc := s.cfg.OIDC; oc.Issuer != "" {
		oc.Logger = s.log
		gate.People = oidc.New(oc)
		defer gate.People.Close()
	}
	ac.Plane, ac.Gate, ac.Logger = p, gate, s.log
	s.files.changed = func(c Config) {
		gate.SetRate(c.Rate, c.Burst)
		p.SetLimits(c.Plane.Limits)
	}
	var endTraces func()
	if ac.Tracer, endTraces, err = s.openTraces(ctx); err != nil {
		return unserved(err)
	}
	defer endTraces()
	api, err := rest.New(ac)
	if err != nil {
		return unserved(err)
	}
	defer api.Close()
	s.server.Handler = api
	if s.cfg.Tune != nil {
		s.cfg.Tune(s.server)
	}
	s.host.Registry().MustRegister(st, p, api, &s.web)
	parts := []serve.Part{
		{Name: "api", Serve: func() error { return serve.HTTP(s.server, s.listener) }, Drain: func(ctx context.Context) int { return s.drain(ctx, api) }},
		watchdog(st),
	}
	if s.grpc != nil {
		s.log.Info("grpc", "address", s.grpc.Addr().String())
		authority, err := s.cfg.authority(opening, st)
		if err != nil {
			return unserved(err)
		}
		discovery := s.discovery(p, authority)
		defer discovery.Close()
		calls := s.calls(p, gate, discovery)
		s.host.Registry().MustRegister(calls, discovery, &s.calling)
		parts = append(parts, serve.Part{Name: "grpc", Serve: func() error { return calls.Serve(s.calling.counted(s.grpc)) }, Drain: func(ctx context.Context) int {
			discovery.Close()
			return calls.Close(ctx)
		}})
	}
	if s.names != nil {
		s.log.Info("dns", "address", s.names.Addr().String())
		d := dns.NewServer(&dns.Zone{
			Domain: s.cfg.Domain, TTL: namesTTL, Find: finder(p), Below: p.HasServiceBelow,
			Consul: s.cfg.ConsulDomain, Datacenter: s.cfg.ConsulDatacenter, Namespace: resource.DefaultNamespace,
		}, s.packets, s.names)
		parts = append(parts, serve.Part{Name: "dns", Serve: d.Serve, Drain: d.Close})
	}
	where := "embedded in " + sc.Dir
	if !sc.Embedded() {
		where = fmt.Sprintf("a cluster at %v", sc.Endpoints)
	}
	s.log.Info("listening", "address", s.Addr().String(), "store", where, "epoch", st.Epoch(), "replica", pc.Replica)
	return s.host.Run(ctx, parts...)
}

// discovery makes the xDS server. It shares the port of the gRPC API: its callers have the same tokens, certificates
// and rates, and one address is enough.
func (s *Server) discovery(p *plane.Plane, authority *identity.Authority) *xds.Server {
	c := xds.Defaults()
	c.Authority, c.CertificateTTL = authority, s.cfg.CertificateTTL
	c.Plane, c.Logger, c.Caller = p, s.log, rpc.Caller
	c.MaxStreams, c.WriteTimeout = s.cfg.MaxWatchers, s.cfg.WriteTimeout
	return xds.New(c)
}

// calls makes the gRPC API. A client's rate limit covers both APIs together.
func (s *Server) calls(p *plane.Plane, gate *plane.Gate, discovery *xds.Server) *rpc.API {
	c := rpc.Defaults()
	c.More = discovery.Register
	c.Plane, c.Gate, c.Logger = p, gate, s.log
	c.TLS = s.files.certificates.Config(tls.VerifyClientCertIfGiven, "h2")
	c.MaxWatchers, c.WriteTimeout = s.cfg.MaxWatchers, s.cfg.WriteTimeout
	return rpc.New(c)
}

// namesTTL is the TTL of DNS answers in seconds, and maxNames their largest number of instances.
const (
	namesTTL = 5
	maxNames = 1000
)

// finder finds instances that accept requests, as this replica knows them: those of the service, else of the first
// that replaces it by a policy, else overdue ones.
func finder(p *plane.Plane) func(namespace, service, tag string) ([]dns.Endpoint, bool) {
	return func(namespace, service, tag string) (list []dns.Endpoint, found bool) {
		r := resource.Ref{Kind: resource.Instances, Namespace: namespace, Name: service, ID: "x"}
		if r.Check() != nil || !resource.IsPlain(service) {
			return nil, false
		}
		good, late, found := endpoints(p, namespace, service, tag)
		if len(good) > 0 {
			return good, true
		}
		for _, other := range p.Failover(namespace, service) {
			good, _, known := endpoints(p, namespace, other, tag)
			if found = found || known; len(good) > 0 {
				return good, true
			}
		}
		return late, found
	}
}

// endpoints returns a service's instances that accept requests, the overdue ones apart, and whether there are any at all. A
// tag is an entry of their metadata.
func endpoints(p *plane.Plane, namespace, service, tag string) (good, late []dns.Endpoint, found bool) {
	all, _ := p.ServiceInstances(namespace, service)
	items := slices.DeleteFunc(slices.Clone(all), func(i *catalog.Item) bool {
		one := i.Resource.(*resource.Instance)
		tagged := tag == ""
		for name := range one.Metadata {
			name = strings.ToLower(name)
			tagged = tagged || name == tag
			found = found || strings.HasSuffix(name, "."+tag)
		}
		found = found || tagged
		return !tagged || !one.Accepts()
	})
	overdue := p.Overdue(items)
	first := 0
	if len(items) > maxNames { // a random part each time
		first = rand.IntN(len(items))
	}
	for n := 0; n < len(items) && len(good) < maxNames; n++ {
		at := (first + n) % len(items)
		i := items[at].Resource.(*resource.Instance)
		e := dns.Endpoint{Host: i.Address, Port: uint16(i.Port), Weight: i.Weight} //nolint:gosec // bounded when it was put
		if overdue[at] {
			late = append(late, e)
		} else {
			good = append(good, e)
		}
	}
	return good, late[:min(len(late), maxNames)], found
}

// drain waits for requests, and ends watches, which would never end.
func (s *Server) drain(ctx context.Context, api *rest.API) (cut int) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		api.Close()
	}()
	if err := s.server.Shutdown(ctx); err != nil {
		_ = s.server.Close() // closes the remaining connections
		cut = 1
	}
	<-ended
	return cut
}

// watchdog ends the server when the embedded etcd has ended by itself.
func watchdog(st *store.Store) serve.Part {
	done := make(chan struct{})
	return serve.Part{
		Name: "etcd",
		Serve: func() error {
			select {
			case <-st.Failed():
				return errors.New("the embedded etcd has stopped: the log says why")
			case <-done:
				return nil
			}
		},
		Drain: func(context.Context) int { close(done); return 0 },
	}
}

// Restore fills cfg's store from a backup file. Call it before the store is served for the first time. It reads the
// file twice, and writes nothing unless the whole file is valid.
func Restore(ctx context.Context, cfg store.Config, file io.ReadSeeker) error {
	return store.Fill(ctx, cfg, func(put func(key string, value []byte) error) error {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		_, err := backup.Read(file, put)
		return err
	})
}
