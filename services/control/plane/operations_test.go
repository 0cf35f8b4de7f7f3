package plane

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dyno/services/control/catalog"
	"dyno/services/control/push"
	"dyno/services/control/resource"
	"dyno/services/control/store"
)

// TestHistoryLowered: a lower limit leaves out the oldest versions.
func TestHistoryLowered(t *testing.T) {
	s := newStore(t)
	more := opened(t, s, func(c *Config) { c.Limits.History = 10 })
	for range 8 {
		if _, err := more.Put(t.Context(), me, policy("a"), Options{}); err != nil {
			t.Fatal(err)
		}
	}
	fewer := opened(t, s, func(c *Config) { c.Replica, c.Limits.History = "fewer", 3 })
	versions := func(p *Plane) (list []int64) {
		t.Helper()
		items, err := p.history(t.Context(), policy("a").Ref())
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range items {
			list = append(list, i.Version)
		}
		return list
	}
	if got := versions(more); !slices.Equal(got, []int64{1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("kept %v", got)
	}
	if got := versions(fewer); !slices.Equal(got, []int64{5, 6, 7, 8}) {
		t.Errorf("of three and the one that it has: %v", got)
	}
	if _, err := more.Remove(t.Context(), me, policy("a").Ref(), Options{}); err != nil {
		t.Fatal(err)
	}
	if got := versions(fewer); !slices.Equal(got, []int64{6, 7, 8}) {
		t.Errorf("of what was removed: %v", got)
	}
	for version, kept := range map[int64]bool{-1: false, 0: false, 5: false, 6: true, 7: true, 8: true, 9: false} {
		item, err := fewer.version(t.Context(), policy("a").Ref(), version)
		var missing *NotFound
		if kept != (err == nil && item.Version == version) || !kept && !errors.As(err, &missing) {
			t.Errorf("version %d: %+v, %v", version, item, err)
		}
	}
}

// TestHistoryChanged: replicas that keep different numbers of versions, in turns, lose none that
// all of them keep.
func TestHistoryChanged(t *testing.T) {
	s := newStore(t)
	limits := []int{3, 10, 2, 5}
	planes := make([]*Plane, len(limits))
	for i, limit := range limits {
		planes[i] = opened(t, s, func(c *Config) { c.Replica, c.Limits.History = fmt.Sprint(limit), limit })
	}
	random := rand.New(rand.NewPCG(1, 2))
	for version := int64(1); version < 60; version++ {
		if _, err := planes[random.IntN(len(planes))].Put(t.Context(), me, policy("a"), Options{}); err != nil {
			t.Fatal(err)
		}
		for _, p := range planes {
			for v := max(1, version-2); v <= version; v++ {
				if item, err := p.version(t.Context(), policy("a").Ref(), v); err != nil || item.Version != v {
					t.Errorf("version %d of %d where %s are kept: %+v, %v", v, version, p.cfg.Replica, item, err)
				}
			}
			items, err := p.history(t.Context(), policy("a").Ref())
			if err != nil || len(items) < int(min(3, version)) || !slices.IsSortedFunc(items, func(a, b *catalog.Item) int { return int(a.Version - b.Version) }) {
				t.Errorf("version %d where %s are kept: %v, %v", version, p.cfg.Replica, items, err)
			}
		}
	}
}

// TestHistoryMadeAgain: a resource that is removed and made again all the time has a history at each
// moment.
func TestHistoryMadeAgain(t *testing.T) {
	s := newStore(t)
	makes := opened(t, s, nil)
	asks := opened(t, s, func(c *Config) { c.Replica = "asks" })
	r := policy("a").Ref()
	if _, err := makes.Put(t.Context(), me, policy("a"), Options{}); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 200 {
			if _, err := makes.Remove(t.Context(), me, r, Options{}); err != nil {
				t.Error(err)
			}
			if _, err := makes.Put(t.Context(), me, policy("a"), Options{}); err != nil {
				t.Error(err)
			}
		}
	}()
	for more := true; more; {
		select {
		case <-done:
			more = false
		default:
		}
		if items, err := asks.history(t.Context(), r); err != nil || len(items) == 0 {
			t.Errorf("%v, %v", items, err)
		}
	}
}

// TestForgetting: whatever is left of a history has its newest version.
func TestForgetting(t *testing.T) {
	gone := store.KV{Key: "l/gone/a", Revision: 7}
	for _, n := range []int64{0, 1, 14, 15, 16, 31, 40} {
		var history []store.KV
		for v := range n {
			history = append(history, store.KV{Key: historyKey("a", v+100, 64), Value: resource.EncodeVersioned(v+100, nil)})
		}
		rand.Shuffle(len(history), func(i, k int) { history[i], history[k] = history[k], history[i] })
		requests, err := forgetting(gone, history)
		if err != nil {
			t.Fatal(err)
		}
		var removed []string
		for _, r := range requests {
			if len(r.Then) > store.MaxRequestOps || len(r.If) != 1 || r.If[0] != (store.Condition{Key: gone.Key, Revision: 7}) {
				t.Errorf("%d versions: %+v", n, r)
			}
			for _, op := range r.Then {
				removed = append(removed, op.Key)
			}
		}
		for v := range n {
			if int64(len(removed)) != n+1 || removed[v] != historyKey("a", v+100, 64) || removed[n] != gone.Key {
				t.Fatalf("%d versions: %v", n, removed)
			}
		}
	}
	if _, err := forgetting(gone, []store.KV{{Key: "x", Value: []byte("no version")}}); err == nil {
		t.Error("what is no version was taken for one")
	}
}

// TestLargestRepeated: a configuration of the largest size, of bytes that take the most room, can be replaced with a key,
// too, and the change repeated.
func TestLargestRepeated(t *testing.T) {
	const size = 4 << 20
	p := opened(t, newStore(t), func(c *Config) { c.Limits.ConfigBytes = size })
	config := func(letter string) *resource.Config {
		c := &resource.Config{Namespace: "default", Name: "c"}
		c.SetData("\xff" + strings.Repeat(letter, size-1))
		return c
	}
	for i, letter := range []string{"a", "b"} {
		first, err := p.Put(t.Context(), me, config(letter), Options{Key: letter})
		if err != nil {
			t.Fatal(err)
		}
		again, err := p.Put(t.Context(), me, config(letter), Options{Key: letter})
		if err != nil || !again.Repeated || again.Version != int64(i+1) || string(again.Body) != string(first.Body) || again.Tag() != first.Tag() {
			t.Errorf("repeated: %v, %+v", err, again.Repeated)
		}
	}
}

// TestRollbackKeepsSecrets: an earlier version may be from before anybody thought of a secret. It stays one, also when it was removed.
func TestRollbackKeepsSecrets(t *testing.T) {
	p := opened(t, newStore(t), nil)
	r := resource.Ref{Kind: resource.Configs, Namespace: "default", Name: "c"}
	for _, secret := range []bool{false, true} {
		if _, err := p.Put(t.Context(), me, &resource.Config{Namespace: "default", Name: "c", Content: "x", Secret: secret}, Options{}); err != nil {
			t.Fatal(err)
		}
	}
	back := func(want bool) {
		t.Helper()
		if _, err := p.Rollback(t.Context(), me, r, 1, Options{}); err != nil {
			t.Fatal(err)
		}
		if got, err := p.secret(t.Context(), r); err != nil || got != want {
			t.Errorf("secret: %v, %v", got, err)
		}
	}
	back(true)
	if _, err := p.Remove(t.Context(), me, r, Options{}); err != nil {
		t.Fatal(err)
	}
	back(true)
	if _, err := p.Put(t.Context(), me, &resource.Config{Namespace: "default", Name: "c", Content: "x"}, Options{}); err != nil {
		t.Fatal(err)
	}
	back(false) // somebody has said so
}

// TestAckOfNothing: the ledger has only existing resources, and none that a client makes up.
func TestAckOfNothing(t *testing.T) {
	p := opened(t, newStore(t), nil)
	p.ledger.Enter("one")
	for _, r := range []resource.Ref{{Kind: resource.Configs, Namespace: "default", Name: "c"}, {Kind: resource.Instances, Namespace: "default", Name: "s"}} {
		if news, errs := p.ack(t.Context(), "one", []resource.Ack{{Ref: r, Version: 1, State: resource.Applied}}); news != 0 || errs[0] != nil || p.ledger.Holdings() != 0 {
			t.Errorf("%v: %d are news, %d are held", r, news, p.ledger.Holdings())
		}
	}
}

// TestAckOfUnpublished: an acknowledgement of a version that never existed is refused, and delays no rollout. One of
// a version that this replica does not know yet is accepted.
func TestAckOfUnpublished(t *testing.T) {
	s := newStore(t)
	other := opened(t, s, nil)
	p, hold, release := braked(t, s, func(*Config) {})
	r := policy("a").Ref()
	put := func() {
		t.Helper()
		if _, err := other.Put(t.Context(), me, policy("a"), Options{}); err != nil {
			t.Fatal(err)
		}
	}
	ack := func(ctx context.Context, version int64) error {
		t.Helper()
		_, errs := p.ack(ctx, "one", []resource.Ack{{Ref: r, Version: version, State: resource.Applied}})
		return errs[0]
	}
	put()
	if _, _, err := p.Get(t.Context(), me, r, false); err != nil {
		t.Fatal(err)
	}
	p.ledger.Enter("one")
	p.ledger.Sent("one", &push.Change{Ref: r, Version: 1}, timeNow())
	var never *Unpublished
	for _, version := range []int64{2, 9_000_000_000_000_000_000} {
		if err := ack(t.Context(), version); !errors.As(err, &never) || never.Version != version || never.Newest != 1 {
			t.Errorf("version %d: %v", version, err)
		}
	}
	if err := ack(t.Context(), 1); err != nil {
		t.Error(err)
	}
	if got, err := p.Rollout(t.Context(), me, r, 1); err != nil || got.Applied != 1 || got.Pending != 0 {
		t.Errorf("%+v, %v", got, err)
	}

	hold()
	put()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := ack(ended, 2); err == nil || errors.As(err, &never) {
		t.Errorf("a version that is not known yet: %v", err)
	}
	release()
	if err := ack(t.Context(), 2); err != nil {
		t.Error(err)
	}
	if got, err := p.Rollout(t.Context(), me, r, 1); err != nil || got.Applied != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestConditions: If-Match compares strongly, and If-None-Match weakly.
func TestConditions(t *testing.T) {
	p := opened(t, newStore(t), nil)
	r, err := p.Put(t.Context(), me, policy("a"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	tag := r.Tag()
	for _, c := range []struct {
		o    Options
		good bool
	}{
		{Options{IfMatch: tag}, true}, {Options{IfMatch: `"x", ` + tag}, true}, {Options{IfMatch: "*"}, true},
		{Options{IfMatch: "W/" + tag}, false}, {Options{IfMatch: `"x"`}, false},
		{Options{IfNoneMatch: tag}, false}, {Options{IfNoneMatch: "W/" + tag}, false}, {Options{IfNoneMatch: `"x", W/` + tag}, false}, {Options{IfNoneMatch: "*"}, false},
		{Options{IfNoneMatch: `"x"`}, true}, {Options{IfNoneMatch: `W/"x"`}, true},
	} {
		c.o.DryRun = true
		if _, err := p.Put(t.Context(), me, policy("a"), c.o); (err == nil) != c.good || err != nil && !errors.Is(err, ErrPrecondition) {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
}
