package plane

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	c.Dir, c.NoSync, c.RequestBytes = t.TempDir(), true, 20<<20
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
	p := still(t, s, change)
	p.start()
	return p
}

// still opens a plane that does nothing by itself but follow the store.
func still(t *testing.T, s *store.Store, change func(*Config)) *Plane {
	t.Helper()
	c := Defaults()
	if change != nil {
		change(&c)
	}
	p, err := open(t.Context(), s, c)
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

// TestConcurrentChanges: each acknowledged change is one version, next to other
// changes of the resource.
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
			revision, _ := p.catalog.Revision()
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

// look has a plane find out at a time who is silent.
func (p *Plane) lookAt(now time.Duration) found {
	p.mu.Lock()
	defer p.mu.Unlock()
	return found{p.look(now), p.orphans()}
}

// holder returns which replica has the heartbeats of an instance.
func holder(t *testing.T, p *Plane, r resource.Ref) string {
	t.Helper()
	item, _, err := p.Get(t.Context(), me, r, false)
	if err != nil {
		t.Fatal(err)
	}
	return item.Resource.(*resource.Instance).Holder
}

// TestHolders: heartbeats and registrations at another replica are reported to the holder, and change no instance in
// the store. Instances of a gone replica are taken over, and those of a live one are not.
func TestHolders(t *testing.T) {
	s := newStore(t)
	a := still(t, s, func(c *Config) { c.Replica = "a" })
	b := still(t, s, func(c *Config) { c.Replica = "b" })
	r := instance("1", 30).Ref()
	if _, err := a.Register(t.Context(), me, instance("1", 30), Options{}); err != nil {
		t.Fatal(err)
	}
	learnt(t, a)
	const before = -time.Hour
	a.mu.Lock()
	a.liveness.Forget(r.Path())
	a.liveness.Beat(r.Path(), 2*time.Hour, before) // long ago
	a.mu.Unlock()
	for range 2 {
		if err := b.Heartbeat(t.Context(), me, r); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Register(t.Context(), me, instance("1", 30), Options{}); err != nil {
			t.Fatal(err)
		}
	}
	item, _, err := a.Get(t.Context(), me, r, false)
	if err != nil || item.Version != 1 || holder(t, a, r) != "a" {
		t.Fatalf("%+v, %v: want it as it was registered", item, err)
	}
	b.mu.Lock()
	for path := range b.heard {
		b.heard[path] = beat{at: b.heard[path].at} // it is due
	}
	b.mu.Unlock()
	if err := b.reportDue(); err != nil {
		t.Fatal(err)
	}
	learnt(t, a)
	a.mu.Lock()
	silence, _ := a.liveness.Silence(r.Path(), 0)
	a.mu.Unlock()
	if silence > time.Minute || len(b.heard) > 0 {
		t.Errorf("a has not heard it for %v, b has yet to tell of %d", silence, len(b.heard))
	}

	// What b is asked to change is b's. While b gives signs of life, its instances are its own; then they are taken over.
	if _, err := b.Register(t.Context(), me, instance("1", 60), Options{}); err != nil || holder(t, a, r) != "b" {
		t.Fatalf("%s has it: %v", holder(t, a, r), err)
	}
	learnt(t, a)
	a.mu.Lock()
	a.replicas["b"], a.awake = 0, before
	a.mu.Unlock()
	if f := a.lookAt(replicaTTL / 2); len(f.orphans) != 0 {
		t.Errorf("b lives, and its instances have no holder: %v", f.orphans)
	}
	if err := a.removeGone([]string{r.Path()}); err != nil || holder(t, a, r) != "b" {
		t.Errorf("a removes what b has: %v", err)
	}
	if err := a.takeOver(a.lookAt(2 * replicaTTL).orphans); err != nil || holder(t, a, r) != "a" {
		t.Errorf("%s has it: %v", holder(t, a, r), err)
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

// TestHeardAgain: an expired instance stays if it is heard or registered before its removal.
func TestHeardAgain(t *testing.T) {
	p := still(t, newStore(t), func(c *Config) { c.Liveness.StallThreshold = 24 * time.Hour })
	r := instance("1", 30).Ref()
	if _, err := p.Register(t.Context(), me, instance("1", 30), Options{}); err != nil {
		t.Fatal(err)
	}
	learnt(t, p)
	for n, again := range []func() error{
		func() error { return p.Heartbeat(t.Context(), me, r) },
		func() error {
			_, err := p.Register(t.Context(), me, instance("1", 60), Options{})
			return err
		},
		func() error { return nil },
	} {
		later := time.Duration(n+1) * time.Hour
		gone := p.lookAt(later).gone
		if len(gone) != 1 {
			t.Fatalf("gone: %v", gone)
		}
		p.mu.Lock()
		p.started = p.started.Add(-time.Hour) // as late as it looked
		p.mu.Unlock()
		if err := again(); err != nil {
			t.Fatal(err)
		}
		if err := p.removeGone(gone); err != nil {
			t.Error(err)
		}
		if _, _, err := p.Get(t.Context(), me, r, false); (err == nil) != (n < 2) {
			t.Errorf("case %d: %v", n, err)
		}
	}
}

// TestOverdueEverywhere: an instance that one replica finds overdue is overdue at all, until it is heard. Restarts
// and take-overs do not change that.
func TestOverdueEverywhere(t *testing.T) {
	s := newStore(t)
	replica := func(name string) *Plane {
		return still(t, s, func(c *Config) { c.Replica, c.Liveness.StallThreshold = name, 24*time.Hour })
	}
	a, b := replica("a"), replica("b")
	dead, alive := instance("dead", 30).Ref(), instance("alive", 3600).Ref()
	for id, ttl := range map[string]float64{"dead": 30, "alive": 3600} {
		if _, err := a.Register(t.Context(), me, instance(id, ttl), Options{}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string, p *Plane, want ...resource.Ref) {
		t.Helper()
		learnt(t, p)
		items, _ := p.ServiceInstances("default", "s")
		for n, overdue := range p.Overdue(items) {
			if overdue != slices.Contains(want, items[n].Ref) {
				t.Errorf("%s, %s: %s is overdue: %v", when, p.Replica(), items[n].ID, overdue)
			}
		}
		if got := p.Late(); !slices.Equal(got, want) {
			t.Errorf("%s, %s: late are %v, want %v", when, p.Replica(), got, want)
		}
	}
	report := func(p *Plane) {
		t.Helper()
		if err := p.reportDue(); err != nil {
			t.Fatal(err)
		}
	}
	check("at the start", a)
	a.lookAt(time.Minute)
	report(a)
	check("silent", a, dead)
	check("silent", b, dead)
	a.Close()
	a = replica("a")
	report(a) // before it looks
	check("after a restart", a, dead)
	check("after a restart", b, dead)
	if f := a.lookAt(a.cfg.Liveness.RecoveryGrace - time.Second); len(f.gone) != 0 {
		t.Errorf("removed at once after a restart: %v", f.gone)
	}
	a.Close()
	b.mu.Lock()
	b.awake = -time.Hour
	b.mu.Unlock()
	f := b.lookAt(2 * replicaTTL)
	check("left alone", b, dead)
	c := replica("c")
	if err := b.takeOver(f.orphans); err != nil {
		t.Fatal(err)
	}
	check("taken over", b, dead)
	check("taken over", c, dead)
	if holder(t, b, dead) != "b" || holder(t, b, alive) != "b" {
		t.Error("not taken over")
	}
	b.mu.Lock()
	b.started = b.started.Add(-2 * replicaTTL) // as late as it looked
	b.mu.Unlock()
	if err := b.Heartbeat(t.Context(), me, dead); err != nil {
		t.Fatal(err)
	}
	b.lookAt(b.now())
	report(b)
	check("heard", b)
	check("heard", c)
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

// TestLimitAcrossReplicas: resources acknowledged by another replica count, even if this one is behind.
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

// TestRefusalsBehind: a replica that is behind never refuses a change because of stale state.
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
			if _, err := other.Release(t.Context(), me, long.Ref(), resource.Release{Content: "new", Choice: resource.Choice{Percent: 1}}, Options{}); err != nil {
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

// TestRepeatedElsewhere: another replica returns the first result of a change with a key, even if the change is
// impossible now.
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
