package serve

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// mostDescriptors bounds how far the descriptor table is enlarged in advance: it then
// takes half a mebibyte, because an entry is a pointer.
const mostDescriptors = 1 << 16

// enlargeDescriptorTable makes room for all descriptors that the process may have, up to
// mostDescriptors. Otherwise the kernel enlarges the table whenever it is full. Because
// several threads share the table, the kernel then makes accept wait until RCU knows that
// nobody uses the old table: some 10 to 30 ms, and much longer on a busy machine, at 256,
// 512, 1,024 … connections. The table never shrinks.
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
		return nil // the highest number is in use, so there is room
	}
	if err != nil {
		return fmt.Errorf("descriptor table: make room for %d: %w", last+1, err)
	}
	return unix.Close(high)
}
