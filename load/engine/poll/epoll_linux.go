//go:build linux && !portable

package poll

import (
	"errors"
	"math"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Read reads what has arrived on a socket. Read and Write go by recv and send rather than read and
// write, which spares the kernel the way through the file system's layer: about a tenth of a
// microsecond each.
func Read(fd int32, p []byte) (int, syscall.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), 0, 0, 0)
	return int(n), errno
}

// Write writes as much as the socket takes at once.
func Write(fd int32, p []byte) (int, syscall.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), unix.MSG_NOSIGNAL, 0, 0)
	return int(n), errno
}

// An Event says what happened to a socket: Fd is its token, and Pad its generation.
type Event = unix.EpollEvent

// What may happen to a socket.
const (
	In        = unix.EPOLLIN
	Out       = unix.EPOLLOUT
	PeerEnded = unix.EPOLLRDHUP
	HangUp    = unix.EPOLLHUP
	Failure   = unix.EPOLLERR
)

// A Poller is one epoll instance. One thread uses it, except for Wake.
type Poller struct {
	fd, event int
	coarse    bool // there is no epoll_pwait2 (Linux 5.11): milliseconds only
	events    []Event
}

// New returns a poller that waits for Wake alone.
func New() (*Poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	event, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	p := &Poller{fd: fd, event: event, events: make([]Event, 256)}
	ev := Event{Events: unix.EPOLLIN | unix.EPOLLET, Fd: WakeToken}
	if err := unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, event, &ev); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Close closes the poller, which nobody wakes any more.
func (p *Poller) Close() {
	unix.Close(p.event)
	unix.Close(p.fd)
}

// Add registers a socket once and for good: edge-triggered in both directions,
// so that no later request costs an epoll_ctl. The token and the generation come
// back with its events; the generation tells events of a closed socket from
// those of its successor.
func (p *Poller) Add(fd int, token int32, generation uint32) error {
	ev := Event{
		Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET,
		Fd:     token,
		Pad:    int32(generation), //nolint:gosec // carried, not computed with
	}
	return unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &ev)
}

// Remove forgets a socket that is about to be closed. Epoll does so by itself.
func (p *Poller) Remove(int32) {}

// AwaitOut asks for an event when a socket that took no more has room again. Epoll needs no asking.
func (p *Poller) AwaitOut(int32) {}

// IgnoreIn ends the events of what arrives on a socket whose reader has a pace of its own. By epoll
// there are few as it is: one for each segment.
func (p *Poller) IgnoreIn(int32) {}

// Wake ends a wait, from any thread.
func (p *Poller) Wake() {
	one := [8]byte{1}
	_, _ = unix.Write(p.event, one[:]) // a full counter already wakes
}

// Poll returns the events at hand without waiting.
func (p *Poller) Poll() []Event {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd),
		uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)), 0, 0, 0)
	if errno != 0 {
		return nil
	}
	return p.events[:n]
}

// Full tells whether there may be more events than those that were returned.
func (p *Poller) Full(events []Event) bool { return len(events) == cap(p.events) }

// Wait returns the next events, or none when timeout has passed or a signal came.
// It may return up to a thousandth early, and then leaves the rest to the caller.
func (p *Poller) Wait(timeout time.Duration) []Event {
	if timeout <= 0 {
		return p.Poll()
	}
	if p.coarse {
		return p.waitCoarsely(timeout)
	}
	// The kernel may stretch a wait by a thousandth (select_estimate_accuracy).
	// Of a long one we sleep a little less; what remains is stretched by nothing.
	if timeout > 10*time.Millisecond {
		timeout -= timeout >> 9
	}
	ts := unix.NsecToTimespec(int64(timeout))
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(p.fd),
		uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)), uintptr(unsafe.Pointer(&ts)), 0, 0)
	if errno != 0 {
		p.coarse = lacks(errno)
		return nil
	}
	return p.events[:n]
}

// lacks tells whether an error of a wait says that the system call is not to be had: the
// kernel does not know it, or a filter of system calls (seccomp) from before its time forbids
// it, as container runtimes did by EPERM.
func lacks(errno unix.Errno) bool { return errno == unix.ENOSYS || errno == unix.EPERM }

// waitCoarsely waits for whole milliseconds, early by up to one; the caller polls
// away the rest.
func (p *Poller) waitCoarsely(timeout time.Duration) []Event {
	ms := min(int64(timeout/time.Millisecond), math.MaxInt32)
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd),
		uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)), uintptr(ms), 0, 0)
	if errno != 0 {
		return nil
	}
	return p.events[:n]
}
