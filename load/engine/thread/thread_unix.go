//go:build unix && !linux

package thread

import (
	"time"

	"golang.org/x/sys/unix"

	"dyno/load/engine/record"
)

// ID returns 0: the system tells the number of a thread to C alone.
func ID() int { return 0 }

// CPU returns the processor time the calling thread has used, that in the system included.
func CPU() record.CPUTime { return spent(unix.CLOCK_THREAD_CPUTIME_ID) }

// ProcessCPU returns the processor time this process has used, that in the system included.
func ProcessCPU() record.CPUTime { return spent(unix.CLOCK_PROCESS_CPUTIME_ID) }

func spent(clock int32) record.CPUTime {
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		return record.CPUTime{} // cannot fail for these two clocks
	}
	return record.CPUTime{User: time.Duration(ts.Nano())}
}

// Place returns an error if cpu is not negative.
func Place(cpu int) error {
	if cpu >= 0 {
		return errNoPlacing
	}
	return nil
}
