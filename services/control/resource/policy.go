package resource

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// A Change says who changed a resource last.
type Change struct {
	Version int64     `json:"version"` // counts a resource's changes from 1; continues after a removal
	At      time.Time `json:"changed_at"`
	By      string    `json:"changed_by"`
}

// A Policy is a list of rules for traffic between services. The first rule applies that matches the request and has
// the action in question.
type Policy struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Labels    map[string]string `json:"labels,omitempty"`
	Rules     []Rule            `json:"rules"`
	Change
}

// Ref names the policy.
func (p *Policy) Ref() Ref { return Ref{Kind: Policies, Namespace: p.Namespace, Name: p.Name} }

// An Action is what a rule does.
type Action string

// The actions.
const (
	Allow   Action = "allow"
	Deny    Action = "deny"
	Limit   Action = "limit"
	Route   Action = "route"
	Retry   Action = "retry"
	Timeout Action = "timeout"
)

// actions lists the actions, for error texts.
const actions = "allow, deny, limit, route, retry or timeout"

// A Rule matches requests and has an action for them. It has Action, and exactly the field that the action needs.
type Rule struct {
	Match  Match  `json:"match,omitzero"`
	Action Action `json:"action"`

	Limit   *RateLimit `json:"limit,omitempty"`
	Route   []Backend  `json:"route,omitempty"`
	Retry   *Retries   `json:"retry,omitempty"`
	Timeout float64    `json:"timeout_seconds,omitempty"`
}

// A Match holds for a request if all given fields do; an empty one matches every request.
type Match struct {
	Services   []string          `json:"services,omitempty"` // services of the request; one of them
	Sources    map[string]string `json:"sources,omitempty"`  // labels of the caller; all of them
	Methods    []string          `json:"methods,omitempty"`  // HTTP methods; one of them
	PathPrefix string            `json:"path_prefix,omitempty"`
	Headers    map[string]string `json:"headers,omitempty"` // all of them
}

// A RateLimit has the parameters of a limit rule.
type RateLimit struct {
	PerSecond float64 `json:"requests_per_second"`
	Burst     int     `json:"burst,omitempty"` // 0 is the number of one second
}

// A Backend is a share of a route rule's requests.
type Backend struct {
	Service string `json:"service"`
	Weight  int    `json:"weight"`
}

// Retries has the parameters of a retry rule.
type Retries struct {
	Attempts int     `json:"attempts"`
	Backoff  float64 `json:"backoff_seconds,omitempty"`
}

// Bounds of a rule's numbers.
const (
	maxList    = 100
	maxRate    = 1e9
	maxWeight  = 1_000_000
	maxRetries = 10
	maxSeconds = 3600
	maxPath    = 2048
)

// Check returns Invalid with every fault of the policy.
func (p *Policy) Check(l Limits) error {
	var f faults
	p.Ref().check(&f)
	checkLabels(&f, "/labels", p.Labels, l.Labels)
	f.check(p.Rules != nil, "/rules", "must be given: a list, which may be empty")
	f.check(len(p.Rules) <= l.Rules, "/rules", "has %d rules: must have %d at most", len(p.Rules), l.Rules)
	for i := range p.Rules {
		if len(f.found) == maxFaults {
			break
		}
		f.list, f.index = "/rules", i
		p.Rules[i].check(&f)
	}
	return f.err()
}

// check finds the faults of a rule. Without faults it makes no text: each write of a policy passes here.
func (r *Rule) check(f *faults) {
	r.Match.check(f)
	switch r.Action {
	case Allow, Deny, Limit, Route, Retry, Timeout:
	case "":
		f.check(false, "/action", "must be given: %s", actions)
	default:
		f.check(false, "/action", "%.40q: must be %s", r.Action, actions)
	}
	for _, part := range []struct {
		field  string
		given  bool
		action Action
	}{{"/limit", r.Limit != nil, Limit}, {"/route", r.Route != nil, Route}, {"/retry", r.Retry != nil, Retry}, {"/timeout_seconds", r.Timeout != 0, Timeout}} {
		switch needed := r.Action == part.action; {
		case needed && !part.given:
			f.check(false, part.field, "must be given for action %s", r.Action)
		case !needed && part.given:
			f.check(false, part.field, "is for action %s only", part.action)
		}
	}
	if r.Limit != nil {
		f.check(r.Limit.PerSecond > 0 && r.Limit.PerSecond <= maxRate, "/limit/requests_per_second", "%v: must be more than 0 and %v at most", r.Limit.PerSecond, maxRate)
		f.check(r.Limit.Burst >= 0 && float64(r.Limit.Burst) <= maxRate, "/limit/burst", "%d: must be from 0 to %v", r.Limit.Burst, maxRate)
	}
	f.check(len(r.Route) <= maxList, "/route", "has %d entries: must have %d at most", len(r.Route), maxList)
	sum := 0
	for i, b := range r.Route {
		if sum += b.Weight; isName(b.Service) && b.Weight >= 0 && b.Weight <= maxWeight {
			continue
		}
		one := fmt.Sprintf("/route/%d", i)
		f.check(isName(b.Service), one+"/service", "%.80q: %s", b.Service, nameRule)
		f.check(b.Weight >= 0 && b.Weight <= maxWeight, one+"/weight", "%d: must be from 0 to %d", b.Weight, maxWeight)
	}
	f.check(r.Route == nil || sum > 0, "/route", "one weight at least must be more than 0")
	if r.Retry != nil {
		f.check(r.Retry.Attempts >= 1 && r.Retry.Attempts <= maxRetries, "/retry/attempts", "%d: must be from 1 to %d", r.Retry.Attempts, maxRetries)
		f.check(r.Retry.Backoff >= 0 && r.Retry.Backoff <= maxSeconds, "/retry/backoff_seconds", "%v: must be from 0 to %d", r.Retry.Backoff, maxSeconds)
	}
	f.check(r.Timeout >= 0 && r.Timeout <= maxSeconds, "/timeout_seconds", "%v: must be more than 0 and %d at most", r.Timeout, maxSeconds)
}

func (m *Match) check(f *faults) {
	f.check(len(m.Services) <= maxList, "/match/services", "has %d entries: must have %d at most", len(m.Services), maxList)
	for i, s := range m.Services {
		if !isName(s) {
			f.check(false, fmt.Sprintf("/match/services/%d", i), "%.80q: %s", s, nameRule)
		}
	}
	f.check(len(m.Methods) <= maxList, "/match/methods", "has %d entries: must have %d at most", len(m.Methods), maxList)
	for i, method := range m.Methods {
		if !isMethod(method) {
			f.check(false, fmt.Sprintf("/match/methods/%d", i), "%.40q: must be a method of HTTP, in capitals", method)
		}
	}
	f.check(m.PathPrefix == "" || strings.HasPrefix(m.PathPrefix, "/") && len(m.PathPrefix) <= maxPath && plain(m.PathPrefix), "/match/path_prefix", "%.80q: must begin with a slash and have %d printable bytes at most", m.PathPrefix, maxPath)
	checkLabels(f, "/match/sources", m.Sources, maxList)
	checkLabels(f, "/match/headers", m.Headers, maxList)
}

// isMethod reports whether text is a method by RFC 9110, section 9.1, or RFC 5789.
func isMethod(text string) bool {
	switch text {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}
