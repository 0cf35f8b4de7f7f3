package explain

import (
	"math"
	"testing"

	"dyno/results/rundir"
)

func trialWith(change func(*rundir.Target)) *rundir.TrialFolder {
	t := &rundir.TrialFolder{}
	change(&t.Target)
	return t
}

func ptr[T any](v T) *T { return &v }

// A system call that only one of the variants makes was made zero times by the other; a resource that
// one did not observe is not compared.
func TestResources(t *testing.T) {
	var trials []pair
	for i := range 8 {
		noise := 1 + 0.01*float64(i%3)
		trials = append(trials, pair{round: i + 1,
			base: trialWith(func(x *rundir.Target) {
				x.CPUSecondsPerRequest, x.UserShare = ptr(20e-6*noise), ptr(0.25)
				x.SyscallsPerRequest = ptr(2 + 2*noise)
				x.Syscalls = map[string]float64{"read": 2, "write": 2 * noise}
				x.RSSBytes = ptr(int64(10 << 20))
			}),
			variant: trialWith(func(x *rundir.Target) {
				x.CPUSecondsPerRequest, x.UserShare = ptr(15e-6*noise), ptr(0.25)
				x.SyscallsPerRequest = ptr(2.5 + 2*noise)
				x.Syscalls = map[string]float64{"epoll_wait": 0.5, "read": 2, "write": 2 * noise}
			}),
		})
	}
	list, err := resources(trials)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]Resource{}
	for _, r := range list {
		found[r.Name] = r
	}
	for name, want := range map[string]struct {
		change  float64
		changed bool
	}{
		"CPU time per request": {-5e-6 * 1.00875, true},
		"of it in the kernel":  {-5e-6 * 1.00875 * 0.75, true},
		"of them epoll_wait":   {0.5, true},
		"of them read":         {0, false},
		"of them write":        {0, false},
	} {
		r, ok := found[name]
		if !ok || r.Changed != want.changed || *r.Change.Estimate-want.change > 1e-9 || want.change-*r.Change.Estimate > 1e-9 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r, ok := found["resident memory"]; ok {
		t.Errorf("it was observed of one variant only: %+v", r)
	}
}

// System calls of a trial in which they were not counted are not known, rather than zero: its
// round is left out. One that is made in some rounds only is zero in the others.
func TestResourcesOfSomeRounds(t *testing.T) {
	counted := func(calls map[string]float64) *rundir.TrialFolder {
		return trialWith(func(x *rundir.Target) {
			all := 0.0
			for _, n := range calls {
				all += n
			}
			x.SyscallsPerRequest, x.Syscalls = &all, calls
		})
	}
	not := trialWith(func(*rundir.Target) {})
	list, err := resources([]pair{
		{1, not, counted(map[string]float64{"read": 2.5})},
		{2, counted(map[string]float64{"read": 2}), counted(map[string]float64{"read": 2, "madvise": 3})},
		{3, counted(map[string]float64{"read": 2}), counted(map[string]float64{"read": 3})},
		{4, counted(nil), counted(map[string]float64{"read": 1})},
		{5, counted(map[string]float64{"futex": 9}), not},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		name          string
		base, variant float64
		rounds        int
	}{
		{"system calls per request", 4. / 3, 3, 3},
		{"of them madvise", 0, 1, 3},
		{"of them read", 4. / 3, 2, 3},
	}
	if len(list) != len(want) {
		t.Fatalf("%d resources, want %d: %+v", len(list), len(want), list)
	}
	for i, w := range want {
		r := list[i]
		if r.Name != w.name || math.Abs(r.Base-w.base) > 1e-9 || math.Abs(r.Variant-w.variant) > 1e-9 || len(r.Change.Values) != w.rounds {
			t.Errorf("%+v, want %+v", r, w)
		}
	}
}

// A resource has the figures and the change of the run's comparison in its metric. Where the run
// compares another metric, its figures are means as comparisons make them. The change is that of their
// ratio.
func TestResourcesSayWhatCompareSays(t *testing.T) {
	var trials []pair
	for i, calls := range []float64{1, 4, 2} {
		of := func(factor float64) *rundir.TrialFolder {
			return trialWith(func(x *rundir.Target) { x.SyscallsPerRequest, x.Goroutines = ptr(calls*factor), ptr(int64(10)) })
		}
		trials = append(trials, pair{i + 1, of(1), of(1.5)})
	}
	list, err := resources(trials)
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	calls := list[0]
	if c := calls.Change; math.Abs(calls.Base-2) > 1e-9 || math.Abs(calls.Variant-3) > 1e-9 || math.Abs(*c.Estimate-1) > 1e-9 || math.Abs(*c.Low-1) > 1e-6 || math.Abs(*c.High-1) > 1e-6 || !calls.Changed {
		t.Errorf("%+v", calls)
	}
	ratio := rundir.Estimate{Estimate: new(1.2), Low: new(0.9), High: new(1.5), Confidence: 0.95}
	run := &rundir.Run{Comparisons: []rundir.Comparison{{Base: "a", Variant: "b", Metric: "target.syscalls_per_request", Ratio: ratio, Figure: new(12.), BaseFigure: new(10.), P: new(0.2), Verdict: rundir.Inconclusive}}}
	for i := range list {
		list[i].adopt(run, "a", "b")
	}
	if r := list[0]; r.Base != 10 || r.Variant != 12 || *r.P != 0.2 || r.Changed || math.Abs(*r.Change.Low+1) > 1e-9 || math.Abs(*r.Change.High-5) > 1e-9 {
		t.Errorf("%+v", r)
	}
	if r := list[1]; r.Base != 10 || *r.Change.Estimate != 0 {
		t.Errorf("what was not compared: %+v", r)
	}
}
