package awake

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dyno/internal/leak"
)

// TestMain lets the test binary be the process that Start makes, and one that
// starts it and dies.
func TestMain(m *testing.M) {
	if IsChild(os.Args[1:]) {
		os.Exit(Main(os.Args[1:]))
	}
	leak.Main(m)
}

func TestAProcessOfTheLowestPriorityUsesTheCPU(t *testing.T) {
	p, err := Start(allowed(t)...)
	if err != nil {
		t.Fatal(err)
	}
	attr, err := unix.SchedGetAttr(p.Pid(), 0)
	if err != nil || attr.Policy != schedIdle {
		t.Errorf("policy %+v, %v: want SCHED_IDLE", attr, err)
	}
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for used(t, p.Pid()) < 20*time.Millisecond { // whatever else the machine does
		<-look.C
	}
	// What interrupts a terminal's programs leaves it to its starter.
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

// It ends with the one who started it, of whom no more is left than a closed pipe.
func TestItEndsWithItsStarter(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	cmd := exec.CommandContext(t.Context(), os.Args[0], argument, strconv.Itoa(allowed(t)[0]))
	cmd.Stdin = in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestStartNamesACPUThatIsNotThere(t *testing.T) {
	_, err := Start(append(allowed(t), 1000)...)
	if err == nil || !strings.HasPrefix(err.Error(), "awake: CPU 1000: ") {
		t.Errorf("%v: want CPU 1000 named", err)
	}
}

// allowed returns the CPUs that this process may use.
func allowed(t *testing.T) []int {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	var cpus []int
	for cpu := range 1000 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// used returns the CPU time of a process.
func used(t *testing.T, pid int) time.Duration {
	t.Helper()
	var ts unix.Timespec
	// The clock of a process, as clock_getcpuclockid(3) makes it.
	if err := unix.ClockGettime(int32(^pid)<<3|2, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}
