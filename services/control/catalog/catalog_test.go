package catalog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"dyno/internal/leak"
	"dyno/services/control/resource"
	"dyno/services/control/store"
)

func TestMain(m *testing.M) { leak.Main(m) }

func event(path string, revision int64, removed bool) store.Event {
	e := store.Event{KV: store.KV{Key: store.State + path, Revision: revision}, Removed: removed}
	if !removed {
		e.Value = resource.EncodeVersioned(revision, []byte("{}"))
	}
	return e
}

func never(t interface{ Errorf(string, ...any) }) func(string, error) {
	return func(key string, err error) { t.Errorf("%s: %v", key, err) }
}

// TestModel holds the catalog to a map.
func TestModel(t *testing.T) {
	name := rapid.SampledFrom([]string{"a", "a-b", "a.b", "a:b", "a0", "ab", "b", "a b", "é"})
	rapid.Check(t, func(t *rapid.T) {
		c := New()
		model := map[string]int64{}
		revision := int64(0)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			revision++
			b := store.Batch{Revision: revision}
			seen := map[string]bool{}
			for range rapid.IntRange(0, 3).Draw(t, "events") {
				path := "policy/n/" + name.Draw(t, "name")
				if rapid.Bool().Draw(t, "instance") {
					path = "instance/n/" + name.Draw(t, "service") + "/" + name.Draw(t, "id")
				}
				removed := rapid.Bool().Draw(t, "removed")
				if seen[path] {
					continue
				}
				seen[path] = true
				b.Events = append(b.Events, event(path, revision, removed))
				if removed {
					delete(model, path)
				} else {
					model[path] = revision
				}
			}
			_, moved := c.Revision()
			c.Apply(b, never(t))
			select {
			case <-moved:
			default:
				t.Fatal("nobody is told that the revision has grown")
			}
		}
		prefix := rapid.SampledFrom([]string{"", "policy/n/", "instance/n/", "instance/n/a/"}).Draw(t, "prefix")
		var want []string
		services := map[string]int{}
		for path := range model {
			if strings.HasPrefix(path, prefix) {
				want = append(want, path)
			}
			if parts := strings.Split(path, "/"); parts[0] == "instance" {
				services[parts[2]]++
			}
		}
		for _, ending := range []string{"", "a", "b", "a.b"} {
			n := 0
			for service := range services {
				if ending == "" || strings.HasSuffix(service, "."+ending) {
					n++
				}
			}
			if got := c.CountServicesBelow("n", ending); got != n || c.CountServicesBelow("m", ending) != 0 {
				t.Fatalf("%d services end with %q, want %d of %v", got, ending, n, services)
			}
		}
		slices.Sort(want)
		var got []string
		after := ""
		for more := true; more; {
			var items []*Item
			items, more = c.Page(prefix, after, 2, nil)
			for _, i := range items {
				after = i.Path
				got = append(got, i.Path)
				if i.Revision != model[i.Path] || i.Version != i.Revision || c.Get(i.Ref) != i {
					t.Fatalf("%+v", i)
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("listed %q, want %q", got, want)
		}
		var names []string
		after = ""
		for more := true; more; {
			var page []string
			var counts []int
			page, counts, more = c.Services("n", "", after, 2, nil)
			for i, n := range page {
				after = n
				names = append(names, n)
				if counts[i] != services[n] || c.CountService("n", n) != services[n] {
					t.Fatalf("%s has %d instances, want %d", n, counts[i], services[n])
				}
			}
		}
		if len(names) != len(services) {
			t.Fatalf("services %q, want %v", names, services)
		}
		for _, keep := range []bool{true, false} {
			all, more := c.Namespaces(1, func(string) bool { return keep })
			if more || len(all) != min(1, len(model)) && keep || len(all) != 0 && !keep {
				t.Fatalf("namespaces %q, more %v, of %v", all, more, model)
			}
		}
		if one, _, more := c.Services("n", "", "", 1, func(name string) bool { return name == "ab" }); more || len(one) != min(1, services["ab"]) {
			t.Fatalf("services named ab: %q, more %v", one, more)
		}
		if c.Count(resource.Policies)+c.Count(resource.Instances) != len(model) {
			t.Fatalf("counts %d and %d of %d", c.Count(resource.Policies), c.Count(resource.Instances), len(model))
		}
	})
}

// TestNames holds lists of names to a plain list.
func TestNames(t *testing.T) {
	text := rapid.StringOfN(rapid.SampledFrom([]rune("ab/-%.é")), 1, 6, -1)
	rapid.Check(t, func(t *rapid.T) {
		c := New()
		b := store.Batch{Revision: 1}
		var all []string
		for _, name := range rapid.SliceOfNDistinct(text, 0, 12, rapid.ID).Draw(t, "names") {
			r := resource.Ref{Kind: resource.Configs, Namespace: "n", Name: name}
			if r.Check() == nil {
				all = append(all, name)
				b.Events = append(b.Events, event(r.Path(), 1, false))
			}
		}
		c.Apply(b, never(t))
		prefix, separator := rapid.OneOf(rapid.Just(""), text).Draw(t, "prefix"), rapid.SampledFrom([]string{"", "/", "-", "/a"}).Draw(t, "separator")
		want := map[string]bool{}
		for _, name := range all {
			rest, ok := strings.CutPrefix(name, prefix)
			if before, _, found := strings.Cut(rest, separator); separator != "" && found {
				name = prefix + before + separator
			}
			if ok {
				want[name] = true
			}
		}
		got := map[string]bool{}
		for after, more := "", true; more; {
			var page []string
			page, more = c.Names(resource.Configs, "n", prefix, separator, after, rapid.IntRange(1, 3).Draw(t, "limit"), nil)
			for _, name := range page {
				if got[name] {
					t.Fatalf("%q is listed twice", name)
				}
				got[name] = true
				after = name
			}
		}
		if !maps.Equal(got, want) {
			t.Fatalf("%q behind %q by %q: %v, want %v", all, prefix, separator, got, want)
		}
		items, _ := c.Page("config/n/"+resource.EscapeName(prefix), "", 100, nil)
		if n := len(slices.DeleteFunc(all, func(name string) bool { return !strings.HasPrefix(name, prefix) })); len(items) != n {
			t.Fatalf("%d items begin with %q, want %d", len(items), prefix, n)
		}
	})
}

func TestNamespaces(t *testing.T) {
	c := New()
	var b store.Batch
	for _, path := range []string{"policy/b/x", "policy/b-c/x", "policy/b/y", "config/a/x", "instance/b0/s/1", "instance/a/s/1"} {
		b.Events = append(b.Events, event(path, 1, false))
	}
	b.Revision = 1
	c.Apply(b, never(t))
	for limit, want := range []string{"[] true", "[a] true", "[a b] true", "[a b b-c] true", "[a b b-c b0] false", "[a b b-c b0] false"} {
		names, more := c.Namespaces(limit, func(string) bool { return true })
		if got := fmt.Sprint(names, more); got != want {
			t.Errorf("%d: %s, want %s", limit, got, want)
		}
	}
	if names, more := c.Namespaces(2, func(name string) bool { return strings.HasPrefix(name, "b") && name != "b" }); more || !slices.Equal(names, []string{"b-c", "b0"}) {
		t.Errorf("%q, more %v", names, more)
	}
}

func TestDeltas(t *testing.T) {
	c := New()
	c.Apply(store.Batch{Revision: 1, Events: []store.Event{event("policy/n/a", 1, false)}}, never(t))
	deltas := c.Apply(store.Batch{Revision: 2, Events: []store.Event{event("policy/n/a", 2, false), event("policy/n/b", 2, true), event("policy/n/c", 2, false)}}, never(t))
	var got []string
	for _, d := range deltas {
		got = append(got, fmt.Sprint(d.Old != nil, d.New != nil, d.Revision))
	}
	if !slices.Equal(got, []string{"true true 2", "false true 2"}) {
		t.Errorf("%q", got)
	}
	deltas = c.Apply(store.Batch{Revision: 3, Events: []store.Event{event("policy/n/a", 3, true)}}, never(t))
	if len(deltas) != 1 || deltas[0].Old.Version != 2 || deltas[0].New != nil {
		t.Errorf("%+v", deltas)
	}
}

func TestInvalidKeys(t *testing.T) {
	c := New()
	var odd []string
	b := store.Batch{Revision: 1, Events: []store.Event{
		{KV: store.KV{Key: "s/policy/n/a", Value: []byte("no version")}}, {KV: store.KV{Key: "s/what/n/a", Value: []byte("1\n{}")}},
		{KV: store.KV{Key: "s/config/n/a", Value: []byte("1\n[]")}}, event("policy/n/b", 1, false),
	}}
	if deltas := c.Apply(b, func(key string, _ error) { odd = append(odd, key) }); len(deltas) != 1 {
		t.Errorf("%+v", deltas)
	}
	slices.SortFunc(odd, cmp.Compare[string])
	if !slices.Equal(odd, []string{"s/config/n/a", "s/policy/n/a", "s/what/n/a"}) {
		t.Errorf("odd %q", odd)
	}
}

// TestFailover: the first rule of the policies in the order of their names holds, as long as it is there.
func TestFailover(t *testing.T) {
	c := New()
	revision := int64(0)
	put := func(name, rules string) {
		t.Helper()
		revision++
		e := store.Event{KV: store.KV{Key: "s/policy/n/" + name, Revision: revision, Value: []byte(`1` + "\n" + `{"namespace":"n","name":"` + name + `","rules":` + rules + `}`)}, Removed: rules == ""}
		c.Apply(store.Batch{Revision: revision, Events: []store.Event{e}}, never(t))
	}
	check := func(namespace, service, want string) {
		t.Helper()
		if got := strings.Join(c.Failover(namespace, service), " "); got != want {
			t.Errorf("%s/%s: %q, want %q", namespace, service, got, want)
		}
	}
	put("b", `[{"action":"failover","match":{"services":["shop","web"]},"failover":["x","y"]}]`)
	put("a", `[{"action":"deny","match":{"services":["failover"]}},{"action":"failover","match":{"services":["shop"],"sources":{"app":"z"}},"failover":["z"]}]`)
	check("n", "shop", "x y")
	check("n", "failover", "")
	check("m", "shop", "")
	put("a", `[{"action":"failover","match":{"services":["shop"]},"failover":["z"]}]`)
	check("n", "shop", "z")
	check("n", "web", "x y")
	put("a", "")
	check("n", "shop", "x y")
	put("b", "")
	check("n", "shop", "")
	if len(c.failover) != 0 {
		t.Errorf("left %v", c.failover)
	}
}

// TestGoesBack: who waits for another revision is woken also by a lower one.
func TestGoesBack(t *testing.T) {
	c := New()
	c.Apply(store.Batch{Revision: 10, Listed: true}, nil)
	_, moved := c.Revision()
	c.Apply(store.Batch{Revision: 5, Listed: true}, nil)
	select {
	case <-moved:
	default:
		t.Error("nobody is woken")
	}
	if at, _ := c.Revision(); at != 5 {
		t.Errorf("at %d", at)
	}
}
