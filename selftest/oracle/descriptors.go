package oracle

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// mostDescriptors is up to which number the descriptor table is enlarged in advance:
// half a mebibyte, as an entry is a pointer.
const mostDescriptors = 1 << 16

// enlargeDescriptorTable makes room for all descriptors that the process may have, up
// to mostDescriptors. Otherwise the kernel enlarges the table when it is full, and as
// several threads share it, it makes accept wait until RCU knows that nobody uses the
// old one: some 10 to 30 ms, and much longer on a busy machine, at 256, 512, 1,024 …
// connections. The table never shrinks.
func enlargeDescriptorTable() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("descriptor table: limit: %w", err)
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("descriptor table: %w", err)
	}
	defer unix.Close(fd)
	last := int(min(limit.Cur, mostDescriptors)) - 1 //nolint:gosec // bounded
	high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, last)
	if errors.Is(err, unix.EMFILE) {
		return nil // there is room: the last number is in use
	}
	if err != nil {
		return fmt.Errorf("descriptor table: make room for %d: %w", last+1, err)
	}
	return unix.Close(high)
}
