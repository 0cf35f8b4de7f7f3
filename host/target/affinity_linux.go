package target

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// AllowedCPUs returns the CPUs that this process may run on, ascending. They are its main thread's
// CPUs.
func AllowedCPUs() ([]int, error) { return affinity(os.Getpid()) }

// SetAffinity places every thread of this process on cpus, and with them every thread and
// process that they start later. It fails if a CPU does not exist or is not allowed; some
// threads may have been moved by then.
func SetAffinity(cpus []int) error {
	done := make(map[int]bool)
	// A thread that was not placed yet may start another one: repeat until a pass finds
	// no new thread.
	for again := true; again; {
		again = false
		tids, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("list threads: %w", err)
		}
		for _, e := range tids {
			tid, err := strconv.Atoi(e.Name())
			if err != nil || done[tid] {
				continue
			}
			done[tid], again = true, true
			if err := setThreadAffinity(tid, cpus); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return nil
}

// setThreadAffinity places one thread (0: the calling one). The kernel silently drops
// CPUs that it cannot give, so the result is read back.
func setThreadAffinity(tid int, cpus []int) error {
	if len(cpus) == 0 {
		return errors.New("set affinity: no cpus")
	}
	var want unix.CPUSet
	for _, c := range cpus {
		if c < 0 || c >= maxCPU {
			return fmt.Errorf("set affinity: cpu %d; want 0 to %d", c, maxCPU-1)
		}
		want.Set(c)
	}
	if err := unix.SchedSetaffinity(tid, &want); err != nil {
		if errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("set affinity: none of the cpus %v is available here", cpus)
		}
		return fmt.Errorf("set affinity to cpus %v: %w", cpus, err)
	}
	var got unix.CPUSet
	if err := unix.SchedGetaffinity(tid, &got); err != nil {
		return fmt.Errorf("read affinity back: %w", err)
	}
	for _, c := range cpus {
		if !got.IsSet(c) {
			return fmt.Errorf("set affinity: cpu %d is not available here", c)
		}
	}
	return nil
}

func affinity(tid int) ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(tid, &set); err != nil {
		return nil, fmt.Errorf("read affinity: %w", err)
	}
	var cpus []int
	for c := range maxCPU {
		if set.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	return cpus, nil
}
