package observation

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"dyno/lab/generator"
	"dyno/lab/plan"
	"dyno/observe"
	"dyno/results/rundir"
)

// A series has at most about 4,000 rows.
func TestTick(t *testing.T) {
	for _, c := range []struct {
		warmup, window time.Duration
		purpose        string
	}{
		{0, 10 * time.Second, ""},
		{time.Minute, 15 * time.Minute, ""},
		{time.Minute, 30 * time.Minute, ""},
		{0, 48 * time.Hour, ""},
		{0, 30 * time.Second, rundir.PurposePilot},
	} {
		v := plan.Variant{Load: plan.Load{Warmup: c.warmup, Window: c.window}}
		w := New(Config{Variant: &v, Purpose: c.purpose})
		rows := (c.warmup + c.window) / w.tick
		if rows > mostRows || w.tick < generator.ShortestInterval || (c.purpose == "") != (w.tick >= leastTick) || w.tick > leastTick && rows < mostRows/2 {
			t.Errorf("%v and %v: a row every %v, %d of them", c.warmup, c.window, w.tick, rows)
		}
	}
}

// A worker whose figures cannot be read does not erase the worst of the others.
func TestWorstWait(t *testing.T) {
	nan := math.NaN()
	for _, waits := range [][]float64{{0.4, nan, 0.1}, {nan, 0.4, 0.1}, {0.1, 0.4, nan}, {0.4}} {
		var window observe.Window
		for i, wait := range waits {
			window.Columns = append(window.Columns,
				observe.Summary{Column: observe.Column{Name: fmt.Sprintf("generator_worker%d_run_queue_wait_seconds", i)}, Delta: wait},
				observe.Summary{Column: observe.Column{Name: fmt.Sprintf("generator_worker%d_timeslices_total", i)}, Delta: 100 * wait})
		}
		if wait, slices := worstWait(window, len(waits)); wait != 0.4 || slices != 40 {
			t.Errorf("%v: %v s, %v times; want 0.4 and 40", waits, wait, slices)
		}
	}
	if wait, _ := worstWait(observe.Window{}, 2); !math.IsNaN(wait) {
		t.Errorf("%v s of nothing", wait)
	}
}

// Names of services may have characters that names of columns lack.
func TestServiceColumns(t *testing.T) {
	got := serviceColumns([]Service{{Name: "a-b"}, {Name: "DB"}, {Name: "a_b"}})
	if want := []string{"service_a_b", "service_db", "service_a_b_2"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A target that uses everything that its limit allows has no time to spare.
func TestTargetCPUsAreWhatTheLimitAllows(t *testing.T) {
	for _, c := range []struct {
		cpus  []int
		limit *plan.Cgroup
		want  float64
	}{
		{nil, nil, float64(runtime.NumCPU())},
		{[]int{0, 1, 2}, nil, 3},
		{[]int{0, 1, 2}, &plan.Cgroup{MemoryMax: 1}, 3},
		{[]int{0, 1, 2}, &plan.Cgroup{CPUMax: 0.25}, 0.25},
		{[]int{0}, &plan.Cgroup{CPUMax: 2}, 1},
	} {
		v := plan.Variant{Target: plan.Target{Process: plan.Process{CPUs: c.cpus, Cgroup: c.limit}}}
		if got := New(Config{Variant: &v}).targetCPUs; got != c.want {
			t.Errorf("CPUs %v, limit %+v: %v, want %v", c.cpus, c.limit, got, c.want)
		}
	}
}
