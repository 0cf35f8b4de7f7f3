package queue

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Tenants that always have tasks waiting get time of workers in proportion to their weights, whatever their tasks
// take, and however many workers there are. One that comes back has no credit. This simulates workers that take the
// first task in turn.
func TestSharesFollowWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c"}[:rapid.IntRange(2, 3).Draw(t, "tenants")]
		workers := rapid.IntRange(1, 4).Draw(t, "workers")
		joins := rapid.SampledFrom([]int{0, 200}).Draw(t, "the last tenant joins after")
		tenants, lengths, got := map[string]Tenant{}, map[string]float64{}, map[string]float64{}
		for _, name := range names {
			tenants[name] = Tenant{Weight: rapid.IntRange(1, 5).Draw(t, "weight")}
			lengths[name] = rapid.Float64Range(0.1, 3).Draw(t, "seconds")
		}
		live := map[string]bool{}
		var waiting, running []Task
		now := noon
		for n := 0; n < 3000; n++ {
			for len(running) < workers {
				waiting = nil
				for i, name := range names {
					if i < len(names)-1 || n >= joins {
						waiting = append(waiting, Task{ID: name, Tenant: name, State: Queued})
					}
				}
				turn := inTurn(slices.Concat(waiting, running), tenants, live, now)
				next := turn[slices.IndexFunc(turn, func(t Task) bool { return t.State == Queued })]
				lease := fmt.Sprint(n, len(running))
				of := tenants[next.Tenant]
				of.Holders = slices.Clone(of.Holders)
				live[lease] = true
				if err := of.enter(lease, virtualTime(tenants), live); err != nil {
					t.Fatal(err)
				}
				tenants[next.Tenant] = of
				running = append(running, Task{Tenant: next.Tenant, State: Running, Holder: lease, Runs: []Run{{Began: now, Predicted: lengths[next.Tenant]}}})
			}
			slices.SortStableFunc(running, func(a, b Task) int { return ends(a, lengths).Compare(ends(b, lengths)) })
			first := running[0]
			running = slices.Clone(running[1:])
			now = ends(first, lengths)
			of := tenants[first.Tenant]
			of.leave(first.Holder, lengths[first.Tenant])
			delete(live, first.Holder)
			tenants[first.Tenant] = of
			if n >= joins {
				got[first.Tenant] += lengths[first.Tenant]
			}
		}
		var total, weights float64
		for _, name := range names {
			total, weights = total+got[name], weights+float64(tenants[name].Weight)
		}
		for _, name := range names {
			want := total * float64(tenants[name].Weight) / weights
			// Each tenant's last tasks on each worker may be ahead or behind.
			if slack := 3 * 2 * float64(workers+1) * weights; math.Abs(got[name]-want) > slack {
				t.Errorf("%s of weight %d has %.0f s of %.0f, want %.0f", name, tenants[name].Weight, got[name], total, want)
			}
		}
	})
}

func ends(t Task, lengths map[string]float64) time.Time {
	return t.Runs[0].Began.Add(time.Duration(lengths[t.Tenant] * float64(time.Second)))
}

// A tenant's bound on running tasks holds, and a dead worker does not count.
func TestMaxRunning(t *testing.T) {
	of := Tenant{Weight: 1, MaxRunning: 2, Holders: []string{"dead", "x"}}
	live := map[string]bool{"x": true, "y": true, "z": true}
	if err := of.enter("y", 0, live); err != nil || !slices.Equal(of.Holders, []string{"x", "y"}) {
		t.Errorf("%v, %v", of.Holders, err)
	}
	if err := of.enter("z", 0, live); err == nil {
		t.Error("a third one may run")
	}
	if turn := inTurn([]Task{{ID: "1", Tenant: "full"}, {ID: "2", Tenant: "other"}}, map[string]Tenant{"full": of}, live, noon); len(turn) != 1 || turn[0].ID != "2" {
		t.Errorf("in turn: %v", turn)
	}
	of.leave("x", 3)
	if err := of.enter("z", 0, live); err != nil || of.Used != 3 {
		t.Errorf("%v, used %v", err, of.Used)
	}
}

// A tenant's bound on waiting tasks is its own, and tasks without a tenant have one, too.
func TestMaxWaiting(t *testing.T) {
	tasks := []Task{{Tenant: "a", State: Queued}, {Tenant: "a", State: Running}, {State: Queued}}
	tenants := map[string]Tenant{"a": {Weight: 1, MaxWaiting: 1}, DefaultTenant: {Weight: 1, MaxWaiting: 2}}
	for name, full := range map[string]bool{"a": true, "": false, "b": false} {
		if err := checkQuota(&Task{Tenant: name}, tasks, tenants); (err != nil) != full {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// Documents of other programs are refused.
func TestTenantDocument(t *testing.T) {
	for _, wrong := range []Tenant{{}, {Weight: MaxWeight + 1}, {Weight: 1, MaxRunning: -1}, {Weight: 1, Used: -1}, {Weight: 1, Used: math.NaN()}, {Weight: 1, Start: math.Inf(1)}} {
		if wrong.Check("") == nil {
			t.Errorf("%+v is a tenant", wrong)
		}
	}
	for _, wrong := range []string{"", "-a", "A", "a.b", "a/b", "ü", strings.Repeat("a", maxTenantName+1)} {
		if CheckTenant(wrong) == nil {
			t.Errorf("%q is a tenant's name", wrong)
		}
	}
	if err := CheckTenant("team-1"); err != nil {
		t.Error(err)
	}
}

// TestWatch: each alarm is said once, as long as its task stays.
func TestWatch(t *testing.T) {
	at := func(d time.Duration) time.Time { return noon.Add(d) }
	task := func(id string, state State, due time.Duration, runs ...Run) Task {
		return Task{ID: id, State: state, Submitted: noon, Due: at(due), Fence: int64(len(runs)), Runs: runs}
	}
	tasks := []Task{
		task("waits", Queued, 0),
		task("later", Queued, time.Hour),
		task("runs", Running, 0, Run{Began: noon, State: Running, Predicted: 60}),
		task("again", Queued, 2*time.Hour, Run{Began: noon, State: Lost}),
		task("failed", Failed, 0, Run{Began: noon, State: Failed}),
		task("done", Done, 0, Run{Began: noon, State: Done}),
	}
	w := Watch{Grace: 5 * time.Minute}
	for _, look := range []struct {
		after time.Duration
		want  string
	}{
		{time.Minute, "again repeat, failed failed"},
		{5*time.Minute + time.Second, "waits late"},
		{7 * time.Minute, "runs slow"},
		{8 * time.Minute, ""},
		{time.Hour + 6*time.Minute, "later late"},
	} {
		var got []string
		for _, alarm := range w.Look(tasks, at(look.after)) {
			got = append(got, alarm.Task.ID+" "+alarm.Kind)
		}
		if said := strings.Join(got, ", "); said != look.want {
			t.Errorf("after %v: %q, want %q", look.after, said, look.want)
		}
	}
}
