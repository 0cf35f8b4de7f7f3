package xds

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"pgregory.net/rapid"

	"dyno/internal/leak"
	"dyno/services/control/resource"
	"dyno/services/control/traffic"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A fake is a view of services each of which has one instance, at a port. Some have a policy.
type fake struct {
	ports   map[service]uint16
	limited []service
}

func newFake() *fake { return &fake{ports: map[service]uint16{}} }

func (f *fake) exists(s service) bool { return f.ports[s] > 0 }

func (f *fake) services(each func(service)) {
	for s := range f.ports {
		each(s)
	}
}

func (f *fake) assignment(s service) *built {
	at := netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), f.ports[s])
	return assign(s, []instance{{id: "1", at: at, weight: 100, health: core.HealthStatus_HEALTHY}}, "", int64(f.ports[s]))
}

func (f *fake) resource(k kind, s service, name string, a *audience) *built {
	switch {
	case k != assignments:
		return f.hosted(s, a).resource(k, name)
	case f.ports[s] == 0:
		return nil
	}
	return f.assignment(s)
}

func (f *fake) hosted(s service, a *audience) hosted {
	if slices.Contains(f.limited, s) {
		return hosted{s, &traffic.Table{Routes: []traffic.Route{{Timeout: 1}}, Circuit: &resource.Circuits{Requests: 1}}, *a}
	}
	return hosted{s, plainTable, *a}
}

func (f *fake) revision() (int64, string) { return 7, "e-7" }

// anywhere lets a client read everything but what is in the namespace "private".
func anywhere(namespace string) bool { return namespace != "private" }

func serviceOf(t interface{ Fatalf(string, ...any) }, name string) service {
	s, ok := parse(clusters, name)
	if !ok {
		t.Fatalf("%q is no service", name)
	}
	return s
}

// A talk is a session by a script. Its lines are
//
//	put SERVICE PORT           a service is there, its instance at a port
//	gone SERVICE               and not any more
//	listen                     the client has a listener of its own
//	rules SERVICE              a policy for the service
//	wait                       the client's timeout is over
//	-> KIND [NONCE] NAME…      a request: all names (state of the world), or +NAME, -NAME, and
//	                           NAME=PORT, which the client has from before (0 is of an old version)
//	!> KIND NONCE NAME…        the same, refusing the response of that nonce
//	<- KIND NONCE NAME… -NAME  a response: what is in it, what is removed
//
// All responses that are due after a line are listed below it.
func talk(t *testing.T, delta bool, script string) {
	t.Helper()
	world := newFake()
	now := time.Unix(1, 0)
	s := newSession(delta, world, anywhere, time.Second)
	var due []string
	for number, line := range strings.Split(script, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		at := fmt.Sprintf("line %d, %s", number, strings.TrimSpace(line))
		if words[0] == "<-" {
			got := "nothing"
			if len(due) > 0 {
				got, due = due[0], due[1:]
			}
			if want := strings.Join(words[1:], " "); got != want {
				t.Fatalf("%s\ngot %s", at, got)
			}
			continue
		}
		if len(due) > 0 {
			t.Fatalf("before %s\nalso %q", at, due)
		}
		switch words[0] {
		case "put":
			one := serviceOf(t, words[1])
			what := ofInstances
			if world.ports[one] == 0 {
				what = ofExistence
			}
			var port uint16
			if _, err := fmt.Sscan(words[2], &port); err != nil {
				t.Fatal(err)
			}
			world.ports[one] = port
			s.touch(one, what)
		case "gone":
			one := serviceOf(t, words[1])
			delete(world.ports, one)
			s.touch(one, ofExistence)
		case "listen":
			s.begin(nodeInfo{outbound: &core.SocketAddress{Address: "127.0.0.1", PortSpecifier: &core.SocketAddress_PortValue{PortValue: 1}}})
		case "rules":
			one := serviceOf(t, words[1])
			world.limited = append(world.limited, one)
			s.touch(one, ofPolicies)
		case "wait":
			now = now.Add(time.Second)
		case "->", "!>":
			q := &request{kind: kind(slices.Index(shorts[:], words[1])), refused: words[0] == "!>", known: map[string]string{}}
			for _, w := range words[2:] {
				name, port, had := strings.Cut(w, "=")
				switch {
				case w[0] >= '0' && w[0] <= '9':
					q.nonce = w
				case had:
					q.known[name] = "old"
					if port != "0" {
						q.known[name] = s.want(&subscription{kind: q.kind}, name, now).version
					}
				case w[0] == '+':
					q.subscribe = append(q.subscribe, w[1:])
				case w[0] == '-':
					q.unsubscribe = append(q.unsubscribe, w[1:])
				default:
					q.names = append(q.names, w)
				}
			}
			if _, err := s.take(q); err != nil {
				t.Fatalf("%s: %v", at, err)
			}
		default:
			t.Fatalf("%s: what is that?", at)
		}
		for r := s.next(now); r != nil; r = s.next(now) {
			text := r.kind.String() + " " + r.nonce
			for _, one := range r.resources {
				text += " " + one.name
			}
			for _, name := range r.removed {
				text += " -" + name
			}
			due = append(due, text)
			if len(due) > 10 {
				t.Fatalf("%s: there is no end of responses: %q", at, due)
			}
		}
	}
	if len(due) > 0 {
		t.Fatalf("also %q", due)
	}
}

func TestFullState(t *testing.T) {
	for name, script := range map[string]string{
		"only what has changed is sent, and what is whole is sent whole": `
			put a.default 1
			put b.default 1
			-> cds
			<- cds 1 a.default b.default
			-> cds 1
			-> eds a.default b.default
			<- eds 2 a.default b.default
			-> eds 2 a.default b.default
			put b.default 2
			<- eds 3 b.default
			-> eds 3 a.default b.default
			put c.default 1
			<- cds 4 a.default b.default c.default`,
		"one response of a type at a time": `
			put a.default 1
			-> eds a.default
			<- eds 1 a.default
			put a.default 2
			put a.default 3
			-> eds 1 a.default
			<- eds 2 a.default
			-> eds 2 a.default`,
		"what came back to what it was is not sent": `
			put a.default 1
			-> eds a.default
			<- eds 1 a.default
			put a.default 2
			put a.default 1
			-> eds 1 a.default`,
		"a refused resource is not sent again until it changes": `
			put a.default 1
			-> eds a.default
			<- eds 1 a.default
			!> eds 1 a.default
			put b.default 1
			-> eds 1 a.default b.default
			<- eds 2 b.default
			-> eds 2 a.default b.default
			put a.default 2
			<- eds 3 a.default`,
		"the answer to a response that was replaced says nothing": `
			put a.default 1
			put b.default 1
			-> eds a.default
			<- eds 1 a.default
			-> eds 1 a.default
			put a.default 2
			<- eds 2 a.default
			-> eds 1 a.default b.default
			-> eds b.default
			-> eds 2 a.default b.default
			<- eds 3 b.default`,
		"a client that wants nothing does not answer the newer response": `
			put a.default 1
			-> eds a.default
			<- eds 1 a.default
			-> eds 1 a.default
			put a.default 2
			<- eds 2 a.default
			-> eds 1
			put a.default 3
			-> eds 2 a.default
			<- eds 3 a.default`,
		"what is not wanted any more is not sent, and is sent again": `
			put a.default 1
			put b.default 1
			-> eds a.default b.default
			<- eds 1 a.default b.default
			-> eds 1 b.default
			put a.default 2
			-> eds 1 b.default a.default
			<- eds 2 a.default
			-> eds 2
			put a.default 3
			put b.default 3
			-> eds 2 b.default
			<- eds 3 b.default`,
		"a client that does not answer is told all the same, later": `
			put a.default 1
			-> eds a.default
			<- eds 1 a.default
			put a.default 2
			wait
			<- eds 2 a.default
			-> eds 1 a.default
			-> eds 2 a.default`,
		"a wildcard by no names ends with names": `
			put a.default 1
			put b.default 1
			-> cds
			<- cds 1 a.default b.default
			-> cds 1 b.default
			<- cds 2 b.default
			-> cds 2
			put c.default 1`,
		"a wildcard by its name stays, with names": `
			put a.default 1
			-> cds * b.default
			<- cds 1 a.default
			-> cds 1 *
			put b.default 1
			<- cds 2 a.default b.default
			-> cds 2 b.default
			<- cds 3 b.default`,
		"no names of instances are none": `
			put a.default 1
			-> eds
			-> rds`,
		"a first request is answered, if there is nothing, too": `
			-> cds
			<- cds 1
			-> lds none
			<- lds 2`,
		"instances of a service that is not there are none": `
			-> eds a.default
			<- eds 1 a.default
			-> eds 1 a.default
			put a.default 1
			<- eds 2 a.default
			-> eds 2 a.default
			gone a.default
			<- eds 3 a.default
			-> eds 3 a.default
			-> eds 3 a.default nonsense`,
		"what may not be known is not there": `
			put a.private 1
			put a.default 1
			-> cds
			<- cds 1 a.default
			-> lds a.private
			<- lds 2
			-> rds services
			<- rds 3 services`,
		"what is new: the cluster, its instances, and then who refers to it": `
			-> cds
			<- cds 1
			-> cds 1
			-> lds a.default
			<- lds 2
			-> lds 2 a.default
			-> rds services
			<- rds 3 services
			-> rds 3 services
			put a.default 1
			<- cds 4 a.default
			-> eds a.default
			<- eds 5 a.default
			-> cds 4
			-> eds 5 a.default
			<- lds 6 a.default
			<- rds 7 services
			-> lds 6 a.default
			-> rds 7 services`,
		"what is gone: who refers to it, and then the cluster": `
			put a.default 1
			-> cds
			<- cds 1 a.default
			-> cds 1
			-> eds a.default
			<- eds 2 a.default
			-> eds 2 a.default
			-> rds services a.default
			<- rds 3 a.default services
			-> rds 3 services a.default
			gone a.default
			<- rds 4 services
			-> rds 4 services a.default
			<- cds 5
			-> eds 2
			-> cds 5`,
		"a client that never asks for instances gets its routes later": `
			put a.default 1
			-> cds
			<- cds 1 a.default
			-> cds 1
			-> rds services
			<- rds 2 services
			-> rds 2 services
			wait
			<- rds 3 services`,
		"who refuses instances is told who refers to them": `
			put a.default 1
			-> cds
			<- cds 1 a.default
			-> cds 1
			-> eds a.default
			<- eds 2 a.default
			-> lds a.default
			<- lds 3
			-> lds 3 a.default
			!> eds 2 a.default
			<- lds 4 a.default
			-> lds 4 a.default
			put a.default 2
			<- eds 5 a.default
			!> eds 5 a.default
			gone a.default
			<- lds 6
			-> lds 6 a.default
			<- cds 7
			-> eds 5
			-> cds 7`,
		"a proxy's own listener is all that a wildcard has": `
			put a.default 1
			listen
			-> lds
			<- lds 1 /outbound
			-> lds 1
			put b.default 1`,
		"changed policies change clusters and routes": `
			put a.default 1
			-> cds
			<- cds 1 a.default
			-> cds 1
			-> eds a.default
			<- eds 2 a.default
			-> eds 2 a.default
			-> rds services
			<- rds 3 services
			-> rds 3 services
			rules a.default
			<- cds 4 a.default
			<- eds 5 a.default
			<- rds 6 services
			-> cds 4
			-> eds 5 a.default
			-> rds 6 services`,
		"a listener of gRPC's goes first, then what it referred to": `
			put a.default 1
			-> lds a
			<- lds 1 a
			-> lds 1 a
			-> rds a.default
			<- rds 2 a.default
			-> rds 2 a.default
			-> cds a.default
			<- cds 3 a.default
			-> cds 3 a.default
			-> eds a.default
			<- eds 4 a.default
			-> eds 4 a.default
			gone a.default
			<- lds 5
			-> lds 5 a
			<- cds 6
			-> cds 6 a.default
			<- eds 7 a.default`,
	} {
		t.Run(name, func(t *testing.T) { talk(t, false, script) })
	}
}

func TestDelta(t *testing.T) {
	for name, script := range map[string]string{
		"only what has changed is sent": `
			put a.default 1
			put b.default 1
			-> cds
			<- cds 1 a.default b.default
			-> cds 1
			put c.default 1
			<- cds 2 c.default
			-> cds 2
			gone a.default
			<- cds 3 -a.default`,
		"subscribe, unsubscribe, subscribe": `
			put a.default 1
			-> eds +a.default
			<- eds 1 a.default
			-> eds 1
			-> eds -a.default
			put a.default 2
			-> eds +a.default
			<- eds 2 a.default
			-> eds 2`,
		"who asks again is told again": `
			put a.default 1
			-> eds +a.default
			<- eds 1 a.default
			-> eds 1
			-> eds +a.default
			<- eds 2 a.default`,
		"changes of what is wanted count, whatever they answer": `
			put a.default 1
			put b.default 1
			-> eds +a.default
			<- eds 1 a.default
			-> eds 1
			put a.default 2
			<- eds 2 a.default
			-> eds 1 +b.default
			-> eds 2
			<- eds 3 b.default`,
		"a refused resource is not sent again until it changes": `
			put a.default 1
			-> eds +a.default
			<- eds 1 a.default
			!> eds 1
			put a.default 2
			<- eds 2 a.default`,
		"what is not there is said to be removed, once": `
			-> lds +a +b.default
			<- lds 1 -a -b.default
			-> lds 1
			put a.default 1
			<- lds 2 a
			-> lds 2
			gone a.default
			<- lds 3 -a
			-> lds 3`,
		"a client that comes back is told what it does not know": `
			put a.default 1
			put b.default 1
			put new.default 1
			-> cds +* a.default=1 b.default=0 gone.default=0
			<- cds 1 b.default new.default -gone.default
			-> cds 1
			-> eds +a.default +b.default a.default=1 b.default=0 c.default=0
			<- eds 2 b.default`,
		"a client that comes back and knows everything hears so": `
			put a.default 1
			-> cds a.default=1
			<- cds 1`,
		"a name besides a wildcard": `
			put a.default 1
			-> cds +* +none.default
			<- cds 1 a.default -none.default
			-> cds 1 -none.default
			<- cds 2 -none.default
			-> cds 2
			-> cds +a.default
			<- cds 3 a.default
			-> cds 3 -a.default
			<- cds 4 a.default
			-> cds 4 -*
			put a.default 2
			gone a.default`,
		"a wildcard of instances is of those that there are": `
			put a.default 1
			-> eds +*
			<- eds 1 a.default
			-> eds 1
			gone a.default
			<- eds 2 -a.default`,
	} {
		t.Run(name, func(t *testing.T) { talk(t, true, script) })
	}
}

// TestParts: kinds that need not be whole are sent in parts, each after the answer to the previous one.
func TestParts(t *testing.T) {
	world := newFake()
	for i := range 2*maxPerResponse + 1 {
		world.ports[service{"default", fmt.Sprintf("s%d", i)}] = 1
	}
	s := newSession(true, world, anywhere, time.Second)
	now := time.Unix(1, 0)
	q := &request{kind: assignments, subscribe: []string{wildcard}}
	for _, want := range []int{maxPerResponse, maxPerResponse, 1, -1} {
		if _, err := s.take(q); err != nil {
			t.Fatal(err)
		}
		r := s.next(now)
		if r == nil {
			if want >= 0 {
				t.Fatalf("nothing, want %d", want)
			}
			break
		}
		if len(r.resources) != want {
			t.Fatalf("%d, want %d", len(r.resources), want)
		}
		if again := s.next(now); again != nil {
			t.Fatalf("%d more before the answer", len(again.resources))
		}
		q = &request{kind: assignments, nonce: r.nonce}
	}
}

// A peer is a client that does what gRPC's or Envoy's does.
type peer struct {
	delta, proxy bool
	has          [kinds]map[string]*built
	wants        [kinds]map[string]bool
	nonce        [kinds]string
	asked        [kinds]bool
	says         []*request
	refused      map[string]bool // instances, in their newest version
}

func newPeer(delta, proxy bool, names ...string) *peer {
	p := &peer{delta: delta, proxy: proxy, refused: map[string]bool{}}
	for k := range p.has {
		p.has[k], p.wants[k] = map[string]*built{}, map[string]bool{}
	}
	if proxy {
		p.say(&request{kind: clusters})
		p.asked[clusters] = true
		p.want(routes, allRoutes)
		return p
	}
	p.want(listeners, names...)
	return p
}

func (p *peer) say(q *request) { p.says = append(p.says, q) }

// all are the names that a request of the state of the world has.
func (p *peer) all(k kind) []string { return slices.Sorted(maps.Keys(p.wants[k])) }

// want asks for names, and for nothing else of a kind.
func (p *peer) want(k kind, names ...string) {
	next := map[string]bool{}
	var more, less []string
	for _, name := range names {
		next[name] = true
		if !p.wants[k][name] {
			more = append(more, name)
		}
	}
	for name := range p.wants[k] {
		if !next[name] {
			less = append(less, name)
			delete(p.has[k], name)
		}
	}
	if p.wants[k] = next; len(more)+len(less) == 0 {
		return
	}
	p.asked[k] = true
	if p.delta {
		p.say(&request{kind: k, subscribe: more, unsubscribe: less})
	} else {
		p.say(&request{kind: k, nonce: p.nonce[k], names: p.all(k)})
	}
}

// hear takes a response, or refuses it.
func (p *peer) hear(r *response, refuse bool) {
	p.nonce[r.kind] = r.nonce
	answer := &request{kind: r.kind, nonce: r.nonce, refused: refuse}
	if !p.delta {
		answer.names = p.all(r.kind)
	}
	p.say(answer)
	for _, one := range r.resources {
		if r.kind == assignments {
			p.refused[one.name] = refuse
		}
	}
	if refuse {
		return
	}
	has := p.has[r.kind]
	if !p.delta && r.kind.whole() {
		clear(has)
	}
	for _, one := range r.resources {
		if p.wants[r.kind][one.name] || p.proxy && r.kind.whole() {
			has[one.name] = one.built
		}
	}
	for _, name := range r.removed {
		delete(has, name)
	}
	names := slices.Sorted(maps.Keys(p.has[r.kind]))
	switch {
	case r.kind == clusters:
		p.want(assignments, names...)
	case p.proxy:
	case r.kind == listeners:
		var canonical []string
		for _, name := range names {
			one, _ := parse(listeners, name)
			canonical = append(canonical, one.String())
		}
		slices.Sort(canonical)
		p.want(routes, slices.Compact(canonical)...)
		p.follow()
	case r.kind == routes:
		p.follow()
	}
}

// follow asks for the clusters of the routes, and no more for instances of clusters that are none
// of them.
func (p *peer) follow() {
	p.want(clusters, slices.Sorted(maps.Keys(p.has[routes]))...)
	p.want(assignments, slices.Sorted(maps.Keys(p.has[clusters]))...)
}

// whole fails where a proxy's routes or listeners lead nowhere.
func (p *peer) whole(t *rapid.T) {
	if !p.proxy {
		return
	}
	var names []string
	if all := p.has[routes][allRoutes]; all != nil {
		names = hosts(t, all)
	}
	for _, name := range append(names, slices.Sorted(maps.Keys(p.has[listeners]))...) {
		// A refusal is an answer: the cluster is in place, without instances.
		if p.has[clusters][name] == nil || p.has[assignments][name] == nil && !p.refused[name] {
			t.Fatalf("%s is referred to; clusters %v, instances %v", name, slices.Sorted(maps.Keys(p.has[clusters])), slices.Sorted(maps.Keys(p.has[assignments])))
		}
	}
}

// hosts are the services that routes lead to.
func hosts(t interface{ Fatal(...any) }, b *built) (names []string) {
	var config route.RouteConfiguration
	if err := b.any.UnmarshalTo(&config); err != nil {
		t.Fatal(err)
	}
	for _, h := range config.GetVirtualHosts() {
		names = append(names, h.GetName())
	}
	slices.Sort(names)
	return names
}

// TestClientsKnowTheCatalog: in the end a client has the whole state. On the way nothing that it has leads nowhere.
func TestClientsKnowTheCatalog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		delta, proxy := rapid.Bool().Draw(t, "delta"), rapid.Bool().Draw(t, "proxy")
		all := []service{{"default", "a"}, {"default", "b"}, {"shop", "a"}, {"private", "a"}}
		world := newFake()
		s := newSession(delta, world, anywhere, time.Second)
		p := newPeer(delta, proxy, "a", "b.default", "a.shop", "a.private", "none")
		now := time.Unix(1, 0)
		var inbox []*response
		touched := map[service]bool{}
		var port uint16
		change := func(one service, gone bool) {
			existed := world.ports[one] > 0
			if port++; gone {
				delete(world.ports, one)
			} else {
				world.ports[one] = port
			}
			touched[one] = touched[one] || existed == gone
		}
		sendDue := func() {
			for one, existence := range touched {
				what := ofInstances
				if existence {
					what = ofExistence
				}
				s.touch(one, what)
			}
			clear(touched)
		}
		answered := func() {
			if len(p.says) > 0 {
				if _, err := s.take(p.says[0]); err != nil {
					t.Fatal(err)
				}
				p.says = p.says[1:]
			}
		}
		pump := func() {
			if r := s.next(now); r != nil {
				inbox = append(inbox, r)
			}
		}
		hear := func(refuse bool) {
			if len(inbox) > 0 {
				p.hear(inbox[0], refuse && inbox[0].kind == assignments)
				inbox = inbox[1:]
				p.whole(t)
			}
		}
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			switch rapid.IntRange(0, 8).Draw(t, "step") {
			case 0, 1:
				change(rapid.SampledFrom(all).Draw(t, "service"), rapid.Bool().Draw(t, "gone"))
			case 2:
				sendDue()
			case 3, 4:
				pump()
			case 5:
				hear(rapid.IntRange(0, 9).Draw(t, "refuse") == 0)
			case 6:
				hear(false)
			default:
				answered()
			}
		}
		for one := range world.ports { // what was refused changes
			change(one, false)
		}
		sendDue()
		for i, idle := 0, 0; idle < 5; i++ {
			if i > 10_000 {
				t.Fatal("there is no end of responses")
			}
			before := len(inbox) + len(p.says)
			pump()
			hear(false)
			answered()
			if idle++; before+len(inbox)+len(p.says) > 0 {
				idle = 0
			}
		}

		var names []string
		for one := range world.ports {
			if anywhere(one.namespace) {
				names = append(names, one.String())
			}
		}
		slices.Sort(names)
		check := func(k kind, want []string) {
			if got := slices.Sorted(maps.Keys(p.has[k])); !slices.Equal(got, want) {
				t.Fatalf("%v: %q, want %q", k, got, want)
			}
		}
		check(clusters, names)
		check(assignments, names)
		for name, b := range p.has[assignments] {
			if want := world.assignment(serviceOf(t, name)); b.version != want.version {
				t.Fatalf("%s is not up to date", name)
			}
		}
		if proxy {
			check(routes, []string{allRoutes})
			if got := hosts(t, p.has[routes][allRoutes]); !slices.Equal(got, names) {
				t.Fatalf("routes to %q, want %q", got, names)
			}
			return
		}
		check(routes, names)
		var called []string
		for _, name := range names {
			if name == "a.default" {
				name = "a"
			}
			called = append(called, name)
		}
		slices.Sort(called)
		check(listeners, called)
	})
}
