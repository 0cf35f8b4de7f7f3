package offcpu

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"dyno/internal/roles"
	"dyno/observe/profile"
	"dyno/observe/profile/symbol"
)

// symbols are read once for all tests.
var symbols symbol.Cache

// TestMain lets the test binary be the processes that the tests watch.
func TestMain(m *testing.M) {
	roles.Main(m, map[string]func([]string) error{"waits": waits, "parent": parent, "unprivileged": unprivileged})
}

const (
	planted     = 10 // waits
	plantedTime = 50 * time.Millisecond
)

// plantedWait blocks its thread for as long as it says. A signal may end a sleep, which is then
// taken up again.
//
//go:noinline
func plantedWait(d time.Duration) time.Duration {
	begin := time.Now()
	left := syscall.NsecToTimespec(d.Nanoseconds())
	for {
		rest := left
		if err := syscall.Nanosleep(&rest, &left); err == nil {
			return time.Since(begin)
		} else if !errors.Is(err, syscall.EINTR) {
			panic(err)
		}
	}
}

// waits waits a known number of times when requested, prints the total time, and ends with its input.
func waits([]string) error {
	in := bufio.NewReader(os.Stdin)
	_, _ = in.ReadString('\n')
	var all time.Duration
	for range planted {
		all += plantedWait(plantedTime)
	}
	fmt.Println(all.Nanoseconds())
	_, err := io.Copy(io.Discard, in)
	return err
}

// parent does the same in a child that it starts when asked to.
func parent([]string) error {
	in := bufio.NewReader(os.Stdin)
	line, _ := in.ReadString('\n')
	cmd := exec.Command("/proc/self/exe", "waits")
	cmd.Stdin = io.MultiReader(strings.NewReader(line), in)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

func unprivileged([]string) error {
	p, err := Start(os.Getpid(), nil)
	fmt.Println(p == nil, err)
	return nil
}

func TestPlantedWaits(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may load eBPF programs")
	}
	for _, role := range []string{"waits", "parent"} {
		t.Run(role, func(t *testing.T) {
			r, took := watch(t, role)
			var n, ns int64
			for _, s := range r.Profile.Sample {
				for _, l := range s.Location {
					for _, line := range l.Line {
						if strings.HasSuffix(line.Function.Name, "offcpu.plantedWait") {
							n += s.Value[0]
							ns += s.Value[1]
						}
					}
				}
			}
			t.Logf("%d waits of %v, by the program's clock %v; lost %d, without a stack %d", n, time.Duration(ns), took, r.Lost, r.Unknown)
			// Every sleep is one wait, unless a signal ends it early. Now and then one has no names: the kernel reads a stack only where
			// it need not wait for its pages.
			if n < planted*8/10 || n > 3*planted {
				t.Errorf("%d waits in plantedWait, want %d", n, planted)
			}
			// The program's clock also runs on the way into and out of the kernel.
			if d := time.Duration(ns); d > took || d < planted*plantedTime*7/10 {
				t.Errorf("%v blocked in plantedWait, by the program's own clock %v", d, took)
			}
			costs, err := profile.Table(r.Profile, "off_cpu")
			if err != nil {
				t.Fatal(err)
			}
			for f := range costs.Cumulative {
				if f.Mapping == profile.Kernel && strings.Contains(f.Name, "nanosleep") {
					return
				}
			}
			t.Errorf("no function of the kernel that sleeps: %v", costs.Cumulative)
		})
	}
}

// watch watches a process of a role while it works.
func watch(t *testing.T, role string) (*Result, time.Duration) {
	t.Helper()
	c := roles.Start(t, roles.Command(role))
	p, err := Start(os.Getpid(), &symbols)
	if err != nil {
		t.Fatal(err)
	}
	took, err := strconv.ParseInt(c.Ask(t, ""), 10, 64)
	if err != nil {
		t.Error(err)
	}
	r, err := p.Stop()
	if err != nil {
		t.Fatal(err)
	}
	return r, time.Duration(took)
}

// A wait that lasts to the end counts as far as it has come.
func TestWaitsPastTheEnd(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may load eBPF programs")
	}
	p, err := Start(os.Getpid(), &symbols)
	if err != nil {
		t.Fatal(err)
	}
	c := roles.Start(t, exec.Command("sleep", "1000"))
	begin := time.Now()
	roles.Until(t, "it sleeps", func() bool { return strings.Contains(wchan(c.Process.Pid), "nanosleep") })
	asleep := time.Now()
	roles.Until(t, "a while", func() bool { return time.Since(asleep) > 100*time.Millisecond })
	least := time.Since(asleep)
	r, err := p.Stop()
	most := time.Since(begin)
	if err != nil {
		t.Fatal(err)
	}
	costs, err := profile.Table(r.Profile, "off_cpu")
	if err != nil {
		t.Fatal(err)
	}
	var got time.Duration
	for f, v := range costs.Cumulative {
		if strings.HasSuffix(f.Name, "do_nanosleep") {
			got = time.Duration(v)
		}
	}
	if got < least || got > most {
		t.Errorf("blocked in nanosleep for %v; between %v and %v have passed", got, least, most)
	}
}

func wchan(pid int) string {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/wchan")
	return string(b)
}

func TestUnprivileged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may become somebody else")
	}
	cmd := roles.Command("unprivileged")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if s := string(out); !strings.HasPrefix(s, "true profile off-CPU cannot be taken here:") || !strings.Contains(s, "run as root") {
		t.Errorf("an unprivileged user gets %q", s)
	}
}

// Nothing is left over, also if several run at once.
func TestDescriptors(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may load eBPF programs")
	}
	count := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	once := func() {
		p, err := Start(os.Getpid(), &symbols)
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := p.Stop(); err != nil {
			t.Error(err)
		}
	}
	once() // what is opened once and kept
	before := count()
	var all sync.WaitGroup
	for range 3 {
		all.Go(once)
	}
	all.Wait()
	if after := count(); after > before {
		t.Errorf("%d descriptors, before %d", after, before)
	}
}
