package observe

import (
	"dyno/internal/roles"
	"math"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

type fixed struct{ seconds float64 }

func (f *fixed) CPUSeconds() float64 { return f.seconds }

func TestMachine(t *testing.T) {
	a, b := &fixed{1}, &fixed{2}
	m, err := NewMachine(a, b)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	first := reading(t, m)
	sum := first["cpu_user_seconds"] + first["cpu_system_seconds"] + first["cpu_interrupt_seconds"]
	if math.Abs(sum-first["cpu_busy_seconds"]) > 1e-6 {
		t.Errorf("busy %v; its parts are %v", first["cpu_busy_seconds"], sum)
	}
	if all := sum + first["cpu_idle_seconds"] + first["cpu_steal_seconds"]; math.Abs(all-first["cpu_seconds"]) > 1e-6 {
		t.Errorf("all %v; its parts are %v", first["cpu_seconds"], all)
	}
	if first["cpu_foreign_seconds"] != 0 || !math.IsNaN(first["steal_ratio"]) {
		t.Errorf("the first reading has nothing before it: %v", first)
	}
	a.seconds += 1000
	second := reading(t, m)
	want := second["cpu_busy_seconds"] - first["cpu_busy_seconds"] - 1000
	if math.Abs(second["cpu_foreign_seconds"]-want) > 1e-6 {
		t.Errorf("foreign %v; want %v", second["cpu_foreign_seconds"], want)
	}
	b.seconds = math.NaN()
	if got := reading(t, m)["cpu_foreign_seconds"]; !math.IsNaN(got) {
		t.Errorf("foreign %v although the target's is not known", got)
	}
	columns := 0
	for _, name := range []string{"cpu_pressure_seconds", "memory_stall_seconds", "io_stall_seconds"} {
		if v, ok := first[name]; ok {
			columns++
			if !(v >= 0 && second[name] >= v) {
				t.Errorf("%s: %v, then %v", name, v, second[name])
			}
		}
	}
	if columns+len(m.Missing()) != 3 {
		t.Errorf("%d columns of pressure, and %v", columns, m.Missing())
	}
}

func TestWakeup(t *testing.T) {
	if _, err := NewWakeup("wakeup", 1000); err == nil {
		t.Error("placed on a CPU that is not there")
	}
	cpu := ReadEnvironment().AllowedCPUs[0]
	w, err := NewWakeup("wakeup", cpu)
	if err != nil {
		t.Fatal(err)
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(w.thread, &set); err != nil || set.Count() != 1 || !set.IsSet(cpu) {
		t.Errorf("its thread may run on %v, %v", set, err)
	}
	defer func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}()
	var first map[string]float64
	roles.Until(t, "some sleeps", func() bool {
		first = reading(t, w)
		return first["sleeps_total"] >= 10 && first["overshoot_max_seconds"] > 0
	})
	if !(first["cpu_seconds"] > 0) || first["cpu_seconds"] != w.CPUSeconds() {
		t.Errorf("it slept for nothing: %v, %v", first["cpu_seconds"], w.CPUSeconds())
	}
	if p := first["overshoot_p999_seconds"]; !(p > 0 && p <= first["overshoot_max_seconds"]) {
		t.Errorf("%v", first)
	}
	w.record(time.Now(), 2*time.Second)
	w.record(time.Now(), -time.Second) // a clock that was set
	got := reading(t, w)
	if got["late_total"] < first["late_total"]+1 || got["overshoot_max_seconds"] < 2 {
		t.Errorf("%v; want a late one of 2 s", got)
	}
	// A read value is forgotten, in one step.
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.worst >= 2*time.Second {
		t.Error("the peak was not forgotten")
	}
}

func TestSurvey(t *testing.T) {
	s := Look()
	names := make(map[string]bool)
	for _, a := range s.Facilities {
		if names[a.Name] {
			t.Errorf("%s twice", a.Name)
		}
		names[a.Name] = true
		if a.Available == (a.Reason != "") {
			t.Errorf("%+v: a reason if and only if it is not available", a)
		}
	}
	for _, name := range []string{"process", "generator", "machine", "wakeup", "tcp info"} {
		if !names[name] {
			t.Errorf("no word about %s", name)
		}
	}
	for _, a := range s.Facilities[:3] { // all that they need is /proc
		if !a.Available {
			t.Errorf("%+v", a)
		}
	}
	for _, c := range s.Clocks {
		if !(c.ResolutionSeconds > 0 && c.ReadSeconds > 0) {
			t.Errorf("%+v", c)
		}
	}
	if len(s.Clocks) != 3 {
		t.Errorf("%d clocks", len(s.Clocks))
	}
	e := s.Environment
	out, err := exec.Command("uname", "-r").Output()
	if err != nil {
		t.Fatal(err)
	}
	if e.Kernel != strings.TrimSpace(string(out)) {
		t.Errorf("kernel %q; want %q", e.Kernel, out)
	}
	if len(e.AllowedCPUs) == 0 || len(e.AllowedCPUs) > e.CPUs || e.MemoryBytes == 0 || e.Limits.Descriptors == 0 ||
		e.Limits.EphemeralLow == 0 || e.Limits.EphemeralHigh < e.Limits.EphemeralLow || e.Limits.Somaxconn == 0 {
		t.Errorf("%+v", e)
	}
}

func TestCPUInfo(t *testing.T) {
	intel := "processor\t: 0\nmodel name\t: Xeon  9\nflags\t\t: fpu hypervisor sse\n\nprocessor\t: 1\nmodel name\t: other\n"
	arm := "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"
	if m := cpuModel([]byte(intel)); m != "Xeon  9" {
		t.Errorf("%q", m)
	}
	if m := cpuModel([]byte(arm)); m != "implementer 0x41 part 0xd0c" {
		t.Errorf("%q", m)
	}
	if !isGuest([]byte(intel)) || isGuest([]byte(arm)) || isGuest([]byte("flags : fpu nothypervisor\n")) {
		t.Error("wrong about who is a guest")
	}
}

func TestMounts(t *testing.T) {
	text := "30 25 0:26 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n" +
		"31 25 0:27 / /sys/fs/cgroup/unified rw shared:9 master:1 - cgroup2 cgroup2 rw\nshort - cgroup\n"
	p, o := mounts(text, "cgroup")
	if !slices.Equal(p, []string{"/sys/fs/cgroup/cpu"}) || !slices.Equal(o, []string{"rw,cpu,cpuacct"}) {
		t.Errorf("%q %q", p, o)
	}
}
