package imports

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"dyno/services/control/resource"
)

// A mesh has the configuration entries of one service, of the kinds service-router, -splitter, -resolver and -intentions, with the
// fields that policies can express; see "Service router configuration entry reference" and so on in Consul's documentation.
type mesh struct {
	Routes []struct {
		Match       struct{ HTTP requests }
		Destination struct {
			Service, PrefixRewrite string
			RequestTimeout         duration
			NumRetries             int
			RetryOnConnectFailure  bool
			RetryOn                []string
		}
	}
	Splits []struct {
		Weight  float64
		Service string
	}
	Redirect       target
	RequestTimeout duration
	Failover       map[string]struct {
		Service     string
		Datacenters []string
		Targets     []place
	}
	Sources []source
	// These say nothing about requests.
	Kind, Name, Namespace, Partition string
	Meta                             map[string]string
	CreateIndex, ModifyIndex, Hash   uint64
}

type target struct{ Service string }

type place struct{ Service, Datacenter string }

type source struct {
	Name        string
	Action      resource.Action
	Permissions []struct {
		Action resource.Action
		HTTP   requests
	}
	Type, Description string // these and the next say nothing about requests
	Precedence        int
}

type requests struct {
	PathExact, PathPrefix string
	Methods               []string
	Header                []struct{ Name, Exact string }
}

// A duration is in seconds. Consul writes it as text.
type duration float64

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = duration(parsed.Seconds())
	return err
}

// entry notes a configuration entry. One that policies cannot express is left out as a whole: a part could mean something else.
func (i *Import) entry(kind, name string, raw []byte) {
	if !slices.Contains([]string{"service-router", "service-splitter", "service-resolver", "service-intentions"}, kind) {
		i.leave(kind+" "+name, "this kind is not carried over")
	} else if err := resource.Decode(raw, &mesh{}); err != nil {
		i.leave(kind+" "+name, "policies do not express this: %v", err)
	} else {
		if i.mesh == nil {
			i.mesh = map[string]*mesh{}
		}
		if i.mesh[name] == nil {
			i.mesh[name] = &mesh{}
		}
		_ = resource.Decode(raw, i.mesh[name]) // each kind has its own fields, which were read above
	}
}

// End makes a policy of the configuration entries of each service. The one for all services comes last by its name.
func (i *Import) End() {
	for _, name := range slices.Sorted(maps.Keys(i.mesh)) {
		p := &resource.Policy{Namespace: i.Namespace, Name: "consul-" + name}
		if name == "*" {
			p.Name = "consul_all"
		}
		var err error
		if p.Rules, err = i.rules(name, i.mesh[name]); err != nil {
			i.leave("entries of service "+name, "%v", err)
			continue
		}
		i.add("entries of service "+name, p)
	}
}

// rules makes the rules of a service: who may call it, where its requests go, and what takes its place.
func (i *Import) rules(service string, m *mesh) (list []resource.Rule, err error) {
	add := func(r resource.Rule, action resource.Action) *resource.Rule {
		r.Action = action
		list = append(list, r)
		return &list[len(list)-1]
	}
	slices.SortStableFunc(m.Sources, func(a, b source) int { return strings.Compare(b.Name, a.Name) }) // "*" is the least name
	others := i.mesh["*"] != nil || slices.ContainsFunc(m.Sources, func(s source) bool { return s.Name == "*" })
	for _, s := range m.Sources {
		if len(s.Permissions) > 0 && others {
			return nil, fmt.Errorf("source %s has permissions, and there are intentions for all: these would hold for its other requests", s.Name)
		}
		for _, one := range s.Permissions {
			add(i.rule(one.HTTP, service, s.Name), one.Action)
		}
		if s.Action != "" {
			add(i.rule(requests{}, service, s.Name), s.Action)
		}
	}
	untimed, unretried := false, false
	for n, r := range m.Routes {
		d, like := r.Destination, i.rule(r.Match.HTTP, service, "*")
		to := add(like, resource.Route)
		if to.Route = i.backends(cmp.Or(d.Service, service), 100); d.PrefixRewrite != "" {
			to.Rewrite = &resource.Rewriting{PathPrefix: d.PrefixRewrite}
		}
		if d.RetryOnConnectFailure {
			d.RetryOn = append(d.RetryOn, "connect-failure")
		}
		timed, retried := d.RequestTimeout > 0, d.NumRetries > 0 || len(d.RetryOn) > 0
		if timed && untimed || retried && unretried {
			return nil, fmt.Errorf("route %d has a timeout or retries, and one before it has none: a rule would hold for both", n+1)
		}
		if untimed = untimed || !timed; timed {
			add(like, resource.Timeout).Timeout = float64(d.RequestTimeout)
		}
		if unretried = unretried || !retried; retried {
			add(like, resource.Retry).Retry = &resource.Retries{Attempts: max(d.NumRetries, 1), On: d.RetryOn}
		}
	}
	all := i.rule(requests{}, service, "*")
	if to := i.backends(service, 100); len(to) > 1 || to[0].Service != service {
		add(all, resource.Route).Route = to
	}
	if m.RequestTimeout > 0 {
		add(all, resource.Timeout).Timeout = float64(m.RequestTimeout)
	}
	for subset, f := range m.Failover {
		if subset != "*" {
			return nil, fmt.Errorf("failover of the subset %s: there are no subsets", subset)
		}
		fails := add(all, resource.Failover)
		for _, d := range f.Datacenters {
			f.Targets = append(f.Targets, place{f.Service, d})
		}
		for _, t := range append(f.Targets, place{Service: f.Service}) {
			switch {
			case t.Datacenter != "": // a centre of this name has it
				fails.Failover = append(fails.Failover, cmp.Or(t.Service, service)+"@"+t.Datacenter)
			case t.Service != "" && len(f.Datacenters) == 0:
				fails.Failover = append(fails.Failover, t.Service)
			}
		}
	}
	return list, nil
}

// rule makes a rule for some requests to a service from a source. "*" is all of them.
func (i *Import) rule(m requests, service, from string) resource.Rule {
	match := resource.Match{Path: m.PathExact, PathPrefix: m.PathPrefix, Methods: m.Methods, Headers: map[string]string{}}
	if service != "*" {
		match.Services = []string{service}
	}
	if from != "*" {
		match.Identities = []string{i.Namespace + "/" + from}
	}
	for _, h := range m.Header {
		match.Headers[h.Name] = h.Exact
	}
	return resource.Rule{Match: match}
}

// maxBackends bounds the services that a rule divides requests among.
const maxBackends = 100

// backends returns where requests to a service go: first they are split, then redirected.
func (i *Import) backends(service string, percent float64, split ...string) (list []resource.Backend) {
	if m := i.mesh[service]; m != nil && len(m.Splits) > 0 && !slices.Contains(split, service) {
		for _, s := range m.Splits {
			if len(list) <= maxBackends { // a policy refuses more
				list = append(list, i.backends(cmp.Or(s.Service, service), percent*s.Weight/100, append(split, service)...)...)
			}
		}
		return list
	}
	for range i.mesh { // there are no more redirects than services
		if m := i.mesh[service]; m != nil && m.Redirect.Service != "" {
			service = m.Redirect.Service
		}
	}
	return []resource.Backend{{Service: service, Weight: int(math.Round(percent * 100))}}
}
