package health

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dyno/services/control/resource"
)

func TestTrack(t *testing.T) {
	const p, w, c = resource.Passing, resource.Warning, resource.Critical
	for name, x := range map[string]struct {
		failures, passes int
		from             resource.Health
		results          []resource.Health
		want             []resource.Health // after each
	}{
		"the first counts at once":    {3, 3, "", []resource.Health{c, p, p, p}, []resource.Health{c, c, c, p}},
		"failures in a row":           {2, 1, p, []resource.Health{c, p, c, c}, []resource.Health{p, p, p, c}},
		"successes in a row":          {1, 2, c, []resource.Health{p, c, p, p}, []resource.Health{c, c, c, p}},
		"warnings need no row":        {3, 3, p, []resource.Health{w, p, w, c, c, c}, []resource.Health{w, p, w, w, w, c}},
		"a warning ends critical":     {1, 2, c, []resource.Health{w, w}, []resource.Health{c, w}},
		"it goes on where it was":     {2, 2, c, []resource.Health{c, c}, []resource.Health{c, c}},
		"the usual numbers, 2 and 1":  {0, 0, p, []resource.Health{c, c, p}, []resource.Health{p, c, p}},
		"a failure between successes": {2, 2, c, []resource.Health{p, c, p, p}, []resource.Health{c, c, c, p}},
	} {
		t.Run(name, func(t *testing.T) {
			check := &resource.Check{Type: "tcp", Failures: x.failures, Passes: x.passes}
			one := begin(check, []resource.CheckResult{{Name: "tcp", Health: x.from}})
			for n, result := range x.results {
				before := one.result.Health
				changed, sure := one.note(result, fmt.Sprint(n), time.Unix(int64(n), 0))
				if got := one.result.Health; got != x.want[n] || changed != (got != before) || sure != (got == result) {
					t.Errorf("result %d: %s, changed %v, sure %v: want %s", n, got, changed, sure, x.want[n])
				}
				if changed && (one.result.Output != fmt.Sprint(n) || one.result.Since.Unix() != int64(n)) {
					t.Errorf("result %d: %+v", n, one.result)
				}
			}
		})
	}
}

// targets answers checks: an address that is down fails.
type targets struct {
	mu    sync.Mutex
	down  map[string]bool
	asked map[string]int
	takes time.Duration

	now, most atomic.Int64
}

func (w *targets) probe(ctx context.Context, t *Target) (resource.Health, string) {
	w.most.Store(max(w.most.Load(), w.now.Add(1)))
	defer w.now.Add(-1)
	select {
	case <-time.After(w.takes):
	case <-ctx.Done():
		return resource.Critical, "no answer"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[t.Address]++
	if w.down[t.Address] {
		return resource.Critical, "down"
	}
	return resource.Passing, ""
}

func (w *targets) set(address string, down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down[address] = down
}

func (w *targets) count(address string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked[address]
}

// run starts a Checker in a bubble.
func run(t *testing.T, atOnce int, takes time.Duration) (*Checker, *targets, chan string) {
	w := &targets{down: map[string]bool{}, asked: map[string]int{}, takes: takes}
	changed := make(chan string, 10_000)
	var c *Checker
	c = New(Config{AtOnce: atOnce, Changed: func(path string) { changed <- path; store(c, path) }, probe: w.probe})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); c.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	return c, w, changed
}

// store stores an instance's results, and lets the Checker know.
func store(c *Checker, path string) {
	c.mu.Lock()
	one := c.instances[path]
	c.mu.Unlock()
	if results, ok := c.Results(path); ok {
		next := *one.at
		next.Results = results
		c.Set(path, &next)
	}
}

func instance(n int, checks ...resource.Check) *resource.Instance {
	return &resource.Instance{Address: fmt.Sprintf("10.0.%d.%d", n/256, n%256), Port: 80, Checks: checks}
}

func state(c *Checker, path string) resource.Health {
	results, _ := c.Results(path)
	if len(results) == 0 {
		return ""
	}
	return results[0].Health
}

// TestFound: a new instance is checked soon, and one that fails is found within its interval and a second look.
func TestFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w, changed := run(t, 10, 10*time.Millisecond)
		one := instance(1, resource.Check{Type: "tcp", Interval: 5})
		c.Set("a", one)
		time.Sleep(soon + 20*time.Millisecond)
		if got := <-changed; got != "a" || state(c, "a") != resource.Passing {
			t.Fatalf("%s: %q", got, state(c, "a"))
		}
		time.Sleep(time.Minute)
		w.set("10.0.0.1", true)
		died := time.Now()
		<-changed
		if took := time.Since(died); state(c, "a") != resource.Critical || took > 5*time.Second+500*time.Millisecond+20*time.Millisecond {
			t.Errorf("%q after %v", state(c, "a"), took)
		}
		w.set("10.0.0.1", false)
		<-changed
		if state(c, "a") != resource.Passing {
			t.Errorf("%q after it came back", state(c, "a"))
		}
	})
}

// TestRate: however many there are, each is checked once an interval, and no more at once than permitted.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w, _ := run(t, 7, 10*time.Millisecond)
		for n := range 500 {
			c.Set(fmt.Sprint(n), instance(n, resource.Check{Type: "tcp", Interval: 5}))
		}
		time.Sleep(30 * time.Second)
		before := w.count("10.0.1.1")
		time.Sleep(time.Minute)
		if got := w.count("10.0.1.1") - before; got < 11 || got > 12 {
			t.Errorf("checked %d times in a minute, want 12", got)
		}
		if most := w.most.Load(); most > 7 {
			t.Errorf("%d checks at once, want 7 at most", most)
		}
		if n, made, _ := c.Counts(); n != 500 || made < 500*15 {
			t.Errorf("%d instances, %d checks", n, made)
		}
	})
}

// TestSet: another form of an instance begins again, an equal one goes on, and a removed one is not asked again.
func TestSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w, changed := run(t, 10, 0)
		one := instance(1, resource.Check{Type: "tcp", Interval: 5})
		c.Set("a", one)
		<-changed
		again := *one
		again.Weight, again.Health = 7, resource.Passing
		c.Set("a", &again)
		if state(c, "a") != resource.Passing {
			t.Errorf("%q after it was registered again", state(c, "a"))
		}
		moved := again
		moved.Port = 81
		c.Set("a", &moved)
		if state(c, "a") != "" {
			t.Errorf("%q at another port", state(c, "a"))
		}
		<-changed
		c.Remove("a")
		c.Remove("a")
		time.Sleep(time.Second)
		before := w.count("10.0.0.1")
		time.Sleep(time.Minute)
		if _, ok := c.Results("a"); ok || w.count("10.0.0.1") != before {
			t.Error("it is still checked")
		}
		// Elsewhere it was found to be critical: that holds until it passes.
		moved.Results = []resource.CheckResult{{Name: "tcp", Health: resource.Critical}}
		c.Set("b", &moved)
		if state(c, "b") != resource.Critical {
			t.Errorf("%q at the beginning", state(c, "b"))
		}
		<-changed
		if state(c, "b") != resource.Passing {
			t.Errorf("%q after a check", state(c, "b"))
		}
	})
}

// TestStoredElsewhere: another replica has stored another health meanwhile, such as one that checked in place of this
// one. The next results say which is right, and that is stored.
func TestStoredElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w, changed := run(t, 10, 0)
		one := instance(1, resource.Check{Type: "tcp", Interval: 5})
		stored := func(h resource.Health) {
			next := *one
			next.Results = []resource.CheckResult{{Name: "tcp", Health: h}}
			c.Set("a", &next)
		}
		c.Set("a", one)
		for _, right := range []resource.Health{resource.Passing, resource.Critical} {
			w.set("10.0.0.1", right == resource.Critical)
			time.Sleep(time.Minute)
			if n := len(changed); n != 1 || state(c, "a") != right {
				t.Errorf("%d changes, to %q, want one to %q", n, state(c, "a"), right)
			}
			<-changed
			stored(map[resource.Health]resource.Health{resource.Passing: resource.Critical, resource.Critical: resource.Passing}[right])
			time.Sleep(time.Minute)
			if n := len(changed); n != 1 || state(c, "a") != right {
				t.Errorf("%d changes, to %q, want that %q is stored again", n, state(c, "a"), right)
			}
			for len(changed) > 0 {
				<-changed
			}
		}
	})
}

// TestBrokenOff: a check that the end of the program breaks off is no failure.
func TestBrokenOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &targets{down: map[string]bool{}, asked: map[string]int{}, takes: 1900 * time.Millisecond}
		c := New(Config{AtOnce: 1, Changed: func(path string) { t.Errorf("%s has changed", path) }, probe: w.probe})
		ctx, stop := context.WithCancel(t.Context())
		c.Set("a", instance(1, resource.Check{Type: "tcp"}))
		time.AfterFunc(1500*time.Millisecond, stop)
		c.Run(ctx)
		if c.Set("b", instance(2, resource.Check{Type: "tcp"})); state(c, "a") != "" {
			t.Errorf("%q", state(c, "a"))
		}
	})
}
