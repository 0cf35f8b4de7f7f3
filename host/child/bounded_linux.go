package child

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// bound sets the limits that the kernel enforces. Memory is address space in addition to what the process has reserved
// when it begins. RLIMIT_DATA would not do: Go writes to what it has reserved before, which the kernel then lets pass.
func bound(pid int, l Limits) error {
	present, err := addressSpace(pid)
	if err != nil {
		return err
	}
	seconds := uint64(math.Ceil(l.CPU.Seconds()))
	for resource, limit := range map[int]uint64{unix.RLIMIT_CPU: seconds, unix.RLIMIT_AS: present + l.Memory, unix.RLIMIT_CORE: 0} {
		if err := unix.Prlimit(pid, resource, &unix.Rlimit{Cur: limit, Max: limit}, nil); err != nil {
			return fmt.Errorf("the process cannot be bounded: %w", err)
		}
	}
	return nil
}

// addressSpace returns how many bytes a process has reserved.
func addressSpace(pid int) (uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	var pages uint64
	if _, err := fmt.Sscan(string(text), &pages); err != nil {
		return 0, fmt.Errorf("/proc/%d/statm: %w", pid, err)
	}
	return pages * uint64(os.Getpagesize()), nil
}
