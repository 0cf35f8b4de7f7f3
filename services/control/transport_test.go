package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"dyno/services/control/client/transport"
	"dyno/services/control/resource"
)

// A shop is an instance over HTTP, that counts.
type shop struct {
	*httptest.Server
	calls, failures atomic.Int64
	block           atomic.Pointer[chan struct{}]
}

// TestTransport: a Go program's http.Client obeys policies by itself; the services count. It goes on while the control plane
// is away.
func TestTransport(t *testing.T) {
	c := config(t)
	s, end := serving(t, c)
	base := "http://" + s.Addr().String()
	web := http.Client{Transport: &http.Transport{}}
	defer web.CloseIdleConnections()
	instance := func(service, id, zone string) *shop {
		one := &shop{}
		one.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			one.calls.Add(1)
			if block := one.block.Load(); block != nil {
				select {
				case <-*block:
				case <-r.Context().Done():
				}
			}
			if one.failures.Add(-1) >= 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			text, _ := io.ReadAll(r.Body)
			fmt.Fprint(w, service, "-", id, " ", r.Host, " ", r.URL, " ", string(text))
		}))
		t.Cleanup(one.Close)
		body := fmt.Sprintf(`{"address":"127.0.0.1","port":%d,"zone":%q,"ttl_seconds":3600}`, one.Listener.Addr().(*net.TCPAddr).Port, zone)
		if status, text := do(t, &web, "PUT", base+"/v1/services/"+service+"/instances/"+id, body); status != http.StatusCreated {
			t.Fatalf("%d %s", status, text)
		}
		return one
	}
	first, next, shadow := instance("shop", "1", "z2"), instance("next", "1", ""), instance("shadow", "1", "")
	cfg := quick("caller", base)
	inner := &http.Transport{}
	defer inner.CloseIdleConnections()
	tr, err := transport.New(newClient(t, cfg), transport.Config{Labels: map[string]string{"app": "web"}, Zone: "z1", Base: inner})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	caller := http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ctx, cancel := context.WithTimeout(t.Context(), hangGuard)
	defer cancel()
	ask := func(method, address, body string) (*http.Response, string, error) {
		r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		response, err := caller.Do(r)
		if err != nil {
			return nil, "", err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		return response, string(text), err
	}
	expect := func(method, address string, status int, want string) {
		t.Helper()
		response, text, err := ask(method, address, "body")
		if err != nil || response.StatusCode != status || !strings.Contains(text, want) {
			t.Errorf("%s %s: %v %q, %v; want %d %q", method, address, response, text, err, status, want)
		}
	}
	// set puts a policy, and returns when the caller has applied it: it uses it then.
	set := func(rules string) {
		t.Helper()
		status, text := do(t, &web, "PUT", base+"/v1/policies/p", `{"rules":`+rules+`}`)
		if status != http.StatusOK && status != http.StatusCreated {
			t.Fatalf("%d %s", status, text)
		}
		for applied := 0; applied == 0; {
			var out resource.Rollout
			_, text := do(t, &web, "GET", base+"/v1/policies/p/rollout", "")
			if err := json.Unmarshal([]byte(text), &out); err != nil {
				t.Fatal(err)
			}
			if applied = out.Applied; ctx.Err() != nil {
				t.Fatalf("not applied: %s", text)
			}
		}
		for _, one := range []*shop{first, next, shadow} {
			one.calls.Store(0)
			one.failures.Store(0)
		}
	}

	if _, _, err := ask("GET", "http://nowhere/", ""); err == nil || !strings.Contains(err.Error(), "no service") {
		t.Errorf("an unknown service: %v", err)
	}
	expect("GET", "http://shop.default:80/a/b?c=d", 200, "shop-1 shop.default:80 /a/b?c=d body")

	set(`[{"action":"route","match":{"services":["shop"]},"route":[{"service":"shop","weight":90},{"service":"next","weight":10}],"mirror":[{"service":"shadow","percent":100}]}]`)
	const many = 400
	for range many {
		expect("POST", "http://shop/", 200, "body")
	}
	if a, z := first.calls.Load(), next.calls.Load(); a+z != many || z < 10 || z > 80 { // 6.5 and more standard deviations
		t.Errorf("%d and %d requests", a, z)
	}
	if shadow.calls.Load() == 0 {
		t.Error("no copies")
	}

	set(`[{"action":"route","match":{"services":["shop"],"path_prefix":"/v2/","methods":["PUT"]},"route":[{"service":"next","weight":1}],"rewrite":{"path_prefix":"/x/","host":"next.example"}},
		{"action":"redirect","match":{"services":["shop"],"path":"/old"},"redirect":{"path":"/new","https":true,"status":308}},
		{"action":"deny","match":{"services":["shop"],"path":"/admin","sources":{"app":"web"}}},{"action":"fault","match":{"services":["shop"],"path":"/broken"},"fault":{"status":418}},
		{"action":"timeout","match":{"services":["shop"],"path":"/slow"},"timeout_seconds":0.05},
		{"action":"retry","match":{"services":["shop"],"path":"/again"},"retry":{"attempts":2,"backoff_seconds":0.001}},
		{"action":"limit","match":{"services":["shop"],"path":"/few"},"limit":{"requests_per_second":0.001,"burst":5}}]`)
	expect("PUT", "http://shop/v2/y?q=1", 200, "next-1 next.example /x/y?q=1 body")
	expect("GET", "http://shop/v2/y", 200, "shop-1 shop /v2/y")
	expect("GET", "http://shop/admin", 403, "denies")
	expect("GET", "http://shop/broken", 418, "")
	if response, _, err := ask("GET", "http://shop/old", ""); err != nil || response.StatusCode != 308 || response.Header.Get("Location") != "https://shop/new" {
		t.Errorf("%v %v", response, err)
	}
	block := make(chan struct{})
	first.block.Store(&block)
	expect("GET", "http://shop/slow", 504, "timeout")
	first.block.Store(nil)
	first.calls.Store(0)
	first.failures.Store(2)
	expect("PUT", "http://shop/again", 200, "body")
	first.failures.Store(3)
	expect("GET", "http://shop/again", 503, "")
	if n := first.calls.Load(); n != 6 {
		t.Errorf("%d attempts, want 6", n)
	}
	first.failures.Store(0)
	refused := 0
	for range 20 {
		if response, _, err := ask("GET", "http://shop/few", ""); err != nil {
			t.Fatal(err)
		} else if response.StatusCode == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused != 15 {
		t.Errorf("%d of 20 requests refused, want 15", refused)
	}

	// One request at a time.
	set(`[{"action":"circuit","match":{"services":["shop"]},"circuit":{"requests":1}}]`)
	first.block.Store(&block)
	waits := make(chan error, 1)
	go func() {
		_, text, err := ask("GET", "http://shop/", "")
		if err == nil && !strings.HasPrefix(text, "shop-1") {
			err = errors.New(text)
		}
		waits <- err
	}()
	for first.calls.Load() == 0 && ctx.Err() == nil {
		runtime.Gosched()
	}
	expect("GET", "http://shop/", 503, "bounds")
	close(block)
	if err := <-waits; err != nil {
		t.Error(err)
	}
	first.block.Store(nil)

	// Two errors eject the only instance. Then another one, in the caller's zone, gets all.
	set(`[{"action":"outliers","match":{"services":["shop"]},"outliers":{"consecutive_errors":2,"ejection_seconds":3600,"max_percent":100}}]`)
	first.failures.Store(math.MaxInt)
	for range 2 {
		expect("GET", "http://shop/", 503, "shop-1")
	}
	if _, _, err := ask("GET", "http://shop/", ""); err == nil || !strings.Contains(err.Error(), "no instance") {
		t.Errorf("an ejected instance: %v", err)
	}
	instance("other", "1", "")
	near, far := instance("pool", "near", "z1"), instance("pool", "far", "z2")
	for _, by := range []string{`"round-robin","local_zone":true`, `"least-request"`, `"random"`, `"ring-hash","header":"x-user"`} {
		set(`[{"action":"balance","match":{"services":["pool"]},"balance":{"by":` + by + `}}]`)
		near.calls.Store(0)
		far.calls.Store(0)
		for range 40 {
			expect("GET", "http://pool/", 200, "pool-")
		}
		a, b := near.calls.Load(), far.calls.Load()
		if a+b != 40 || strings.Contains(by, "local") && b > 0 || strings.Contains(by, "ring") && a*b > 0 || (by == `"random"`) && a*b == 0 {
			t.Errorf("%s: %d and %d requests", by, a, b)
		}
	}

	// A service without instances is replaced by the first that has some, until it has instances itself.
	set(`[{"action":"failover","match":{"services":["lost"]},"failover":["nowhere","next","shop"]}]`)
	expect("GET", "http://lost/", 200, "next-1 lost")
	instance("lost", "1", "")
	for _, text, err := ask("GET", "http://lost/", ""); !strings.HasPrefix(text, "lost-1"); _, text, err = ask("GET", "http://lost/", "") {
		if err != nil || ctx.Err() != nil {
			t.Fatalf("the service's own instance gets nothing: %q, %v", text, err)
		}
	}

	end()
	expect("GET", "http://pool/", 200, "pool-")
}
