package xds

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"dyno/services/control/identity"
)

// A view gives a session the present resources.
type view interface {
	// exists reports whether a service has instances.
	exists(s service) bool
	// services calls f for all services with instances.
	services(f func(service))
	// resource returns a service's resource for an audience, by one of its names. Without the service, an assignment
	// is nil.
	resource(k kind, s service, name string, a *audience) *built
	// hosted returns what holds for requests of an audience to a service.
	hosted(s service, a *audience) hosted
	// revision returns the store's revision of the view, as a number and as text for people.
	revision() (int64, string)
}

// Bounds of a client's requests.
const (
	maxNames       = 20_000 // of one kind
	maxName        = 512    // bytes
	maxPerResponse = 1000   // resources in one response, of kinds that need not be whole
)

// wildcard is the name that stands for all resources.
const wildcard = "*"

// A subscription has one client's wanted and sent resources of one kind. All maps are by resource name.
type subscription struct {
	kind  kind
	all   bool // wanted by a wildcard
	plain bool // the wildcard was a request without names
	named map[string]struct{}
	// sentVersions has the versions that the client was sent; "" means that the resource does not exist.
	sentVersions map[string]string
	// dirty has resources that may differ from that.
	dirty       map[string]struct{}
	responseDue bool // a response is due, even without resources

	nonce   string // nonce of the newest response
	waiting bool   // for the answer to that response
	sentAt  time.Time
	flight  map[string]sent // the resources that it changed
}

// A sent resource is one that the client was sent.
type sent struct {
	revision int64 // 0 if it was removed
	from     []policyVersion
}

// covers reports whether the client wants a resource. The routes to all services, and listeners of gRPC's clients, are
// wanted by name only: a wildcard does not include them.
func (s *subscription) covers(name string) bool {
	if _, ok := s.named[name]; ok || !s.all {
		return ok
	}
	if isOwn(name) || s.kind == listeners {
		return isOwn(name)
	}
	one, ok := parse(s.kind, name)
	return ok && one.String() == name
}

// drop forgets the client's version of a resource that it no longer wants.
func (s *subscription) drop(name string) {
	delete(s.sentVersions, name)
	delete(s.dirty, name)
	delete(s.flight, name)
}

// A request is a client's request, of either variant.
type request struct {
	kind  kind
	nonce string // nonce of the answered response; "" is none
	// refused says that the client could not use that response, and keeps its previous state.
	refused bool

	// after is the revision that the client has from an earlier stream, perhaps of another replica; 0 is none.
	after int64

	names []string // all wanted names, in the state of the world

	subscribe, unsubscribe []string // changes of the wanted names, otherwise
	known                  map[string]string
}

// An answer is a client's acknowledgement or refusal of a response.
type answer struct {
	kind    kind
	refused bool
	names   map[string]sent // the resources that the response changed
}

// A named resource is an entry of a response.
type named struct {
	name string
	*built
}

// A response is a response to be sent.
type response struct {
	kind      kind
	nonce     string
	revision  string
	resources []named
	removed   []string // in the incremental variant
}

// A session is one client's stream, without I/O: requests go in, and responses come out
// when they are due. It is for one goroutine at a time.
type session struct {
	delta   bool // whether it is incremental
	view    view
	may     func(namespace string) bool // the client's permission to read
	timeout time.Duration

	node  nodeInfo
	roots []byte // the authority's certificates
	// certificate is that of the node's service, nil without one. It is renewed at renewAt.
	certificate *identity.Certificate
	issue       func(time.Time) (*identity.Certificate, error)
	renewAt     time.Time

	subs    [kinds]*subscription
	nonces  int64
	routed  map[service]struct{} // the services in the routes to all services, as last sent
	drafted draft                // the next such routes

	// since has services that wait for the client's request of their instances, with the time when the wait began.
	since map[service]time.Time
	// again is the time at which a response may become due by itself; zero is never.
	again time.Time

	// wanted counts the names by which each service is wanted. subscriptionDelta has the services that became wanted
	// (true) or unwanted since it was last taken.
	wanted            map[service]int
	subscriptionDelta map[service]bool
}

func newSession(delta bool, v view, may func(string) bool, timeout time.Duration) *session {
	return &session{
		delta: delta, view: v, may: may, timeout: timeout,
		routed: map[service]struct{}{}, since: map[service]time.Time{}, wanted: map[service]int{}, subscriptionDelta: map[service]bool{},
	}
}

// everything reports whether the client watches all services.
func (s *session) everything() bool {
	for _, sub := range s.subs {
		if sub == nil {
			continue
		}
		if sub.all || sub.kind == routes && isNamed(sub, allRoutes) {
			return true
		}
	}
	return false
}

// An excess says that a client asks for too much.
type excess struct{ text string }

func (e *excess) Error() string { return e.text }

// take notes a client's request, and returns its answer to a response, or nil. After an error the session is over.
func (s *session) take(q *request) (*answer, error) {
	for _, list := range [][]string{q.names, q.subscribe, q.unsubscribe} {
		for _, name := range list {
			if name == "" || len(name) > maxName {
				return nil, &excess{fmt.Sprintf("%v: resource name of %d bytes: must have 1 to %d", q.kind, len(name), maxName)}
			}
		}
	}
	sub := s.subs[q.kind]
	first := sub == nil
	if first {
		sub = &subscription{kind: q.kind, named: map[string]struct{}{}, sentVersions: map[string]string{}, dirty: map[string]struct{}{}}
		s.subs[q.kind] = sub
	}
	var out *answer
	current := q.nonce == sub.nonce
	if current && sub.waiting {
		out = &answer{q.kind, q.refused, sub.flight}
		sub.waiting, sub.flight = false, nil
	}
	switch {
	case s.delta:
		s.change(sub, q, first)
	case first || current:
		s.replace(sub, q.names, first)
	case len(q.names) == 0 && !sub.plain:
		// It wants nothing now: gRPC's client in Java does not answer the newer response.
		s.replace(sub, nil, false)
		sub.waiting, sub.flight = false, nil
	default:
		// It answers a response that was replaced since. The answer to the newer one will have the wanted names.
		return nil, nil
	}
	if len(sub.named) > maxNames {
		return nil, &excess{fmt.Sprintf("%v: %d resources asked for: must be %d at most", q.kind, len(sub.named), maxNames)}
	}
	return out, nil
}

// replace sets the wanted names (state of the world).
func (s *session) replace(sub *subscription, names []string, first bool) {
	next := make(map[string]struct{}, len(names))
	for _, name := range names {
		next[name] = struct{}{}
	}
	_, all := next[wildcard]
	delete(next, wildcard)
	// A request without names is a wildcard, unless names were given before.
	sub.plain = len(names) == 0 && sub.kind.whole() && (first || sub.plain)
	all = all || sub.plain
	for name := range sub.named {
		if _, ok := next[name]; !ok {
			s.unname(sub, name)
		}
	}
	s.widen(sub, all)
	for name := range next {
		if _, ok := sub.named[name]; !ok {
			s.name(sub, name)
			sub.responseDue = sub.responseDue || sub.kind.whole()
		}
	}
	sub.responseDue = sub.responseDue || first && sub.kind.whole()
}

// change applies a request's changes of the wanted names (incremental).
func (s *session) change(sub *subscription, q *request, first bool) {
	if first && len(q.subscribe) == 0 && sub.kind.whole() {
		s.widen(sub, true)
	}
	for _, name := range q.subscribe {
		if name == wildcard {
			s.widen(sub, true)
			continue
		}
		s.name(sub, name)
		delete(sub.sentVersions, name) // a repeated request gets the resource again
	}
	for _, name := range q.unsubscribe {
		if name == wildcard {
			s.widen(sub, false)
			continue
		}
		if _, ok := sub.named[name]; !ok {
			continue
		}
		s.unname(sub, name)
		if sub.covers(name) {
			// The client cannot know whether the wildcard covers it.
			sub.sentVersions[name] = unknown
			sub.dirty[name] = struct{}{}
		}
	}
	if !first {
		return
	}
	sub.responseDue = sub.responseDue || sub.all
	for name, version := range q.known {
		if sub.covers(name) {
			sub.sentVersions[name] = version
			sub.dirty[name] = struct{}{}
		}
	}
}

// unknown is a version different from all others.
const unknown = "?"

// widen notes whether all resources are wanted.
func (s *session) widen(sub *subscription, all bool) {
	if all == sub.all {
		return
	}
	sub.all = all
	if all {
		for _, name := range []string{outboundName, inboundName} {
			sub.dirty[name] = struct{}{} // of listeners and clusters; others have none
		}
		if sub.kind != listeners {
			s.view.services(func(one service) { sub.dirty[one.String()] = struct{}{} })
		}
		sub.responseDue = true
		return
	}
	for name := range sub.sentVersions {
		if _, ok := sub.named[name]; !ok {
			sub.drop(name)
		}
	}
}

// name notes that a resource is wanted.
func (s *session) name(sub *subscription, name string) {
	sub.dirty[name] = struct{}{}
	if _, ok := sub.named[name]; ok {
		return
	}
	sub.named[name] = struct{}{}
	if one, ok := parse(sub.kind, name); ok {
		if s.wanted[one]++; s.wanted[one] == 1 {
			s.subscriptionDelta[one] = true
		}
	}
}

// unname notes that a resource is not wanted by its name any more.
func (s *session) unname(sub *subscription, name string) {
	delete(sub.named, name)
	if name == allRoutes && sub.kind == routes {
		clear(s.routed)
	}
	if one, ok := parse(sub.kind, name); ok {
		if s.wanted[one]--; s.wanted[one] == 0 {
			delete(s.wanted, one)
			s.subscriptionDelta[one] = false
		}
	}
	if !sub.covers(name) {
		sub.drop(name)
	}
}

// A touch says what of a service has changed. Each includes those before it.
type touch int

const (
	ofInstances touch = iota
	ofPolicies
	ofExistence // whether there are any instances
)

// touch notes that a service has changed.
func (s *session) touch(one service, what touch) {
	name := one.String()
	if what == ofExistence {
		delete(s.since, one)
	}
	for _, sub := range s.subs {
		if sub == nil || sub.kind != assignments && what == ofInstances {
			continue
		}
		if one == s.node.service && sub.kind == routes && sub.covers(inboundName) {
			sub.dirty[inboundName] = struct{}{}
		}
		if sub.covers(name) {
			sub.dirty[name] = struct{}{}
		}
		if alias := one.alias(); sub.kind == listeners && alias != "" {
			if _, ok := sub.named[alias]; ok {
				sub.dirty[alias] = struct{}{}
			}
		}
		if sub.kind == routes {
			if _, ok := sub.named[allRoutes]; ok {
				sub.dirty[allRoutes] = struct{}{}
			}
		}
	}
}

// next returns the response that is due, or nil. Call it until it returns nil: after each request and change, and at
// again.
func (s *session) next(now time.Time) *response {
	for {
		s.again = time.Time{}
		s.renew(now)
		changed := false
		for _, sub := range s.subs {
			if sub == nil {
				continue
			}
			if sub.waiting {
				if end := sub.sentAt.Add(s.timeout); now.Before(end) {
					s.wake(end)
					continue
				}
				sub.waiting, sub.flight = false, nil // a client that does not answer gets the present state anyway
				changed = true
			}
			r, silent := s.due(sub, now)
			if r != nil {
				return r
			}
			changed = changed || silent
		}
		if !changed {
			return nil
		}
		// A change that others wait for needed no response.
	}
}

// begin notes who the client is. Its proxy's service changes what the proxy gets.
func (s *session) begin(node nodeInfo) {
	s.node = node
	if node.service.name != "" {
		s.wanted[node.service]++
		s.subscriptionDelta[node.service] = true
	}
}

// minRenewal is the least time between two certificates, when the authority's own end is near.
const minRenewal = 500 * time.Millisecond

// retryIssue is the pause after a certificate that could not be issued.
const retryIssue = 10 * time.Second

// renew issues the certificate of the node's service when it is time: half of its life before its end.
func (s *session) renew(now time.Time) {
	if s.issue == nil {
		return
	}
	if !now.Before(s.renewAt) {
		s.renewAt = now.Add(retryIssue)
		if c, err := s.issue(now); err == nil {
			s.certificate, s.renewAt = c, now.Add(max(c.Expires.Sub(now)/2, minRenewal))
		}
		if sub := s.subs[secrets]; sub != nil && sub.covers(identityName) {
			sub.dirty[identityName] = struct{}{}
		}
	}
	s.wake(s.renewAt)
}

func (s *session) wake(at time.Time) {
	if s.again.IsZero() || at.Before(s.again) {
		s.again = at
	}
}

// due makes a subscription's due response, or nil; silent reports changes that need no response.
func (s *session) due(sub *subscription, now time.Time) (r *response, silent bool) {
	changes, silent := s.changes(sub, now)
	if len(changes) > 0 || sub.responseDue {
		r = s.respond(sub, changes, now)
	}
	return r, silent
}

// changes returns the changes that the client can use now, as many as one response may have.
func (s *session) changes(sub *subscription, now time.Time) (list []named, silent bool) {
	for _, name := range slices.Sorted(maps.Keys(sub.dirty)) {
		if !sub.covers(name) {
			delete(sub.dirty, name)
			continue
		}
		b := s.want(sub, name, now)
		version := ""
		if b != nil {
			version = b.version
		}
		sent, known := sub.sentVersions[name]
		switch {
		case known && sent == version:
			s.settle(sub, name)
		case s.early(sub.kind, name, b, now) || s.late(sub.kind, name):
		case b == nil && !s.announcesRemoval(sub, name):
			s.note(sub, name, nil)
			delete(sub.dirty, name)
			silent = silent || known
		case len(list) == maxPerResponse && (s.delta || !sub.kind.whole()):
			return list, silent
		default:
			list = append(list, named{name, b})
		}
	}
	return list, silent
}

// announcesRemoval reports whether a response tells the client that a resource does not exist.
func (s *session) announcesRemoval(sub *subscription, name string) bool {
	_, known := sub.sentVersions[name]
	if s.delta {
		return known || isNamed(sub, name)
	}
	return known && sub.kind.whole() // by leaving it out
}

// respond makes a response with changes.
func (s *session) respond(sub *subscription, changes []named, now time.Time) *response {
	s.nonces++
	sub.nonce = strconv.FormatInt(s.nonces, 10)
	sub.waiting, sub.sentAt, sub.responseDue = true, now, false
	sub.flight = make(map[string]sent, len(changes))
	revision, _ := s.view.revision()
	r := &response{kind: sub.kind, nonce: sub.nonce}
	for _, c := range changes {
		if sub.kind == clusters && c.built != nil && (sub.sentVersions[c.name] != "" || !s.delta) {
			s.resendInstances(c.name)
		}
		s.note(sub, c.name, c.built)
		s.settle(sub, c.name)
		switch {
		case c.built == nil:
			sub.flight[c.name] = sent{}
			r.removed = append(r.removed, c.name)
			continue
		case sub.kind == assignments:
			sub.flight[c.name] = sent{revision: c.revision}
		default:
			sub.flight[c.name] = sent{revision, c.from}
		}
		r.resources = append(r.resources, c)
	}
	if !s.delta && sub.kind.whole() {
		r.resources, r.removed = nil, nil
		for _, name := range slices.Sorted(maps.Keys(sub.sentVersions)) {
			if sub.sentVersions[name] == "" {
				continue
			}
			// A change that could not be sent yet is sent now: the client has what it needs of the resource.
			b := s.resource(sub.kind, name)
			s.note(sub, name, b)
			r.resources = append(r.resources, named{name, b})
		}
	}
	_, r.revision = s.view.revision() // of everything above, or a later one
	return r
}

// resendInstances makes a cluster's instances due again. Envoy waits for them with each change of a cluster, for up to
// 15 s, and then uses those from before. In the state of the world, they are also due for a new cluster: if it existed
// before, the client has dropped them. Its request without them may have crossed a response, and is then unknown here.
func (s *session) resendInstances(name string) {
	if e := s.subs[assignments]; e != nil && e.covers(name) {
		delete(e.sentVersions, name)
		e.dirty[name] = struct{}{}
	}
}

// settle notes that the client has, or is being sent, the present version. The routes to all services stay dirty
// until none is missing.
func (s *session) settle(sub *subscription, name string) {
	if name == allRoutes && sub.kind == routes {
		s.routed = s.drafted.routed
		if !s.drafted.whole {
			return
		}
	}
	delete(sub.dirty, name)
}

func isNamed(sub *subscription, name string) bool {
	_, ok := sub.named[name]
	return ok
}

// note notes the client's new version of a resource; nil means that the resource does not exist.
func (s *session) note(sub *subscription, name string, b *built) {
	switch {
	case b != nil:
		sub.sentVersions[name] = b.version
	case isNamed(sub, name):
		sub.sentVersions[name] = ""
	default:
		delete(sub.sentVersions, name)
	}
}

// resource returns a resource of a service that exists, or the client's own listener.
func (s *session) resource(k kind, name string) *built {
	if isOwn(name) {
		return s.own(k, name)
	}
	one, _ := parse(k, name)
	return s.view.resource(k, one, name, &s.node.audience)
}

// want returns the version of a resource that the client should have; nil is none. For a service without instances it
// is an empty assignment, so that the client does not wait.
func (s *session) want(sub *subscription, name string, now time.Time) *built {
	if name == allRoutes && sub.kind == routes {
		return s.draft(now)
	}
	if isOwn(name) {
		return s.own(sub.kind, name)
	}
	one, ok := parse(sub.kind, name)
	if ok && s.known(one) {
		if b := s.resource(sub.kind, name); b != nil {
			return b
		}
	}
	if ok && sub.kind == assignments && isNamed(sub, name) {
		return noInstances(name)
	}
	return nil
}

// known reports whether a service exists and the client may read it.
func (s *session) known(one service) bool { return s.may(one.namespace) && s.view.exists(one) }

// A draft is the next version of the routes to all services.
type draft struct {
	routed map[service]struct{}
	whole  bool // no service is missing
}

// draft makes the routes to all services, without those that the client is not ready for.
func (s *session) draft(now time.Time) *built {
	s.drafted = draft{map[service]struct{}{}, true}
	var all []service
	s.view.services(func(one service) {
		if s.may(one.namespace) {
			all = append(all, one)
		}
	})
	var list []hosted
	for _, one := range all {
		if _, ok := s.routed[one]; !ok && !s.ready(one, now) {
			s.drafted.whole = false
			continue
		}
		s.drafted.routed[one] = struct{}{}
		list = append(list, s.view.hosted(one, &s.node.audience))
	}
	return routesTo(list)
}

// early reports whether a listener or routes must wait for the resources that they refer to.
func (s *session) early(k kind, name string, b *built, now time.Time) bool {
	one, ok := parse(k, name)
	if b == nil || !ok || k != listeners && k != routes {
		return false
	}
	return !s.ready(one, now)
}

// ready reports whether the client has a service's cluster and instances, as far as it requests them on this stream.
// A client with the cluster will request the instances, so the session waits for that.
func (s *session) ready(one service, now time.Time) bool {
	name := one.String()
	c := s.subs[clusters]
	if c == nil || !c.covers(name) {
		return true
	}
	if !c.has(name) {
		return false
	}
	if e := s.subs[assignments]; e != nil && e.covers(name) {
		delete(s.since, one)
		return e.has(name)
	}
	since, ok := s.since[one]
	if !ok {
		since = now
		s.since[one] = now
	}
	end := since.Add(s.timeout)
	if now.Before(end) {
		s.wake(end)
		return false
	}
	return true
}

// has reports whether the client has a resource, and has answered its response. A refusal is an answer: see "Order"
// in the package's comment.
func (s *subscription) has(name string) bool { return s.sentVersions[name] != "" && !s.flying(name) }

// flying reports whether a change of a resource is not answered yet.
func (s *subscription) flying(name string) bool {
	_, ok := s.flight[name]
	return ok
}

// late reports whether a removal must wait for the removal of resources that refer to it.
func (s *session) late(k kind, name string) bool {
	one, ok := parse(k, name)
	if !ok || k != clusters && k != assignments || s.known(one) {
		return false
	}
	if k == assignments {
		c := s.subs[clusters]
		return c != nil && (c.sentVersions[name] != "" || c.flying(name))
	}
	if _, ok := s.routed[one]; ok {
		return true
	}
	l, r := s.subs[listeners], s.subs[routes]
	refers := func(sub *subscription, name string) bool {
		return sub != nil && name != "" && (sub.sentVersions[name] != "" || sub.flying(name))
	}
	return refers(l, name) || refers(l, one.alias()) || refers(r, name) || r != nil && r.flying(allRoutes)
}
