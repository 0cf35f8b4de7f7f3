package descriptors

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Enlarge makes room for a number of descriptors, as far as the process may have them. Otherwise the
// kernel enlarges the table whenever it is full. The threads share the table. So a thread that opens or
// accepts waits until RCU knows that the old table is unused: some 10 to 30 ms, and much longer on a
// busy machine, at 256, 512, 1,024 … descriptors. The table never shrinks.
func Enlarge(number int) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("descriptor table: limit: %w", err)
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("descriptor table: %w", err)
	}
	defer unix.Close(fd)
	last := int(min(limit.Cur, uint64(number))) - 1 //nolint:gosec // bounded, not negative
	high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, last)
	if errors.Is(err, unix.EMFILE) {
		return nil // there is room: the last number is in use
	}
	if err != nil {
		return fmt.Errorf("descriptor table: make room for %d: %w", last+1, err)
	}
	return unix.Close(high)
}
