package control

import (
	"fmt"
	"sync"
	"testing"

	"dyno/services/control/plane"
	"dyno/services/control/plane/planetest"
	"dyno/services/control/resource"
)

// TestNamesOfMany: an answer is full of instances that accept requests, however many others precede them.
func TestNamesOfMany(t *testing.T) {
	p, _ := planetest.Open(t, plane.Defaults())
	register := func(prefix string, n int, status resource.Status) {
		t.Helper()
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				one := &resource.Instance{Namespace: "default", Service: "s", ID: fmt.Sprintf("%s%04d", prefix, i), Address: "10.0.0.1", Port: 1, Weight: 1, Status: status}
				if _, err := p.Register(t.Context(), planetest.Anybody, one, plane.Options{}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if _, err := p.Sync(t.Context(), false); err != nil {
			t.Fatal(err)
		}
	}
	find := finder(p)
	register("a", maxNames, resource.Draining)
	if got, found := find("default", "s", ""); len(got) != 0 || !found {
		t.Errorf("%d instances, found %v, of a service whose instances are all draining", len(got), found)
	}
	register("b", 2, resource.Up)
	if got, found := find("default", "s", ""); len(got) != 2 || !found {
		t.Errorf("%d instances, found %v; want the two that take requests", len(got), found)
	}
	register("b", maxNames+1, resource.Up)
	if got, _ := find("default", "s", ""); len(got) != maxNames {
		t.Errorf("%d instances, want %d", len(got), maxNames)
	}
	if _, found := find("default", "other", ""); found {
		t.Error("a service that nobody knows is found")
	}
	one := &resource.Instance{Namespace: "default", Service: "läden", ID: "é", Address: "10.0.0.1", Port: 1, Weight: 1}
	if _, err := p.Register(t.Context(), planetest.Anybody, one, plane.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, found := find("default", "läden", ""); found {
		t.Error("a name that DNS cannot have is found")
	}
}

// TestNamesFailOver: a service is found by its tags. While none of its instances accept requests, the first service of a
// policy that can replaces it.
func TestNamesFailOver(t *testing.T) {
	p, _ := planetest.Open(t, plane.Defaults())
	put := func(service, address string, status resource.Status, tags ...string) {
		t.Helper()
		one := &resource.Instance{Namespace: "default", Service: service, ID: "1", Address: address, Port: 1, Weight: 1, Status: status, Metadata: map[string]string{}}
		for _, tag := range tags {
			one.Metadata[tag] = ""
		}
		if _, err := p.Register(t.Context(), planetest.Anybody, one, plane.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	find := finder(p)
	want := func(service, tag string, found bool, address string) {
		t.Helper()
		if _, err := p.Sync(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		got, known := find("default", service, tag)
		if known != found || len(got) != min(len(address), 1) || len(got) == 1 && got[0].Host != address {
			t.Errorf("%s %q: %v, found %v; want %s, %v", service, tag, got, known, address, found)
		}
	}
	put("shop", "10.0.0.1", resource.Up, "v2", "Blue.Green")
	put("spare", "10.0.0.2", resource.Up, "v3")
	want("shop", "v2", true, "10.0.0.1")
	want("shop", "blue.green", true, "10.0.0.1")
	want("shop", "green", true, "")
	want("shop", "lue.green", false, "")
	want("shop", "v3", false, "")
	want("lost", "", false, "")
	rules := []resource.Rule{{Action: resource.Failover, Match: resource.Match{Services: []string{"shop", "lost"}}, Failover: []string{"nowhere", "spare"}}}
	if _, err := p.Put(t.Context(), planetest.Anybody, &resource.Policy{Namespace: "default", Name: "a", Rules: rules}, plane.Options{}); err != nil {
		t.Fatal(err)
	}
	want("lost", "", true, "10.0.0.2")
	want("shop", "", true, "10.0.0.1")
	want("shop", "v3", true, "10.0.0.2")
	put("shop", "10.0.0.1", resource.Draining)
	want("shop", "", true, "10.0.0.2")
	want("shop", "v2", false, "")
	put("spare", "10.0.0.2", resource.Down)
	want("shop", "", true, "")
}
