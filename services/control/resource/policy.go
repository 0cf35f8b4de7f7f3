package resource

import (
	"fmt"
	"math"
	"time"
)

// A Change says who changed a resource last.
type Change struct {
	Version int64     `json:"version"` // counts a resource's changes from 1; continues after a removal
	At      time.Time `json:"changed_at"`
	By      string    `json:"changed_by"`
}

// Stamp replaces the record of the last change.
func (c *Change) Stamp(change Change) { *c = change }

// Changed returns the record of the last change.
func (c *Change) Changed() Change { return *c }

// A Policy is a list of rules for requests to services of its namespace. Policies of a namespace hold in the order of
// their names. For each purpose (see Purpose), the first rule holds that matches a request.
type Policy struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Labels    map[string]string `json:"labels,omitempty"`
	Rules     []Rule            `json:"rules"`
	Release   *PolicyRelease    `json:"release,omitempty"` // while given, some clients have its rules instead
	Change
}

// Ref names the policy.
func (p *Policy) Ref() Ref { return Ref{Kind: Policies, Namespace: p.Namespace, Name: p.Name} }

// An Action is what a rule does.
type Action string

// The actions.
const (
	Allow    Action = "allow"
	Deny     Action = "deny"
	Limit    Action = "limit"
	Route    Action = "route"
	Redirect Action = "redirect"
	Retry    Action = "retry"
	Timeout  Action = "timeout"
	Fail     Action = "fault"
	Circuit  Action = "circuit"
	Outlier  Action = "outliers"
	Balance  Action = "balance"
	Failover Action = "failover"
)

// A Purpose is what rules decide about a request. One rule decides, the first that matches.
type Purpose int

// The purposes. From Capacity on, they are of services: their rules match neither by paths nor by methods and so on.
const (
	Access Purpose = iota
	Destination
	Retrying
	Duration
	Rate
	Injection
	Capacity
	Ejection
	Balancing
	Replacement
	Purposes int = iota
)

// purposes has the purpose of each action.
var purposes = map[Action]Purpose{
	Allow: Access, Deny: Access, Route: Destination, Redirect: Destination, Retry: Retrying, Timeout: Duration,
	Limit: Rate, Fail: Injection, Circuit: Capacity, Outlier: Ejection, Balance: Balancing, Failover: Replacement,
}

// Purpose is what the rule decides.
func (r *Rule) Purpose() Purpose { return purposes[r.Action] }

// A Rule matches requests and has an action for them. It has Action, the field that the action needs, and perhaps
// others that are the action's. The tags say what a field may hold: see tags.go.
type Rule struct {
	Match  Match  `json:"match,omitzero"`
	Action Action `json:"action" variant:"true" required:"true" oneof:"allow deny limit route redirect retry timeout fault circuit outliers balance failover"`

	Limit     *RateLimit `json:"limit,omitempty" of:"limit" required:"true"`
	Route     []Backend  `json:"route,omitempty" of:"route" required:"true"`
	Rewrite   *Rewriting `json:"rewrite,omitempty" of:"route"`
	Mirror    []Mirror   `json:"mirror,omitempty" of:"route"`
	Redirect  *Location  `json:"redirect,omitempty" of:"redirect" required:"true"`
	Retry     *Retries   `json:"retry,omitempty" of:"retry" required:"true"`
	Timeout   float64    `json:"timeout_seconds,omitempty" of:"timeout" required:"true" range:"0<..3600"`
	Fault     *Injected  `json:"fault,omitempty" of:"fault" required:"true"`
	Circuit   *Circuits  `json:"circuit,omitempty" of:"circuit" required:"true"`
	Outliers  *Outliers  `json:"outliers,omitempty" of:"outliers" required:"true"`
	Balancing *Balancer  `json:"balance,omitempty" of:"balance" required:"true"`
	// Failover are services that get the requests while none of the service's own instances accept any; the first that can.
	Failover []string `json:"failover,omitempty" of:"failover" required:"true" is:"name"`
}

// A Match holds for a request if all given fields do; an empty one matches every request.
type Match struct {
	Services   []string          `json:"services,omitempty" is:"name"`                                                   // services of the request; one of them
	Sources    map[string]string `json:"sources,omitempty"`                                                              // labels of the caller; all of them
	Identities []string          `json:"identities,omitempty" is:"identity"`                                             // identities of the caller: NAMESPACE/SERVICE, or NAMESPACE/*; one of them
	Hosts      []string          `json:"hosts,omitempty" is:"host"`                                                      // hosts of the request; one of them
	Methods    []string          `json:"methods,omitempty" oneof:"GET HEAD POST PUT PATCH DELETE CONNECT OPTIONS TRACE"` // HTTP methods; one of them
	Path       string            `json:"path,omitempty" is:"path"`                                                       // the whole path
	PathPrefix string            `json:"path_prefix,omitempty" is:"path"`
	Headers    map[string]string `json:"headers,omitempty" is:"token"` // all of them
}

// A RateLimit has the parameters of a limit rule.
type RateLimit struct {
	PerSecond float64 `json:"requests_per_second" required:"true" range:"0<..1e9"`
	Burst     int     `json:"burst,omitempty" range:"0..1e9"` // 0 is the number of one second
	// Shared makes one limit of all proxies that ask one replica of the control plane. Without it, each has its own.
	Shared bool `json:"shared,omitempty"`
}

// Capacity is how many requests may come at once.
func (l *RateLimit) Capacity() float64 {
	if l.Burst == 0 {
		return max(1, math.Ceil(l.PerSecond))
	}
	return float64(l.Burst)
}

// A Backend is a share of a route rule's requests.
type Backend struct {
	Service string `json:"service" required:"true" is:"name"`
	Weight  int    `json:"weight" required:"true" range:"0..1000000"`
}

// A Rewriting changes requests before they are sent on.
type Rewriting struct {
	PathPrefix string `json:"path_prefix,omitempty" is:"path"` // takes the place of what was matched: the path, or its prefix
	Host       string `json:"host,omitempty" is:"host"`
}

// A Mirror gets copies of requests. Its answers are dropped.
type Mirror struct {
	Service string  `json:"service" required:"true" is:"name"`
	Percent float64 `json:"percent" required:"true" range:"0..100"`
}

// A Location is where a redirect rule sends the client. What is not given stays as it is in the request.
type Location struct {
	Host       string `json:"host,omitempty" is:"host"`
	Path       string `json:"path,omitempty" is:"path"`
	PathPrefix string `json:"path_prefix,omitempty" is:"path"` // takes the place of what was matched
	HTTPS      bool   `json:"https,omitempty"`
	Status     int    `json:"status,omitempty" oneof:"301 302 303 307 308"` // 0 is 302
}

// Retries has the parameters of a retry rule.
type Retries struct {
	Attempts int      `json:"attempts" required:"true" range:"1..10"` // beyond the first
	Backoff  float64  `json:"backoff_seconds,omitempty" range:"0..3600"`
	Each     float64  `json:"attempt_seconds,omitempty" range:"0..3600"` // timeout of one attempt; 0 is none
	On       []string `json:"on,omitempty" oneof:"connect-failure reset 5xx gateway-error retriable-4xx cancelled deadline-exceeded internal resource-exhausted unavailable"`
	// Budget bounds retries to a share of the requests under way.
	Budget float64 `json:"budget_percent,omitempty" range:"0..100"`
}

// An Injected fault is what requests suffer.
type Injected struct {
	Delay        float64 `json:"delay_seconds,omitempty" range:"0..3600"`
	DelayPercent float64 `json:"delay_percent,omitempty" range:"0..100"` // 0 is all
	Status       int     `json:"status,omitempty" range:"0..599"`        // answered instead of sending it on; 0 is none
	Percent      float64 `json:"status_percent,omitempty" range:"0..100"`
}

// Circuits bounds what one data plane sends to a service at a time. What exceeds it fails at once. 0 is no bound.
type Circuits struct {
	Connections int `json:"connections,omitempty" range:"0..1e9"`
	Pending     int `json:"pending,omitempty" range:"0..1e9"` // requests that wait for a connection
	Requests    int `json:"requests,omitempty" range:"0..1e9"`
	Retries     int `json:"retries,omitempty" range:"0..1e9"`
}

// Outliers says when an instance gets no requests for a while because its answers are errors.
type Outliers struct {
	Errors     int     `json:"consecutive_errors" required:"true" range:"1..1e6"`
	Interval   float64 `json:"interval_seconds,omitempty" range:"0..3600"` // between two looks; 0 is 10 s
	Ejection   float64 `json:"ejection_seconds,omitempty" range:"0..3600"` // the first time; 0 is 30 s
	MaxPercent int     `json:"max_percent,omitempty" range:"0..100"`       // of the instances at a time; 0 is 10
}

// A Balancer says how requests are divided among instances.
type Balancer struct {
	By string `json:"by" required:"true" oneof:"round-robin least-request random ring-hash"`
	// Header's value chooses the instance, with ring-hash. Without it, the caller's address does.
	Header string `json:"header,omitempty" is:"token"`
	// Local prefers instances in the caller's zone while enough of them are healthy.
	Local bool `json:"local_zone,omitempty"`
}

// Check returns Invalid with every fault of the policy.
func (p *Policy) Check(l Limits) error {
	var f faults
	p.Ref().check(&f)
	checkLabels(&f, "/labels", p.Labels, l.Labels)
	checkRules(&f, "/rules", p.Rules, l)
	if p.Release != nil {
		p.Release.check(&f, "/release", l)
	}
	return f.err()
}

func checkRules(f *faults, at string, rules []Rule, l Limits) {
	f.check(rules != nil, at, "must be given: a list, which may be empty")
	f.check(len(rules) <= l.Rules, at, "has %d rules: must have %d at most", len(rules), l.Rules)
	for i := range rules {
		if len(f.found) == maxFaults {
			break
		}
		f.list, f.index = at, i
		rules[i].check(f)
	}
	f.list = ""
}

// check finds the faults of a rule: those by its tags, and those across fields.
func (r *Rule) check(f *faults) {
	checkTags(f, "", r)
	sum := 0
	for _, b := range r.Route {
		sum += b.Weight
	}
	f.check(r.Route == nil || sum > 0, "/route", "one weight at least must be more than 0")
	m := &r.Match
	f.check(m.Path == "" || m.PathPrefix == "", "/match/path_prefix", "goes without path")
	if purpose, known := purposes[r.Action]; known && purpose >= Capacity {
		whole := len(m.Identities)+len(m.Hosts)+len(m.Methods)+len(m.Headers)+len(m.Path)+len(m.PathPrefix) == 0
		f.check(whole, "/match", "%s is for whole services: only services and sources can be given", r.Action)
	}
	f.check(len(m.Identities) == 0 || r.Action == Allow || r.Action == Deny, "/match/identities", "is for allow and deny only")
	if t := r.Redirect; t != nil {
		f.check(t.Path == "" || t.PathPrefix == "", "/redirect/path_prefix", "goes without path")
		f.check(t.Host != "" || t.Path != "" || t.PathPrefix != "" || t.HTTPS, "/redirect", "must change something")
	}
	if i := r.Fault; i != nil {
		f.check(i.Delay > 0 || i.Status > 0, "/fault", "must have delay_seconds or status")
		f.check(i.Status == 0 || i.Status >= 200, "/fault/status", "%d: must be from 200 to 599", i.Status)
	}
	// Such a service exists without instances: it must be named.
	f.check(r.Action != Failover || len(m.Services) > 0, "/match/services", "must be given for action failover")
	for i, name := range r.Failover {
		f.check(!contains(m.Services, name), fmt.Sprintf("/failover/%d", i), "%.80q: is what fails over", name)
	}
	f.check(r.Balancing == nil || r.Balancing.Header == "" || r.Balancing.By == "ring-hash", "/balance/header", "is for ring-hash only")
}

// MatchesService reports whether a rule's match is for a service, and for a caller with these labels.
func (m *Match) MatchesService(service string, caller map[string]string) bool {
	if len(m.Services) > 0 && !contains(m.Services, service) {
		return false
	}
	for name, value := range m.Sources {
		if got, ok := caller[name]; !ok || got != value {
			return false
		}
	}
	return true
}

func contains(list []string, one string) bool {
	for _, s := range list {
		if s == one {
			return true
		}
	}
	return false
}

// RuleName names a rule of a policy, for data planes that count by names.
func (p *Policy) RuleName(index int) string {
	return fmt.Sprintf("%s/%s/%d", p.Namespace, p.Name, index)
}
