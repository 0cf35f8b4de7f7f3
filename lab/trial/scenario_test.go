package trial

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"dyno/lab/generator"
	"dyno/lab/plan"
	"dyno/lab/planfile"
	"dyno/results/rundir"
)

// A store is a server with log-in by a password, a list, and orders.
type store struct {
	mu     sync.Mutex     // guards what follows
	logins map[string]int // by user
	orders map[string]int // by token and number
	wrong  []string
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.logins == nil {
		s.logins, s.orders = map[string]int{}, map[string]int{}
	}
	body, _ := io.ReadAll(r.Body)
	wrong := func(why string) {
		s.wrong = append(s.wrong, fmt.Sprintf("%s %s %q: %s", r.Method, r.URL, body, why))
		w.WriteHeader(http.StatusForbidden)
	}
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case r.URL.Path == "/login":
		var who struct{ User, Password string }
		if err := json.Unmarshal(body, &who); err != nil || who.Password != "p"+strings.TrimPrefix(who.User, "user") {
			wrong("no such user")
			return
		}
		s.logins[who.User]++
		http.SetCookie(w, &http.Cookie{Name: "sid", Value: who.User})
		fmt.Fprintf(w, `{"data":{"token":"T-%s"}}`, who.User)
		return
	case s.logins[strings.TrimPrefix(token, "T-")] == 0:
		wrong("no token")
		return
	}
	if c, err := r.Cookie("sid"); err != nil || "T-"+c.Value != token {
		wrong("no cookie")
		return
	}
	switch r.URL.Path {
	case "/items":
		fmt.Fprintf(w, `{"items":[{"id":"%s-item"}]}`, token)
	case "/items/" + token + "-item":
		if r.Method != http.MethodPost || !strings.HasPrefix(string(body), "order=") {
			wrong("no order")
			return
		}
		s.orders[token+string(body)]++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id":"%s-item"}`, token)
	default:
		wrong("nothing there")
	}
}

const storeScenario = `
    cookies: true
    data: {users: {file: users.csv, end: %s}}
    steps:
      - name: login
        once: true
        path: /login
        body: '{"user":"{{ user }}","password":"{{ password }}"}'
        extract: {token: $.data.token}
      - name: list
        path: /items
        headers: {Authorization: "Bearer {{ token }}"}
        extract: {id: "$.items[0].id", none: {header: X-None, default: "-"}}
      - name: order
        path: /items/{{ id }}
        headers: {Authorization: "Bearer {{ token }}"}
        body: order={{ counter() }}
        status: 201
        assert: [{json: $.id, equals: "{{ id }}"}]
`

// planOf writes a plan with rows of users, and reads it.
func shopPlan(t *testing.T, users int, text string) *plan.Experiment {
	t.Helper()
	dir := t.TempDir()
	rows := "user,password\n"
	for i := range users {
		rows += fmt.Sprintf("user%d,p%d\n", i, i)
	}
	for name, content := range map[string]string{"users.csv": rows, "test.yaml": text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e, err := planfile.ReadFile(filepath.Join(dir, "test.yaml"), planfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e.Design.QuietWait = 0 // tests run next to each other
	return e
}

func serve(t *testing.T, handler http.Handler, h2 bool) string {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	if h2 {
		s.Config.Protocols = new(http.Protocols)
		s.Config.Protocols.SetUnencryptedHTTP2(true)
	}
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

// measured runs a plan and returns its one trial.
func measured(t *testing.T, e *plan.Experiment) *rundir.TrialFolder {
	t.Helper()
	var l log
	o := options(t, &l)
	if err := Run(t.Context(), e, o); err != nil {
		t.Fatal(err)
	}
	f := open(t, o.Dir)
	if !f.Complete() || len(f.Trials) != 1 {
		t.Fatalf("%d trials, incomplete: %v", len(f.Trials), f.Incomplete)
	}
	agree(t, f.Trials[0])
	return f.Trials[0]
}

// Log-in, list and order with rows of a file, over both versions of HTTP and in both loops:
// what the server has seen is what the run folder says, step by step.
func TestScenario(t *testing.T) {
	for _, c := range []struct {
		name, load string
		h2         bool
	}{
		{"closed loop", "closed: {connections: 5}\n  workers: 2", false},
		{"HTTP/2", "closed: {connections: 2}\n  http2: {use: always, streams: 3}", true},
		{"open loop", "open: {rate: 500/s, max_connections: 5}", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s store
			// In an open loop, a machine that stands still for a moment makes each request another
			// user's.
			e := shopPlan(t, 601, fmt.Sprintf("name: store\ntarget: {protocol: http, url: %q}\ndesign: {rounds: 1}\nload:\n  %s\n  warmup: 0\n  requests: 601\n  scenario:", serve(t, &s, c.h2), c.load)+fmt.Sprintf(storeScenario, "wrap"))
			trial := measured(t, e)
			s.mu.Lock()
			defer s.mu.Unlock()
			if trial.Counts.OK != 601 || len(s.wrong) > 0 {
				t.Errorf("%+v, %v; wrong: %.300q", trial.Counts, trial.Failures, s.wrong)
			}
			if len(trial.Steps) != 3 || trial.Users == nil {
				t.Fatalf("steps %+v, users %+v", trial.Steps, trial.Users)
			}
			var logins, ok int
			for _, n := range s.logins {
				logins += n
			}
			for i, want := range []int{logins, -1, len(s.orders)} {
				step := &trial.Steps[i]
				if ok += int(step.OK); want >= 0 && int(step.OK) != want || step.Failed() > 0 || step.Throughput == nil {
					t.Errorf("%+v, want %d good responses", step, want)
				}
				for _, clock := range []string{"response", "service"} {
					h, err := trial.Latency(rundir.StepTag(clock, step.Name))
					if err != nil || h.Count() != step.OK {
						t.Errorf("step %s: %d times by %s, %v; want %d", step.Name, h.Count(), clock, err, step.OK)
					}
				}
			}
			if ok != 601 || int(trial.Users.Started) != logins {
				t.Errorf("%d good responses of steps; %d logins, users %+v", ok, logins, trial.Users)
			}
			for user, n := range s.logins {
				if n != 1 {
					t.Errorf("%s has logged in %d times", user, n)
				}
			}
			for order, n := range s.orders {
				if n != 1 {
					t.Errorf("%s was sent %d times", order, n)
				}
			}
			if m := trial.Users.Misses; len(m) != 1 || m[0] != (rundir.Miss{Step: "list", Variable: "none", Count: trial.Steps[1].OK}) {
				t.Errorf("misses %+v", m)
			}
		})
	}
}

// With the rows the users end, and the load with them. Failures are counted by kind and place.
func TestScenarioEndsWithItsData(t *testing.T) {
	var s store
	e := shopPlan(t, 30, fmt.Sprintf(`name: store
target: {protocol: http, url: %q}
design: {rounds: 1}
load:
  closed: {connections: 3}
  warmup: 0
  window: 20s
  scenario:
    restart: true
    data: {users: {file: users.csv, end: stop}}
    steps:
      - {name: login, path: /login, body: '{"user":"{{ user }}","password":"{{ password }}"}'}
      - {name: expected, path: /items, status: 403}
      - {name: status, path: /items}
      - {name: assertion, path: /items, status: 4xx, assert: [{contains: x}]}
`, serve(t, &s, false)))
	trial := measured(t, e)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.logins) != 30 || trial.Users.Ended != 3 || trial.Users.Started != 3 || trial.Users.Iterations != 30 || trial.WindowSeconds > 10 {
		t.Errorf("%d users have logged in; %+v, window %v s", len(s.logins), trial.Users, trial.WindowSeconds)
	}
	for _, step := range trial.Steps {
		want := map[string]int64{step.Name: 30}
		if step.Name == "login" || step.Name == "expected" {
			want = nil
		}
		if !maps.Equal(step.ByKind, want) || step.OK+step.Failed() != 30 {
			t.Errorf("%+v, want %v", step, want)
		}
	}
}

// A file that has changed since the plan was read is the plan's fault.
func TestScenarioWithoutItsData(t *testing.T) {
	e := shopPlan(t, 1, "name: store\ntarget: {protocol: http, url: 'http://127.0.0.1:1/'}\nload:\n  closed: {connections: 1}\n  scenario:"+fmt.Sprintf(storeScenario, "stop"))
	file := e.Variants[0].Load.Scenario.Data[0].File
	if err := os.WriteFile(file, []byte("name\nx\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := generator.Config(t.Context(), &e.Variants[0], 1)
	if err == nil || !strings.Contains(err.Error(), `load.scenario.steps[0].body: at offset 12: "user" is a function`) {
		t.Errorf("%v", err)
	}
}

// When a feed has ended, the load goes on with flows that do not need it. An open load keeps its rate;
// when no flow is left, it ends.
func TestScenarioFlowsWithoutRows(t *testing.T) {
	var seen atomic.Int64
	url := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen.Add(1) }), false)
	for _, c := range []struct {
		name, load, flows string
		want              []int64 // good responses, by step
	}{
		{
			"open loop", "open: {rate: 1000/s, max_connections: 4}\n  requests: 200\n  workers: 2",
			"{rows: {weight: 2, steps: [{name: a, path: '/{{ user }}'}]}, others: {steps: [{name: b, path: /}]}}", []int64{60, 140},
		},
		{
			"closed loop", "closed: {connections: 4}\n  requests: 200\n  workers: 1", // each worker has its rows, and the faster one sends more requests
			"{rows: {weight: 2, steps: [{name: a, path: '/{{ user }}'}]}, others: {steps: [{name: b, path: /}]}}", []int64{60, 140},
		},
		{
			"no flow is left", "open: {rate: 1000/s, max_connections: 4}\n  window: 1m\n  workers: 2",
			"{rows: {steps: [{name: a, path: '/{{ user }}'}]}, more: {steps: [{name: b, once: true, path: /}, {name: c, path: '/{{ user }}'}]}}", nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := seen.Load()
			trial := measured(t, shopPlan(t, 60, fmt.Sprintf(`name: store
target: {protocol: http, url: %q}
design: {rounds: 1}
load:
  %s
  warmup: 0
  scenario:
    restart: %v
    data: {users: {file: users.csv, end: stop}}
    flows: %s
`, url, c.load, strings.HasPrefix(c.load, "closed"), c.flows)))
			if counts := trial.Counts; counts.OK != seen.Load()-before || counts.Dropped > 0 || trial.Users.TurnedAway > 0 || trial.WindowSeconds > 30 {
				t.Errorf("%+v, %+v, window %v s", counts, trial.Users, trial.WindowSeconds)
			}
			for i, want := range c.want {
				if trial.Steps[i].OK != want {
					t.Errorf("%+v, want %d good responses", trial.Steps[i], want)
				}
			}
			if of := trial.Steps; len(of) == 3 && of[0].OK+of[2].OK != 60 {
				t.Errorf("%d rows are used up, want 60", of[0].OK+of[2].OK)
			}
		})
	}
}
