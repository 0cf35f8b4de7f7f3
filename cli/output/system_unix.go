//go:build unix

package output

import (
	"io"

	"golang.org/x/sys/unix"
)

// writable returns why a file cannot be written to; nil if it can.
func writable(name string) error { return unix.Access(name, unix.W_OK) }

// onlyReads reports whether a descriptor is open for reading only.
func onlyReads(fd uintptr) (bool, error) {
	mode, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
	return mode&unix.O_ACCMODE == unix.O_RDONLY, err
}

// showsColour reports whether a terminal shows colours.
func showsColour(io.Writer) bool { return true }
