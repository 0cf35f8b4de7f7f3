package plane

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"dyno/services/control/audit"
	"dyno/services/control/resource"
)

// checked returns an instance whose control plane opens a connection to it.
func checked(id string, at net.Listener) *resource.Instance {
	i := instance(id, 0)
	i.Port = int(netip.MustParseAddrPort(at.Addr().String()).Port())
	i.Checks = []resource.Check{{Type: "tcp", Interval: 1, Timeout: 1}}
	return i
}

func listener(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// becomes waits until an instance is as a test wants it.
func becomes(t *testing.T, p *Plane, r resource.Ref, what string, good func(*resource.Instance) bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
		i := instanceOf(p.catalog.Get(r))
		if good(i) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is not %s: %+v", r, what, i)
		}
	}
}

func healthIs(h resource.Health) func(*resource.Instance) bool {
	return func(i *resource.Instance) bool { return i != nil && i.Health == h }
}

// TestChecks: an instance is critical until its first check, and again when it fails. It keeps its health when it is
// registered again. It is removed when it was critical for as long as it says.
func TestChecks(t *testing.T) {
	p := opened(t, newStore(t), func(c *Config) { c.Liveness.Grace, c.Liveness.MinSilent = 0, 100 })
	at := listener(t)
	i := checked("1", at)
	i.DeregisterAfter = 3
	r := i.Ref()
	result, err := p.Register(t.Context(), me, i, Options{})
	if err != nil || instanceOf(result.Item).Health != resource.Critical || instanceOf(result.Item).Accepts() {
		t.Fatalf("%+v, %v", instanceOf(result.Item), err)
	}
	becomes(t, p, r, "passing", healthIs(resource.Passing))

	again := checked("1", at)
	again.DeregisterAfter, again.Weight = 3, 7
	if result, err = p.Register(t.Context(), me, again, Options{}); err != nil || instanceOf(result.Item).Health != resource.Passing {
		t.Fatalf("registered again: %+v, %v", instanceOf(result.Item), err)
	}
	if err := p.Heartbeat(t.Context(), me, r); err != nil {
		t.Error(err)
	}

	// An operator keeps requests away, whatever its client says.
	if result, err = p.Maintain(t.Context(), me, r, "a new disk", Options{}); err != nil || instanceOf(result.Item).Accepts() {
		t.Fatalf("%+v, %v", instanceOf(result.Item), err)
	}
	again.Weight = 8
	if result, err = p.Register(t.Context(), me, again, Options{}); err != nil || instanceOf(result.Item).Maintenance != "a new disk" {
		t.Fatalf("%+v, %v", instanceOf(result.Item), err)
	}
	if result, err = p.Maintain(t.Context(), me, r, "", Options{}); err != nil || !instanceOf(result.Item).Accepts() {
		t.Fatalf("%+v, %v", instanceOf(result.Item), err)
	}

	_ = at.Close()
	becomes(t, p, r, "critical", func(i *resource.Instance) bool {
		return i == nil || i.Health == resource.Critical && len(i.Results) == 1 && i.Results[0].Output != ""
	})
	becomes(t, p, r, "removed", func(i *resource.Instance) bool { return i == nil })
	page, err := p.Audit(t.Context(), me, audit.Query{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	var acts []resource.Act
	for _, a := range page.Items {
		acts = append(acts, a.Act)
	}
	want := []resource.Act{resource.Registered, resource.Registered, resource.Maintained, resource.Registered, resource.Maintained, resource.Expired}
	if fmt.Sprint(acts) != fmt.Sprint(want) {
		t.Errorf("the audit has %v, want %v", acts, want)
	}
}

// TestHealthFilter: instances are found by their health.
func TestHealthFilter(t *testing.T) {
	p := opened(t, newStore(t), nil)
	good, bad := checked("good", listener(t)), checked("bad", listener(t))
	bad.Checks[0].Port = 1
	for _, i := range []*resource.Instance{good, bad, instance("beats", 60)} {
		if _, err := p.Register(t.Context(), me, i, Options{}); err != nil {
			t.Fatal(err)
		}
	}
	becomes(t, p, good.Ref(), "passing", healthIs(resource.Passing))
	for health, want := range map[resource.Health]string{resource.Passing: "[beats good]", resource.Critical: "[bad]", resource.Warning: "[]", "": "[bad beats good]"} {
		list, err := p.Instances(t.Context(), me, "default", "s", InstanceFilter{Health: health}, Page{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, one := range list.Items {
			ids = append(ids, one.ID)
		}
		if fmt.Sprint(ids) != want {
			t.Errorf("%q: %v, want %s", health, ids, want)
		}
	}
	if _, err := p.Instances(t.Context(), me, "default", "s", InstanceFilter{Health: "ill"}, Page{Limit: 10}); err == nil {
		t.Error("ill is a health")
	}
}

// TestChecksMove: when a replica is gone, another checks its instances, and their health stays as it was; when it is
// back, it checks them again.
func TestChecksMove(t *testing.T) {
	s := newStore(t)
	a, b := still(t, s, func(c *Config) { c.Replica = "a" }), opened(t, s, func(c *Config) { c.Replica = "b" })
	at := listener(t)
	i := checked("1", at)
	r := i.Ref()
	// a is alive for b, as it gives signs.
	sign := func(p *Plane, name string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.sign(name, p.now())
	}
	sign(b, "a")
	if _, err := a.Register(t.Context(), me, i, Options{}); err != nil {
		t.Fatal(err)
	}
	// a makes no checks, as it stands still: b goes on once a has given no signs for dutyTTL.
	becomes(t, b, r, "passing", healthIs(resource.Passing))
	if got := instanceOf(b.catalog.Get(r)); got.Holder != "a" {
		t.Errorf("%s holds it", got.Holder)
	}
	_ = at.Close()
	becomes(t, b, r, "critical", healthIs(resource.Critical))
	for deadline := time.Now().Add(time.Minute); ; <-time.After(50 * time.Millisecond) {
		sign(b, "a")
		if _, here := b.checker.Results(r.Path()); !here {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("b checks it though a is back")
		}
	}
}

// TestCheckedBy: each instance of a replica that is gone is checked by one of the others, and they share them.
func TestCheckedBy(t *testing.T) {
	living := []string{"a", "b", "c"}
	counts := map[string]int{}
	for n := range 3000 {
		path := fmt.Sprint("instance/default/s/", n)
		if by := checkedBy(path, "b", living); by != "b" {
			t.Fatalf("%s checks what b holds", by)
		}
		by := checkedBy(path, "d", living)
		counts[by]++
		if other := checkedBy(path, "d", []string{"a", "b"}); by != "c" && other != by {
			t.Fatalf("%s moves from %s to %s when c is gone", path, by, other)
		}
	}
	for _, name := range living {
		if n := counts[name]; n < 900 || n > 1100 {
			t.Errorf("%s checks %d of 3000", name, n)
		}
	}
	if by := checkedBy("x", "d", nil); by != "" {
		t.Errorf("%q checks it, of none", by)
	}
}
