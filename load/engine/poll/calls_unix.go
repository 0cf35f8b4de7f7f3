//go:build unix && (!linux || portable)

package poll

import (
	"errors"
	"math"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

type (
	descriptor = unix.PollFd
	handle     = int32
)

// Events of a socket.
const (
	In      = unix.POLLIN
	Out     = unix.POLLOUT
	HangUp  = unix.POLLHUP
	Failure = unix.POLLERR
)

// late is by how much a wait may be late.
const late = 0

// newWake returns the two ends of a pipe.
func newWake() (wakeable, wake int32, err error) {
	syscall.ForkLock.RLock() // a program that is started now is not to inherit them
	defer syscall.ForkLock.RUnlock()
	var ends [2]int
	if err := unix.Pipe(ends[:]); err != nil {
		return 0, 0, err
	}
	for _, fd := range ends {
		unix.CloseOnExec(fd)
		err = errors.Join(err, unix.SetNonblock(fd, true))
	}
	wakeable, wake = int32(ends[0]), int32(ends[1]) //nolint:gosec // descriptors are small
	if err != nil {
		closeWake(wakeable, wake)
	}
	return wakeable, wake, err
}

func closeWake(wakeable, wake int32) {
	_ = unix.Close(int(wakeable)) // nothing was kept in it
	_ = unix.Close(int(wake))
}

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
