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
	if got, found := find("default", "s"); len(got) != 0 || !found {
		t.Errorf("%d instances, found %v, of a service whose instances are all draining", len(got), found)
	}
	register("b", 2, resource.Up)
	if got, found := find("default", "s"); len(got) != 2 || !found {
		t.Errorf("%d instances, found %v; want the two that take requests", len(got), found)
	}
	register("b", maxNames+1, resource.Up)
	if got, _ := find("default", "s"); len(got) != maxNames {
		t.Errorf("%d instances, want %d", len(got), maxNames)
	}
	if _, found := find("default", "other"); found {
		t.Error("a service that nobody knows is found")
	}
}
