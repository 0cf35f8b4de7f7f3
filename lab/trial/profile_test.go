package trial

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	pprof "github.com/google/pprof/profile"

	"dyno/results/rundir"
)

// Each round profiles every variant once more, after it has measured all of them. The
// profile contains only the target.
func TestRunProfiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("sampling another program wants root, or kernel.perf_event_paranoid at 1 or below")
	}
	e := parse(t, `name: profiled
target: {protocol: http, start: [dyno, "null", "127.0.0.1:{{port}}"]}
load: {closed: {connections: 4}, warmup: 0, window: 150ms}
design: {rounds: 3, control: false}
compare: {base: a, variants: {a: {}, b: {}}}
profile: {rounds: 2, window: 300ms}
`)
	o := options(t, &log{})
	if err := Run(t.Context(), e, o); err != nil {
		t.Fatal(err)
	}
	f := open(t, o.Dir)
	var order []string
	sampled := 0             // profiles: on a busy machine the target may have no CPU in 300 ms
	counted := map[int]int{} // trials' system calls, by round: nor then
	for _, x := range f.Trials {
		order = append(order, x.Purpose)
		if x.Purpose != rundir.PurposeProfile {
			if len(x.Profiles) != 0 {
				t.Errorf("trial %d has profiles", x.Number)
			}
			if counted[x.Round-1] == 2 { // one round is enough
				counted[x.Round] = 2
				if x.Target.Syscalls != nil {
					t.Errorf("trial %d: its system calls were counted, too", x.Number)
				}
			} else if countsCalls(t, x) {
				counted[x.Round]++
			}
			continue
		}
		if x.WindowSeconds < 0.29 {
			t.Errorf("trial %d: the window was %v s", x.Number, x.WindowSeconds)
		}
		// A Go program may open some descriptors while it runs, but not one for each
		// connection.
		if left := x.Target.DescriptorsLeft; left == nil || *left >= 4 {
			t.Errorf("trial %d: descriptors are left of a server whose connections are closed, or not counted: %v", x.Number, left)
		}
		i := slices.IndexFunc(x.Profiles, func(p rundir.Profile) bool { return p.Kind == "cpu" })
		if i < 0 {
			t.Fatalf("trial %d has no profile: %v", x.Number, x.Unavailable)
		}
		file, err := x.File(x.Profiles[i].File)
		if err != nil {
			t.Fatal(err)
		}
		p, err := pprof.Parse(file)
		if err := file.Close(); err != nil {
			t.Error(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		own := slices.ContainsFunc(p.Function, func(f *pprof.Function) bool { return strings.HasPrefix(f.Name, "dyno/selftest/oracle.") })
		generator := slices.ContainsFunc(p.Function, func(f *pprof.Function) bool { return strings.HasPrefix(f.Name, "dyno/load/engine.") })
		// A few samples may all belong to the runtime.
		if x.Profiles[i].Samples >= 50 && !own || generator {
			t.Errorf("trial %d: %d samples; the target's functions are in it: %v; the generator's: %v", x.Number, x.Profiles[i].Samples, own, generator)
		}
		if x.Profiles[i].Samples > 0 {
			if got := x.Profiles[i].Module; got != "dyno" {
				t.Errorf("trial %d: the target's module is %q", x.Number, got)
			}
			sampled++
		}
	}
	if sampled == 0 {
		t.Error("no profile has a sample")
	}
	if len(counted) == 0 {
		t.Error("no trial has system calls")
	}
	p := rundir.PurposeProfile
	if want := []string{"", "", p, p, "", "", p, p, "", ""}; !slices.Equal(order, want) || f.Run.TrialsPlanned != len(want) || !f.Complete() {
		t.Errorf("purposes %q, %d planned, incomplete: %v", order, f.Run.TrialsPlanned, f.Incomplete)
	}
	if plan := f.Run.Plan.Profile; plan == nil || plan.Rounds != 2 || plan.WindowSeconds != 0.3 || plan.By != "sampling" {
		t.Errorf("%+v", plan)
	}
}

// countsCalls checks that a trial has the system calls of its target, counted after the window: each
// request is read once and answered once, on connections that stay open. Sometimes a read finds
// nothing. Counts may be wrong by a tenth, and by the requests that are under way at the window's
// edges. It tells whether they were counted: not so where others had the CPU.
func countsCalls(t *testing.T, x *rundir.TrialFolder) bool {
	t.Helper()
	calls := x.Target.Syscalls
	if why := fmt.Sprint(x.Unavailable); calls == nil && (strings.Contains(why, "the machine was too busy") || strings.Contains(why, "no request was answered")) {
		return false
	}
	if in := calls["read"] + calls["recvfrom"]; in < 0.4 || in > 2.5 { // they are counted in a stretch of their own, whose edges are blurred on a busy machine
		t.Errorf("trial %d: %v reads for a request: %v, %v", x.Number, in, calls, x.Unavailable)
	}
	if out := calls["write"] + calls["sendto"] + calls["writev"]; out < 0.4 || out > 2.5 {
		t.Errorf("trial %d: %v writes for a request: %v", x.Number, out, calls)
	}
	all := 0.0
	for _, n := range calls {
		all += n
	}
	if each := x.Target.SyscallsPerRequest; each == nil || all < *each*0.999 || all > *each*1.001 {
		t.Errorf("trial %d: %v system calls for a request, by name %v", x.Number, each, all)
	}
	if n := x.Target.ConnectionsAccepted; n == nil || *n != 4 {
		t.Errorf("trial %d: %v connections accepted, want 4; %v", x.Number, n, x.Unavailable)
	}
	return true
}
