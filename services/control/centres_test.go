package control

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"dyno/services/control/client/transport"
)

// served is a server that answers with a text, and how it is registered.
func served(t *testing.T, text string) (registration string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }))
	t.Cleanup(s.Close)
	host, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"address":%q,"port":%s,"ttl_seconds":3600}`, host, port)
}

// instances returns the instances of a service, with the overdue ones marked.
func (c *centre) instances(service string) (list []string) {
	c.t.Helper()
	var page struct {
		Items []struct {
			ID, Holder string
			Overdue    bool
		}
	}
	if err := json.Unmarshal([]byte(c.want(200, "GET", "/v1/services/"+service+"/instances", "")), &page); err != nil {
		c.t.Fatal(err)
	}
	for _, i := range page.Items {
		if i.Overdue {
			i.ID += " overdue"
		}
		list = append(list, i.ID+" "+i.Holder)
	}
	return list
}

// TestCentres: two control planes have copies of each other's instances, which replace a service without instances by a policy,
// also while the other one is away. Nobody changes copies. They go away with the configuration.
func TestCentres(t *testing.T) {
	berlin := newCentre(t, func(c *Config) {
		c.Plane.Liveness.ProtectFor, c.Plane.Liveness.MinSilent, c.Plane.Liveness.Threshold = time.Hour, 1, 0
	})
	berlin.want(201, "PUT", "/v1/configs/a", `{"content":"x"}`)
	there := served(t, "berlin")
	berlin.want(201, "PUT", "/v1/services/shop/instances/1", there)
	berlin.want(201, "PUT", "/v1/services/shop/instances/dead", `{"address":"10.0.0.1","port":1,"ttl_seconds":1}`)
	munich := newCentre(t, func(c *Config) {
		c.DNS, c.Follow.Centres = "127.0.0.1:0", map[string]string{"berlin": "http://127.0.0.1:1 " + berlin.base}
	})
	copies := func(of string, want ...string) {
		t.Helper()
		var got []string
		defer func() {
			if t.Failed() {
				t.Logf("%s: %q, want %q", of, got, want)
			}
		}()
		eventually(t, "copies of "+of, func() bool { got = munich.instances(of); return slices.Equal(got, want) })
	}
	copies("shop@berlin", "1 @berlin", "dead overdue @berlin")
	munich.want(404, "GET", "/v1/configs/a", "")

	// The other one copies back, and has no copies of its own instances.
	berlin.end()
	berlin.cfg.Follow.Centres = map[string]string{"munich": munich.base}
	berlin.start()
	munich.want(201, "PUT", "/v1/services/shop/instances/1", served(t, "munich"))
	eventually(t, "copies in Berlin", func() bool { return slices.Equal(berlin.instances("shop@munich"), []string{"1 @munich"}) })
	for _, service := range []string{"shop@berlin@munich", "shop@munich@berlin"} {
		if got := slices.Concat(berlin.instances(service), munich.instances(service)); len(got) > 0 {
			t.Errorf("%s: %q", service, got)
		}
	}

	// While no instance of Munich accepts requests, those of Berlin get them.
	munich.want(201, "PUT", "/v1/policies/elsewhere", `{"rules":[{"action":"failover","match":{"services":["shop"]},"failover":["shop@berlin"]}]}`)
	carrier, err := transport.New(newClient(t, quick("", munich.base)), transport.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer carrier.Close()
	answeredBy := func(want string) {
		t.Helper()
		eventually(t, "answers of "+want, func() bool {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://shop.default/", nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := carrier.RoundTrip(r)
			if err != nil {
				return false
			}
			defer got.Body.Close()
			text, err := io.ReadAll(got.Body)
			return err == nil && string(text) == want
		})
	}
	answeredBy("munich")
	munich.want(204, "DELETE", "/v1/services/shop/instances/1", "")
	answeredBy("berlin")
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, munich.names)
	}}
	eventually(t, "DNS has Berlin's instance that is not overdue", func() bool {
		got, err := resolver.LookupHost(t.Context(), "shop.default.control.internal.")
		return err == nil && slices.Equal(got, []string{"127.0.0.1"})
	})

	for _, c := range []struct{ method, path, body string }{
		{"PUT", "/v1/services/shop@berlin/instances/2", `{"address":"10.0.0.1","port":1}`}, {"PUT", "/v1/services/shop@berlin/instances/1", there},
		{"DELETE", "/v1/services/shop@berlin/instances/1", ""},
		{"PUT", "/v1/services/shop@berlin/instances/1/maintenance", `{"reason":"x"}`},
	} {
		if got, text := munich.ask(c.method, c.path, c.body); got.StatusCode != http.StatusForbidden || !strings.Contains(text, "copied from the centre berlin") {
			t.Errorf("%s %s: %d %s", c.method, c.path, got.StatusCode, text)
		}
	}

	// Changes arrive. The copies stay while Berlin is away, and after a restart.
	berlin.want(204, "DELETE", "/v1/services/shop/instances/dead", "")
	berlin.want(201, "PUT", "/v1/services/till/instances/1", `{"address":"10.0.0.1","port":1,"checks":[{"type":"tcp","interval_seconds":1}]}`)
	copies("shop@berlin", "1 @berlin")
	copies("till@berlin", "1 @berlin")
	status := func() (c struct {
		At    time.Time
		Error string
	}) {
		var s struct{ Centres map[string]json.RawMessage }
		if err := json.Unmarshal([]byte(munich.want(200, "GET", "/v1/status", "")), &s); err != nil {
			t.Fatal(err)
		}
		_ = json.Unmarshal(s.Centres["berlin"], &c) // it is empty before the first look
		return c
	}
	eventually(t, "Berlin is heard", func() bool { s := status(); return !s.At.IsZero() && s.Error == "" })
	berlin.end()
	eventually(t, "Berlin is missed", func() bool { return status().Error != "" })
	munich.end()
	munich.start()
	copies("shop@berlin", "1 @berlin")
	eventually(t, "it is missed again", func() bool { s := status(); return s.At.IsZero() && s.Error != "" })

	// What was removed meanwhile goes away with the next copy, and all copies with the configuration.
	berlin.start()
	berlin.want(204, "DELETE", "/v1/services/till/instances/1", "")
	copies("till@berlin")
	munich.end()
	munich.cfg.Follow.Centres = nil
	munich.start()
	copies("shop@berlin")
	munich.want(201, "PUT", "/v1/services/shop@berlin/instances/2", `{"address":"10.0.0.1","port":1}`)
}
