package sample

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"dyno/internal/roles"
	"dyno/observe/profile"
	"dyno/observe/profile/symbol"
)

// symbols are read once for all tests.
var symbols symbol.Cache

// everything samples all below this process.
func everything() Config {
	c := DefaultConfig(os.Getpid())
	c.Symbols = &symbols
	return c
}

// within tells whether a share of n samples is as far from what it should be as
// chance allows: six standard deviations, and half a percent for the clock's own
// calls.
func within(got, want float64, n uint64) bool {
	return math.Abs(got-want) <= 6*math.Sqrt(want*(1-want)/float64(n))+0.005
}

func TestPlantedGoFunction(t *testing.T) {
	privileged(t)
	r, want, seconds := sampled(t, everything(), roles.Command("planted"))
	got := share(r, "sample.plantedHot")
	t.Logf("%d samples in %.2f s of CPU time; hot %.4f, by its own clock %.4f; lost %d, leaf only %d; notes %q", r.Samples, seconds, got, want, r.Lost, r.LeafOnly, r.Notes)
	if !within(got, want, r.Samples) {
		t.Errorf("plantedHot has %.4f of the samples; by its own clock %.4f of the time", got, want)
	}
	// The clock ticks in CPU time: how many samples there are is known, bar ticks that a
	// busy machine made late. The run time of Go adds some.
	if s := float64(r.Samples) / DefaultFrequency; s < 0.5*seconds {
		t.Errorf("samples for %.2f s of CPU time, the process used %.2f s", s, seconds)
	}
	if !r.Kernel || !r.PerCPU {
		t.Errorf("kernel %v, per CPU %v: want both as root", r.Kernel, r.PerCPU)
	}
	if s := share(r, "sample.inlinedMix"); s == 0 {
		t.Error("the function inlined into plantedHot has no name of its own")
	}
	if r.LeafOnly > r.Samples/10 {
		t.Errorf("%d of %d samples are only a leaf; Go keeps frame pointers", r.LeafOnly, r.Samples)
	}
	costs, err := profile.Table(r.Profile, "cpu")
	if err != nil {
		t.Fatal(err)
	}
	own := costs.Groups[profile.Own("dyno/observe/profile/sample")] / costs.Total
	t.Logf("groups %v", costs.Groups)
	if own < 0.7 {
		t.Errorf("the process's own package has %.2f of its time; it does little else", own)
	}
}

func TestOnlyTheCPUsNamed(t *testing.T) {
	privileged(t)
	all, err := online()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 2 {
		t.Skip("needs two CPUs")
	}
	taskset, err := exec.LookPath("taskset")
	if err != nil {
		t.Skip("there is no taskset to place the process with")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := everything()
	c.CPUs = []int{1}
	r, _, _ := sampled(t, c, exec.Command(taskset, "-c", "0", self, "calls"))
	if r.Samples > DefaultFrequency/20 { // before taskset has moved it
		t.Errorf("%d samples of a process on CPU 0 where CPU 1 is sampled", r.Samples)
	}
	c.CPUs = []int{0}
	if r, _, _ = sampled(t, c, exec.Command(taskset, "-c", "0", self, "calls")); r.Samples < DefaultFrequency/4 {
		t.Errorf("%d samples of a process on CPU 0", r.Samples)
	}
}

func TestTimeInTheKernel(t *testing.T) {
	privileged(t)
	r, _, _ := sampled(t, everything(), roles.Command("calls"))
	costs, err := profile.Table(r.Profile, "cpu")
	if err != nil {
		t.Fatal(err)
	}
	kernel := 0.0
	for f, v := range costs.Flat {
		if f.Mapping == profile.Kernel {
			kernel += v
		}
	}
	t.Logf("%d samples, kernel %.2f, groups %v", r.Samples, kernel/costs.Total, costs.Groups)
	if kernel < 0.5*costs.Total {
		t.Errorf("the kernel has %.2f of a process that reads /dev/zero all the time", kernel/costs.Total)
	}
	if g := costs.Groups[profile.SystemCalls]; g < 0.5*costs.Total {
		t.Errorf("system calls have %.2f of it", g/costs.Total)
	}
	// Kernel and user stacks are one: the read is below the program's function.
	if s := share(r, "sample.calls"); s < 0.5 {
		t.Errorf("sample.calls and what it calls have %.2f", s)
	}
	// Without the kernel there is only the rest.
	c := everything()
	c.Kernel = false
	if r, _, _ = sampled(t, c, roles.Command("calls")); r.Kernel || share(r, "vfs_read") > 0 {
		t.Error("time in the kernel was sampled though it was not asked for")
	}
}

func TestForksAreFollowed(t *testing.T) {
	privileged(t)
	r, _, _ := sampled(t, everything(), roles.Command("forks"))
	// Each has two processes with 0.1 s, which have ended when names are needed.
	for generation, function := range []string{"sample.plantedHot", "sample.plantedCold"} {
		seconds := share(r, function) * float64(r.Samples) / DefaultFrequency
		t.Logf("generation %d: %.2f s", generation+1, seconds)
		if seconds < 0.05 {
			t.Errorf("%.2f s in generation %d, which used 0.2", seconds, generation+1)
		}
	}
}

// Without frame pointers, samples are right in their leaves, and those without callers are counted.
func TestC(t *testing.T) {
	privileged(t)
	program := written(t, "testdata/planted.c", "-O1", "-fomit-frame-pointer")
	r, want, _ := sampled(t, everything(), exec.Command(program))
	got := share(r, "planted_leaf")
	t.Logf("leaf %.4f, by its own clock %.4f of %d; leaf only %d", got, want, r.Samples, r.LeafOnly)
	if !within(got, want, r.Samples) {
		t.Errorf("planted_leaf has %.4f of the samples; by its own clock %.4f", got, want)
	}
	if r.LeafOnly == 0 || !slices.ContainsFunc(r.Notes, func(s string) bool { return strings.Contains(s, "no callers") }) {
		t.Errorf("%d samples are only a leaf, and the notes are %q: want them counted and said", r.LeafOnly, r.Notes)
	}
}

func TestUnprivileged(t *testing.T) {
	privileged(t) // to become somebody else
	cmd := roles.Command("unprivileged")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	switch text := string(out); {
	case strings.HasPrefix(text, "error: profile cpu samples cannot be taken here") && strings.Contains(text, "run as root"):
		// kernel.perf_event_paranoid is above 2
	case strings.HasPrefix(text, "samples=") && strings.Contains(text, "kernel=false percpu=false") && strings.Contains(text, "paranoid"):
		var samples int
		var hot float64
		if _, err := fmt.Sscanf(text, "samples=%d kernel=false percpu=false hot=%f", &samples, &hot); err != nil {
			t.Fatal(err)
		}
		if samples < 300 || hot < 0.1 {
			t.Errorf("%d samples with %.2f in plantedHot", samples, hot)
		}
	default:
		t.Errorf("an unprivileged user gets %q", text)
	}
}

func TestValidate(t *testing.T) {
	err := Config{Root: 0, Frequency: 20_000, CPUs: []int{1, 1, -1}}.Validate()
	for _, want := range []string{"root: 0", "frequency: 20000", "cpus[1]: 1: named twice", "cpus[2]: -1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not tell of %q", err, want)
		}
	}
	if err := DefaultConfig(1).Validate(); err != nil {
		t.Error(err)
	}
	c := DefaultConfig(1)
	c.CPUs = []int{maxCPUs - 1}
	if _, err := Start(c); err == nil || !strings.Contains(err.Error(), "not online") {
		t.Errorf("a CPU that is not there: %v", err)
	}
}
