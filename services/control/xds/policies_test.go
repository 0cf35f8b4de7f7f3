package xds

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"dyno/services/control/access"
	"dyno/services/control/identity"
	"dyno/services/control/plane"
	"dyno/services/control/plane/planetest"
	"dyno/services/control/resource"
	"dyno/services/control/traffic"
)

// A web is an instance of a service over HTTP. It counts its requests, and answers with its name and the path.
type web struct {
	*httptest.Server
	name string

	mu       sync.Mutex // guards what follows
	requests []string   // HOST PATH
	failures int        // how many further requests are answered with 503
	block    chan struct{}
}

func (b *bed) web(service, id, zone string) *web {
	w := &web{name: service + "-" + id}
	w.Server = httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.requests = append(w.requests, r.Host+" "+r.URL.String())
		fails := w.failures > 0
		w.failures--
		block := w.block
		w.mu.Unlock()
		if block != nil {
			select {
			case <-block:
			case <-r.Context().Done():
			}
		}
		if fails {
			out.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprint(out, w.name, " ", r.Host, " ", r.URL)
	}))
	b.t.Cleanup(w.Close)
	b.put(&resource.Instance{Service: service, ID: id, Zone: zone, Address: "127.0.0.1", Port: w.Listener.Addr().(*net.TCPAddr).Port, Weight: 1, TTL: 3600})
	return w
}

// taken returns the requests since the last call.
func (w *web) taken() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.requests
	w.requests = nil
	return list
}

func (w *web) set(failures int, block chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures, w.block = failures, block
}

// policy puts a policy, and waits until a client has answered to it.
func (b *bed) policy(name, rules, client string) resource.Rollout {
	b.t.Helper()
	p := &resource.Policy{Namespace: "default", Name: name}
	if err := json.Unmarshal([]byte(rules), &p.Rules); err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.plane.Put(b.ctx, planetest.Anybody, p, plane.Options{}); err != nil {
		b.t.Fatal(err)
	}
	return b.answered(p.Ref(), client)
}

// answered waits until a client has answered to the newest version of a policy.
func (b *bed) answered(r resource.Ref, client string) resource.Rollout {
	b.t.Helper()
	for {
		out, err := b.plane.Rollout(b.ctx, planetest.Anybody, r, 100)
		if err != nil {
			b.t.Fatal(err)
		}
		if i := slices.IndexFunc(out.Holdings, func(h resource.Holding) bool { return h.Client == client }); i >= 0 {
			if h := out.Holdings[i]; h.Version == out.Version && h.State != resource.Sent {
				return out
			}
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-b.ctx.Done():
			b.t.Fatalf("%s: no answer of %s: %+v", r, client, out.Holdings)
		}
	}
}

// A reply is a response without its body, which is apart.
type reply struct {
	*http.Response
	text string
}

// request sends a request through the proxy.
func (e *envoy) request(t *testing.T, method, host, path string, header ...string) reply {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+e.edge+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = host
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := e.client.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{response, string(text)}
}

// uses reports whether a proxy's clusters that were made from a policy are in use in its version.
func (e *envoy) uses(t *testing.T, policy string, version int64) bool {
	t.Helper()
	dump := string(e.ask(t, "/config_dump?resource=dynamic_active_clusters"))
	for rest := dump; ; {
		_, after, found := strings.Cut(rest, strconv.Quote(policy)+": ")
		if !found {
			return true
		}
		if !strings.HasPrefix(after, strconv.FormatInt(version, 10)+"\n") && !strings.HasPrefix(after, strconv.FormatInt(version, 10)+",") {
			return false
		}
		rest = after
	}
}

// TestEnvoyObeysPolicies: Envoy does what policies say; the services count. It acknowledges each version.
func TestEnvoyObeysPolicies(t *testing.T) {
	b := newBed(t, nil)
	proxy := startEnvoy(b, "DELTA_GRPC")
	shop, next, shadow := b.web("shop", "1", "z2"), b.web("next", "1", ""), b.web("shadow", "1", "")
	becomes := func(host string, want int) {
		t.Helper()
		for proxy.request(t, "GET", host, "/").StatusCode != want {
			if b.ctx.Err() != nil {
				t.Fatalf("%s: does not answer with %d", host, want)
			}
		}
	}
	for _, host := range []string{"shop", "next", "shadow"} {
		becomes(host, 200)
	}
	var clear func()
	expect := func(r reply, status int, text string) {
		t.Helper()
		if r.StatusCode != status || !strings.Contains(r.text, text) {
			t.Errorf("%d %q, want %d %q", r.StatusCode, r.text, status, text)
		}
	}
	// set puts a policy, and returns when Envoy uses it: a moment after its answer. A rule for /probe shows that.
	probes := 210
	set := func(rules string) resource.Rollout {
		t.Helper()
		probes++
		probe := fmt.Sprintf(`[{"action":"fault","match":{"services":["shop"],"path":"/probe"},"fault":{"status":%d}},`, probes)
		out := b.policy("p", probe+rules[1:], "edge-1")
		for out.Refused == 0 && (proxy.request(t, "GET", "shop", "/probe").StatusCode != probes || !proxy.uses(t, "default/p", out.Version)) {
			if b.ctx.Err() != nil {
				t.Fatal("Envoy does not use what it has accepted")
			}
		}
		clear()
		return out
	}
	clear = func() { shop.taken(); next.taken(); shadow.taken() }

	set(`[{"action":"route","match":{"services":["shop"]},"route":[{"service":"shop","weight":90},{"service":"next","weight":10}],"mirror":[{"service":"shadow","percent":100}]}]`)
	clear()
	const many = 400
	for range many {
		expect(proxy.request(t, "GET", "shop", "/"), 200, "")
	}
	if a, z := len(shop.taken()), len(next.taken()); a+z != many || z < 10 || z > 80 { // 6.5 and more standard deviations
		t.Errorf("%d and %d requests", a, z)
	}
	for sum := 0; sum < many; sum += len(shadow.taken()) {
		if b.ctx.Err() != nil {
			t.Fatalf("%d mirrored requests", sum)
		}
	}

	set(`[{"action":"route","match":{"services":["shop"],"path_prefix":"/v2/","methods":["GET","PUT"],"headers":{"x-tier":"a"}},"route":[{"service":"next","weight":1}],"rewrite":{"path_prefix":"/x/","host":"next.example"}},
		{"action":"redirect","match":{"services":["shop"],"path":"/old"},"redirect":{"path":"/new","host":"shop.example","https":true,"status":308}},
		{"action":"route","match":{"services":["shop"],"hosts":["shop.example"]},"route":[{"service":"next","weight":1}]}]`)
	expect(proxy.request(t, "GET", "shop", "/v2/y?q=1", "x-tier", "a"), 200, "next-1 next.example /x/y?q=1")
	expect(proxy.request(t, "POST", "shop", "/v2/y", "x-tier", "a"), 200, "shop-1 shop /v2/y")
	expect(proxy.request(t, "GET", "shop", "/v2/y", "x-tier", "b"), 200, "shop-1 shop /v2/y")
	expect(proxy.request(t, "GET", "shop.example", "/"), 200, "next-1")
	if r := proxy.request(t, "GET", "shop", "/old"); r.StatusCode != 308 || r.Header.Get("Location") != "https://shop.example/new" {
		t.Errorf("%d to %s", r.StatusCode, r.Header.Get("Location"))
	}

	set(`[{"action":"retry","match":{"services":["shop"]},"retry":{"attempts":2,"backoff_seconds":0.001}}]`)
	clear()
	shop.set(2, nil)
	expect(proxy.request(t, "GET", "shop", "/"), 200, "")
	shop.set(3, nil)
	expect(proxy.request(t, "GET", "shop", "/"), 503, "")
	if n := len(shop.taken()); n != 6 {
		t.Errorf("%d attempts, want 6", n)
	}

	set(`[{"action":"timeout","match":{"services":["shop"],"path":"/slow"},"timeout_seconds":0.05},{"action":"fault","match":{"services":["shop"],"path":"/broken"},"fault":{"status":418}},
		{"action":"deny","match":{"services":["shop"],"path_prefix":"/admin","sources":{"app":"edge"}}},{"action":"deny","match":{"services":["shop"],"path_prefix":"/public","sources":{"app":"other"}}}]`)
	shop.set(0, make(chan struct{}))
	expect(proxy.request(t, "GET", "shop", "/slow"), 504, "")
	shop.set(0, nil)
	clear()
	expect(proxy.request(t, "GET", "shop", "/broken"), 418, "")
	expect(proxy.request(t, "GET", "shop", "/admin/x"), 403, "a policy denies")
	expect(proxy.request(t, "GET", "shop", "/public"), 200, "")
	if got := shop.taken(); len(got) != 1 {
		t.Errorf("the service got %q", got)
	}

	set(`[{"action":"limit","match":{"services":["shop"],"path_prefix":"/a"},"limit":{"requests_per_second":0.001,"burst":5}},{"action":"timeout","match":{"services":["shop"],"path_prefix":"/a/b"},"timeout_seconds":30}]`)
	clear()
	refused := 0
	for i := range 20 {
		if r := proxy.request(t, "GET", "shop", []string{"/a", "/a/b"}[i%2]); r.StatusCode == http.StatusTooManyRequests {
			refused++
		}
	}
	if n := len(shop.taken()); n != 5 || refused != 15 {
		t.Errorf("%d requests passed and %d were refused, want 5 and 15", n, refused)
	}
	expect(proxy.request(t, "GET", "shop", "/b"), 200, "")

	// One request at a time: the second fails at once.
	set(`[{"action":"circuit","match":{"services":["shop"]},"circuit":{"requests":1}}]`)
	block := make(chan struct{})
	shop.set(0, block)
	clear()
	first := make(chan reply, 1)
	go func() { first <- proxy.request(t, "GET", "shop", "/") }()
	for len(shop.taken()) == 0 && b.ctx.Err() == nil {
	}
	expect(proxy.request(t, "GET", "shop", "/"), 503, "overflow")
	close(block)
	expect(<-first, 200, "")
	shop.set(0, nil)

	// Two errors eject the only instance.
	set(`[{"action":"outliers","match":{"services":["shop"]},"outliers":{"consecutive_errors":2,"ejection_seconds":3600,"max_percent":100}}]`)
	shop.set(math.MaxInt, nil)
	for errors := 0; !strings.Contains(proxy.request(t, "GET", "shop", "/").text, "no healthy upstream"); errors++ {
		if b.ctx.Err() != nil {
			t.Fatalf("not ejected after %d errors", errors)
		}
	}
	shop.set(0, nil)

	// The instance in the proxy's zone gets all; a ring gives equal values the same instance.
	near := b.web("shop", "near", "z1")
	set(`[{"action":"balance","match":{"services":["shop"]},"balance":{"by":"least-request","local_zone":true}}]`)
	for !strings.HasPrefix(proxy.request(t, "GET", "shop", "/").text, "shop-near") {
		if b.ctx.Err() != nil {
			t.Fatal("the near instance gets nothing")
		}
	}
	clear()
	for range 20 {
		expect(proxy.request(t, "GET", "shop", "/"), 200, "shop-near")
	}
	set(`[{"action":"balance","match":{"services":["shop"]},"balance":{"by":"ring-hash","header":"x-user"}}]`)
	both := map[string]bool{}
	for i := range 40 {
		user := fmt.Sprint("user-", i%20)
		answer := proxy.request(t, "GET", "shop", "/", "x-user", user).text
		both[answer] = true
		if again := proxy.request(t, "GET", "shop", "/", "x-user", user).text; again != answer {
			t.Errorf("%s: %q, and then %q", user, answer, again)
		}
	}
	if len(both) != 2 {
		t.Errorf("all users get %v", both)
	}
	near.taken()

	// A service without instances is replaced by the first that has some, until it has instances itself.
	set(`[{"action":"failover","match":{"services":["lost"]},"failover":["nowhere","next","shadow"]}]`)
	becomes("lost", 200)
	expect(proxy.request(t, "GET", "lost", "/"), 200, "next-1 lost")
	lost := b.web("lost", "1", "")
	for !strings.HasPrefix(proxy.request(t, "GET", "lost", "/").text, "lost-1") {
		if b.ctx.Err() != nil {
			t.Fatal("the service's own instance gets nothing")
		}
	}
	b.put(&resource.Instance{Service: "lost", ID: "1", Address: "127.0.0.1", Port: lost.Listener.Addr().(*net.TCPAddr).Port, Weight: 1, TTL: 3600, Status: resource.Draining})
	for !strings.HasPrefix(proxy.request(t, "GET", "lost", "/").text, "next-1") {
		if b.ctx.Err() != nil {
			t.Fatal("a draining instance is not replaced")
		}
	}
	set(`[{"action":"allow","match":{"services":["lost"]}}]`)
	becomes("lost", 503)

	// A gray release is for those whom it chooses, and ends for all.
	gray := resource.Ref{Kind: resource.Policies, Namespace: "default", Name: "gray"}
	b.policy("gray", `[{"action":"allow","match":{"services":["shop"]}}]`, "edge-1")
	release := func(app string, want int) {
		r := resource.PolicyRelease{Rules: []resource.Rule{{Action: resource.Deny}}, Choice: resource.Choice{Labels: map[string][]string{"app": {app}}}}
		if _, err := b.plane.ReleasePolicy(b.ctx, planetest.Anybody, gray, r, plane.Options{}); err != nil {
			t.Fatal(err)
		}
		b.answered(gray, "edge-1")
		becomes("shop", want)
	}
	release("other", 200)
	release("edge", 403)
	if _, err := b.plane.Put(b.ctx, planetest.Anybody, &resource.Policy{Namespace: "default", Name: "gray", Rules: []resource.Rule{}}, plane.Options{}); err != nil {
		t.Fatal(err) // it stays
	}
	b.answered(gray, "edge-1")
	becomes("shop", 403)
	if _, err := b.plane.EndRelease(b.ctx, planetest.Anybody, gray, true, plane.Options{}); err != nil {
		t.Fatal(err)
	}
	b.answered(gray, "edge-1")
	becomes("next", 403)
	if _, err := b.plane.Remove(b.ctx, planetest.Anybody, gray, plane.Options{}); err != nil {
		t.Fatal(err)
	}
	becomes("next", 200)

	for _, rate := range []string{"0.5", "1", "7", "19.5", "500", "12345"} {
		if out := set(`[{"action":"limit","match":{"services":["shop"]},"limit":{"requests_per_second":` + rate + `}}]`); out.Applied != 1 {
			t.Errorf("%s/s: %v", rate, out.Holdings)
		}
	}

	// What Envoy refuses is shown in its words, and the policy from before holds. This one's operator allows only short
	// regular expressions.
	out := set(`[{"action":"deny","match":{"services":["shop"],"hosts":["shop","` + strings.Repeat("long.", 20) + `example"]}}]`)
	if out.Refused != 1 || out.Applied != 0 || !strings.Contains(out.Holdings[0].Reason, "program size") {
		t.Errorf("%+v", out.Holdings)
	}
	expect(proxy.request(t, "GET", "shop", "/"), 200, "")
	if _, err := b.plane.Rollback(b.ctx, planetest.Anybody, out.Ref, out.Version-1, plane.Options{}); err != nil {
		t.Fatal(err)
	}
	if out := b.answered(out.Ref, "edge-1"); out.Refused != 0 || out.Applied != 1 {
		t.Errorf("%+v", out.Holdings)
	}
}

// TestGRPCObeysPolicies: gRPC's clients do what they can of policies, refuse nothing, and acknowledge each version. What one of
// them cannot do is said.
func TestGRPCObeysPolicies(t *testing.T) {
	for language, start := range callers {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, nil)
			shop, next := newBackend(t, "till", "1", 100), newBackend(t, "till-next", "1", 100)
			b.put(shop.instance)
			b.put(next.instance)
			call := start(b, "till")
			b.obeys(call, shop, next)
			name := map[string]string{"go": traffic.GRPCGo, "java": traffic.GRPCJava, "python": traffic.GRPCCore}[language]
			want := map[string]bool{"limit": true, "match/methods": true, "balance/by": language == "python"}
			for place, rule := range map[string]string{
				"limit": `{"action":"limit","limit":{"requests_per_second":1}}`, "match/methods": `{"action":"allow","match":{"methods":["GET"]}}`,
				"balance/by": `{"action":"balance","balance":{"by":"least-request"}}`,
			} {
				p := &resource.Policy{Rules: make([]resource.Rule, 1)}
				if err := json.Unmarshal([]byte(rule), &p.Rules[0]); err != nil {
					t.Fatal(err)
				}
				got := b.plane.Limitations(p)
				if is := len(got) == 1 && got[0].DataPlane == name && got[0].Pointer == "#/rules/0/"+place; is != want[place] || len(got) > 1 {
					t.Errorf("%s: %+v", rule, got)
				}
			}
		})
	}
}

// obeys checks that a client of gRPC obeys policies about till, whose only instance is shop.
func (b *bed) obeys(within caller, shop, next *backend) {
	t := b.t
	call := func(calls int, header ...string) error { return within(hangGuard, calls, header...) }
	until := func(what string, holds func() bool) {
		t.Helper()
		for !holds() {
			if b.ctx.Err() != nil {
				t.Fatal(what)
			}
		}
	}
	set := func(rules string) {
		t.Helper()
		rules = strings.NewReplacer(`"match":{}`, `"match":{"services":["till"]}`, `"match":{`, `"match":{"services":["till"],`).Replace("[" + rules + "]")
		if out := b.policy("q", rules, "test"); out.Applied != 1 || out.Refused != 0 {
			t.Errorf("%s: %+v", rules, out.Holdings)
		}
	}
	reset := func() { shop.calls.Store(0); next.calls.Store(0) }
	until("till is found", func() bool { return call(1) == nil })

	set(`{"action":"route","match":{"path_prefix":"/grpc.health.v1.Health/"},"route":[{"service":"till","weight":25},{"service":"till-next","weight":75}]}`)
	until("both are found", func() bool { return call(1) == nil && next.calls.Load() > 0 })
	reset()
	const calls = 3000
	if err := call(calls); err != nil {
		t.Error(err)
	}
	share(t, shop, next, calls)

	set(`{"action":"retry","match":{},"retry":{"attempts":2,"backoff_seconds":0.001}}`)
	until("the split is over", func() bool { reset(); return call(20) == nil && next.calls.Load() == 0 })
	reset()
	shop.failures.Store(2)
	if err := call(1); err != nil || shop.calls.Load() != 3 {
		t.Errorf("%v after %d attempts", err, shop.calls.Load())
	}
	shop.failures.Store(3)
	if err := call(1); status.Code(err) != codes.Unavailable || shop.calls.Load() != 6 {
		t.Errorf("%v after %d attempts", err, shop.calls.Load())
	}

	const fault = `{"action":"fault","fault":{"status":503},"match":`
	for _, one := range []struct {
		rules string
		want  codes.Code
		stuck bool // the service does not answer
	}{
		{fault + `{}}`, codes.Unavailable, false},
		{`{"action":"allow","match":{}}`, codes.OK, false},
		{`{"action":"fault","match":{},"fault":{"status":404}}`, codes.Unimplemented, false},
		{`{"action":"timeout","match":{},"timeout_seconds":0.01}`, codes.DeadlineExceeded, true},
		{fault + `{}}`, codes.Unavailable, false},
		{`{"action":"fault","match":{},"fault":{"delay_seconds":1}}`, codes.DeadlineExceeded, false},
		{fault + `{"methods":["GET"]}}`, codes.OK, false},
		{fault + `{"methods":["GET","POST"]}}`, codes.Unavailable, false},
		{fault + `{"path":"/grpc.health.v1.Health/Watch"}}`, codes.OK, false},
		{fault + `{"path":"/grpc.health.v1.Health/Check"}}`, codes.Unavailable, false},
		{fault + `{"headers":{"x-tier":"b"}}}`, codes.OK, false},
		{fault + `{"headers":{"x-tier":"a"}}}`, codes.Unavailable, false},
		{`{"action":"balance","match":{},"balance":{"by":"ring-hash"}}`, codes.OK, false},
		{`{"action":"deny","match":{}}`, codes.Unavailable, false},
		{`{"action":"balance","match":{},"balance":{"by":"random"}},{"action":"outliers","match":{},"outliers":{"consecutive_errors":3}},{"action":"limit","match":{},"limit":{"requests_per_second":0.001,"burst":1}}`, codes.OK, false},
		{`{"action":"redirect","match":{},"redirect":{"path":"/x"}}`, codes.Unavailable, false},
		{`{"action":"balance","match":{},"balance":{"by":"least-request","local_zone":true}}`, codes.OK, false},
		{fault + `{}}`, codes.Unavailable, false},
		{`{"action":"circuit","match":{},"circuit":{"requests":5}}`, codes.OK, false},
		{fault + `{}}`, codes.Unavailable, false},
		{`{"action":"failover","match":{},"failover":["till-next"]}`, codes.OK, false},
	} {
		shop.stuck.Store(one.stuck)
		set(one.rules)
		// The client uses what it has acknowledged a moment later.
		until(fmt.Sprintf("%s: not %v", one.rules, one.want), func() bool {
			reset()
			if strings.Contains(one.rules, "delay") {
				return status.Code(within(50*time.Millisecond, 1)) == one.want
			}
			return status.Code(call(1, "x-tier=a")) == one.want
		})
		if one.want != codes.OK && !one.stuck && shop.calls.Load() > 0 {
			t.Errorf("%s: the service got a call", one.rules)
		}
	}

	set(`{"action":"balance","match":{},"balance":{"by":"ring-hash","header":"x-user"}},{"action":"route","match":{},"route":[{"service":"till","weight":1}]}`)
	second := newBackend(t, "till", "2", 100)
	b.put(second.instance)
	until("both have users", func() bool {
		reset()
		for user := range 20 {
			before := second.calls.Load()
			if err := call(10, fmt.Sprint("x-user=", user)); err != nil {
				t.Error(err)
			}
			if n := second.calls.Load() - before; n%10 != 0 {
				return false // not yet
			}
		}
		return shop.calls.Load() > 0 && shop.calls.Load() < 200
	})

	set(`{"action":"failover","match":{},"failover":["nowhere","till-next"]}`)
	for _, one := range []*backend{shop, second} {
		one.instance.Status = resource.Down
		b.put(one.instance)
	}
	until("till-next replaces till", func() bool { reset(); return call(1) == nil && next.calls.Load() > 0 })
	far := newBackend(t, "till@berlin", "1", 100)
	b.put(far.instance)
	set(`{"action":"failover","match":{},"failover":["till@berlin","till-next"]}`)
	until("another centre's till replaces till", func() bool { return call(1) == nil && far.calls.Load() > 0 })
}

// TestSharedLimit: proxies that ask the control plane have one limit together.
func TestSharedLimit(t *testing.T) {
	b := newBed(t, nil)
	shop := b.web("shop", "1", "")
	var proxies []*envoy
	for _, id := range []string{"a", "b"} {
		proxies = append(proxies, startEnvoyAs(b, "DELTA_GRPC", id, `{outbound: "127.0.0.1:0", control: control}`))
	}
	b.policy("p", `[{"action":"limit","match":{"services":["shop"],"path":"/few"},"limit":{"requests_per_second":0.001,"burst":7,"shared":true}}]`, "a")
	b.answered(resource.Ref{Kind: resource.Policies, Namespace: "default", Name: "p"}, "b")
	for _, e := range proxies {
		for e.request(t, "GET", "shop", "/").StatusCode != http.StatusOK {
			if b.ctx.Err() != nil {
				t.Fatal("the service is not found")
			}
		}
	}
	shop.taken()
	passed := [2]int{}
	for n := range 20 {
		switch r := proxies[n%2].request(t, "GET", "shop", "/few"); r.StatusCode {
		case http.StatusOK:
			passed[n%2]++
		case http.StatusTooManyRequests:
		default:
			t.Errorf("%d %s", r.StatusCode, r.text)
		}
	}
	if passed[0]+passed[1] != 7 || passed[0] == 0 || passed[1] == 0 || len(shop.taken()) != 7 {
		t.Errorf("%v passed, want 7 in all", passed)
	}
}

// TestAnswersOfManyServices: a policy is applied when all kinds of resources that it is in are accepted, whichever services need them.
func TestAnswersOfManyServices(t *testing.T) {
	r := resource.Ref{Kind: resource.Policies, Namespace: "default", Name: "p"}
	of := func(version int64, list ...kind) policyVersion {
		p := policyVersion{Ref: r, version: version}
		for _, k := range list {
			p.kinds[k] = true
		}
		return p
	}
	c := &client{policies: map[resource.Ref]*policyAnswer{}}
	for n, one := range []struct {
		p       policyVersion
		k       kind
		refused bool
		news    bool
	}{
		{of(1, routes, clusters), clusters, false, false},
		{of(1, routes), routes, false, true}, // another service's
		{of(1, routes, clusters), routes, false, false},
		{of(1, routes), routes, true, false}, // what was accepted is not to blame
		{of(2, routes, clusters), routes, true, true},
		{of(2, routes, clusters), clusters, false, false},
		{of(2, routes, clusters), routes, false, true},
	} {
		if got := c.answered(one.p, one.k, one.refused); got != one.news {
			t.Errorf("answer %d: news %v, want %v", n, got, one.news)
		}
	}
}

// withAuthority gives a bed's control plane an authority, whose certificates are valid for a while.
func withAuthority(t *testing.T, ttl time.Duration) func(*Config) {
	t.Helper()
	cert, key, err := identity.New("test.internal", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	authority, err := identity.Parse("test.internal", cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Config) { c.Authority, c.CertificateTTL = authority, ttl }
}

// serials returns the serial numbers of the certificates that a proxy has.
func (e *envoy) serials(t *testing.T) string {
	t.Helper()
	var all struct {
		Certificates []struct {
			Chain []struct {
				Serial string `json:"serial_number"`
			} `json:"cert_chain"`
		}
	}
	if err := json.Unmarshal(e.ask(t, "/certs"), &all); err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, c := range all.Certificates {
		for _, one := range c.Chain {
			list = append(list, one.Serial)
		}
	}
	slices.Sort(list)
	return strings.Join(slices.Compact(list), " ")
}

// TestIdentities: proxies of services show each other certificates, which are replaced under load. Access depends on the
// caller's identity; without one, nobody gets in.
func TestIdentities(t *testing.T) {
	b := newBed(t, withAuthority(t, 4*time.Second))
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("X-Forwarded-Client-Cert"))
	}))
	defer backend.Close()
	shop := startEnvoyAs(b, "DELTA_GRPC", "shop-1", fmt.Sprintf(`{service: shop, inbound: "127.0.0.1:0", forward: %d}`, backend.Listener.Addr().(*net.TCPAddr).Port))
	_, port, err := net.SplitHostPort(shop.edge)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	b.put(&resource.Instance{Service: "shop", ID: "1", Address: "127.0.0.1", Port: number, Weight: 1, TTL: 3600, Metadata: map[string]string{"tls": "mutual"}})
	web := startEnvoyAs(b, "GRPC", "web-1", `{service: web, outbound: "127.0.0.1:0"}`)
	other := startEnvoyAs(b, "DELTA_GRPC", "other-1", `{service: other, namespace: eu, outbound: "127.0.0.1:0"}`)
	nobody := startEnvoyAs(b, "DELTA_GRPC", "nobody-1", `{outbound: "127.0.0.1:0"}`)
	becomes := func(e *envoy, want int) string {
		t.Helper()
		for {
			r := e.request(t, "GET", "shop", "/a?b=c")
			if r.StatusCode == want {
				return r.text
			}
			if b.ctx.Err() != nil {
				t.Fatalf("status %d, want %d: %s", r.StatusCode, want, r.text)
			}
		}
	}
	if text := becomes(web, 200); !strings.Contains(text, "URI=spiffe://test.internal/ns/default/sa/web") {
		t.Errorf("the service sees the caller %q", text)
	}
	becomes(other, 200)
	becomes(nobody, 503)

	b.policy("access", `[{"action":"allow","match":{"services":["shop"],"identities":["default/web"],"methods":["GET"],"path":"/a"}},{"action":"allow","match":{"services":["shop"],"identities":["asia/*"]}},{"action":"deny","match":{"services":["shop"]}}]`, "shop-1")
	becomes(web, 200)
	for what, r := range map[string]reply{
		"another identity": other.request(t, "GET", "shop", "/a"), "another path": web.request(t, "GET", "shop", "/a/b"), "another method": web.request(t, "POST", "shop", "/a"),
	} {
		if r.StatusCode != http.StatusForbidden || !strings.Contains(r.text, "RBAC") {
			t.Errorf("%s: %d %s", what, r.StatusCode, r.text)
		}
	}
	b.policy("access", `[{"action":"deny","match":{"services":["shop"],"identities":["default/web"]}},{"action":"allow","match":{"services":["shop"],"identities":["eu/*"],"path_prefix":"/a"}},{"action":"deny","match":{"services":["shop"]}}]`, "shop-1")
	becomes(web, 403)
	becomes(other, 200)

	// Each proxy has at least two new certificates, and no request fails.
	before := [2]string{shop.serials(t), other.serials(t)}
	changes := [2]int{}
	for n := 0; changes[0] < 2 || changes[1] < 2; n++ {
		if r := other.request(t, "GET", "shop", "/a"); r.StatusCode != http.StatusOK {
			t.Fatalf("%d %s", r.StatusCode, r.text)
		}
		if n%50 != 0 {
			continue
		}
		for i, e := range []*envoy{shop, other} {
			if now := e.serials(t); now != before[i] {
				before[i] = now
				changes[i]++
			}
		}
		if b.ctx.Err() != nil {
			t.Fatalf("certificates changed %v times", changes)
		}
	}
}

// TestIdentitiesAreGranted: who may not register a service's instances does not get its identity.
func TestIdentitiesAreGranted(t *testing.T) {
	reader := planetest.Anybody
	reader.Principal = &access.Principal{Name: "reader", Grants: []access.Grant{{Namespace: access.AllNamespaces, Role: access.Reader}}}
	give := withAuthority(t, time.Hour)
	for name, c := range map[string]struct {
		change func(*Config)
		want   codes.Code
	}{
		"a reader":     {func(c *Config) { give(c); c.Caller = func(context.Context) plane.Caller { return reader } }, codes.PermissionDenied},
		"no authority": {nil, codes.FailedPrecondition},
	} {
		b := newBed(t, c.change)
		w := b.delta()
		metadata, err := structpb.NewStruct(map[string]any{"service": "shop"})
		if err != nil {
			t.Fatal(err)
		}
		w.say(&discovery.DeltaDiscoveryRequest{Node: &core.Node{Id: "shop-1", Metadata: metadata}, TypeUrl: types[secrets], ResourceNamesSubscribe: []string{identityName}})
		if _, err := w.stream.Recv(); status.Code(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
