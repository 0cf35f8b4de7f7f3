package engine_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dyno/internal/contentcoding/codingtest"
	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/load/engine/users"
	"dyno/load/options"
	"dyno/load/pace"
	"dyno/load/scenario"
	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/http2"
)

func compile(t testing.TB, spec scenario.Spec) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Compile(&spec, scenario.Protocol{Host: "h"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// composers makes clients of HTTP/1.1 that send what a scenario's users say.
func composers(t testing.TB, s *scenario.Scenario, host string) func(int) func() wire.Client {
	t.Helper()
	c := http1.Config{Fields: s.HeaderNames(), Accept: func(int) bool { return true }}
	for _, o := range s.Outlines() {
		r := http1.Request{Method: o.Method, Target: o.Path, VariesTarget: o.VariesPath, Host: host, Body: []byte(o.Body), VariesBody: o.VariesBody}
		for _, f := range o.Header {
			r.Header = append(r.Header, http1.Field{Name: f.Name, Value: f.Value, Varies: f.Varies})
		}
		c.Requests = append(c.Requests, r)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return func(int) func() wire.Client {
		template, err := http1.NewTemplate(c)
		if err != nil {
			panic(err)
		}
		return func() wire.Client { return template.Client() }
	}
}

// muxesOf makes muxes that send what a scenario's users say.
func muxesOf(t testing.TB, s *scenario.Scenario, scheme string, streams int) func(int) func() wire.Mux {
	t.Helper()
	return get2(t, "h", streams, func(c *http2.Config) {
		c.Requests, c.Fields, c.Content, c.Accept = nil, s.HeaderNames(), true, func(int) bool { return true }
		for _, o := range s.Outlines() {
			r := http1.Request{Method: o.Method, Target: o.Path, VariesTarget: o.VariesPath, Host: "h", Body: []byte(o.Body), VariesBody: o.VariesBody}
			for _, f := range o.Header {
				r.Header = append(r.Header, http1.Field{Name: f.Name, Value: f.Value, Varies: f.Varies})
			}
			c.Requests = append(c.Requests, http2.Request{Request: r, Scheme: scheme})
		}
	})
}

// stepsAddUp fails the test when the steps are not conserved, or do not add up to the whole.
func stepsAddUp(t testing.TB, r *record.Result) {
	t.Helper()
	var sum record.Counts
	var completed uint64
	for _, s := range r.Steps {
		if err := s.Counts.Conserved(); err != nil {
			t.Errorf("step %s: %v", s.Name, err)
		}
		sum.Scheduled += s.Counts.Scheduled
		sum.Sent += s.Counts.Sent
		sum.OK += s.Counts.OK
		for k, n := range s.Counts.ByKind {
			sum.ByKind[k] += n
		}
		completed += s.Completed
		if got, want := s.Response.Count(), s.Counts.OK+s.Counts.Timeouts+s.Counts.Unfinished; uint64(got) != want { //nolint:gosec // not negative
			t.Errorf("step %s: %d times, want %d", s.Name, got, want)
		}
		if s.Response.Count() != s.Service.Count() {
			t.Errorf("step %s: %d response times, %d service times", s.Name, s.Response.Count(), s.Service.Count())
		}
	}
	sum.Scheduled += r.Users.TurnedAway
	if sum.Scheduled != r.Counts.Scheduled || sum.Sent != r.Counts.Sent || sum.OK != r.Counts.OK || sum.ByKind != r.Counts.ByKind || completed != r.Completed {
		t.Errorf("the steps add up to %+v, completed %d, and the whole is %+v, completed %d", sum, completed, r.Counts, r.Completed)
	}
}

// carryOut is run for loads of users.
func carryOut(t testing.TB, c config.Config) *record.Result {
	t.Helper()
	r := run(t, c)
	stepsAddUp(t, r)
	return r
}

// step returns the result of a step.
func step(t testing.TB, r *record.Result, name string) *record.StepResult {
	t.Helper()
	for i := range r.Steps {
		if r.Steps[i].Name == name {
			return &r.Steps[i]
		}
	}
	t.Fatalf("no step %q", name)
	return nil
}

// A shop is a server with log-in, a list, and orders. It accepts only what follows from its own
// answers.
type shop struct {
	mu     sync.Mutex // guards users
	users  map[string]string
	logins atomic.Uint64
	lists  atomic.Uint64
	orders atomic.Uint64
	wrong  atomic.Uint64
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.URL.Path == "/login" {
		var who struct{ Name string }
		if err := json.Unmarshal(body, &who); err != nil || r.Method != http.MethodPost {
			s.wrong.Add(1)
		}
		n := s.logins.Add(1)
		s.mu.Lock()
		if s.users == nil {
			s.users = map[string]string{}
		}
		token := fmt.Sprintf("T%d", n)
		s.users[token] = who.Name
		s.mu.Unlock()
		http.SetCookie(w, &http.Cookie{Name: "sid", Value: token, Path: "/"})
		fmt.Fprintf(w, `{"data":{"token":%q}}`, token)
		return
	}
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	s.mu.Lock()
	name, known := s.users[token]
	s.mu.Unlock()
	cookie, err := r.Cookie("sid")
	switch {
	case !known || err != nil || cookie.Value != token || r.URL.Query().Get("user") != name:
		s.wrong.Add(1)
		w.WriteHeader(http.StatusForbidden)
	case r.URL.Path == "/items":
		w.Header().Set("X-Next", "/items/"+token)
		s.lists.Add(1)
		fmt.Fprint(w, `{"items":[{"id":7}]}`)
	case r.URL.Path == "/items/"+token && string(body) == "id=7":
		s.orders.Add(1)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id":"7","who":%q}`, name)
	default:
		s.wrong.Add(1)
		w.WriteHeader(http.StatusNotFound)
	}
}

// shopping is what a shop's users do.
func shopping() scenario.Spec {
	authorized := []scenario.Header{{Name: "Authorization", Value: "Bearer {{ token }}"}}
	return scenario.Spec{
		Cookies: true,
		Steps: []scenario.Step{
			{
				Name: "login", Once: true, Path: "/login", Body: `{"name":"{{ name }}-{{ counter() }}"}`,
				Extract: []scenario.Extraction{{Variable: "token", JSON: "$.data.token"}},
			},
			{
				Name: "list", Path: "/items?user={{ name }}-{{ number }}", Headers: authorized,
				Extract: []scenario.Extraction{
					{Variable: "id", JSON: "$.items[0].id"}, {Variable: "next", Header: "X-Next"},
					{Variable: "none", JSON: "$.none", Keep: true},
				},
			},
			{
				Name: "order", Path: "{{ next }}?user={{ name }}-{{ number }}", Headers: authorized, Body: "id={{ id }}",
				Status: "201",
				Assert: []scenario.Assertion{{JSON: "$.id", Equals: new("{{ id }}")}},
			},
		},
		Variables: map[string]string{"name": "ada", "number": "0", "none": ""},
	}
}

// knowing has the users of shopping know the number that they have logged in with.
func knowing(spec scenario.Spec) scenario.Spec {
	spec.Steps[0].Body = `{"name":"{{ name }}-0"}`
	return spec
}

// Users log in once each, and every further request follows from a response: in HTTP/1.1, in
// HTTP/2 and over TLS, whether there are as many users as connections, fewer or more.
func TestUsers(t *testing.T) {
	s := compile(t, knowing(shopping()))
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2", "TLS", "TLS, HTTP/2"} {
		for _, c := range []config.Config{
			{Connections: 4, Threads: options.Threads{Workers: 1}},
			{Connections: 4, Threads: options.Threads{Workers: 3}, Users: &users.Config{Count: 20}},
			{Connections: 7, Threads: options.Threads{Workers: 2}, Users: &users.Config{Count: 3}},
			{Connections: 5, ExchangesPerConnection: 3},
		} {
			t.Run(fmt.Sprintf("%s, %d workers", protocol, c.Workers), func(t *testing.T) {
				var target shop
				secure, two := strings.HasPrefix(protocol, "TLS"), strings.HasSuffix(protocol, "2")
				streams := 1
				if two {
					streams = 2
				}
				switch {
				case secure:
					address, config := https(t, two, target.ServeHTTP)
					c.Address, c.TLS = address, offer(config, "http/1.1")
					if two {
						c.TLS = offer(config, "h2", "http/1.1")
					}
				case two:
					c.Address = serve2(t, http.HTTP2Config{}, target.ServeHTTP)
				default:
					server := httptest.NewServer(&target)
					t.Cleanup(server.Close)
					c.Address = server.Listener.Addr().String()
				}
				if !two || secure {
					c.NewClients = composers(t, s, "h")
				}
				if two {
					c.NewMuxes, c.Streams = muxesOf(t, s, map[bool]string{true: "https", false: "http"}[secure], streams), streams
				}
				users := users.Config{Scenario: s, Count: c.Connections * streams}
				if c.Users != nil {
					users.Count = c.Users.Count
				}
				c.Users, c.Requests = &users, 100
				r := carryOut(t, c)
				if r.Counts.OK != 100 || target.wrong.Load() > 0 {
					t.Errorf("counts %+v, %v; %d wrong requests", r.Counts, r.Failures, target.wrong.Load())
				}
				for name, want := range map[string]uint64{"login": target.logins.Load(), "list": target.lists.Load(), "order": target.orders.Load()} {
					if got := step(t, r, name).Counts.OK; got != want {
						t.Errorf("%s: %d, and the server has seen %d", name, got, want)
					}
				}
				if got := target.logins.Load(); got != uint64(users.Count) || r.Users.Count != users.Count || r.Users.Started != got { //nolint:gosec // not negative
					t.Errorf("%d logins; users %+v", got, r.Users)
				}
				want := map[string]uint64{"token": 0, "id": 0, "next": 0, "none": target.lists.Load()}
				for _, m := range r.Users.Misses {
					if m.Count != want[m.Name] {
						t.Errorf("%d misses of %s, want %d", m.Count, m.Name, want[m.Name])
					}
				}
				if done := r.Users.Iterations; done > target.orders.Load() || done+uint64(users.Count) < target.orders.Load() { //nolint:gosec // not negative
					t.Errorf("%d iterations, and %d orders", done, target.orders.Load())
				}
			})
		}
	}
}

// plain starts a server and returns its address.
func plain(t testing.TB, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// Unexpected responses are counted by their kind, with their step.
func TestUsersFailures(t *testing.T) {
	const each = 3 // requests of each step
	address := plain(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/status":
			w.WriteHeader(http.StatusTeapot)
		case "/slow":
			<-r.Context().Done()
		case "/cut":
			w.Header().Set("Content-Length", "10")
		}
		fmt.Fprint(w, "{}")
	})
	s := compile(t, scenario.Spec{
		Steps: []scenario.Step{
			{Name: "good", Path: "/"},
			{Name: "status", Path: "/status"},
			{Name: "accepted", Path: "/status", Status: "418"},
			{Name: "assertion", Path: "/", Assert: []scenario.Assertion{{Contains: "x"}}},
			{Name: "extraction", Path: "/", Extract: []scenario.Extraction{{Variable: "id", JSON: "$.id"}}},
			{Name: "slow", Path: "/slow", Deadline: 50 * time.Millisecond},
			{Name: "cut", Path: "/cut"},
		},
	})
	for _, two := range []bool{false, true} {
		c := config.Config{
			Address: address, Connections: 3, Requests: 7 * each, Timeouts: options.Timeouts{Timeout: hang}, Users: &users.Config{Scenario: s, Count: 1},
		}
		if c.NewClients = composers(t, s, "h"); two {
			c.NewClients, c.NewMuxes = nil, muxesOf(t, s, "http", 1)
			c.Address = serve2(t, http.HTTP2Config{}, func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/status":
					w.WriteHeader(http.StatusTeapot)
				case "/slow":
					<-r.Context().Done()
				case "/cut":
					panic(http.ErrAbortHandler)
				}
				fmt.Fprint(w, "{}")
			})
		}
		r := carryOut(t, c)
		for name, kind := range map[string]wire.Kind{
			"good": wire.None, "status": wire.Status, "accepted": wire.None, "assertion": wire.Assertion, "extraction": wire.Assertion,
			"slow": wire.Timeout, "cut": wire.Reset,
		} {
			n := step(t, r, name).Counts
			got := n.ByKind[kind]
			if kind == wire.None {
				got = n.OK
			}
			if got != each || n.Sent != each {
				t.Errorf("HTTP/2 %v, %s: %+v, want %d of kind %v", two, name, n, each, kind)
			}
		}
		if r.Failures[`assertion: step "assertion": its body does not contain "x"`] != each {
			t.Errorf("%v", r.Failures)
		}
		if got := r.Users.Misses[0]; got.Name != "id" || got.Count != each || got.Step != 4 {
			t.Errorf("%+v", r.Users.Misses)
		}
	}
}

// A request that would break the message is not sent, and counts as the generator's.
func TestUsersCannotSend(t *testing.T) {
	var seen atomic.Uint64
	address := plain(t, func(w http.ResponseWriter, _ *http.Request) {
		seen.Add(1)
		fmt.Fprint(w, "a\nb")
	})
	s := compile(t, scenario.Spec{
		Steps: []scenario.Step{{Name: "good", Path: "/", Extract: []scenario.Extraction{{Variable: "line"}}}, {Name: "bad", Path: "/", Headers: []scenario.Header{{Name: "X", Value: "{{ line }}"}}}},
	})
	for _, schedule := range []*pace.Schedule{nil, steady(t, 1000)} {
		seen.Store(0)
		r := carryOut(t, config.Config{
			Address: address, NewClients: composers(t, s, "h"), Connections: 2, Requests: 100, Schedule: schedule, Users: &users.Config{Scenario: s},
		})
		good, bad := step(t, r, "good").Counts, step(t, r, "bad").Counts
		if good.OK != good.Sent || bad.Generator != bad.Sent || bad.Sent == 0 || seen.Load() != good.OK || good.Sent+bad.Sent != 100 {
			t.Errorf("good %+v, bad %+v, seen %d", good, bad, seen.Load())
		}
	}
}

func steady(t testing.TB, rate float64) *pace.Schedule {
	t.Helper()
	s, err := pace.New(pace.Steady(rate, 0), pace.Constant, 1)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// In an open loop an arrival is an iteration. There are as many users as it takes, and who
// finds none is dropped.
func TestUsersOpenLoop(t *testing.T) {
	s := compile(t, knowing(shopping()))
	var target shop
	address := plain(t, target.ServeHTTP)
	r := carryOut(t, config.Config{
		Address: address, NewClients: composers(t, s, "h"), Connections: 20, Schedule: steady(t, 500), Threads: options.Threads{Workers: 2},
		Window: 400 * time.Millisecond, Drain: 10 * time.Second, Users: &users.Config{Scenario: s},
	})
	if n := r.Users.Arrivals; n != 200 || r.Counts.Dropped > 0 || target.wrong.Load() > 0 || step(t, r, "list").Counts.OK == 0 {
		t.Errorf("%d arrivals, counts %+v, %d wrong", n, r.Counts, target.wrong.Load())
	}
	if r.Users.Started != target.logins.Load() || r.Users.Started == 0 || r.Users.Count != 10_000 {
		t.Errorf("%+v, %d logins", r.Users, target.logins.Load())
	}

	// One user, who takes as long as ten arrivals: about nine in ten are turned away.
	slow := compile(t, scenario.Spec{Steps: []scenario.Step{{Name: "a", Path: "/", Think: pace.Think{Constant: 20 * time.Millisecond}}, {Name: "b", Path: "/"}}})
	r = carryOut(t, config.Config{
		Address: address, NewClients: composers(t, slow, "h"), Connections: 3, Schedule: steady(t, 500),
		Window: 400 * time.Millisecond, Users: &users.Config{Scenario: slow, Count: 1},
	})
	if r.Users.TurnedAway != r.Counts.Dropped || r.Users.TurnedAway < 100 || r.Users.Started != 1 || r.Users.Iterations < 5 {
		t.Errorf("%+v, counts %+v", r.Users, r.Counts)
	}
	if a, b := step(t, r, "a").Counts.Sent, step(t, r, "b").Counts.Sent; a > b+1 || b > a {
		t.Errorf("%d and %d of the two steps", a, b)
	}
}

// Open-loop requests beyond the bound on waiting ones are dropped, also in a step in the middle.
func TestUsersOpenLoopDrops(t *testing.T) {
	release := make(chan struct{})
	address := plain(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	s := compile(t, scenario.Spec{Steps: []scenario.Step{{Name: "a", Path: "/"}, {Name: "b", Path: "/"}}})
	r := carryOut(t, config.Config{
		Address: address, NewClients: composers(t, s, "h"), Connections: 1, Schedule: steady(t, 1000), Waiting: options.Waiting{MaxWaiting: 3},
		Window: 100 * time.Millisecond, Drain: time.Millisecond, Users: &users.Config{Scenario: s},
	})
	close(release)
	if a := step(t, r, "a").Counts; a.Dropped < 80 || r.Counts.Unfinished != 1 || r.Users.TurnedAway > 0 {
		t.Errorf("%+v; %+v", a, r.Counts)
	}
}

// Users end when there is nothing left for them to do, and the load with the last of them;
// those who are restarted are followed by others.
func TestUsersEnd(t *testing.T) {
	var seen atomic.Uint64
	address := plain(t, func(http.ResponseWriter, *http.Request) { seen.Add(1) })
	s := compile(t, scenario.Spec{Steps: []scenario.Step{{Name: "a", Once: true, Path: "/"}, {Name: "b", Once: true, Path: "/"}}})
	c := config.Config{
		Address: address, NewClients: composers(t, s, "h"), Connections: 3, Window: time.Minute, Users: &users.Config{Scenario: s, Count: 5},
	}
	if r := carryOut(t, c); seen.Load() != 10 || r.Counts.OK != 10 || r.Users.Ended != 5 || r.Window > time.Minute/2 {
		t.Errorf("%+v, %+v, window %v, seen %d", r.Users, r.Counts, r.Window, seen.Load())
	}
	c.Users.Restart, c.Requests = true, 101
	if r := carryOut(t, c); r.Counts.OK != 101 || r.Users.Started < 50 || r.Users.Ended+5 < r.Users.Started || r.Users.Iterations < 40 {
		t.Errorf("%+v, %+v", r.Users, r.Counts)
	}
	// In an open loop users come and go by themselves.
	c.Users, c.Requests, c.Schedule = &users.Config{Scenario: s, Count: 5}, 100, steady(t, 1000)
	if r := carryOut(t, c); r.Counts.OK+r.Counts.Dropped != 100 || r.Users.Started < 10 || r.Users.Ended+5 < r.Users.Started || r.Users.Iterations < 5 {
		t.Errorf("open loop: %+v, %+v", r.Users, r.Counts)
	}
}

// Engines that have shards of a load share its users and counters out.
func TestUsersShards(t *testing.T) {
	var mu sync.Mutex // guards seen
	seen := map[string]int{}
	address := plain(t, func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.URL.Path]++
	})
	s := compile(t, scenario.Spec{Steps: []scenario.Step{{Name: "a", Path: "/{{ counter() }}"}}})
	for i := range 3 {
		carryOut(t, config.Config{
			Address: address, NewClients: composers(t, s, "h"), Connections: 4, Threads: options.Threads{Workers: 2}, Requests: 200,
			Shard: pace.Shard{Index: i, Count: 3}, Users: &users.Config{Scenario: s},
		})
	}
	mu.Lock()
	defer mu.Unlock()
	for path, n := range seen {
		if n != 1 {
			t.Errorf("%s was asked for %d times", path, n)
		}
	}
	if len(seen) != 600 {
		t.Errorf("%d different requests, want 600", len(seen))
	}
}

// Content in many pieces, more than one read brings, is put together for each user. So is content
// without a length.
func TestUsersContent(t *testing.T) {
	filler := strings.Repeat("x", 300_000)
	answer := func(w http.ResponseWriter, r *http.Request) {
		id := r.URL.Query().Get("n")
		w.Header().Set("X-Id", id)
		text := fmt.Sprintf(`{"filler":%q,"id":%q}`, filler, id)
		for len(text) > 0 {
			n := min(len(text), 70_001)
			_, _ = io.WriteString(w, text[:n])
			w.(http.Flusher).Flush()
			text = text[n:]
		}
	}
	s := compile(t, scenario.Spec{Steps: []scenario.Step{{
		Name: "a", Path: "/?n={{ n }}", Extract: []scenario.Extraction{
			{Variable: "id", JSON: "$.id"}, {Variable: "tag", Header: "x-id"},
		},
	}, {
		Name: "check", Path: "/?n={{ id }}", Assert: []scenario.Assertion{
			{JSON: "$.id", Equals: new("{{ tag }}")}, {Header: "X-Id", Equals: new("{{ n }}")},
		},
		Extract: []scenario.Extraction{{Variable: "n", Pattern: `"id":"(\d+)`}},
	}, {
		Name: "draw", Path: "/?n={{ random_int(1, 1000000) }}", Extract: []scenario.Extraction{{Variable: "n", Header: "X-Id"}},
	}}, Variables: map[string]string{"n": "1"}})
	answeredByBoth(t, s, answer, 36)
}

// answeredByBoth carries a scenario out over HTTP/1.1 and over HTTP/2, and wants a good answer to each request.
func answeredByBoth(t *testing.T, s *scenario.Scenario, answer http.HandlerFunc, requests uint64) {
	t.Helper()
	for _, two := range []bool{false, true} {
		c := config.Config{Connections: 3, Requests: requests, Users: &users.Config{Scenario: s, Count: 9}}
		if two {
			c.Address, c.NewMuxes, c.Streams = serve2(t, http.HTTP2Config{}, answer), muxesOf(t, s, "http", 3), 3
		} else {
			c.Address, c.NewClients = plain(t, answer), composers(t, s, "h")
		}
		if r := carryOut(t, c); r.Counts.OK != requests {
			t.Errorf("HTTP/2 %v: %+v, %v", two, r.Counts, r.Failures)
		}
	}
}

// Steps read the server's encoded content decoded, in both protocols. Sizes count the bytes sent.
func TestUsersContentEncoded(t *testing.T) {
	filler := strings.Repeat("x", 300_000)
	answer := func(w http.ResponseWriter, r *http.Request) {
		codings := strings.TrimPrefix(r.URL.Path, "/")
		w.Header().Set("Content-Encoding", codings)
		body := codingtest.Encode(codings, fmt.Appendf(nil, `{"filler":%q,"next":%q}`, filler, map[string]string{"gzip": "br", "br": "zstd", "zstd": "deflate,gzip", "deflate,gzip": "gzip"}[codings]))
		for len(body) > 0 {
			n := min(len(body), 100)
			_, _ = w.Write(body[:n])
			w.(http.Flusher).Flush()
			body = body[n:]
		}
	}
	s := compile(t, scenario.Spec{Variables: map[string]string{"next": "gzip"}, Steps: []scenario.Step{{
		Name: "a", Path: "/{{ next }}", Headers: []scenario.Header{{Name: "Accept-Encoding", Value: "gzip, deflate, br, zstd"}},
		Extract: []scenario.Extraction{{Variable: "next", JSON: "$.next"}},
	}}})
	answeredByBoth(t, s, answer, 24)
}

// A body without a length ends with its connection, and is judged like any other.
func TestUsersContentUpToTheEnd(t *testing.T) {
	address := listen(t, func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n{\"id\":")
			_, _ = io.WriteString(c, "17}")
		}
	})
	s := compile(t, scenario.Spec{Steps: []scenario.Step{{Name: "a", Path: "/", Assert: []scenario.Assertion{{JSON: "$.id", Equals: new("17")}}}}})
	r := carryOut(t, config.Config{Address: address, NewClients: composers(t, s, "h"), Connections: 2, Requests: 20, Users: &users.Config{Scenario: s}})
	if r.Counts.OK != 20 || r.Connections.Opened < 20 {
		t.Errorf("%+v, %v, %+v", r.Counts, r.Failures, r.Connections)
	}
}

// Steps that are skipped are counted and send nothing. Users with nothing to send do not hold up the
// others. An arrival of an open loop may be an iteration without a request.
func TestUsersSkipSteps(t *testing.T) {
	t.Parallel()
	address := plain(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `{"n":1}`) })
	s := compile(t, scenario.Spec{Flows: []scenario.Flow{
		{Name: "some", Steps: []scenario.Step{
			{Name: "never", Path: "/", If: "1 > 2"},
			{Name: "first", Path: "/", If: "not defined(n)", Extract: []scenario.Extraction{{Variable: "n", JSON: "$.n"}}},
			{Name: "then", Path: "/", If: "n == 1 and defined(n)"},
			{Name: "last", Path: "/", If: "1 > 2"},
		}},
		{Name: "none", Steps: []scenario.Step{{Name: "no", Path: "/", If: "1 > 2"}}},
		{Name: "end", Steps: []scenario.Step{{Name: "once", Once: true, Path: "/", If: "1 > 2"}}},
	}})
	c := config.Config{
		Address: address, NewClients: composers(t, s, "h"), Connections: 2, Requests: 30, Users: &users.Config{Scenario: s, Count: 3, Restart: true},
	}
	r := carryOut(t, c)
	skipped := func(name string) uint64 { return step(t, r, name).Skipped }
	first, then := step(t, r, "first").Counts.OK, step(t, r, "then").Counts.OK
	if first < 1 || first > 3 || first+then != 30 || r.Counts.OK != 30 {
		t.Errorf("%d first, %d then, %+v", first, then, r.Counts)
	}
	if n := skipped("last"); n < then-3 || skipped("first") < then-3 || skipped("never") < then || skipped("then") != 0 || skipped("no") == 0 || skipped("once") == 0 {
		t.Errorf("skipped: %d last, %d first, %d never, %d then, %d no, %d once", n, skipped("first"), skipped("never"), skipped("then"), skipped("no"), skipped("once"))
	}
	s = compile(t, scenario.Spec{Steps: []scenario.Step{{Name: "maybe", Path: "/", If: "random_int(1, 2) == 1"}, {Name: "no", Path: "/", If: "1 > 2"}}})
	c.NewClients, c.Users = composers(t, s, "h"), &users.Config{Scenario: s}
	c.Requests, c.Window, c.Schedule = 0, 300*time.Millisecond, steady(t, 200)
	r = carryOut(t, c)
	if u := r.Users; r.Counts.OK == 0 || r.Counts.Scheduled+skipped("maybe") != u.Arrivals || skipped("maybe") == 0 || u.Iterations == 0 || u.Iterations > u.Arrivals {
		t.Errorf("open loop: %+v, %+v, %d skipped", u, r.Counts, skipped("maybe"))
	}
}

// Users of a closed loop who cannot log in wait longer each time. The window has room for the
// two attempts that the pauses allow at most: 50 ms and then 100 ms are the shortest.
func TestUsersWhoCannotLogIn(t *testing.T) {
	t.Parallel()
	address := plain(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/login" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	s := compile(t, scenario.Spec{Steps: []scenario.Step{{Name: "login", Once: true, Path: "/login"}, {Name: "loop", Path: "/"}}})
	c := config.Config{
		Address: address, NewClients: composers(t, s, "h"), Connections: 2, Window: 140 * time.Millisecond, Users: &users.Config{Scenario: s, Count: 4},
	}
	r := carryOut(t, c)
	if u := r.Users; r.Counts.Sent < 4 || r.Counts.Sent > 8 || u.FailedLogins != r.Counts.Errors || u.LoggedOut != 4 {
		t.Errorf("%+v, %+v", r.Counts, u)
	}
	// In an open loop the arrivals say when users log in, without a wait.
	c.Schedule, c.Users = steady(t, 500), &users.Config{Scenario: s}
	r = carryOut(t, c)
	if u := r.Users; u.FailedLogins != r.Counts.Errors || u.FailedLogins == 0 || u.LoggedOut != 0 {
		t.Errorf("open loop: %+v, %+v", r.Counts, u)
	}
}

// Once warm, a user's request allocates nothing, whether it succeeds or fails.
func TestUsersDoNotAllocate(t *testing.T) {
	spec := func(status int) *scenario.Scenario {
		return compile(t, scenario.Spec{Variables: map[string]string{"v": "0"}, Steps: []scenario.Step{
			{
				Name: "a", Path: "/{{ counter() }}", Headers: []scenario.Header{{Name: "X", Value: "{{ v }}"}}, Body: "{{ uuid() }}",
				Extract: []scenario.Extraction{{Variable: "v", Keep: true}},
				Status:  strconv.Itoa(status),
			},
			{Name: "b", Path: "/fixed"},
		}})
	}
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2"} {
		for _, status := range []int{200, 201} {
			for _, open := range []bool{false, true} {
				s := spec(status)
				c := config.Config{Users: &users.Config{Scenario: s, Count: 32}}
				if open {
					c.Schedule = poisson(t, 20_000)
				}
				if protocol == "HTTP/2" {
					c.Address, c.NewMuxes, c.Streams = startScripted(t, func(*rand.Rand, uint32) reaction { return answers }).address, muxesOf(t, s, "http", 4), 4
				} else {
					c.Address, c.NewClients = listen(t, bare), composers(t, s, "h")
				}
				per := allocations(t, c, func(r *record.Result) uint64 {
					stepsAddUp(t, r)
					return r.Counts.OK + r.Counts.ByKind[wire.Assertion] + r.Counts.Dropped
				})
				if math.Abs(per) > 0.02 {
					t.Errorf("%s, status %d, open loop %v: %.4f allocations per request", protocol, status, open, per)
				}
			}
		}
	}
}

// bare answers requests of HTTP/1.1 without allocating, as far as their header's end tells.
func bare(c net.Conn) {
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	response := []byte(answer)
	buffer := make([]byte, 4096)
	for {
		n, err := c.Read(buffer)
		if err != nil || n == 0 {
			return
		}
		if _, err := c.Write(response); err != nil {
			return
		}
	}
}
