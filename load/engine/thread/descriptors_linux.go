package thread

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// spareDescriptors are those that the process needs in addition to its connections, with
// room: observers, files, and connections that are closed while others are opened.
const spareDescriptors = 1024

// EnlargeDescriptorTable makes room for the connections' descriptors, as far as the
// process may have them. Otherwise the kernel enlarges the table when it is full, and as
// several threads share it, it makes the worker wait until RCU knows that nobody uses
// the old one: some 10 to 30 ms, and much longer on a busy machine, at 256, 512, 1,024 …
// descriptors. The table never shrinks.
func EnlargeDescriptorTable(connections int) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("engine: descriptor table: limit: %w", err)
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("engine: descriptor table: %w", err)
	}
	defer unix.Close(fd)
	last := int(min(limit.Cur, uint64(connections+spareDescriptors))) - 1 //nolint:gosec // bounded, not negative
	high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, last)
	if errors.Is(err, unix.EMFILE) {
		return nil // there is room: the last number is in use
	}
	if err != nil {
		return fmt.Errorf("engine: descriptor table: make room for %d: %w", last+1, err)
	}
	return unix.Close(high)
}
