package resource

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// pointers are the places of an error's faults, in order.
func pointers(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	var v Invalid
	if !errors.As(err, &v) {
		t.Fatalf("%v is no Invalid", err)
	}
	var list []string
	for _, f := range v {
		if f.Detail == "" {
			t.Errorf("%s: says nothing", f.Pointer)
		}
		list = append(list, f.Pointer)
	}
	slices.Sort(list)
	return list
}

func TestPolicyFaults(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"least":          {`{"name":"a","rules":[]}`, nil},
		"no rules":       {`{"name":"a"}`, []string{"#/rules"}},
		"no name":        {`{"rules":[]}`, []string{"#/name"}},
		"slash in name":  {`{"name":"a/b","rules":[]}`, []string{"#/name"}},
		"dots":           {`{"name":"..","rules":[]}`, []string{"#/name"}},
		"namespace":      {`{"namespace":"-a","name":"a","rules":[]}`, []string{"#/namespace"}},
		"whole":          {`{"name":"a","labels":{"team":"x"},"rules":[{"match":{"services":["s"],"sources":{"app":"web"},"methods":["GET"],"path_prefix":"/x","headers":{"h":"v"}},"action":"allow"},{"action":"limit","limit":{"requests_per_second":1.5,"burst":3}},{"action":"route","route":[{"service":"a","weight":9},{"service":"b","weight":1}]},{"action":"retry","retry":{"attempts":2}},{"action":"timeout","timeout_seconds":0.5},{"action":"deny"}]}`, nil},
		"action":         {`{"name":"a","rules":[{"action":"x"},{}]}`, []string{"#/rules/0/action", "#/rules/1/action"}},
		"needed":         {`{"name":"a","rules":[{"action":"limit"},{"action":"route"},{"action":"retry"},{"action":"timeout"}]}`, []string{"#/rules/0/limit", "#/rules/1/route", "#/rules/2/retry", "#/rules/3/timeout_seconds"}},
		"not needed":     {`{"name":"a","rules":[{"action":"deny","limit":{"requests_per_second":1}}]}`, []string{"#/rules/0/limit"}},
		"numbers":        {`{"name":"a","rules":[{"action":"limit","limit":{"requests_per_second":0,"burst":-1}},{"action":"retry","retry":{"attempts":11,"backoff_seconds":-1}}]}`, []string{"#/rules/0/limit/burst", "#/rules/0/limit/requests_per_second", "#/rules/1/retry/attempts", "#/rules/1/retry/backoff_seconds"}},
		"weights":        {`{"name":"a","rules":[{"action":"route","route":[{"service":"a","weight":0}]}]}`, []string{"#/rules/0/route"}},
		"match":          {`{"name":"a","rules":[{"action":"deny","match":{"services":["/"],"methods":["get"],"path_prefix":"x","sources":{"":"v"}}}]}`, []string{"#/rules/0/match/methods/0", "#/rules/0/match/path_prefix", "#/rules/0/match/services/0", "#/rules/0/match/sources/"}},
		"failover":       {`{"name":"a","rules":[{"action":"failover","match":{"services":["s"]},"failover":["b"]},{"action":"failover","failover":["/"]},{"action":"failover","match":{"services":["b"],"path":"/x"},"failover":["a","b"]},{"action":"failover","match":{"services":["s"]}}]}`, []string{"#/rules/1/failover/0", "#/rules/1/match/services", "#/rules/2/failover/1", "#/rules/2/match", "#/rules/3/failover"}},
		"unknown field":  {`{"name":"a","rules":[],"rulez":1}`, []string{"#/rulez"}},
		"kind":           {`{"name":"a","rules":[{"action":5}]}`, []string{"#/rules/0/action"}},
		"not JSON":       {`{"name":`, []string{"#"}},
		"nothing":        {``, []string{"#"}},
		"more":           {`{"name":"a","rules":[]} {}`, []string{"#"}},
		"label's name":   {`{"name":"a","rules":[],"labels":{"a/b~c\u0001":"v"}}`, []string{"#/labels/a~1b~0c\x01"}},
		"too many rules": {`{"name":"a","rules":[` + strings.Repeat(`{"action":"deny"},`, 5) + `{"action":"deny"}]}`, []string{"#/rules"}},
	} {
		limits := DefaultLimits()
		limits.Rules = 6
		if name == "too many rules" {
			limits.Rules = 5
		}
		p := Policy{Namespace: DefaultNamespace}
		err := Decode([]byte(c.text), &p)
		if err == nil {
			err = p.Check(limits)
		}
		if got := pointers(t, err); !slices.Equal(got, c.want) {
			t.Errorf("%s: faults at %q, want %q", name, got, c.want)
		}
	}
}

func TestFaultsAreBounded(t *testing.T) {
	p := Policy{Namespace: "default", Name: "a", Rules: make([]Rule, 500)}
	if got := pointers(t, p.Check(DefaultLimits())); len(got) != maxFaults {
		t.Errorf("%d faults", len(got))
	}
}

func TestInstanceFaults(t *testing.T) {
	good := Instance{Namespace: "default", Service: "s", ID: "1", Address: "10.0.0.1", Port: 80, Weight: 1}
	good.Default()
	for name, c := range map[string]struct {
		change func(*Instance)
		want   []string
	}{
		"good":      {func(*Instance) {}, nil},
		"IPv6":      {func(i *Instance) { i.Address = "::1" }, nil},
		"host":      {func(i *Instance) { i.Address = "Web-1.example.org" }, nil},
		"no host":   {func(i *Instance) { i.Address = "a..b" }, []string{"#/address"}},
		"nothing":   {func(i *Instance) { i.Address = "" }, []string{"#/address"}},
		"port":      {func(i *Instance) { i.Port = 65536 }, []string{"#/port"}},
		"ttl":       {func(i *Instance) { i.TTL = math.NaN() }, []string{"#/ttl_seconds"}},
		"short ttl": {func(i *Instance) { i.TTL = 0.5 }, []string{"#/ttl_seconds"}},
		"several":   {func(i *Instance) { i.Service, i.ID, i.Zone, i.Weight, i.Status = "", "/", "a b", -1, "x" }, []string{"#/id", "#/service", "#/status", "#/weight", "#/zone"}},
		"metadata":  {func(i *Instance) { i.Metadata = map[string]string{"a": "\xff"} }, []string{"#/metadata/a"}},
	} {
		i := good
		c.change(&i)
		if got := pointers(t, i.Check(DefaultLimits())); !slices.Equal(got, c.want) {
			t.Errorf("%s: faults at %q, want %q", name, got, c.want)
		}
	}
}

func TestConfigFaults(t *testing.T) {
	good := Config{Namespace: "default", Name: "c", Content: "x"}
	for name, c := range map[string]struct {
		change func(*Config)
		want   []string
	}{
		"good":        {func(*Config) {}, nil},
		"empty":       {func(c *Config) { c.Content = "" }, nil},
		"long":        {func(c *Config) { c.Content = strings.Repeat("x", 11) }, []string{"#/content"}},
		"not UTF-8":   {func(c *Config) { c.Content = "\xff" }, []string{"#/content"}},
		"type":        {func(c *Config) { c.ContentType = ";" }, []string{"#/content_type"}},
		"release":     {func(c *Config) { c.Release = &Release{Content: "y", Choice: Choice{Percent: 5}} }, nil},
		"for nobody":  {func(c *Config) { c.Release = &Release{Content: "y"} }, []string{"#/release"}},
		"percent":     {func(c *Config) { c.Release = &Release{Content: "y", Choice: Choice{Percent: 101}} }, []string{"#/release/percent"}},
		"no values":   {func(c *Config) { c.Release = &Release{Choice: Choice{Labels: map[string][]string{"zone": {}}}} }, []string{"#/release/labels/zone"}},
		"both longer": {func(c *Config) { c.Release = &Release{Content: strings.Repeat("y", 10), Choice: Choice{Percent: 5}} }, []string{"#/release/content"}},
	} {
		limits := DefaultLimits()
		limits.ConfigBytes = 10
		one := good
		c.change(&one)
		if got := pointers(t, one.Check(limits)); !slices.Equal(got, c.want) {
			t.Errorf("%s: faults at %q, want %q", name, got, c.want)
		}
	}
}

func TestPaths(t *testing.T) {
	for _, r := range []Ref{{Policies, "default", "a.b-c_D", ""}, {Configs, "n-1", "x:y", ""}, {Instances, "default", "svc", "10.0.0.1:80"}} {
		got, err := ParsePath(r.Path())
		if err != nil || got != r {
			t.Errorf("%q: %+v, %v", r.Path(), got, err)
		}
	}
	for _, path := range []string{"", "policy", "policy/a", "policy/a/b/c", "instance/a/b", "other/a/b", "policy/A/b", "policy/a/", "head"} {
		if r, err := ParsePath(path); err == nil {
			t.Errorf("%q names %+v", path, r)
		}
	}
}

// TestRelease: the chosen share of clients has about the wanted size, is stable, and only grows with the percentage.
func TestRelease(t *testing.T) {
	c := Config{Namespace: "default", Name: "c", Content: "old", Release: &Release{Content: "new", Choice: Choice{Since: 3}}}
	const clients = 20_000
	chosen := map[string]bool{}
	for _, percent := range []float64{0.5, 5, 20, 50, 100} {
		c.Release.Percent = percent
		n := 0
		for i := range clients {
			id := fmt.Sprintf("client-%d", i)
			content, released := c.For(Client{ID: id})
			if released != (content == "new") {
				t.Fatalf("%q, released %v", content, released)
			}
			if released {
				n++
				chosen[id] = true
			} else if chosen[id] {
				t.Fatalf("%s was chosen for less than %v %%", id, percent)
			}
		}
		// Five standard deviations of a binomial distribution.
		p := percent / 100
		if d := math.Abs(float64(n) - clients*p); d > 5*math.Sqrt(clients*p*(1-p)) {
			t.Errorf("%v %%: %d of %d", percent, n, clients)
		}
	}
	other := c
	release := *c.Release
	release.Since, release.Percent = 4, 50
	c.Release.Percent = 50
	other.Release = &release
	both := 0
	for i := range clients {
		_, a := c.For(Client{ID: fmt.Sprint(i)})
		_, b := other.For(Client{ID: fmt.Sprint(i)})
		if a && b {
			both++
		}
	}
	if math.Abs(float64(both)-clients/4) > 5*math.Sqrt(clients*0.25*0.75) {
		t.Errorf("two releases of 50 %% share %d of %d clients, want a quarter", both, clients)
	}
}

func TestReleaseByLabels(t *testing.T) {
	c := Config{Namespace: "default", Name: "c", Content: "old", Release: &Release{Content: "new", Choice: Choice{Labels: map[string][]string{"zone": {"a", "b"}, "tier": {"1"}}}}}
	for _, one := range []struct {
		labels map[string]string
		want   bool
	}{
		{map[string]string{"zone": "a", "tier": "1", "x": "y"}, true},
		{map[string]string{"zone": "b", "tier": "1"}, true},
		{map[string]string{"zone": "c", "tier": "1"}, false},
		{map[string]string{"zone": "a"}, false},
		{nil, false},
	} {
		if _, got := c.For(Client{ID: "x", Labels: one.labels}); got != one.want {
			t.Errorf("%v: %v", one.labels, got)
		}
	}
}

func TestMasked(t *testing.T) {
	c := Config{Content: "password", Secret: true, Release: &Release{Content: "password", Choice: Choice{Percent: 1}}}
	text, err := json.Marshal(c.Masked())
	if err != nil || strings.Contains(string(text), "password") {
		t.Errorf("%s, %v", text, err)
	}
	if c.Content == "" || c.Release.Content == "" {
		t.Error("the original was changed")
	}
}

// FuzzPolicy: what is accepted is the same when it is written and read again.
func FuzzPolicy(f *testing.F) {
	f.Add([]byte(`{"name":"a","rules":[{"match":{"methods":["GET"]},"action":"limit","limit":{"requests_per_second":1}}]}`))
	f.Add([]byte(`{"name":"a","rules":[{"action":"route","route":[{"service":"a","weight":9}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p := Policy{Namespace: DefaultNamespace}
		if Decode(text, &p) != nil || p.Check(DefaultLimits()) != nil {
			return
		}
		once, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var q Policy
		if err := Decode(once, &q); err != nil {
			t.Fatalf("%s: %v", once, err)
		}
		if err := q.Check(DefaultLimits()); err != nil {
			t.Fatalf("%s: %v", once, err)
		}
		if twice, err := json.Marshal(q); err != nil || string(twice) != string(once) {
			t.Fatalf("%s, then %s", once, twice)
		}
	})
}

func TestAuditAsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z0-9.:-]{0,20}`))
		a := Audit{
			At:  time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds")).UTC(),
			Who: text.Draw(t, "who"), From: text.Draw(t, "from"), Act: Act(text.Draw(t, "act")),
			Ref: Ref{Kind(text.Draw(t, "kind")), text.Draw(t, "namespace"), text.Draw(t, "name"), text.Draw(t, "id")},
			Old: rapid.Int64Range(0, 2).Draw(t, "old"), New: rapid.Int64().Draw(t, "new"),
		}
		want, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.AppendJSON(nil); string(got) != string(want) {
			t.Fatalf("%s, want %s", got, want)
		}
	})
}
