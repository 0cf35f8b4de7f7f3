package plane

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"dyno/services/control/resource"
)

// TestCentreCopies: a centre's instances are copied under its name, with their versions. Nothing else is, nor what is itself a copy,
// nor more than the limit.
func TestCentreCopies(t *testing.T) {
	s := newStore(t)
	p := opened(t, s, func(c *Config) { c.Centres, c.Limits.Instances = []string{"a", "b"}, 3 })
	one := func(service, id, holder string) (resource.Ref, Copy) {
		r := resource.Ref{Kind: resource.Instances, Namespace: "n", Name: service, ID: id}
		return r, Copy{Version: 7, Body: fmt.Appendf(nil, `{"namespace":"n","service":%q,"id":%q,"address":"10.0.0.1","port":1,"weight":1,"status":"up","ttl_seconds":30,"holder":%q}`, service, id, holder)}
	}
	copies := map[resource.Ref]Copy{}
	add := func(service, id, holder string) {
		r, c := one(service, id, holder)
		copies[r] = c
	}
	add("s", "1", "control")
	add("s@x", "1", "@x")
	add(strings.Repeat("s", 253), "1", "control")
	copies[resource.Ref{Kind: resource.Policies, Namespace: "n", Name: "p"}] = Copy{Version: 1, Body: []byte(`{"name":"p","rules":[]}`)}
	want := func(centre string, paths ...string) {
		t.Helper()
		if err := p.Centre(centre).CopyAll(t.Context(), copies); err != nil {
			t.Error(err)
		}
		all, _ := p.catalog.Page("", "", 100, nil)
		var got []string
		for _, i := range all {
			got = append(got, i.Path)
			if one := i.Resource.(*resource.Instance); one.Service != i.Name || one.Holder != i.Name[strings.LastIndex(i.Name, "@"):] || i.Version != 7 {
				t.Errorf("%s: version %d, %+v", i.Path, i.Version, one)
			}
		}
		if !slices.Equal(got, paths) {
			t.Errorf("%q, want %q", got, paths)
		}
	}
	want("a", "instance/n/s@a/1")
	want("b", "instance/n/s@a/1", "instance/n/s@b/1")
	add("s", "2", "control")
	want("a", "instance/n/s@a/1", "instance/n/s@a/2", "instance/n/s@b/1")
	add("s", "3", "control")
	if err := p.Centre("b").CopyAll(t.Context(), copies); err == nil || !strings.Contains(err.Error(), "instances") {
		t.Error(err)
	}
	// A complete copy takes away what is not in it, of this centre only.
	keep, _ := one("s", "2", "")
	if err := p.Centre("a").CopyOnly(t.Context(), map[resource.Ref]bool{keep: true}, ""); err != nil {
		t.Error(err)
	}
	clear(copies)
	want("a", "instance/n/s@a/2", "instance/n/s@b/1")
}
