package main

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxProcs is the most that GOMAXPROCS can be.
const maxProcs = 1024

// spare is how many Ps the runtime has beyond those of threads that wait in the kernel.
const spare = 4

// holding lets n threads hold a P each while they wait in the kernel. Without, a
// thread that wakes up would wait for another one's P, and not for the CPU. The
// function returned puts things back.
//
// Garbage is not collected meanwhile. A collection stops every P; one whose thread
// waits on a futex stops when it is woken, and who would wake it is stopped already.
// A collection that is under way ends first.
func holding(n int) (restore func()) {
	runtime.GC()
	percent := debug.SetGCPercent(-1)
	before := runtime.GOMAXPROCS(min(n+spare, maxProcs))
	return func() {
		runtime.GOMAXPROCS(before)
		debug.SetGCPercent(percent)
	}
}

// anyCPU leaves a thread where the scheduler puts it.
const anyCPU = -1

// A crew is threads that begin together. Each ends with its function: the thread
// of a goroutine that stays locked goes with it, and so does its pinning.
type crew struct {
	ready, done sync.WaitGroup
	start       chan struct{}
	mu          sync.Mutex // guards errs
	errs        []error
	aborted     bool // written before start is closed, read after
}

func newCrew() *crew { return &crew{start: make(chan struct{})} }

// add makes a thread, on one CPU or on any, that waits for run.
func (c *crew) add(cpu int, body func() error) {
	c.ready.Add(1)
	c.done.Go(func() {
		runtime.LockOSThread()
		err := pin(cpu)
		c.failed(err)
		c.ready.Done()
		<-c.start
		if !c.aborted {
			c.failed(body())
		}
	})
}

func (c *crew) failed(err error) {
	if err != nil {
		c.mu.Lock()
		c.errs = append(c.errs, err)
		c.mu.Unlock()
	}
}

// run starts all at once and returns the time until the last has ended. It starts none if one could not be made.
func (c *crew) run() (time.Duration, error) {
	c.ready.Wait()
	c.aborted = len(c.errs) > 0
	began := time.Now()
	close(c.start)
	c.done.Wait()
	return time.Since(began), errors.Join(c.errs...)
}

// pin binds the calling thread to one CPU.
func pin(cpu int) error {
	if cpu == anyCPU {
		return nil
	}
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pin a thread to CPU %d: %w", cpu, err)
	}
	return nil
}

// allowedCPUs returns the CPUs that this process may use.
func allowedCPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("which CPUs are allowed: %w", err)
	}
	var cpus []int
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// A futex is a number that threads wait on in the kernel (futex(2)). It is raw:
// the Go scheduler knows nothing of who waits, so that the kernel's switch is all
// that is measured.
type futex struct{ word atomic.Uint32 }

// The futex operations, for threads of one process.
const (
	futexWait = 0 | 128
	futexWake = 1 | 128
)

// waitWhile returns when the number is no longer v.
func (f *futex) waitWhile(v uint32) {
	for f.word.Load() == v {
		// Woken, interrupted or too late: the number tells.
		_, _, _ = syscall.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&f.word)), futexWait, uintptr(v), 0, 0, 0)
	}
}

// set changes the number and wakes one thread that waits.
func (f *futex) set(v uint32) {
	f.word.Store(v)
	f.wake()
}

// post adds one and wakes one thread that waits.
func (f *futex) post() {
	f.word.Add(1)
	f.wake()
}

// take waits until there is one and takes it. Only one thread may take.
func (f *futex) take() {
	f.waitWhile(0)
	f.word.Add(^uint32(0))
}

func (f *futex) wake() {
	_, _, _ = syscall.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&f.word)), futexWake, 1, 0, 0, 0)
}

// usage is what the process has used so far.
type usage struct {
	cpu      time.Duration
	switches int64 // context switches of all its threads, voluntary or not
}

func (u usage) less(before usage) usage {
	return usage{u.cpu - before.cpu, u.switches - before.switches}
}

func used(who int) (usage, error) {
	var r unix.Rusage
	if err := unix.Getrusage(who, &r); err != nil {
		return usage{}, fmt.Errorf("getrusage: %w", err)
	}
	return usage{time.Duration(r.Utime.Nano() + r.Stime.Nano()), r.Nvcsw + r.Nivcsw}, nil
}
