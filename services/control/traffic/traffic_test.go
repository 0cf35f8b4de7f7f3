package traffic

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"dyno/services/control/resource"
)

// policy makes a policy of rules in JSON.
func policy(t testing.TB, name, rules string) *resource.Policy {
	t.Helper()
	p := &resource.Policy{Namespace: "default", Name: name}
	if err := json.Unmarshal([]byte(rules), &p.Rules); err != nil {
		t.Fatal(err)
	}
	if err := p.Check(resource.DefaultLimits()); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestCompile(t *testing.T) {
	for name, c := range map[string]struct {
		rules, want string
	}{
		"nothing": {`[]`, `{}`},
		"one rule": {
			`[{"action":"timeout","timeout_seconds":1}]`,
			`{"timeout_seconds":1}`,
		},
		"a rule for some requests": {
			`[{"action":"deny","match":{"path_prefix":"/admin"}}]`,
			`{"match":{"path_prefix":"/admin"},"deny":true} {}`,
		},
		"another service's": {`[{"action":"deny","match":{"services":["other"]}}]`, `{}`},
		"other callers'":    {`[{"action":"deny","match":{"sources":{"app":"other"}}}]`, `{}`},
		"these callers'":    {`[{"action":"deny","match":{"sources":{"app":"web"}}}]`, `{"deny":true}`},
		"the first that matches, for each purpose": {
			`[{"action":"timeout","timeout_seconds":1,"match":{"path_prefix":"/a"}},{"action":"timeout","timeout_seconds":2},{"action":"retry","retry":{"attempts":2},"match":{"methods":["GET"]}}]`,
			`{"match":{"methods":["GET"],"path_prefix":"/a"},"retry":{"attempts":2},"timeout_seconds":1}` +
				` {"match":{"methods":["GET"]},"retry":{"attempts":2},"timeout_seconds":2}` +
				` {"match":{"path_prefix":"/a"},"timeout_seconds":1}` +
				` {"timeout_seconds":2}`,
		},
		"what no request can match is left out": {
			`[{"action":"timeout","timeout_seconds":1,"match":{"path":"/a"}},{"action":"retry","retry":{"attempts":2},"match":{"path_prefix":"/b"}}]`,
			`{"match":{"path_prefix":"/b"},"retry":{"attempts":2}} {"match":{"path":"/a"},"timeout_seconds":1} {}`,
		},
		"equal matches make one route": {
			`[{"action":"timeout","timeout_seconds":1,"match":{"path":"/a"}},{"action":"fault","fault":{"status":503},"match":{"path":"/a"}}]`,
			`{"match":{"path":"/a"},"timeout_seconds":1,"fault":{"status":503}} {}`,
		},
		"a rewrite knows what it exchanges": {
			`[{"action":"route","route":[{"service":"b","weight":1}],"rewrite":{"path_prefix":"/"},"match":{"path_prefix":"/v1/"}},{"action":"deny","match":{"path_prefix":"/v1/x"}}]`,
			`{"match":{"path_prefix":"/v1/x"},"deny":true,"to":[{"service":"b","weight":1}],"rewrite":{"path_prefix":"/","replaced":"/v1/"}}` +
				` {"match":{"path_prefix":"/v1/"},"to":[{"service":"b","weight":1}],"rewrite":{"path_prefix":"/","replaced":"/v1/"}} {}`,
		},
		"identities are for the service's own proxy": {
			`[{"action":"deny","match":{"path":"/a"}},{"action":"allow","match":{"identities":["default/web"]}},{"action":"deny"}]`,
			`{"match":{"path":"/a"},"deny":true} {}`,
		},
		"headers ignore case": {
			`[{"action":"deny","match":{"headers":{"X-A":"1"}}},{"action":"timeout","timeout_seconds":1,"match":{"headers":{"x-a":"2"}}}]`,
			`{"match":{"headers":{"x-a":"1"}},"deny":true} {"match":{"headers":{"x-a":"2"}},"timeout_seconds":1} {}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			table, err := Compile([]*resource.Policy{policy(t, "p", c.rules)}, "shop", map[string]string{"app": "web"})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range table.Routes {
				text, err := json.Marshal(r)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, string(text))
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("got  %s\nwant %s", text, c.want)
			}
		})
	}
}

// TestPoliciesInOrder: policies hold in the order of their names, and what is of the whole service comes from the first rule.
func TestPoliciesInOrder(t *testing.T) {
	table, err := Compile([]*resource.Policy{
		policy(t, "b", `[{"action":"timeout","timeout_seconds":2},{"action":"circuit","circuit":{"requests":2}},{"action":"failover","match":{"services":["shop"]},"failover":["x","y"]}]`),
		policy(t, "c", `[{"action":"deny","match":{"services":["other"]}}]`),
		policy(t, "a", `[{"action":"timeout","timeout_seconds":1}]`),
	}, "shop", nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range table.Policies {
		names = append(names, p.Name)
	}
	if len(table.Routes) != 1 || table.Routes[0].Timeout != 1 || table.Circuit.Requests != 2 || !slices.Equal(table.Failover, []string{"x", "y"}) || !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("%+v from %q", table, names)
	}
}

// TestTooManyRoutes: rules that would make too many routes are refused.
func TestTooManyRoutes(t *testing.T) {
	var rules []string
	for i := range 10 {
		for purpose, action := range []string{`"timeout","timeout_seconds":1`, `"retry","retry":{"attempts":1}`, `"fault","fault":{"status":503}`} {
			rules = append(rules, fmt.Sprintf(`{"action":%s,"match":{"headers":{"h%d-%d":"x"}}}`, action, i, purpose))
		}
	}
	var many *resource.TooMany
	if _, err := Compile([]*resource.Policy{policy(t, "p", "["+strings.Join(rules, ",")+"]")}, "shop", nil); !errors.As(err, &many) {
		t.Errorf("error %v", err)
	}
}

// A request is one that rules match or not.
type request struct {
	host, method, path string
	headers            map[string]string
}

func (r *request) matches(m *Match) bool {
	for name, value := range m.Headers {
		if got, ok := lookUp(r.headers, name); !ok || got != value {
			return false
		}
	}
	return (len(m.Hosts) == 0 || slices.Contains(m.Hosts, r.host)) && (len(m.Methods) == 0 || slices.Contains(m.Methods, r.method)) &&
		(m.Path == "" || m.Path == r.path) && strings.HasPrefix(r.path, m.PathPrefix)
}

// TestFirstRouteHasFirstRules: the first route that matches a request has, for each purpose, the first rule that does.
func TestFirstRouteHasFirstRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &resource.Policy{Namespace: "default", Name: "p"}
		some := func(label string, values ...string) []string {
			return rapid.SliceOfNDistinct(rapid.SampledFrom(values), 0, 2, rapid.ID).Draw(t, label)
		}
		paths := []string{"/", "/a", "/a/b", "/c"}
		for i := range rapid.IntRange(0, 7).Draw(t, "rules") {
			r := resource.Rule{Match: resource.Match{Hosts: some("hosts", "x", "y"), Methods: some("methods", http.MethodGet, http.MethodPut)}}
			switch rapid.IntRange(0, 2).Draw(t, "path") {
			case 0:
				r.Match.Path = rapid.SampledFrom(paths).Draw(t, "whole")
			case 1:
				r.Match.PathPrefix = rapid.SampledFrom(paths).Draw(t, "prefix")
			}
			if rapid.Bool().Draw(t, "header") {
				r.Match.Headers = map[string]string{rapid.SampledFrom([]string{"h", "H", "k"}).Draw(t, "name"): rapid.SampledFrom([]string{"1", "2"}).Draw(t, "value")}
			}
			switch rapid.IntRange(0, 4).Draw(t, "action") {
			case 0:
				r.Action, r.Timeout = resource.Timeout, float64(i+1)
			case 1:
				r.Action, r.Retry = resource.Retry, &resource.Retries{Attempts: i + 1}
			case 2:
				r.Action = resource.Deny
			case 3:
				r.Action = resource.Allow
			case 4:
				r.Action, r.Fault = resource.Fail, &resource.Injected{Status: 500 + i}
			}
			p.Rules = append(p.Rules, r)
		}
		table, err := Compile([]*resource.Policy{p}, "shop", nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			q := request{
				rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "host"), rapid.SampledFrom([]string{"GET", "PUT", "POST"}).Draw(t, "method"),
				rapid.SampledFrom([]string{"/", "/a", "/a/b", "/a/bc", "/c", "/d"}).Draw(t, "path"), map[string]string{"h": rapid.SampledFrom([]string{"1", "2"}).Draw(t, "h")},
			}
			var want Route
			var decided [resource.Purposes]bool
			for i := range p.Rules {
				r := &p.Rules[i]
				m := matchOf(&r.Match)
				if !decided[r.Purpose()] && q.matches(&m) {
					decided[r.Purpose()] = true
					want.apply(numbered{r, ""})
				}
			}
			i := slices.IndexFunc(table.Routes, func(r Route) bool { return q.matches(&r.Match) })
			if i < 0 {
				t.Fatalf("no route for %+v", q)
			}
			got := table.Routes[i]
			got.Match = Match{}
			if a, b := shown(t, got), shown(t, want); a != b {
				t.Fatalf("%+v: %s, want %s", q, a, b)
			}
		}
	})
}

func shown(t *rapid.T, r Route) string {
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestLimitations(t *testing.T) {
	p := policy(t, "p", `[{"action":"timeout","timeout_seconds":1},{"action":"limit","limit":{"requests_per_second":1}},{"action":"retry","retry":{"attempts":1,"backoff_seconds":0.005,"on":["unavailable","5xx"]}},
		{"action":"balance","balance":{"by":"least-request"}},{"action":"deny","match":{"methods":["GET","PUT"]}},{"action":"deny","match":{"methods":["POST"]}}]`)
	for kind, want := range map[string]string{
		Envoy: "", GRPCJava: "grpc-java 1/limit 2/retry/on/1 4/match/methods", GRPCCore: "grpc-core 1/limit 2/retry/backoff_seconds 2/retry/on/1 3/balance/by 4/match/methods",
	} {
		got := ""
		for _, l := range Limitations(p, []string{Envoy, kind}) {
			if got == "" {
				got = l.DataPlane
			}
			got += strings.Replace(l.Pointer, "#/rules/", " ", 1)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
}
