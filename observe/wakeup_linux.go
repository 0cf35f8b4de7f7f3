package observe

import (
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// schedFIFO is Linux's SCHED_FIFO: sched(7).
const schedFIFO = 1

func (w *Wakeup) run(cpus []int, urgent bool, placed chan<- error) {
	defer close(w.done)
	// Never unlocked: the thread, with its changed slack and placement, ends with
	// the goroutine.
	runtime.LockOSThread()
	if len(cpus) > 0 {
		var set unix.CPUSet
		for _, c := range cpus {
			set.Set(c)
		}
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			placed <- err
			return
		}
	}
	w.thread = unix.Gettid()
	placed <- nil
	// The default slack of 50 µs lets the kernel be that late on purpose. Where
	// it cannot be set, the overshoots are larger by it, and true.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	hasten(urgent)
	ts := unix.NsecToTimespec(int64(sleepFor))
	for {
		select {
		case <-w.stop:
			return
		default:
		}
		start := time.Now()
		// Without the scheduler's entry and exit: see NewWakeup.
		_, _, errno := unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
		if errno != 0 {
			continue // a signal: not a full sleep
		}
		w.record(start.Add(sleepFor), time.Since(start)-sleepFor)
	}
}

// interrupt ends the sleep of the thread. The signal is the one by which Go's scheduler interrupts threads: it does nothing
// else. If it comes just before a sleep, that one lasts as long as any.
func (w *Wakeup) interrupt() { _ = unix.Tgkill(os.Getpid(), w.thread, unix.SIGURG) }

// hasten has the calling thread run soon after it is woken.
func hasten(urgent bool) {
	attr, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return
	}
	if urgent {
		first := *attr
		first.Policy, first.Priority, first.Nice = schedFIFO, 1, 0
		if unix.SchedSetAttr(0, &first, 0) == nil {
			return
		}
	}
	// A generator's thread that is busy on the same CPU would finish its slice of about 3 ms first. The
	// sleeper would take the generator's own work for the machine's noise: 0.8 % of sleeps were late
	// next to a busy thread, 0.02 % with a short slice. Linux before 6.12 does not know it and changes
	// nothing.
	attr.Runtime = uint64(slice)
	_ = unix.SchedSetAttr(0, attr, 0)
}
