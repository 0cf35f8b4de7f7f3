package child

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// bound sets the limits that the kernel enforces. Memory is that which a process can write and has for itself: Go
// reserves much more than it uses.
func bound(pid int, l Limits) error {
	present, err := data(pid)
	if err != nil {
		return err
	}
	seconds := uint64(math.Ceil(l.CPU.Seconds()))
	for resource, limit := range map[int]uint64{unix.RLIMIT_CPU: seconds, unix.RLIMIT_DATA: present + l.Memory, unix.RLIMIT_CORE: 0} {
		if err := unix.Prlimit(pid, resource, &unix.Rlimit{Cur: limit, Max: limit}, nil); err != nil {
			return fmt.Errorf("the process cannot be bounded: %w", err)
		}
	}
	return nil
}

// data returns how many bytes of its own a process can write at present.
func data(pid int) (uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	var size, resident, shared, code, library, pages uint64
	if _, err := fmt.Sscan(string(text), &size, &resident, &shared, &code, &library, &pages); err != nil {
		return 0, fmt.Errorf("/proc/%d/statm: %w", pid, err)
	}
	return pages * uint64(os.Getpagesize()), nil
}
