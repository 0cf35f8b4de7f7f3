package generator

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dyno/lab/plan"
	"dyno/load/engine/config"
	"dyno/load/engine/users"
	"dyno/load/options"
	"dyno/load/pace"
	"dyno/load/scenario"
)

func TestShares(t *testing.T) {
	for _, c := range []struct {
		subscribers, publishers, room int
		want                          []int
	}{
		{1000, 0, 1000, []int{1000}},
		{1000, 1, 1000, []int{999, 1}},
		{3000, 10, 1000, []int{990, 1000, 1000, 10}},
		{1000, 1000, 1000, nil}, // no room for a subscriber next to them
		{1_000_000, 0, 1000, nil},
	} {
		if got := shares(c.subscribers, c.publishers, c.room); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v", c, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		subscribers, publishers := rapid.IntRange(1, 5000).Draw(t, "subscribers"), rapid.IntRange(0, 300).Draw(t, "publishers")
		room := rapid.IntRange(301, 2000).Draw(t, "room")
		total := 0
		for i, n := range shares(subscribers, publishers, room) {
			total += n
			if i == 0 {
				n += publishers
			}
			if n < 1 || n > room {
				t.Fatalf("process %d has %d connections", i, n)
			}
		}
		if total != subscribers {
			t.Fatalf("%d of %d subscribers", total, subscribers)
		}
	})
}

// The shards of a load are the load: nothing is left out, and nothing is there twice.
func TestShardsOfALoad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := config.Config{
			Connections: rapid.IntRange(1, 100).Draw(t, "connections"), Threads: options.Threads{Workers: rapid.IntRange(1, 10).Draw(t, "workers"), CPUs: []int{3, 5, 7}[:rapid.IntRange(0, 3).Draw(t, "cpus")]},
			Waiting: options.Waiting{MaxWaiting: rapid.IntRange(100, 1000).Draw(t, "waiting")}, Requests: rapid.Uint64Range(0, 500).Draw(t, "requests"),
		}
		if n := rapid.IntRange(0, 50).Draw(t, "users"); n > 0 {
			c.Users = &users.Config{Count: n}
			c.Workers = min(c.Workers, n)
		}
		c.Workers = min(c.Workers, c.Connections)
		portions, err := Split(c, rapid.IntRange(0, 64).Draw(t, "processes"))
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
		config       config.Config
		wanted, room int
		want         int
	}{
		{config.Config{Connections: 1000}, 0, 1000, 1},
		{config.Config{Connections: 1001}, 0, 1000, 2},
		{config.Config{Connections: 5000}, 3, 1000, 5},
		{config.Config{Connections: 5000}, 7, 1000, 7},
		{config.Config{Connections: 2}, 7, 1000, 2},
		{config.Config{Connections: 50, Users: users}, 7, 1000, 3},
		{config.Config{Connections: 50, Requests: 2}, 7, 1000, 2},
		{config.Config{Connections: 1_000_000}, 0, 1000, 1000},
	} {
		if got := processesFor(c.config, c.wanted, c.room); got != c.want {
			t.Errorf("%+v: %d processes, want %d", c, got, c.want)
		}
	}
	c := config.Config{Connections: 1_000_000_000}
	if _, err := Split(c, 0); err == nil {
		t.Error("a billion connections are possible")
	}
	if got := inOrder([]int{3, 2}); !slices.Equal(got, []Portion{{First: 0, Count: 3}, {First: 3, Count: 2}}) {
		t.Errorf("%+v", got)
	}
}

// Flows with paces of their own are divided among processes: each user, arrival and iteration once.
func TestPacesOfShards(t *testing.T) {
	v := httpVariant(func(v *plan.Variant) {
		flow := func(name string) scenario.Flow {
			return scenario.Flow{Name: name, Weight: 1, Steps: []scenario.Step{{Name: name, Path: "/"}}}
		}
		v.Load.Scenario = &scenario.Spec{Flows: []scenario.Flow{flow("a"), flow("b"), flow("c")}}
		v.Load.SetPaces([]plan.Pace{
			{Flow: "a", Users: 5, Iterations: plan.Iterations{Iterations: 7}},
			{Flow: "b", Rate: 3, Window: time.Second, MaxUsers: 4},
			{Flow: "c", Users: 1, Window: time.Second, Start: time.Second},
		})
	})
	c, codecs, err := Config(t.Context(), v, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = codecs.Close() }()
	if c.Workers != 3 || c.Connections != 10 || c.Users.Count != 10 || v.Load.Window != 2*time.Second || c.Paces[0].Population != nil || c.Paces[1].Schedule == nil || c.Paces[2].Population == nil {
		t.Errorf("%d workers, %d connections, paces %+v", c.Workers, c.Connections, c.Paces)
	}
	if n := processesFor(c, 64, 1000); n != 5 {
		t.Errorf("%d processes, want one for each user of the largest pace", n)
	}
	for count := 1; count <= 5; count++ {
		var users [3]int
		iterations := uint64(0)
		for i := range count {
			part := shardOf(c, pace.Shard{Index: i, Count: count})
			if err := part.Validate(); err != nil {
				t.Errorf("part %d of %d: %v", i, count, err)
			}
			for _, p := range part.Paces {
				users[p.Flow] += p.Users
				iterations += p.Iterations
			}
		}
		if users != [3]int{5, 4, 1} || iterations != 7 {
			t.Errorf("%d processes have %v users and %d iterations", count, users, iterations)
		}
	}
}
