// Package transport is an http.RoundTripper that finds services and obeys the policies for them, without a proxy:
//
//	t, err := transport.New(c, transport.Config{Labels: map[string]string{"app": "web"}})
//	defer t.Close()
//	response, err := (&http.Client{Transport: t}).Get("http://shop/orders")
//
// The host of a request names a service: "shop", or "shop.default" with its namespace, which must be the watch's. Rules
// hold as in a proxy (package traffic). Instances are those of the last snapshot: without a server, the last known ones.
//
// What it cannot do: limits that callers share, bounds on connections and on requests that wait for one, redirects other than by an answer to the
// caller, and repeating a request with a body that cannot be read again (http.Request.GetBody).
package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dyno/internal/rate"
	"dyno/services/control/client"
	"dyno/services/control/resource"
	"dyno/services/control/traffic"
)

// Config configures a Transport.
type Config struct {
	Namespace string            // of services and policies; "" is "default"
	Labels    map[string]string // of this caller, for rules with sources
	Zone      string            // for rules that prefer it
	Base      http.RoundTripper // carries requests to instances; nil is http.DefaultTransport
}

// A Transport carries requests to services. Its methods may be called from any goroutine.
type Transport struct {
	cfg    Config
	base   http.RoundTripper
	watch  *client.Watch
	limits *rate.Limiter
	began  time.Time

	ctx    context.Context
	stop   context.CancelFunc
	known  chan struct{} // closed with the first snapshot
	ended  chan struct{}
	copies chan struct{} // slots of mirrored requests under way

	mu       sync.Mutex // guards what follows
	policies []*resource.Policy
	hosts    map[string]string               // services by the hosts that policies name
	services map[string]*service             // what is known of services that were called, or have instances
	present  map[string][]*resource.Instance // by service
}

// Bounds of what is remembered, and of copies of requests under way.
const (
	maxLimits = 10_000
	maxCopies = 64
)

// New returns a Transport, which watches until Close.
func New(c *client.Client, cfg Config) (*Transport, error) {
	if cfg.Namespace == "" {
		cfg.Namespace = resource.DefaultNamespace
	}
	watch, err := c.Watch(client.Query{Namespace: cfg.Namespace, Kinds: []resource.Kind{resource.Policies, resource.Instances}})
	if err != nil {
		return nil, err
	}
	t := &Transport{
		cfg: cfg, base: cfg.Base, watch: watch, limits: rate.NewLimiter(0, 0, maxLimits), began: time.Now(),
		known: make(chan struct{}), ended: make(chan struct{}), copies: make(chan struct{}, maxCopies), services: map[string]*service{},
	}
	if t.base == nil {
		t.base = http.DefaultTransport
	}
	t.ctx, t.stop = context.WithCancel(context.Background())
	go t.follow()
	return t, nil
}

// Close ends the watch, and waits for copies of requests. Requests afterwards use what was known last.
func (t *Transport) Close() {
	t.stop()
	t.watch.Close()
	<-t.ended
	for range maxCopies {
		t.copies <- struct{}{}
	}
}

// follow takes snapshots until the watch ends.
func (t *Transport) follow() {
	defer close(t.ended)
	first := true
	for generation := uint64(0); ; {
		s, err := t.watch.Next(t.ctx, generation)
		if err != nil {
			return
		}
		generation = s.Generation
		t.learn(s)
		if first {
			close(t.known)
			first = false
		}
	}
}

// learn applies a snapshot, and acknowledges its policies.
func (t *Transport) learn(s client.Snapshot) {
	var policies []*resource.Policy
	present := map[string][]*resource.Instance{}
	for _, i := range s.Items {
		switch one := i.Resource.(type) {
		case *resource.Policy:
			policies = append(policies, one)
		case *resource.Instance:
			if one.Accepts() {
				present[one.Service] = append(present[one.Service], one)
			}
		}
	}
	for _, p := range policies {
		for i := range p.Rules {
			for _, name := range p.Rules[i].Match.Services {
				if r := &p.Rules[i]; r.Action == resource.Failover && present[name] == nil && r.Match.MatchesService(name, t.cfg.Labels) {
					present[name] = []*resource.Instance{} // others replace it
				}
			}
		}
	}
	t.mu.Lock()
	t.policies, t.present, t.hosts = policies, present, map[string]string{}
	for name, one := range t.services {
		if present[name] == nil {
			delete(t.services, name)
			continue
		}
		t.renew(name, one)
	}
	for name := range present {
		for _, host := range t.service(name).table.Hosts() {
			t.hosts[strings.ToLower(host)] = name
		}
	}
	refused := map[string]error{}
	for _, one := range t.services {
		if one.fault != nil {
			for _, p := range policies {
				refused[p.Name] = one.fault
			}
		}
	}
	t.mu.Unlock()
	for _, i := range s.Items {
		p, ok := i.Resource.(*resource.Policy)
		switch {
		case !ok:
		case refused[p.Name] != nil:
			t.watch.Refused(i, refused[p.Name].Error())
		default:
			t.watch.Applied(i)
		}
	}
}

// A service is a service as this caller uses it. It is replaced with each snapshot, and its load stays.
type service struct {
	*load
	table     *traffic.Table
	fault     error // why the newest policies cannot be used; table is the one before
	instances []*instance
}

// A load is what a service has under way.
type load struct {
	turn atomic.Uint64 // of instances

	mu      sync.Mutex // guards what follows
	active  int        // requests under way
	retries int        // of these, further attempts
}

// An instance has its health, which stays with each snapshot.
type instance struct {
	*resource.Instance
	*health
}

// A health is what answers say of an instance.
type health struct {
	active    atomic.Int64 // requests under way
	errors    atomic.Int64 // in a row
	ejections atomic.Int64
	until     atomic.Int64 // the end of its ejection, in nanoseconds since the Transport began
}

// service finds what is known of a service. t.mu is held.
func (t *Transport) service(name string) *service {
	one := t.services[name]
	if one == nil {
		t.renew(name, &service{load: &load{}})
		one = t.services[name]
	}
	return one
}

// renew replaces a service by one with the newest policies and instances. t.mu is held.
func (t *Transport) renew(name string, old *service) {
	next := &service{load: old.load, table: old.table}
	table, err := traffic.Compile(t.policies, name, t.cfg.Labels)
	switch {
	case err == nil:
		next.table = table
	case old.table == nil:
		next.table, next.fault = &traffic.Table{Routes: []traffic.Route{{Deny: true}}}, err
	default:
		next.fault = err
	}
	list := t.present[name]
	for _, other := range next.table.Failover {
		if len(list) == 0 {
			list = t.present[other]
		}
	}
	for _, i := range list {
		one := &instance{i, &health{}}
		if at := slices.IndexFunc(old.instances, func(o *instance) bool { return o.ID == i.ID && o.Address == i.Address && o.Port == i.Port }); at >= 0 {
			one.health = old.instances[at].health
		}
		next.instances = append(next.instances, one)
	}
	t.services[name] = next
}

// find returns the service that a host names, once a snapshot is known.
func (t *Transport) find(ctx context.Context, host string) (*service, error) {
	select {
	case <-t.known:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	name, _, _ := strings.Cut(host, ":")
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, one := range []string{strings.TrimSuffix(name, "."+t.cfg.Namespace), t.hosts[strings.ToLower(name)]} {
		if t.present[one] != nil {
			return t.service(one), nil
		}
	}
	return nil, fmt.Errorf("%s: is no service with instances in namespace %s", host, t.cfg.Namespace)
}

// RoundTrip carries a request.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.roundTrip(r)
	if err != nil && r.Body != nil {
		_ = r.Body.Close() // an http.RoundTripper must close it
	}
	return response, err
}

func (t *Transport) roundTrip(r *http.Request) (*http.Response, error) {
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	s, err := t.find(r.Context(), host)
	if err != nil {
		return nil, err
	}
	route := s.route(host, r)
	if route == nil || route.Deny {
		return answer(r, http.StatusForbidden, "a policy denies this request"), nil
	}
	if l := route.Limit; l != nil {
		if ok, _ := t.limits.Allow(l.Name, l.PerSecond, int(l.Capacity()), time.Since(t.began)); !ok {
			return answer(r, http.StatusTooManyRequests, "a policy limits these requests"), nil
		}
	}
	ctx, cancel := r.Context(), context.CancelFunc(func() {})
	if route.Timeout > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, seconds(route.Timeout), errTimeout)
	}
	response, err := t.inject(ctx, s, route, r.WithContext(ctx))
	if err != nil {
		cancel()
		if errors.Is(context.Cause(ctx), errTimeout) {
			return answer(r, http.StatusGatewayTimeout, "a policy's timeout is over"), nil
		}
		return nil, err
	}
	response.Body = endedBy(response.Body, cancel)
	return response, nil
}

var errTimeout = errors.New("the policy's timeout is over")

// A body ends what belongs to its request when it is closed.
type body struct {
	io.ReadCloser
	end func()
}

func endedBy(b io.ReadCloser, end func()) *body { return &body{b, sync.OnceFunc(end)} }

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}

// route returns the first route that matches; nil is none.
func (s *service) route(host string, r *http.Request) *traffic.Route {
	host, _, _ = strings.Cut(host, ":")
	for i := range s.table.Routes {
		if s.table.Routes[i].Match.Matches(host, r.Method, r.URL.EscapedPath(), r.Header.Get) {
			return &s.table.Routes[i]
		}
	}
	return nil
}

// answer makes a response that no instance has given.
func answer(r *http.Request, status int, text string) *http.Response {
	if r.Body != nil {
		_ = r.Body.Close() // it is not needed
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, Body: io.NopCloser(strings.NewReader(text + "\n")), ContentLength: int64(len(text) + 1), Request: r,
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func happens(percent float64) bool { return rand.Float64()*100 < percent } //nolint:gosec // not a secret

// inject has a request suffer the route's fault, and sends it on.
func (t *Transport) inject(ctx context.Context, s *service, route *traffic.Route, r *http.Request) (*http.Response, error) {
	if f := route.Fault; f != nil {
		all := func(percent float64) float64 {
			if percent == 0 {
				return 100
			}
			return percent
		}
		if f.Delay > 0 && happens(all(f.DelayPercent)) {
			select {
			case <-time.After(seconds(f.Delay)):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		if f.Status > 0 && happens(all(f.Percent)) {
			return answer(r, f.Status, "a policy answers this request"), nil
		}
	}
	if to := route.Redirect; to != nil {
		response := answer(r, to.Status, "moved")
		if to.Status == 0 {
			response = answer(r, http.StatusFound, "moved")
		}
		response.Header.Set("Location", location(r, to, route.Replaced))
		return response, nil
	}
	for _, m := range route.Mirror {
		if happens(m.Percent) {
			t.mirror(m.Service, r)
		}
	}
	if len(route.To) > 0 {
		to, err := t.find(ctx, split(route.To))
		if err != nil {
			return answer(r, http.StatusServiceUnavailable, err.Error()), nil
		}
		s = to
	}
	return t.attempts(ctx, s, route, r)
}

// split draws a backend by weight.
func split(to []resource.Backend) string {
	sum := 0
	for _, b := range to {
		sum += b.Weight
	}
	at := rand.IntN(sum) //nolint:gosec // not a secret
	for _, b := range to {
		if at -= b.Weight; at < 0 {
			return b.Service
		}
	}
	return to[len(to)-1].Service
}

// location is where a redirect leads.
func location(r *http.Request, to *resource.Location, replaced string) string {
	u := *r.URL
	if u.Host == "" || to.Host != "" {
		u.Host = to.Host
	}
	if u.Scheme == "" {
		u.Scheme = "http"
	}
	if to.HTTPS {
		u.Scheme = "https"
	}
	switch {
	case to.Path != "":
		u.Path, u.RawPath = to.Path, ""
	case to.PathPrefix != "":
		u.Path, u.RawPath = exchange(u.Path, replaced, to.PathPrefix), ""
	}
	return u.String()
}

// exchange exchanges the beginning of a path.
func exchange(path, replaced, by string) string {
	if replaced == "" {
		replaced = "/"
	}
	return by + strings.TrimPrefix(path, replaced)
}

// mirror sends a copy of a request, whose answer is dropped. Without a free slot, or with a body that cannot be read
// again, there is none.
func (t *Transport) mirror(to string, r *http.Request) {
	s, err := t.find(r.Context(), to)
	if err != nil {
		return
	}
	again, err := copyOf(context.WithoutCancel(r.Context()), r)
	if err != nil {
		return
	}
	select {
	case t.copies <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-t.copies }()
		ctx, cancel := context.WithTimeout(t.ctx, mirrorTimeout)
		defer cancel()
		response, err := t.attempts(ctx, s, &traffic.Route{}, again.WithContext(ctx))
		if err == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20)) // to use the connection again
			_ = response.Body.Close()
		}
	}()
}

// mirrorTimeout bounds a copy of a request.
const mirrorTimeout = 15 * time.Second

// copyOf copies a request with its body, if that can be read again.
func copyOf(ctx context.Context, r *http.Request) (*http.Request, error) {
	again := r.Clone(ctx)
	if r.Body == nil || r.Body == http.NoBody {
		return again, nil
	}
	if r.GetBody == nil {
		return nil, errors.New("the body cannot be read again")
	}
	var err error
	again.Body, err = r.GetBody()
	return again, err
}
