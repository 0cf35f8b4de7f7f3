package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"dyno/services/control/client"
	"dyno/services/control/resource"
)

// hangGuard bounds every wait of these tests. It is no expectation of speed.
const hangGuard = time.Minute

// until takes snapshots until one is as it should be.
func until(t *testing.T, w *client.Watch, what string, right func(client.Snapshot) bool) client.Snapshot {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hangGuard)
	defer cancel()
	var s client.Snapshot
	for {
		var err error
		if s, err = w.Next(ctx, s.Generation); err != nil {
			t.Fatalf("%s: %v; known: %+v", what, err, s)
		}
		if right(s) {
			return s
		}
	}
}

// quick is a client's configuration for servers that go and come.
func quick(name string, servers ...string) client.Config {
	c := client.Defaults()
	c.Servers, c.Name = servers, name
	c.MinPause, c.MaxPause, c.SavePeriod = 10*time.Millisecond, 50*time.Millisecond, 10*time.Millisecond
	return c
}

func newClient(t *testing.T, c client.Config) *client.Client {
	t.Helper()
	one, err := client.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(one.Close)
	return one
}

// TestClient: other programs find an instance, even while the control plane is away, and even if they start then.
// When the control plane returns without data, the instance registers again, and configurations are read again.
func TestClient(t *testing.T) {
	c := config(t)
	s, end := serving(t, c)
	c.Listen = s.Addr().String() // it comes back there
	base := "http://" + c.Listen
	provider := newClient(t, quick("provider", base))
	registration, err := provider.Register(resource.Instance{Service: "shop", ID: "1", Address: "127.0.0.1", Port: 80, TTL: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := registration.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	web := http.Client{Transport: &http.Transport{}}
	defer web.CloseIdleConnections()
	if status, text := do(t, &web, "PUT", base+"/v1/configs/c", `{"content":"one"}`); status != 201 {
		t.Fatalf("%d %s", status, text)
	}

	cfg := quick("consumer", base)
	cfg.Cache = t.TempDir()
	consumer := newClient(t, cfg)
	query := client.Query{Kinds: []resource.Kind{resource.Instances, resource.Configs}}
	watch, err := consumer.Watch(query)
	if err != nil {
		t.Fatal(err)
	}
	found := func(s client.Snapshot) bool { return s.Current && len(s.Instances()) == 1 && len(s.Items) == 2 }
	snapshot := until(t, watch, "discovery", found)
	if one := snapshot.Instances()[0]; one.Address != "127.0.0.1" || one.Port != 80 || one.Holder != c.Plane.Replica {
		t.Errorf("found %+v", one)
	}

	// A watch of a prefix has its names only, with contents of any bytes.
	const data = "\xff\x00 bytes"
	if status, text := do(t, &web, "PUT", base+"/v1/configs/app%2Fgr%C3%B6%C3%9Fe/content", data); status != 201 {
		t.Fatalf("%d %s", status, text)
	}
	below, err := consumer.Watch(client.Query{Kinds: []resource.Kind{resource.Configs}, Prefix: "app/"})
	if err != nil {
		t.Fatal(err)
	}
	some := until(t, below, "names with a prefix", func(s client.Snapshot) bool { return s.Current && len(s.Items) > 0 })
	if one, ok := some.Items[0].Resource.(*resource.Config); len(some.Items) != 1 || !ok || one.Name != "app/größe" || one.Data() != data {
		t.Errorf("%+v", some.Items)
	}
	below.Close()
	if status, text := do(t, &web, "DELETE", base+"/v1/configs/app%2Fgr%C3%B6%C3%9Fe", ""); status != 204 {
		t.Fatalf("%d %s", status, text)
	}

	// Who runs what is in the rollout.
	watch.Applied(snapshot.Items[0])
	rollout := func(base, want string) {
		t.Helper()
		for end := time.Now().Add(hangGuard); ; {
			_, text := do(t, &web, "GET", base+"/v1/configs/c/rollout", "")
			var got struct {
				Applied, Refused int
				Holdings         []struct{ Client, Reason string }
			}
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatal(err)
			}
			if text := fmt.Sprint(got); text == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("rollout %+v, want %s", got, want)
			}
		}
	}
	rollout(base, "{1 0 [{consumer }]}")

	// The control plane ends, and the consumer with it.
	end()
	until(t, watch, "away", func(s client.Snapshot) bool { return !s.Current && len(s.Items) == 2 })
	consumer.Close()
	consumer = newClient(t, cfg)
	if watch, err = consumer.Watch(query); err != nil {
		t.Fatal(err)
	}
	snapshot = until(t, watch, "from the cache", func(s client.Snapshot) bool { return len(s.Items) == 2 })
	if snapshot.Current || len(snapshot.Instances()) != 1 || snapshot.At.IsZero() {
		t.Errorf("from the cache: %+v", snapshot)
	}

	// It comes back without its data: another store, of another epoch.
	c.Store.Dir = t.TempDir()
	_, _ = serving(t, c)
	snapshot = until(t, watch, "back", func(s client.Snapshot) bool { return s.Current && len(s.Instances()) == 1 })
	if len(snapshot.Items) != 1 {
		t.Errorf("what the store does not have is known still: %+v", snapshot.Items)
	}
	if status, text := do(t, &web, "PUT", base+"/v1/configs/c", `{"content":"two"}`); status != 201 {
		t.Fatalf("%d %s", status, text)
	}
	snapshot = until(t, watch, "a new configuration", func(s client.Snapshot) bool { return len(s.Items) == 2 })
	watch.Refused(snapshot.Items[0], "no number")
	rollout(base, "{0 1 [{consumer no number}]}")

	// Taken off, it is gone at once.
	if err := registration.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, watch, "taken off", func(s client.Snapshot) bool { return len(s.Instances()) == 0 })
}
