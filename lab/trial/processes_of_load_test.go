package trial

import (
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"dyno/lab/plan"
	"dyno/load/engine"
	"dyno/load/engine/users"
	"dyno/load/pace"
	"dyno/results/rundir"
)

// Whatever the number of processes, a scenario is carried out once: the planned iterations,
// each row of data once, each number of a counter once, and every request is accounted for.
func TestScenarioInProcesses(t *testing.T) {
	for _, n := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			var s store
			e := shopPlan(t, 61, fmt.Sprintf(`name: store
target: {protocol: http, url: %q}
design: {rounds: 1}
load:
  closed: {connections: 7}
  workers: 2
  processes: %d
  warmup: 0
  window: 20s
  scenario:
    restart: true
    cookies: true
    data: {users: {file: users.csv, end: stop}}
    steps:
      - {name: login, path: /login, body: '{"user":"{{ user }}","password":"{{ password }}"}', extract: {token: $.data.token}}
      - {name: list, path: /items, headers: {Authorization: "Bearer {{ token }}"}, extract: {id: "$.items[0].id"}}
      - {name: order, path: "/items/{{ id }}", headers: {Authorization: "Bearer {{ token }}"}, body: "order={{ counter() }}", status: 201}
`, serve(t, &s, false), n))
			trial := measured(t, e)
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(s.wrong) > 0 {
				t.Errorf("%.300q", s.wrong)
			}
			for _, seen := range []map[string]int{s.logins, s.orders} {
				if len(seen) != 61 {
					t.Errorf("%d different ones, want 61", len(seen))
				}
				for what, n := range seen {
					if n != 1 {
						t.Errorf("%s: %d times", what, n)
					}
				}
			}
			if u := trial.Users; u.Iterations != 61 || u.Count != 7 || u.Ended != 7 || trial.WindowSeconds > 10 {
				t.Errorf("%+v, window %v s", u, trial.WindowSeconds)
			}
			if c := trial.Counts; c.OK != 3*61 || c.Scheduled != c.OK || trial.Connections.Requested != 7 || trial.Generator.Workers != max(2, n) {
				t.Errorf("%+v, %+v, %d workers", c, trial.Connections, trial.Generator.Workers)
			}
			for _, step := range trial.Steps {
				h, err := trial.Latency(rundir.StepTag("service", step.Name))
				if err != nil || h.Count() != 61 || step.OK != 61 || step.Service.Count != 61 || step.Response.Count != 61 {
					t.Errorf("step %+v, %v", step, err)
				}
			}
		})
	}
}

// The arrivals of several processes are those of the schedule, each once.
func TestArrivalsInProcesses(t *testing.T) {
	for _, arrivals := range []string{plan.ArrivalsConstant, plan.ArrivalsPoisson} {
		var scheduled []int64
		for _, n := range []int{1, 2, 3} {
			var seen atomic.Int64
			url := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen.Add(1) }), false)
			e := shopPlan(t, 1, fmt.Sprintf(`name: arrivals
target: {protocol: http, url: %q}
design: {rounds: 1}
load:
  open: {rate: 700/s, arrivals: %s, max_connections: 9}
  processes: %d
  warmup: 0
  window: 500ms
`, url, arrivals, n))
			trial := measured(t, e)
			c := trial.Counts
			scheduled = append(scheduled, c.Scheduled)
			if c.OK != c.Scheduled || c.OK != seen.Load() || trial.Connections.Requested != 9 {
				t.Errorf("%d processes, %s arrivals: %d requests seen, %+v", n, arrivals, seen.Load(), c)
			}
		}
		if scheduled[0] != scheduled[1] || scheduled[0] != scheduled[2] || arrivals == plan.ArrivalsConstant && scheduled[0] != 350 {
			t.Errorf("%s arrivals: %d with 1, 2 and 3 processes", arrivals, scheduled)
		}
	}
}

// A number of requests is that of all processes together, also where no length of time ends
// the window.
func TestRequestsInProcesses(t *testing.T) {
	for _, n := range []int{2, 3} {
		var seen atomic.Int64
		url := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen.Add(1) }), false)
		e := shopPlan(t, 1, fmt.Sprintf("name: n\ntarget: {protocol: http, url: %q}\ndesign: {rounds: 1}\nload: {closed: {connections: 5}, processes: %d, warmup: 0, requests: 301}\n", url, n))
		trial := measured(t, e)
		if c := trial.Counts; c.OK != 301 || c.CompletedInWindow != 301 || seen.Load() != 301 {
			t.Errorf("%d processes: %d seen, %+v", n, seen.Load(), c)
		}
	}
}

// The shards of a load are the load: nothing is left out, and nothing is there twice.
func TestShardsOfALoad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := engine.Config{
			Connections: rapid.IntRange(1, 100).Draw(t, "connections"), Workers: rapid.IntRange(1, 10).Draw(t, "workers"),
			MaxWaiting: rapid.IntRange(100, 1000).Draw(t, "waiting"), Requests: rapid.Uint64Range(0, 500).Draw(t, "requests"),
			CPUs: []int{3, 5, 7}[:rapid.IntRange(0, 3).Draw(t, "cpus")],
		}
		if n := rapid.IntRange(0, 50).Draw(t, "users"); n > 0 {
			c.Users = &users.Config{Count: n}
			c.Workers = min(c.Workers, n)
		}
		c.Workers = min(c.Workers, c.Connections)
		portions, err := split(c, rapid.IntRange(0, 64).Draw(t, "processes"))
		if err != nil {
			t.Fatal(err)
		}
		var connections, waiting, users, threads int
		var requests uint64
		placed := map[int]int{}
		for i, p := range portions {
			if p.Shard != (pace.Shard{Index: i, Count: len(portions)}) {
				t.Fatalf("%+v", p)
			}
			s := partOf(c, p)
			connections += s.Connections
			waiting += s.MaxWaiting
			requests += s.Requests
			if s.Connections < 1 || s.Workers < 1 || s.Workers > s.Connections || c.Requests > 0 && s.Requests < 1 {
				t.Fatalf("shard %d of %d has %+v", i, len(portions), s)
			}
			if s.Users != nil {
				users += s.Users.Count
				if s.Users.Count < s.Workers {
					t.Fatalf("%d users for %d workers", s.Users.Count, s.Workers)
				}
			}
			for k := range s.Workers {
				threads++
				if len(c.CPUs) > 0 {
					placed[s.CPUs[k%len(s.CPUs)]]++
				}
			}
		}
		if connections != c.Connections || waiting != c.MaxWaiting || requests != c.Requests || c.Users != nil && users != c.Users.Count {
			t.Fatalf("%d connections, %d waiting, %d requests, %d users of %+v", connections, waiting, requests, users, c)
		}
		if len(portions) <= c.Workers && threads > c.Workers || len(portions) > c.Workers && threads != len(portions) {
			t.Fatalf("%d threads in %d processes, for %d", threads, len(portions), c.Workers)
		}
		if threads == c.Workers && len(c.CPUs) > 0 {
			var most, least int
			for _, cpu := range c.CPUs {
				most, least = max(most, placed[cpu]), min(least, placed[cpu])
			}
			if most-least > (threads+len(c.CPUs)-1)/len(c.CPUs) {
				t.Fatalf("threads by CPU: %v", placed)
			}
		}
	})
}

// More processes than there are descriptors for, or work, are not started.
func TestProcessesFor(t *testing.T) {
	users := &users.Config{Count: 3}
	for _, c := range []struct {
		config       engine.Config
		wanted, room int
		want         int
	}{
		{engine.Config{Connections: 1000}, 0, 1000, 1},
		{engine.Config{Connections: 1001}, 0, 1000, 2},
		{engine.Config{Connections: 5000}, 3, 1000, 5},
		{engine.Config{Connections: 5000}, 7, 1000, 7},
		{engine.Config{Connections: 2}, 7, 1000, 2},
		{engine.Config{Connections: 50, Users: users}, 7, 1000, 3},
		{engine.Config{Connections: 50, Requests: 2}, 7, 1000, 2},
		{engine.Config{Connections: 1_000_000}, 0, 1000, 1000},
	} {
		if got := processesFor(c.config, c.wanted, c.room); got != c.want {
			t.Errorf("%+v: %d processes, want %d", c, got, c.want)
		}
	}
	c := engine.Config{Connections: 1_000_000_000}
	if _, err := split(c, 0); err == nil {
		t.Error("a billion connections are possible")
	}
	if got := inOrder([]int{3, 2}); !slices.Equal(got, []portion{{First: 0, Count: 3}, {First: 3, Count: 2}}) {
		t.Errorf("%+v", got)
	}
}
