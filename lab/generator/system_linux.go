package generator

import "golang.org/x/sys/unix"

// severalProcesses tells that processes can carry one load: they have one clock.
const severalProcesses = true

// Monotonic reads CLOCK_MONOTONIC, in nanoseconds. All processes of a machine have the same.
func Monotonic() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // Linux always has it
	return t.Nano()
}
