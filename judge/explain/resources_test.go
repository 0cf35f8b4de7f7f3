package explain

import (
	"testing"

	"dyno/results/rundir"
)

func trialWith(change func(*rundir.Target)) *rundir.TrialFolder {
	t := &rundir.TrialFolder{}
	change(&t.Target)
	return t
}

func ptr[T any](v T) *T { return &v }

// A system call that only one of the variants makes was made zero times by the other;
// what was not observed of one is not compared.
func TestResources(t *testing.T) {
	var trials []pair
	for i := range 8 {
		noise := 1 + 0.01*float64(i%3)
		trials = append(trials, pair{round: i + 1,
			base: trialWith(func(x *rundir.Target) {
				x.CPUSecondsPerRequest, x.UserShare = ptr(20e-6*noise), ptr(0.25)
				x.Syscalls = map[string]float64{"read": 2, "write": 2 * noise}
				x.RSSBytes = ptr(int64(10 << 20))
			}),
			variant: trialWith(func(x *rundir.Target) {
				x.CPUSecondsPerRequest, x.UserShare = ptr(15e-6*noise), ptr(0.25)
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
