package stack

import (
	"golang.org/x/sys/unix"

	"dyno/host/proc"
)

// Below returns the processes below root, parents first, as far as /proc shows them.
func Below(root int) (pids []int) {
	all, err := proc.All()
	if err != nil {
		return nil
	}
	for _, p := range proc.Below(all, root) {
		pids = append(pids, p.PID)
	}
	return pids
}

// Now returns the time, in nanoseconds, as the kernel stamps records and as eBPF
// programs read it.
func Now() uint64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0 // never: one of the system's clocks
	}
	return uint64(ts.Nano())
}
