package trial

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"dyno/host/cgroup"
	"dyno/host/target"
	"dyno/lab/plan"
)

// The program prints where it runs.
const whereAmI = `printf '{"procs": %s, "nice": %s}\n' "${GOMAXPROCS:-0}" "$(nice)"`

func TestRunPlaces(t *testing.T) {
	t.Setenv("GOMAXPROCS", "") // else programs have the one of who runs the tests
	e := programs(1, "program.procs", whereAmI, whereAmI)
	nice, node := 3, 0
	p := &e.Variants[1].Target.Process
	p.GOMAXPROCS, p.Nice, p.NUMA = 2, &nice, &node
	var l log
	o := options(t, &l)
	if err := Run(t.Context(), e, o); err != nil {
		t.Fatal(err)
	}
	own, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, trial := range open(t, o.Dir).Trials {
		want := map[string]float64{"procs": 0, "nice": float64(20 - own)} // the system call says 20 − nice
		if trial.Variant == "v1" {
			want = map[string]float64{"procs": 2, "nice": 3}
		}
		for name, value := range want {
			if trial.Measures[name] != value {
				t.Errorf("%s: %s is %v, want %v", trial.Variant, name, trial.Measures[name], value)
			}
		}
	}
}

func TestSpecHasThePlacement(t *testing.T) {
	nice, node := -3, 1
	p := plan.Process{
		Start: []string{"x"}, Env: map[string]string{"A": "b"}, GOMAXPROCS: 4, Nice: &nice, NUMA: &node,
		Cgroup: &plan.Cgroup{CPUMax: 0.5, CPUWeight: 20, MemoryMax: 1 << 30},
	}
	r := &runner{}
	spec, err := r.spec("echo", p, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if *spec.Cgroup != (cgroup.Limits{CPUMax: 0.5, CPUWeight: 20, MemoryMax: 1 << 30}) || *spec.Nice != -3 || *spec.NUMA != 1 {
		t.Errorf("%+v", spec)
	}
	if strings.Join(spec.Env, " ") != "A=b GOMAXPROCS=4" {
		t.Errorf("%v", spec.Env)
	}
}

// If a limit cannot be set, the plan is at fault; if it is reached, the target is.
func TestRunWithLimits(t *testing.T) {
	e := programs(1, "program.procs", whereAmI)
	node := 1000
	e.Variants[0].Target.NUMA = &node
	var wrong *PlanError
	if err := Run(t.Context(), e, options(t, new(log))); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "no node 1000") {
		t.Errorf("%v; want a *PlanError", err)
	}

	// tail keeps a line that does not end, which is more memory than it may use.
	e = programs(1, "program.procs", "head -c 300000000 /dev/zero | tail -n 1 | wc -c; exit 7")
	e.Variants[0].Target.Cgroup = &plan.Cgroup{MemoryMax: 32 << 20}
	err := Run(t.Context(), e, options(t, new(log)))
	if errors.As(err, &wrong) {
		t.Skip("needs root and the memory controller: ", err)
	}
	if !errors.Is(err, target.ErrExited) || !strings.Contains(err.Error(), "out of memory: the kernel killed ") {
		t.Errorf("%v; want that the target ran out of memory", err)
	}
}

// ownNetwork gives the test a network namespace of its own, with settings below net that others do not
// see. They belong to its thread; the goroutine keeps the thread to its end.
func ownNetwork(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skip("needs root, for a network of its own: ", err)
	}
}

func somaxconn(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/sys/net/core/somaxconn")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

func TestRunSetsSysctls(t *testing.T) {
	ownNetwork(t)
	before := somaxconn(t)
	const script = `printf '{"somaxconn": %s}\n' "$(cat /proc/sys/net/core/somaxconn)"`
	e := programs(2, "program.somaxconn", script, script)
	e.Sysctl = map[string]string{"net.core.somaxconn": "321"}
	o := options(t, new(log))
	if err := Run(t.Context(), e, o); err != nil {
		t.Fatal(err)
	}
	f := open(t, o.Dir)
	for _, trial := range f.Trials {
		if trial.Measures["somaxconn"] != 321 {
			t.Errorf("trial %d: %v", trial.Number, trial.Measures)
		}
	}
	if env := f.Run.Environment; env.SysctlsSet["net.core.somaxconn"] != "321" || env.Sysctls["net.core.somaxconn"] != before {
		t.Errorf("on record: set %v, found %q; want 321 and %s", env.SysctlsSet, env.Sysctls["net.core.somaxconn"], before)
	}
	if after := somaxconn(t); after != before {
		t.Errorf("somaxconn is %s, was %s", after, before)
	}

	// The run fails, but the settings are restored all the same.
	e.Variants[1].Target.Start = []string{"no-such-program"}
	if err := Run(t.Context(), e, options(t, new(log))); !errors.Is(err, target.ErrNotFound) {
		t.Errorf("%v; want that the target failed", err)
	}
	if after := somaxconn(t); after != before {
		t.Errorf("after a failure somaxconn is %s, was %s", after, before)
	}
}

func TestRunRefusesSysctls(t *testing.T) {
	e := programs(1, "program.procs", whereAmI)
	e.Sysctl = map[string]string{"net.core.no_such_setting": "1"}
	o := options(t, new(log))
	err := Run(t.Context(), e, o)
	var plan *PlanError
	if !errors.As(err, &plan) || !strings.Contains(err.Error(), "net.core.no_such_setting: ") {
		t.Errorf("%v; want a *PlanError that names it", err)
	}
	if f := open(t, o.Dir); f.Complete() || len(f.Trials) != 0 || f.Run.Environment.SysctlsSet != nil {
		t.Errorf("%d trials, %v", len(f.Trials), f.Run.Environment.SysctlsSet)
	}
}
