package awake

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// While the lock is held, the CPUs poll.
func TestCPUsPoll(t *testing.T) {
	cpus := allowed(t)
	before := polled(t, cpus)
	l, err := Start(cpus...)
	if err != nil {
		t.Skip("not on this machine: ", err)
	}
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for polled(t, cpus) == before { // whatever else the machine does
		<-look.C
	}
	if n := holders(t); n != 1 {
		t.Errorf("%d descriptors of %s while the CPUs are awake: want 1", n, requests)
	}
	if err := l.Stop(); err != nil {
		t.Error(err)
	}
	if n := holders(t); n != 0 {
		t.Errorf("%d descriptors of %s after the end: want none", n, requests)
	}
}

func TestStartNamesACPUThatCannotPoll(t *testing.T) {
	_, err := Start(100_000)
	if err == nil || !strings.HasPrefix(err.Error(), "awake: CPU 100000: ") || !strings.Contains(err.Error(), "cpuidle-haltpoll") {
		t.Errorf("%v: want CPU 100000 named, and the remedy", err)
	}
	if n := holders(t); n != 0 {
		t.Errorf("%d descriptors of %s after a failure: want none", n, requests)
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

// polled returns how long the CPUs have polled in all since they were started; 0
// where they cannot.
func polled(t *testing.T, cpus []int) time.Duration {
	t.Helper()
	var sum time.Duration
	for _, c := range cpus {
		if polls(c) != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(filepath.Dir(fmt.Sprintf(idle, c)), "time"))
		if err != nil {
			t.Fatal(err)
		}
		us, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(us) * time.Microsecond
	}
	return sum
}

// holders returns how many descriptors of this process request latency.
func holders(t *testing.T) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && to == requests {
			n++
		}
	}
	return n
}
