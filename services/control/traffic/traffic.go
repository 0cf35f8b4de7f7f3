// Package traffic compiles policies into what a data plane does with requests to one service: a list of routes, of
// which the first that matches holds, and the settings of the service as a whole. It is pure. Translations into the
// forms of data planes start from its result: package xds has that for Envoy and gRPC's clients.
//
// Policies have rules for several purposes, such as where a request goes and how often it is tried again, and each
// purpose takes the first rule that matches. Data planes know one list of routes only. So a route is made for each
// combination of rules, one for each purpose, in the order of the rules. It matches what all of its rules match. The
// first route that matches a request then has, for each purpose, the first rule that matches: an earlier one would be
// in an earlier route. Routes that no request can reach are left out.
package traffic

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"dyno/services/control/resource"
)

// MaxRoutes bounds the routes of one service.
const MaxRoutes = 1000

// A Table is what holds for requests of one kind of caller to a service.
type Table struct {
	Routes   []Route             `json:"routes"`
	Circuit  *resource.Circuits  `json:"circuit,omitempty"`
	Outliers *resource.Outliers  `json:"outliers,omitempty"`
	Balance  *resource.Balancer  `json:"balance,omitempty"`
	Failover []string            `json:"failover,omitempty"` // services that replace this one, the first that can
	Policies []Source            `json:"-"`                  // where the rules come from
	Retries  []*resource.Retries `json:"-"`                  // all that occur
	Access   []resource.Rule     `json:"-"`                  // all rules about access, for the service's own proxy
}

// A Source is a policy that has rules for a service: for routes, for the service as a whole, or for both.
type Source struct {
	*resource.Policy
	Routes, Service bool
}

// A Route is what happens to the requests that it matches.
type Route struct {
	Match   Match              `json:"match,omitzero"`
	Deny    bool               `json:"deny,omitempty"`
	To      []resource.Backend `json:"to,omitempty"` // empty is the service itself
	Rewrite *Rewrite           `json:"rewrite,omitempty"`
	Mirror  []resource.Mirror  `json:"mirror,omitempty"`
	// Redirect answers with another address, which has Replaced exchanged.
	Redirect *resource.Location `json:"redirect,omitempty"`
	Replaced string             `json:"replaced,omitempty"`
	Retry    *resource.Retries  `json:"retry,omitempty"`
	Timeout  float64            `json:"timeout_seconds,omitempty"`
	Limit    *Limit             `json:"limit,omitempty"`
	Fault    *resource.Injected `json:"fault,omitempty"`
}

// A Rewrite changes a request's path and host.
type Rewrite struct {
	resource.Rewriting
	Replaced string `json:"replaced,omitempty"` // the beginning of the path that is exchanged
}

// A Limit is one bucket for all routes with the same name.
type Limit struct {
	Name string `json:"name"`
	resource.RateLimit
}

// A Match is a conjunction. Empty fields match everything.
type Match struct {
	Hosts      []string          `json:"hosts,omitempty"`
	Methods    []string          `json:"methods,omitempty"`
	Path       string            `json:"path,omitempty"`
	PathPrefix string            `json:"path_prefix,omitempty"`
	Headers    map[string]string `json:"headers,omitempty"`
}

// Matches reports whether a request matches. path has no query; header returns the value of a field.
func (m *Match) Matches(host, method, path string, header func(name string) string) bool {
	for name, value := range m.Headers {
		if header(name) != value {
			return false
		}
	}
	return (len(m.Hosts) == 0 || slices.ContainsFunc(m.Hosts, func(h string) bool { return strings.EqualFold(h, host) })) &&
		(len(m.Methods) == 0 || slices.Contains(m.Methods, method)) && (m.Path == "" || m.Path == path) && strings.HasPrefix(path, m.PathPrefix)
}

// Permits reports whether the rules about access let a request in: the first that matches decides, and without one it is
// let in. identity is the caller's NAMESPACE/SERVICE, "" if it has none.
func (t *Table) Permits(identity, host, method, path string, header func(name string) string) bool {
	namespace, _, _ := strings.Cut(identity, "/")
	for i := range t.Access {
		r := &t.Access[i]
		if ids := r.Match.Identities; len(ids) > 0 && (identity == "" || !slices.Contains(ids, identity) && !slices.Contains(ids, namespace+"/*")) {
			continue
		}
		if m := matchOf(&r.Match); m.Matches(host, method, path, header) {
			return r.Action == resource.Allow
		}
	}
	return true
}

// A numbered rule has its name.
type numbered struct {
	*resource.Rule
	name string
}

// inRoutes are the purposes that routes are for.
const inRoutes = int(resource.Capacity)

// Compile makes the table of a service for callers with labels. The policies are those of the service's namespace.
// The error is resource.TooMany.
func Compile(policies []*resource.Policy, service string, caller map[string]string) (*Table, error) {
	policies = slices.Clone(policies)
	slices.SortFunc(policies, func(a, b *resource.Policy) int { return strings.Compare(a.Name, b.Name) })
	t := &Table{}
	var rules [resource.Purposes][]numbered
	for _, p := range policies {
		source := Source{Policy: p}
		for i := range p.Rules {
			r := &p.Rules[i]
			if !r.Match.MatchesService(service, caller) {
				continue
			}
			purpose := r.Purpose()
			rules[purpose] = append(rules[purpose], numbered{r, p.RuleName(i)})
			source.Routes = source.Routes || purpose < resource.Capacity
			source.Service = source.Service || purpose >= resource.Capacity || purpose == resource.Retrying // it has a budget
		}
		if source.Routes || source.Service {
			t.Policies = append(t.Policies, source)
		}
	}
	for _, r := range rules[resource.Access] {
		t.Access = append(t.Access, *r.Rule)
	}
	// A caller does not know its own identity: from the first rule about identities on, the service's proxy decides.
	if i := slices.IndexFunc(rules[resource.Access], func(r numbered) bool { return len(r.Match.Identities) > 0 }); i >= 0 {
		rules[resource.Access] = rules[resource.Access][:i]
	}
	for _, r := range rules[resource.Retrying] {
		t.Retries = append(t.Retries, r.Retry)
	}
	if r := rules[resource.Capacity]; len(r) > 0 {
		t.Circuit = r[0].Circuit
	}
	if r := rules[resource.Ejection]; len(r) > 0 {
		t.Outliers = r[0].Outliers
	}
	if r := rules[resource.Balancing]; len(r) > 0 {
		t.Balance = r[0].Balancing
	}
	if r := rules[resource.Replacement]; len(r) > 0 {
		t.Failover = r[0].Failover
	}
	b := builder{rules: rules[:inRoutes]}
	b.extend(0, Match{}, Route{})
	if b.full {
		return nil, &resource.TooMany{What: "routes of service " + service, Limit: MaxRoutes}
	}
	t.Routes = b.routes
	return t, nil
}

// A builder makes the combinations of rules.
type builder struct {
	rules  [][]numbered // by purpose
	routes []Route
	tried  int // combinations
	full   bool
}

// maxTried bounds the work for one service.
const maxTried = 100 * MaxRoutes

// extend makes the routes with the rules that were chosen for the purposes before this one.
func (b *builder) extend(purpose int, m Match, r Route) {
	if b.full {
		return
	}
	if purpose == len(b.rules) {
		r.Match = m
		if b.tried++; b.tried > maxTried {
			b.full = true
			return
		}
		if slices.ContainsFunc(b.routes, func(earlier Route) bool { return covers(&earlier.Match, &m) }) {
			return
		}
		b.routes = append(b.routes, r)
		b.full = len(b.routes) > MaxRoutes
		return
	}
	for _, one := range b.rules[purpose] {
		own := matchOf(&one.Match)
		both, ok := and(&m, &own)
		if !ok {
			continue
		}
		next := r
		next.apply(one)
		b.extend(purpose+1, both, next)
		if covers(&own, &m) {
			return // no later rule of this purpose holds here
		}
	}
	b.extend(purpose+1, m, r)
}

// apply adds what a rule does.
func (r *Route) apply(one numbered) {
	replaced := cmp.Or(one.Match.Path, one.Match.PathPrefix)
	switch one.Action {
	case resource.Deny:
		r.Deny = true
	case resource.Route:
		r.To, r.Mirror = one.Route, one.Mirror
		if one.Rewrite != nil {
			r.Rewrite = &Rewrite{*one.Rewrite, replaced}
		}
	case resource.Redirect:
		r.Redirect, r.Replaced = one.Redirect, replaced
	case resource.Retry:
		r.Retry = one.Retry
	case resource.Timeout:
		r.Timeout = one.Timeout
	case resource.Limit:
		r.Limit = &Limit{one.name, *one.Limit}
	case resource.Fail:
		r.Fault = one.Fault
	}
}

func matchOf(m *resource.Match) Match {
	return Match{Hosts: m.Hosts, Methods: m.Methods, Path: m.Path, PathPrefix: m.PathPrefix, Headers: m.Headers}
}

// and returns what matches both; ok is false if nothing does.
func and(a, b *Match) (both Match, ok bool) {
	if both.Hosts, ok = common(a.Hosts, b.Hosts); !ok {
		return both, false
	}
	if both.Methods, ok = common(a.Methods, b.Methods); !ok {
		return both, false
	}
	path, other := a, b
	if a.Path == "" && (b.Path != "" || len(b.PathPrefix) > len(a.PathPrefix)) {
		path, other = b, a // the narrower one
	}
	switch text := cmp.Or(path.Path, path.PathPrefix); {
	case other.Path != "" && other.Path != path.Path, !strings.HasPrefix(text, other.PathPrefix):
		return both, false
	}
	both.Path, both.PathPrefix = path.Path, path.PathPrefix
	if len(a.Headers)+len(b.Headers) > 0 {
		both.Headers = map[string]string{}
	}
	for _, some := range []map[string]string{a.Headers, b.Headers} {
		for name, value := range some {
			name = strings.ToLower(name)
			if before, is := both.Headers[name]; is && before != value {
				return both, false
			}
			both.Headers[name] = value
		}
	}
	return both, true
}

// common returns the entries of both lists; an empty list has all.
func common(a, b []string) ([]string, bool) {
	if len(a) == 0 || len(b) == 0 {
		return append(slices.Clip(a), b...), true
	}
	var list []string
	for _, one := range a {
		if slices.Contains(b, one) {
			list = append(list, one)
		}
	}
	return list, len(list) > 0
}

// covers reports whether wide matches every request that narrow does.
func covers(wide, narrow *Match) bool {
	among := func(wide, narrow []string) bool {
		return len(wide) == 0 || len(narrow) > 0 && !slices.ContainsFunc(narrow, func(one string) bool { return !slices.Contains(wide, one) })
	}
	if !among(wide.Hosts, narrow.Hosts) || !among(wide.Methods, narrow.Methods) {
		return false
	}
	if wide.Path != "" && wide.Path != narrow.Path || !strings.HasPrefix(cmp.Or(narrow.Path, narrow.PathPrefix), wide.PathPrefix) {
		return false
	}
	for name, value := range wide.Headers {
		if got, ok := lookUp(narrow.Headers, name); !ok || got != value {
			return false
		}
	}
	return true
}

// lookUp finds a header by its name, which ignores case.
func lookUp(headers map[string]string, name string) (string, bool) {
	for one, value := range headers {
		if strings.EqualFold(one, name) {
			return value, true
		}
	}
	return "", false
}

// Hosts returns the hosts that rules about destinations name: the service is found by them, too.
func (t *Table) Hosts() []string {
	var hosts []string
	for _, r := range t.Routes {
		if len(r.To) > 0 || r.Redirect != nil {
			hosts = append(hosts, r.Match.Hosts...)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// Backends returns the services that routes lead to, other than the service itself.
func (t *Table) Backends() []string {
	var names []string
	for _, r := range t.Routes {
		for _, b := range r.To {
			names = append(names, b.Service)
		}
		for _, m := range r.Mirror {
			names = append(names, m.Service)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// A Limitation is something that a data plane cannot do.
type Limitation struct {
	DataPlane string `json:"data_plane"`
	Pointer   string `json:"pointer"` // into the policy, as of faults
	Detail    string `json:"detail"`
}

// The kinds of data planes. GRPC are gRPC's clients other than those below; GRPCCore is in C++, and in Python, Ruby and PHP.
const (
	Envoy    = "envoy"
	GRPC     = "grpc"
	GRPCGo   = "grpc-go"
	GRPCJava = "grpc-java"
	GRPCCore = "grpc-core"
)

// IsGRPC reports whether a kind of data planes is gRPC's clients.
func IsGRPC(kind string) bool { return strings.HasPrefix(kind, GRPC) }

// HasCalls reports whether calls of gRPC are among the requests with some methods; none has all.
func HasCalls(methods []string) bool { return len(methods) == 0 || slices.Contains(methods, "POST") }

// MinBackoff has the shortest pauses before a retry, in seconds: after shorter ones, calls hang (grpc/grpc#41036).
var MinBackoff = map[string]float64{GRPCCore: 0.01}

// Balances reports whether a kind of data planes can balance in a way. Those that cannot take turns.
func Balances(kind, by string) bool {
	return !IsGRPC(kind) || by != "random" && (kind != GRPCCore || by != "least-request")
}

// Limitations returns what kinds of data planes cannot do of a policy.
func Limitations(p *resource.Policy, kinds []string) []Limitation {
	var list []Limitation
	for i := range p.Rules {
		for _, kind := range kinds {
			for _, one := range limitations(kind, &p.Rules[i]) {
				list = append(list, Limitation{kind, fmt.Sprintf("#/rules/%d/%s", i, one[0]), one[1]})
			}
		}
	}
	return list
}

// limitations returns what a kind of data planes cannot do of a rule: places in it, and what happens instead.
func limitations(kind string, r *resource.Rule) (list [][2]string) {
	add := func(is bool, place, text string) {
		if is && IsGRPC(kind) { // Envoy does all
			list = append(list, [2]string{place, text})
		}
	}
	const ignored = "gRPC's clients ignore it"
	add(r.Limit != nil, "limit", "gRPC's clients limit nothing")
	add(r.Rewrite != nil, "rewrite", ignored)
	add(len(r.Mirror) > 0, "mirror", ignored)
	add(r.Redirect != nil, "redirect", "calls of gRPC's clients fail: they know no redirects")
	add(len(r.Match.Hosts) > 0, "match/hosts", "gRPC's clients match no hosts: they leave out the rule")
	add(!HasCalls(r.Match.Methods), "match/methods", "calls of gRPC's clients are POST: they leave out the rule")
	if t := r.Retry; t != nil {
		add(t.Backoff > 0 && t.Backoff < MinBackoff[kind], "retry/backoff_seconds", "it is 10 ms at least")
		add(t.Each > 0, "retry/attempt_seconds", ignored)
		add(t.Budget > 0, "retry/budget_percent", ignored)
		for i, on := range t.On {
			add(!slices.Contains(GRPCCodes, on), fmt.Sprintf("retry/on/%d", i), "gRPC's clients try again after codes only: "+strings.Join(GRPCCodes, ", "))
		}
	}
	if c := r.Circuit; c != nil {
		add(c.Connections > 0, "circuit/connections", ignored)
		add(c.Pending > 0, "circuit/pending", ignored)
		add(c.Retries > 0, "circuit/retries", ignored)
	}
	add(r.Outliers != nil, "outliers/consecutive_errors", "gRPC's clients eject by the share of errors, not by consecutive ones")
	if b := r.Balancing; b != nil {
		add(!Balances(kind, b.By), "balance/by", "gRPC's clients take turns instead")
	}
	add(len(r.Match.Identities) > 0, "match/identities", "callers do not know their identity: the service's proxy enforces it, and the rules after it")
	return list
}

// GRPCCodes are the codes after which gRPC's clients try again.
var GRPCCodes = []string{"cancelled", "deadline-exceeded", "internal", "resource-exhausted", "unavailable"}
