package engine_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"dyno/load/engine/config"
	"dyno/load/engine/users"
	"dyno/load/options"
	"dyno/load/pace"
	"dyno/load/scenario"
)

// visits count requests by their path.
type visits struct {
	mu sync.Mutex // guards of
	of map[string]int
}

func (v *visits) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.of[r.URL.Path]++
}

// countVisits carries a load out, and returns how many requests of each path the server got.
func countVisits(t *testing.T, spec scenario.Spec, change func(c *config.Config)) map[string]int {
	t.Helper()
	v := &visits{of: map[string]int{}}
	server := httptest.NewServer(v)
	defer server.Close()
	s := compile(t, spec)
	c := config.Config{Address: server.Listener.Addr().String(), NewClients: composers(t, s, "h"), Users: &users.Config{Scenario: s}}
	change(&c)
	run(t, c)
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.of
}

func want(t *testing.T, got, want map[string]int) {
	t.Helper()
	for path, n := range want {
		if got[path] != n {
			t.Errorf("%d requests of %s, want %d; all: %v", got[path], path, n, got)
		}
	}
}

var twoSteps = scenario.Spec{Steps: []scenario.Step{{Name: "a", Path: "/a"}, {Name: "b", Path: "/b"}}}

// Users carry out as many iterations as they may, however many workers there are, and then the load ends.
func TestIterations(t *testing.T) {
	for workers := 1; workers <= 3; workers++ {
		got := countVisits(t, twoSteps, func(c *config.Config) {
			c.Connections, c.Workers, c.Users.Iterations = 3, workers, 7
		})
		want(t, got, map[string]int{"/a": 7, "/b": 7})
		got = countVisits(t, twoSteps, func(c *config.Config) {
			c.Connections, c.Workers, c.Users.IterationsEach = 4, workers, 3
		})
		want(t, got, map[string]int{"/a": 12, "/b": 12})
	}
}

// Users finish their iterations after the window, and where their number declines, if they may.
func TestFinish(t *testing.T) {
	spec := scenario.Spec{Steps: []scenario.Step{{Name: "a", Path: "/a", Think: pace.Think{Constant: 300 * time.Millisecond}}, {Name: "b", Path: "/b", Think: pace.Think{Constant: time.Hour}}}}
	population, err := pace.NewPopulation([]pace.Stage{{Duration: 50 * time.Millisecond, From: 2, To: 2}, {Duration: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		finish     time.Duration
		population *pace.Population
		window     time.Duration
		b          int
	}{
		{0, nil, 50 * time.Millisecond, 0}, {time.Minute, nil, 50 * time.Millisecond, 2},
		{0, population, 100 * time.Millisecond, 0}, {time.Minute, population, 100 * time.Millisecond, 2},
		{time.Millisecond, nil, 50 * time.Millisecond, 0},
	} {
		got := countVisits(t, spec, func(of *config.Config) {
			of.Connections, of.Window, of.Finish, of.Population = 2, c.window, c.finish, c.population
		})
		want(t, got, map[string]int{"/a": 2, "/b": c.b})
	}
}

// Flows with paces of their own run side by side: each has its loop, its users and its end.
func TestPaces(t *testing.T) {
	spec := scenario.Spec{}
	for _, name := range []string{"all", "each", "late", "rate"} {
		spec.Flows = append(spec.Flows, scenario.Flow{Name: name, Steps: []scenario.Step{{Name: name, Path: "/" + name}}})
	}
	schedule, err := pace.New([]pace.Stage{{Duration: 100 * time.Millisecond, From: 100, To: 100}}, pace.Constant, 1)
	if err != nil {
		t.Fatal(err)
	}
	late, err := pace.NewPopulation([]pace.Stage{{Duration: 50 * time.Millisecond}, {Duration: time.Hour, From: 2, To: 2}})
	if err != nil {
		t.Fatal(err)
	}
	got := countVisits(t, spec, func(c *config.Config) {
		c.Threads, c.Connections, c.Users.Count, c.Window = options.Threads{Workers: 5}, 17, 17, time.Hour
		c.Paces = []config.Pace{
			{Flow: 0, Workers: 2, Connections: 3, Users: 3, Iterations: 10},
			{Flow: 1, Workers: 1, Connections: 2, Users: 2, IterationsEach: 4},
			{Flow: 2, Workers: 1, Connections: 2, Users: 2, IterationsEach: 5, Population: late},
			{Flow: 3, Workers: 1, Connections: 10, Users: 10, Schedule: schedule},
		}
		c.Window = 200 * time.Millisecond
	})
	want(t, got, map[string]int{"/all": 10, "/each": 8, "/late": 10, "/rate": 10})
}
