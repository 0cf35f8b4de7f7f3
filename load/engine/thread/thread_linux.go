package thread

import (
	"time"

	"golang.org/x/sys/unix"

	"dyno/load/engine/record"
)

// ID returns the number of the calling thread.
func ID() int { return unix.Gettid() }

// CPU returns the processor time the calling thread has used.
func CPU() record.CPUTime { return rusage(unix.RUSAGE_THREAD) }

// ProcessCPU returns the processor time this process has used.
func ProcessCPU() record.CPUTime { return rusage(unix.RUSAGE_SELF) }

func rusage(who int) record.CPUTime {
	var u unix.Rusage
	if err := unix.Getrusage(who, &u); err != nil {
		return record.CPUTime{} // cannot fail for these two values of who
	}
	return record.CPUTime{User: time.Duration(u.Utime.Nano()), System: time.Duration(u.Stime.Nano())}
}

// Place ties the calling thread to one CPU, if cpu is not negative, and
// asks for timers without slack: the default of 50 µs would end up in the send
// lag.
func Place(cpu int) error {
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return err
	}
	if cpu < 0 {
		return nil
	}
	var set unix.CPUSet
	set.Set(cpu)
	return unix.SchedSetaffinity(0, &set)
}
