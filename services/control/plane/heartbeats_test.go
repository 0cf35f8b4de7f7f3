package plane

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"dyno/services/control/resource"
	"dyno/services/control/store"
)

// TestHeartbeats: each instance has its own result, and failures of others never affect the known ones.
func TestHeartbeats(t *testing.T) {
	s := newStore(t)
	a := still(t, s, func(c *Config) { c.Replica = "a" })
	b := still(t, s, func(c *Config) { c.Replica = "b" })
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
		if (err == nil) != (refs[i].ID != "none") {
			t.Errorf("without a store, %s: %v", refs[i].ID, err)
		}
	}
	if got := heard() - before; got != 5 {
		t.Errorf("%v are heard, want those that are known", got)
	}
	for i, err := range b.heartbeats(t.Context(), me, refs) {
		missing := errors.As(err, new(*NotFound))
		if missing != (refs[i].ID == "none") || err != nil && !missing {
			t.Errorf("%s: %v", refs[i].ID, err)
		}
	}
	// If reports to a holder fail for long, clients have to try it themselves.
	b.mu.Lock()
	b.sendFailure = sendFailure{-time.Hour, store.ErrNoSpace}
	b.mu.Unlock()
	for i, err := range b.heartbeats(t.Context(), me, refs) {
		if id := refs[i].ID; errors.Is(err, store.ErrNoSpace) != (id[0] == 'a') {
			t.Errorf("%s with a full store: %v", id, err)
		}
	}
	if errs := b.heartbeats(t.Context(), me, nil); len(errs) != 0 {
		t.Errorf("of none: %v", errs)
	}
}

// TestAlternatingHeartbeats: heartbeats that alternate between two replicas change no instance, and need few writes
// to the store.
func TestAlternatingHeartbeats(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: sends heartbeats for seconds")
	}
	s := newStore(t)
	planes := []*Plane{opened(t, s, nil), opened(t, s, func(c *Config) { c.Replica = "other" })}
	const instances, rounds = 100, 100
	var refs []resource.Ref
	for n := range instances {
		i := instance(fmt.Sprint(n), 10)
		refs = append(refs, i.Ref())
		if _, err := planes[n%2].Register(t.Context(), me, i, Options{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range planes {
		learnt(t, p)
	}
	began := time.Now()
	before, err := s.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for n := range rounds {
		for _, err := range planes[n%2].heartbeats(t.Context(), me, refs) {
			if err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(30 * time.Millisecond)
	}
	after, err := s.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	changed := 0
	for _, r := range refs {
		item, _, err := planes[0].Get(t.Context(), me, r, false)
		if err != nil {
			t.Fatal(err)
		}
		changed += int(item.Version - 1)
	}
	t.Logf("%d heartbeats of %d instances to two replicas in turn, in %v: %d changes of instances, %d of the store in all", instances*rounds, instances, time.Since(began).Round(100*time.Millisecond), changed, after-before)
	if changed > 0 {
		t.Errorf("%d changes of instances", changed)
	}
}
