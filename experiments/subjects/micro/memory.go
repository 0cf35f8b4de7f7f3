package main

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A lot is a set of units that are parked until it is released.
type lot struct {
	unit    string
	release func() // may be called once
	one     func() // what each unit does: park
	parked  sync.WaitGroup
	ended   sync.WaitGroup
	units   int
}

// newLot prepares for parking. Goroutines wait for a channel. Threads wait in a blocking read of an empty pipe.
// The runtime does not know of it, so each keeps its thread.
func newLot(unit string) (*lot, error) {
	l := &lot{unit: unit}
	if unit == Goroutine {
		gate := make(chan struct{})
		l.one, l.release = func() { <-gate }, func() { close(gate) }
		return l, nil
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("pipe: %w", err)
	}
	l.one = func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		var end [1]byte
		for {
			if _, err := unix.Read(pipe[0], end[:]); !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}
	l.release = func() {
		_ = unix.Close(pipe[1]) // all reads end
		l.ended.Wait()
		_ = unix.Close(pipe[0])
	}
	return l, nil
}

// park adds n units and returns when each has begun to wait, or is about to.
func (l *lot) park(n int) {
	l.parked.Add(n)
	l.units += n
	for range n {
		l.ended.Go(func() {
			l.parked.Done()
			l.one()
		})
	}
	l.parked.Wait()
}

// leave releases all units and waits until they are gone.
func (l *lot) leave() {
	l.release()
	l.ended.Wait()
}

// allowThreads makes the runtime permit n more threads than by default. Above its limit
// it ends the process.
func allowThreads(n int) (restore func()) {
	before := debug.SetMaxThreads(math.MaxInt32)
	debug.SetMaxThreads(max(before, n+before))
	return func() { debug.SetMaxThreads(before) }
}

// memory is the memory of the process, in bytes.
type memory struct {
	resident, virtual float64
	kernelStacks      float64 // of the whole machine
}

// readMemory collects garbage and returns what is left. The kernel counts
// resident pages lazily, but exactly in smaps_rollup.
func readMemory() (memory, error) {
	debug.FreeOSMemory()
	resident, err := field("/proc/self/smaps_rollup", "Rss")
	virtual, err2 := field("/proc/self/status", "VmSize")
	stacks, err3 := field("/proc/meminfo", "KernelStack")
	return memory{resident, virtual, stacks}, errors.Join(err, err2, err3)
}

// available is how many bytes programs can still take without swapping.
func available() (float64, error) { return field("/proc/meminfo", "MemAvailable") }

// field reads a line such as "Rss:   12 kB" and returns bytes, or what else the
// number counts.
func field(file, name string) (float64, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, rest, _ := strings.Cut(lines.Text(), ":")
		if strings.TrimSpace(key) != name {
			continue
		}
		words := strings.Fields(rest)
		if len(words) == 0 {
			break
		}
		v, err := strconv.ParseFloat(words[0], 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %s: %w", file, name, err)
		}
		if len(words) > 1 && words[1] == "kB" {
			v *= 1024
		}
		return v, nil
	}
	return 0, fmt.Errorf("%s: no %s", file, name)
}

// A limit is how many threads there may be, and where that limit comes from.
type limit struct {
	threads int
	source  string
}

// threadLimit returns the lowest limit on the threads that this process may have.
// It counts those that exist already where the limit does. It is asked before
// threads are made since the runtime ends the process when the kernel refuses one.
func threadLimit() (limit, error) {
	lowest := limit{math.MaxInt32, ""}
	consider := func(n int, source string) {
		if n < lowest.threads {
			lowest = limit{max(n, 0), source}
		}
	}
	existing, err := machineThreads()
	if err != nil {
		return limit{}, err
	}
	for _, file := range []string{"/proc/sys/kernel/threads-max", "/proc/sys/kernel/pid_max"} {
		if n, ok := numberIn(file); ok {
			consider(n-existing, file)
		}
	}
	if os.Geteuid() != 0 { // RLIMIT_NPROC does not bind root
		var r unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NPROC, &r); err == nil && r.Cur < math.MaxInt32 {
			consider(int(r.Cur)-existing, "the limit on the user's processes (ulimit -u)")
		}
	}
	for _, folder := range cgroups() {
		if n, ok := numberIn(filepath.Join(folder, "pids.max")); ok {
			current, _ := numberIn(filepath.Join(folder, "pids.current"))
			consider(n-current, filepath.Join(folder, "pids.max"))
		}
	}
	// A thread of a program with C in it maps its stack and a guard page.
	if n, ok := numberIn("/proc/sys/vm/max_map_count"); ok {
		consider((n-1000)/2, "/proc/sys/vm/max_map_count")
	}
	return lowest, nil
}

// machineThreads counts the threads of the machine, as /proc/loadavg has it:
// "0.10 0.20 0.30 2/345 6789".
func machineThreads() (int, error) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	if words := strings.Fields(string(text)); len(words) > 3 {
		if _, all, ok := strings.Cut(words[3], "/"); ok {
			return strconv.Atoi(all)
		}
	}
	return 0, fmt.Errorf("/proc/loadavg: %q: no count of threads", text)
}

// numberIn reads a number; a file that is missing or says "max" has none.
func numberIn(file string) (int, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	return n, err == nil
}

// cgroups returns the folders of this process's groups (version 2) and of all
// above them: each may limit it.
func cgroups() []string {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	var folders []string
	for line := range strings.Lines(string(text)) {
		group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		for ok {
			folders = append(folders, filepath.Join("/sys/fs/cgroup", group))
			if group == "/" || group == "." {
				break
			}
			group = filepath.Dir(group)
		}
	}
	return folders
}
