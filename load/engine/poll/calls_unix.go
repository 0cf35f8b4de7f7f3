//go:build unix && (!linux || portable)

package poll

import (
	"math"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

type (
	descriptor = unix.PollFd
	handle     = int32
)

// What may happen to a socket.
const (
	In      = unix.POLLIN
	Out     = unix.POLLOUT
	HangUp  = unix.POLLHUP
	Failure = unix.POLLERR
)

// late is by how much a wait may be late.
const late = 0

// await returns how many descriptors have events.
func await(fds []descriptor, ms time.Duration) int {
	n, err := unix.Poll(fds, int(min(ms, math.MaxInt32)))
	if err != nil {
		return 0 // a signal came
	}
	return n
}

// Read reads what has arrived on a socket.
func Read(fd int32, p []byte) (int, syscall.Errno) { return outcome(unix.Read(int(fd), p)) }

// Write writes as much as the socket takes at once. The runtime of Go ignores the signal of a
// connection that is closed.
func Write(fd int32, p []byte) (int, syscall.Errno) { return outcome(unix.Write(int(fd), p)) }

func outcome(n int, err error) (int, syscall.Errno) {
	errno, _ := err.(syscall.Errno) //nolint:errorlint // system calls return it as it is
	return n, errno
}
