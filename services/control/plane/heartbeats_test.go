package plane

import (
	"context"
	"errors"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"dyno/services/control/resource"
)

// TestHeartbeats: each instance has an answer of its own, and those that the replica holds are
// heard whatever becomes of the others.
func TestHeartbeats(t *testing.T) {
	s := newStore(t)
	a := opened(t, s, func(c *Config) { c.Replica = "a" })
	b := opened(t, s, func(c *Config) { c.Replica = "b" })
	for id, p := range map[string]*Plane{"a1": a, "a2": a, "a3": a, "b1": b} {
		if _, err := p.Register(t.Context(), me, instance(id, 30), Options{}); err != nil {
			t.Fatal(err)
		}
	}
	learnt(t, b)
	var refs []resource.Ref
	for _, id := range []string{"none", "a1", "a2", "a2", "b1", "a3"} { // one of them twice
		refs = append(refs, instance(id, 30).Ref())
	}
	heard := func() float64 {
		t.Helper()
		var m dto.Metric
		if err := b.metrics.beats.Write(&m); err != nil {
			t.Fatal(err)
		}
		return m.GetCounter().GetValue()
	}

	gone, cancel := context.WithCancel(t.Context())
	cancel() // nothing that waits succeeds
	before := heard()
	for i, err := range b.heartbeats(gone, me, refs) {
		if (err == nil) != (refs[i].ID == "b1") {
			t.Errorf("without a store, %s: %v", refs[i].ID, err)
		}
	}
	if got := heard() - before; got != 1 {
		t.Errorf("%v are heard, want the one that is held here", got)
	}
	for i, err := range b.heartbeats(t.Context(), me, refs) {
		missing := errors.As(err, new(*NotFound))
		if missing != (refs[i].ID == "none") || err != nil && !missing {
			t.Errorf("%s: %v", refs[i].ID, err)
		}
	}
	for _, r := range refs[1:] {
		item, _, err := a.Get(t.Context(), me, r, false)
		if err != nil || item.Resource.(*resource.Instance).Holder != "b" {
			t.Errorf("%s: %+v, %v; want it taken over", r.ID, item, err)
		}
	}
	if errs := b.heartbeats(t.Context(), me, nil); len(errs) != 0 {
		t.Errorf("of none: %v", errs)
	}
}
