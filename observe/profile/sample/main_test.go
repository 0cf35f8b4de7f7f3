package sample

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"dyno/internal/roles"
)

// TestMain lets the test binary be the processes that the tests sample.
func TestMain(m *testing.M) {
	roles.Main(m, map[string]func([]string) error{"planted": planted, "calls": calls, "forks": forks, "fork": fork, "unprivileged": unprivileged})
}

// cpuTime is what the calling thread has used.
func cpuTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

//go:noinline
func plantedHot(n int) (x uint64) {
	for i := range n {
		x = x*6364136223846793005 + inlinedMix(uint64(i))
	}
	return x
}

// inlinedMix is part of plantedHot, and has its own name.
func inlinedMix(x uint64) uint64 { return (x ^ x>>31) * 0x9e3779b97f4a7c15 / (x | 1) }

//go:noinline
func plantedCold(n int) (x uint64) {
	for i := range n {
		x = x/3 + uint64(i)*uint64(i)
	}
	return x
}

var sink uint64

// planted waits for a line, then works for 0.7 s of CPU time. It spends a share of it in plantedHot by
// its own clock. It prints that share and its CPU time, and waits for the end of its input.
func planted([]string) error {
	runtime.LockOSThread()
	in := bufio.NewReader(os.Stdin)
	_, _ = in.ReadString('\n')
	begin := cpuTime()
	var hot time.Duration
	for last := begin; last-begin < 700*time.Millisecond; {
		sink += plantedHot(20_000)
		now := cpuTime()
		hot += now - last
		for range 2 {
			sink += plantedCold(20_000)
		}
		last = cpuTime()
	}
	all := cpuTime() - begin
	fmt.Println(float64(hot)/float64(all), all.Seconds())
	_, err := io.Copy(io.Discard, in)
	return err
}

// calls makes system calls for 0.4 s of CPU time.
func calls([]string) error {
	in := bufio.NewReader(os.Stdin)
	_, _ = in.ReadString('\n')
	runtime.LockOSThread()
	f, err := os.Open("/dev/zero")
	if err != nil {
		return err
	}
	b := make([]byte, 64<<10)
	zero := f.Fd()
	for begin := cpuTime(); cpuTime()-begin < 400*time.Millisecond; {
		for range 100 {
			// Nothing between, which the race detector would be.
			_, _, _ = syscall.RawSyscall(syscall.SYS_READ, zero, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		}
	}
	fmt.Println("done", 0)
	_, err = io.Copy(io.Discard, in)
	return err
}

// forks starts two generations of processes when asked to.
func forks([]string) error {
	in := bufio.NewReader(os.Stdin)
	_, _ = in.ReadString('\n')
	for range 2 {
		if out, err := roles.Command("fork", "2").CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	fmt.Println("done", 0)
	_, err := io.Copy(io.Discard, in)
	return err
}

// fork burns 100 ms in every generation, in the last in plantedCold.
func fork(args []string) error {
	runtime.LockOSThread()
	work := plantedHot
	if args[0] == "1" {
		work = plantedCold
	}
	for begin := cpuTime(); cpuTime()-begin < 100*time.Millisecond; {
		sink += work(10_000)
	}
	if args[0] == "2" {
		if out, err := roles.Command("fork", "1").CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	return nil
}

// unprivileged samples a child of its own, and prints what came of it.
func unprivileged([]string) error {
	cmd := roles.Command("planted")
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { _ = cmd.Wait() }()
	defer in.Close()
	s, err := Start(DefaultConfig(os.Getpid()))
	if err != nil {
		fmt.Println("error:", err)
		return nil
	}
	if _, err := fmt.Fprintln(in); err != nil {
		return err
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return err
	}
	r, err := s.Stop()
	if err != nil {
		return err
	}
	fmt.Printf("samples=%d kernel=%v percpu=%v hot=%.3f notes=%q\n", r.Samples, r.Kernel, r.PerCPU, share(r, "plantedHot"), r.Notes)
	return nil
}

// sampled starts a process and samples it from the request to work until its answer. It returns the
// answer.
func sampled(t *testing.T, c Config, cmd *exec.Cmd) (r *Result, first, second float64) {
	t.Helper()
	child := roles.Start(t, cmd)
	s, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	answer := child.Ask(t, "")
	r, err = s.Stop()
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(answer)
	if len(words) == 2 {
		first, _ = strconv.ParseFloat(words[0], 64)
		second, _ = strconv.ParseFloat(words[1], 64)
	}
	return r, first, second
}

// share is what part of the time is in functions whose name holds part, or in what
// they call.
func share(r *Result, part string) float64 {
	var in, all float64
	for _, s := range r.Profile.Sample {
		all += float64(s.Value[1])
	samples:
		for _, l := range s.Location {
			for _, line := range l.Line {
				if strings.Contains(line.Function.Name, part) {
					in += float64(s.Value[1])
					break samples
				}
			}
		}
	}
	return in / math.Max(all, 1)
}

// privileged skips where samples of all CPUs may not be taken.
func privileged(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may sample all CPUs and the kernel")
	}
}

// written compiles C.
func written(t *testing.T, source string, flags ...string) string {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("there is no gcc to compile the C program with")
	}
	out := t.TempDir() + "/program"
	cmd := exec.Command(gcc, append(flags, "-o", out, source)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("gcc: %v: %s", err, &stderr)
	}
	return out
}
