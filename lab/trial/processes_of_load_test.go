package trial

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"dyno/lab/plan"
	"dyno/results/rundir"
)

// A scenario is carried out once, by any number of processes: the planned iterations, each row of data
// once, each number of a counter once, and every request is accounted for.
func TestScenarioInProcesses(t *testing.T) {
	for _, n := range []int{1, 3} {
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
				if err != nil || h.Count() != 61 || step.OK != 61 || trial.Times[rundir.StepTag(rundir.TagService, step.Name)].Count != 61 || trial.Times[rundir.StepTag(rundir.TagResponse, step.Name)].Count != 61 {
					t.Errorf("step %+v, %v", step, err)
				}
			}
		})
	}
}

// Several processes together have the schedule's arrivals, each once.
func TestArrivalsInProcesses(t *testing.T) {
	for _, arrivals := range []string{plan.ArrivalsConstant, plan.ArrivalsPoisson} {
		var scheduled []int64
		for _, n := range []int{1, 3} {
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
		if scheduled[0] != scheduled[1] || arrivals == plan.ArrivalsConstant && scheduled[0] != 350 {
			t.Errorf("%s arrivals: %d with 1 and 3 processes", arrivals, scheduled)
		}
	}
}

// A number of requests holds for all processes together, also where no length of time ends the window.
func TestRequestsInProcesses(t *testing.T) {
	var seen atomic.Int64
	url := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen.Add(1) }), false)
	e := shopPlan(t, 1, fmt.Sprintf("name: n\ntarget: {protocol: http, url: %q}\ndesign: {rounds: 1}\nload: {closed: {connections: 5}, processes: 3, warmup: 0, requests: 301}\n", url))
	trial := measured(t, e)
	if c := trial.Counts; c.OK != 301 || c.CompletedInWindow != 301 || seen.Load() != 301 {
		t.Errorf("%d seen, %+v", seen.Load(), c)
	}
}
