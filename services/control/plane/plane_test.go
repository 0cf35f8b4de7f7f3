package plane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"dyno/internal/leak"
	"dyno/services/control/access"
	"dyno/services/control/audit"
	"dyno/services/control/push"
	"dyno/services/control/resource"
	"dyno/services/control/store"
)

func TestMain(m *testing.M) { leak.Main(m) }

var me = Caller{Principal: &access.Principal{Name: "me", Grants: access.Anonymous().Grants}, From: "here"}

func newStore(t *testing.T) *store.Store {
	t.Helper()
	c := store.Defaults()
	c.Dir, c.NoSync = t.TempDir(), true
	s, err := store.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func opened(t *testing.T, s *store.Store, change func(*Config)) *Plane {
	t.Helper()
	c := Defaults()
	if change != nil {
		change(&c)
	}
	p, err := Open(t.Context(), s, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func policy(name string) *resource.Policy {
	return &resource.Policy{Namespace: "default", Name: name, Rules: []resource.Rule{}}
}

func instance(id string, ttl float64) *resource.Instance {
	return &resource.Instance{Namespace: "default", Service: "s", ID: id, Address: "127.0.0.1", Port: 1, TTL: ttl}
}

// TestConcurrentChanges: each change that is acknowledged is one version, whoever else
// changes the resource.
func TestConcurrentChanges(t *testing.T) {
	s := newStore(t)
	planes := []*Plane{opened(t, s, nil), opened(t, s, func(c *Config) { c.Replica = "other" })}
	const clients, each = 4, 10
	var wg sync.WaitGroup
	var mu sync.Mutex // guards seen
	seen := map[int64]bool{}
	for client := range clients {
		wg.Go(func() {
			for range each {
				r, err := planes[client%2].Put(t.Context(), me, policy("a"), Options{})
				for errors.Is(err, ErrContended) {
					r, err = planes[client%2].Put(t.Context(), me, policy("a"), Options{})
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if seen[r.Version] {
					t.Errorf("version %d twice", r.Version)
				}
				seen[r.Version] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	item, _, err := planes[0].Get(t.Context(), me, policy("a").Ref(), false)
	if err != nil || item.Version != clients*each || len(seen) != clients*each {
		t.Errorf("version %d of %d: %v", item.Version, clients*each, err)
	}
}

// TestSilentInstance: an instance that is not heard is removed, which is in the audit,
// and one that is heard stays.
func TestSilentInstance(t *testing.T) {
	p := opened(t, newStore(t), func(c *Config) { c.Liveness.Grace, c.Liveness.MinSilent, c.Liveness.StallThreshold = 0, 100, time.Hour })
	sub, err := p.hub.Subscribe([]push.Topic{{Kind: resource.Instances}}, p.hub.Revision())
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	for _, id := range []string{"silent", "heard"} {
		ttl := 1.0
		if id == "heard" {
			ttl = 3600
		}
		if _, err := p.Register(t.Context(), me, instance(id, ttl), Options{}); err != nil {
			t.Fatal(err)
		}
	}
	for removed := false; !removed; {
		changes, resync, err := sub.Next(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if resync { // the subscription began before the replica had read anything
			sub.Restart()
			_, revision := p.catalog.Snapshot(nil)
			sub.Begin(revision)
			removed = p.catalog.Get(instance("heard", 1).Ref()) != nil && p.catalog.Get(instance("silent", 1).Ref()) == nil
			continue
		}
		if removed = changes[0].Removed; removed && changes[0].ID != "silent" {
			t.Errorf("removed: %+v", changes[0].Ref)
		}
	}
	var missing *NotFound
	if err := p.Heartbeat(t.Context(), me, instance("silent", 1).Ref()); !errors.As(err, &missing) {
		t.Errorf("a heartbeat of what is gone: %v", err)
	}
	if err := p.Heartbeat(t.Context(), me, instance("heard", 1).Ref()); err != nil {
		t.Error(err)
	}
	page, err := p.Audit(t.Context(), me, audit.Query{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if last := page.Items[len(page.Items)-1]; last.Act != resource.Expired || last.ID != "silent" || last.Who != "control" {
		t.Errorf("audit ends with %+v", last)
	}
}

// TestHolders: heartbeats may come to another replica, and a replica that has gone
// leaves no orphans.
func TestHolders(t *testing.T) {
	s := newStore(t)
	a := opened(t, s, func(c *Config) { c.Replica = "a" })
	b := opened(t, s, func(c *Config) { c.Replica = "b" })
	r := instance("1", 30).Ref()
	holder := func() string {
		t.Helper()
		item, _, err := a.Get(t.Context(), me, r, false)
		if err != nil {
			t.Fatal(err)
		}
		return item.Resource.(*resource.Instance).Holder
	}
	if _, err := a.Register(t.Context(), me, instance("1", 30), Options{}); err != nil {
		t.Fatal(err)
	}
	if err := b.Heartbeat(t.Context(), me, r); err != nil || holder() != "b" {
		t.Errorf("after a heartbeat at b, %s has it: %v", holder(), err)
	}
	learnt(t, a)
	// While b gives signs of life, its instances are its own; then they are taken over. A real
	// sign that comes meanwhile changes neither.
	a.mu.Lock()
	a.replicas["b"], a.awake = a.now(), -time.Hour
	a.mu.Unlock()
	if a.takeOver(a.now()); holder() != "b" {
		t.Errorf("%s has it", holder())
	}
	if a.end(r.Path()); holder() != "b" {
		t.Errorf("%s has it", holder())
	}
	if a.takeOver(a.now() + 2*replicaTTL + a.cfg.Liveness.RecoveryGrace); holder() != "a" {
		t.Errorf("%s has it", holder())
	}
	// What was registered again meanwhile is not removed.
	if _, err := b.Register(t.Context(), me, instance("1", 60), Options{}); err != nil {
		t.Fatal(err)
	}
	if a.end(r.Path()); holder() == "" {
		t.Error("it is gone")
	}
}

// learnt returns when a plane has learnt all that has been acknowledged.
func learnt(t *testing.T, p *Plane) {
	t.Helper()
	if _, err := p.Sync(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	at, _ := p.catalog.Revision()
	for deadline := time.Now().Add(time.Minute); p.hub.Revision() < at; <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it has learnt revision %d, want %d", p.hub.Revision(), at)
		}
	}
}

// TestHeardAgain: an instance that was taken for gone, and is heard before its turn to be
// removed has come, stays.
func TestHeardAgain(t *testing.T) {
	p := opened(t, newStore(t), nil)
	r := instance("1", 30).Ref()
	if _, err := p.Register(t.Context(), me, instance("1", 30), Options{}); err != nil {
		t.Fatal(err)
	}
	for _, heard := range []bool{true, false} {
		learnt(t, p)
		p.mu.Lock()
		p.liveness.Forget(r.Path()) // as one who is gone is
		p.mu.Unlock()
		if heard {
			if err := p.Heartbeat(t.Context(), me, r); err != nil {
				t.Fatal(err)
			}
		}
		p.end(r.Path())
		if _, _, err := p.Get(t.Context(), me, r, false); (err == nil) != heard {
			t.Errorf("heard again %v: %v", heard, err)
		}
	}
}

// TestReplicasApart: a replica does not hear the instances of another one, and so makes
// nothing of their silence; what a replica leaves behind is taken over, after a pause of
// either only when there was time for a sign of life.
func TestReplicasApart(t *testing.T) {
	s := newStore(t)
	replica := func(name string) *Plane {
		return opened(t, s, func(c *Config) { c.Replica, c.Liveness.StallThreshold = name, 24*time.Hour })
	}
	a, b := replica("a"), replica("b")
	refs := map[*Plane][]resource.Ref{}
	for n := range 3 {
		for _, p := range []*Plane{a, b} {
			i := instance(fmt.Sprint(p.Replica(), n), 30)
			if _, err := p.Register(t.Context(), me, i, Options{}); err != nil {
				t.Fatal(err)
			}
			refs[p] = append(refs[p], i.Ref())
		}
	}
	later := time.Hour
	for _, p := range []*Plane{a, b} {
		learnt(t, p)
		p.mu.Lock()
		for _, r := range refs[p] {
			p.liveness.Beat(r.Path(), time.Minute, p.now()+later)
		}
		gone := p.liveness.Look(p.now() + later)
		p.mu.Unlock()
		if pulse := p.Pulse(); len(gone) > 0 || len(p.Late()) > 0 || pulse.Protected || pulse.Known != 3 {
			t.Errorf("%s: gone %v, late %v, %+v: want none, and its own three known", p.Replica(), gone, p.Late(), pulse)
		}
		for _, r := range append(refs[a], refs[b]...) {
			if p.Overdue(r) {
				t.Errorf("%s: %v is overdue", p.Replica(), r)
			}
		}
	}
	b.Close()
	learnt(t, a)
	a.mu.Lock()
	a.awake = a.now() + later // as after a pause
	a.mu.Unlock()
	if orphans := a.orphans(a.now() + later + replicaTTL/2); len(orphans) > 0 {
		t.Errorf("at once after a pause, %v have no holder", orphans)
	}
	a.takeOver(a.now() + later + 2*replicaTTL + a.cfg.Liveness.RecoveryGrace)
	learnt(t, a)
	for _, r := range append(refs[a], refs[b]...) {
		item, _, err := a.Get(t.Context(), me, r, false)
		if err != nil || item.Resource.(*resource.Instance).Holder != "a" {
			t.Errorf("%v: %+v, %v: want it at a", r, item, err)
		}
	}
	if pulse := a.Pulse(); pulse.Known != 6 {
		t.Errorf("%+v, want six known", pulse)
	}
}

func TestDryRunChecksEverything(t *testing.T) {
	p := opened(t, newStore(t), func(c *Config) { c.Limits.Policies = 1 })
	if _, err := p.Put(t.Context(), me, policy("a"), Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Sync(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	long := policy("a")
	long.Rules = make([]resource.Rule, 1000)
	for i := range long.Rules {
		long.Rules[i] = resource.Rule{Action: resource.Deny, Match: resource.Match{PathPrefix: "/" + strings.Repeat("x", 500)}}
	}
	var invalid resource.Invalid
	if _, err := p.Put(t.Context(), me, long, Options{DryRun: true}); !errors.As(err, &invalid) {
		t.Errorf("half a megabyte: %v", err)
	}
	var many *resource.TooMany
	if _, err := p.Put(t.Context(), me, policy("b"), Options{DryRun: true}); !errors.As(err, &many) {
		t.Errorf("%v", err)
	}
	if r, err := p.Put(t.Context(), me, policy("a"), Options{DryRun: true}); err != nil || !r.DryRun || r.Version != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestLimitAcrossReplicas: what another replica has acknowledged counts, though this one
// has yet to hear of it.
func TestLimitAcrossReplicas(t *testing.T) {
	s := newStore(t)
	one := func(name string) *Plane {
		return opened(t, s, func(c *Config) { c.Replica, c.Limits.PerService, c.Limits.Policies = name, 1, 30 })
	}
	a, b := one("a"), one("b")
	for n := range 30 {
		for i, p := range []*Plane{a, b, a} {
			in := instance(fmt.Sprint(i), 60)
			in.Service = fmt.Sprintf("shop%d", n)
			_, err := p.Register(t.Context(), me, in, Options{})
			if errors.As(err, new(*resource.TooMany)) != (i > 0) || i == 0 && err != nil {
				t.Fatalf("instance %d: %v", i, err)
			}
		}
		if _, err := []*Plane{a, b}[n%2].Create(t.Context(), me, policy(fmt.Sprint(n)), Options{}); err != nil {
			t.Fatalf("policy %d: %v", n, err)
		}
	}
	for _, p := range []*Plane{a, b} {
		if _, err := p.Put(t.Context(), me, policy("30"), Options{}); !errors.As(err, new(*resource.TooMany)) {
			t.Errorf("31 of 30 policies: %v", err)
		}
		if _, err := p.Put(t.Context(), me, policy("3"), Options{}); err != nil {
			t.Errorf("one that was there: %v", err)
		}
	}
}

// TestRefusalsBehind: a replica that has yet to hear of changes refuses nothing for what was
// before them.
func TestRefusalsBehind(t *testing.T) {
	const limit = 1000
	long := &resource.Config{Namespace: "default", Name: "c", Content: strings.Repeat("x", limit)}
	limits := func(c *Config) { c.Limits.Policies, c.Limits.ConfigBytes = 1, limit }
	for name, c := range map[string]struct {
		change func(other *Plane) error // what the replica does not hear of
		try    func(ctx context.Context, behind *Plane) error
		// waits tells whether it has come to where it must wait for what it does not know.
		waits func(ctx *noticing, behind *Plane) bool
	}{
		"too long with a release that was withdrawn": {
			func(other *Plane) error {
				_, err := other.EndRelease(t.Context(), me, long.Ref(), false, Options{})
				return err
			},
			func(ctx context.Context, behind *Plane) error {
				_, err := behind.Put(ctx, me, long, Options{})
				return err
			},
			func(ctx *noticing, _ *Plane) bool {
				select {
				case <-ctx.asked:
					return true
				default:
					return false
				}
			},
		},
		"too many with one that was removed": {
			func(other *Plane) error {
				_, err := other.Remove(t.Context(), me, policy("a").Ref(), Options{})
				return err
			},
			func(ctx context.Context, behind *Plane) error {
				_, err := behind.Put(ctx, me, policy("a"), Options{})
				return err
			},
			func(_ *noticing, behind *Plane) bool {
				var m dto.Metric
				return behind.metrics.conflicts.Write(&m) == nil && m.GetCounter().GetValue() > 0
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			other := opened(t, s, limits)
			behind, hold, release := braked(t, s, limits)
			short := *long
			short.Content = "short"
			if _, err := other.Put(t.Context(), me, &short, Options{}); err != nil {
				t.Fatal(err)
			}
			if _, err := other.Release(t.Context(), me, long.Ref(), resource.Release{Content: "new", Percent: 1}, Options{}); err != nil {
				t.Fatal(err)
			}
			if _, err := other.Put(t.Context(), me, policy("a"), Options{}); err != nil {
				t.Fatal(err)
			}
			learnt(t, behind)
			hold()
			if err := c.change(other); err != nil {
				t.Fatal(err)
			}
			tried := make(chan error, 1)
			ctx := &noticing{Context: t.Context(), asked: make(chan struct{})}
			go func() { tried <- c.try(ctx, behind) }()
			for deadline := time.Now().Add(time.Minute); !c.waits(ctx, behind) && time.Now().Before(deadline); {
				select {
				case err := <-tried:
					t.Fatalf("it did not wait: %v", err)
				case <-time.After(time.Millisecond):
				}
			}
			release()
			if err := <-tried; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRollbackKeepsLimits: what was removed comes back only where there may be one more.
func TestRollbackKeepsLimits(t *testing.T) {
	p := opened(t, newStore(t), func(c *Config) { c.Limits.Policies = 1 })
	for _, name := range []string{"a", "b"} {
		if _, err := p.Put(t.Context(), me, policy(name), Options{}); err != nil {
			t.Fatal(err)
		}
		if name == "b" {
			break
		}
		if _, err := p.Remove(t.Context(), me, policy(name).Ref(), Options{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Rollback(t.Context(), me, policy("a").Ref(), 1, Options{}); !errors.As(err, new(*resource.TooMany)) {
		t.Errorf("a second policy of one: %v", err)
	}
	if _, err := p.Remove(t.Context(), me, policy("b").Ref(), Options{}); err != nil {
		t.Fatal(err)
	}
	if r, err := p.Rollback(t.Context(), me, policy("a").Ref(), 1, Options{}); err != nil {
		t.Error(err)
	} else if r.Version != 2 {
		t.Errorf("version %d, want 2", r.Version)
	}
}

// TestRegisteredAgain: an instance that was taken off, here or at another replica, and is
// registered again at once, is there.
func TestRegisteredAgain(t *testing.T) {
	s := newStore(t)
	a := opened(t, s, nil)
	b := opened(t, s, func(c *Config) { c.Replica = "b" })
	for n := range 100 {
		if _, err := a.Register(t.Context(), me, instance("1", 60), Options{}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := a.Get(t.Context(), me, instance("1", 60).Ref(), false); err != nil {
			t.Fatalf("after %d times: %v", n, err)
		}
		if _, err := []*Plane{a, b}[n%2].Remove(t.Context(), me, instance("1", 60).Ref(), Options{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRepeatedElsewhere: a change with a key is answered as the first one was at another
// replica, too, and where it cannot be made again.
func TestRepeatedElsewhere(t *testing.T) {
	s := newStore(t)
	one := func(name string) *Plane {
		return opened(t, s, func(c *Config) { c.Replica, c.Limits.History = name, 1 })
	}
	a, b := one("a"), one("b")
	for range 2 {
		if _, err := a.Put(t.Context(), me, policy("p"), Options{}); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range []*Plane{a, b} {
		r, err := p.Register(t.Context(), me, instance("1", 60), Options{Key: "register"})
		if err != nil {
			t.Fatalf("register at %s: %v", p.Replica(), err)
		}
		if r.Repeated != (i == 1) || r.Version != 1 {
			t.Errorf("register at %s: %+v", p.Replica(), r)
		}
		// The version that is gone back to is the oldest, and not kept afterwards.
		r, err = p.Rollback(t.Context(), me, policy("p").Ref(), 1, Options{Key: "rollback"})
		if err != nil {
			t.Fatalf("roll back at %s: %v", p.Replica(), err)
		}
		if r.Repeated != (i == 1) || r.Version != 3 {
			t.Errorf("roll back at %s: %+v", p.Replica(), r)
		}
	}
	if _, err := a.Rollback(t.Context(), me, policy("p").Ref(), 1, Options{}); !errors.As(err, new(*NotFound)) {
		t.Errorf("to a version that is kept no more: %v", err)
	}
}

// TestForget: what was removed long ago leaves nothing behind, and what was made again
// keeps its history.
func TestForget(t *testing.T) {
	s := newStore(t)
	p := opened(t, s, func(c *Config) { c.Limits.History = 20 })
	for _, name := range []string{"gone", "back", "there"} {
		for range 20 {
			if _, err := p.Put(t.Context(), me, policy(name), Options{}); err != nil {
				t.Fatal(err)
			}
		}
		if name == "there" {
			continue
		}
		if _, err := p.Remove(t.Context(), me, policy(name).Ref(), Options{}); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := p.Put(t.Context(), me, policy("back"), Options{}); err != nil || r.Version != 21 {
		t.Errorf("%+v, %v", r, err)
	}
	versions := func(name string) int {
		t.Helper()
		items, err := p.history(t.Context(), policy(name).Ref())
		var missing *NotFound
		if err != nil && !errors.As(err, &missing) {
			t.Fatal(err)
		}
		return len(items)
	}
	if err := p.forgetBefore(t.Context(), time.Now().Add(-time.Minute)); err != nil || versions("gone") != 20 {
		t.Errorf("%d versions, %v", versions("gone"), err)
	}
	if err := p.forgetBefore(t.Context(), time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"gone": 0, "back": 21, "there": 20} {
		if got := versions(name); got != want {
			t.Errorf("%s has %d versions, want %d", name, got, want)
		}
	}
	if kvs, _, err := s.List(t.Context(), store.Log+"gone/", "", 10); err != nil || len(kvs) != 0 {
		t.Errorf("%v, %v", kvs, err)
	}
	if r, err := p.Put(t.Context(), me, policy("gone"), Options{}); err != nil || r.Version != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}
