// Package poll waits for sockets and reads and writes them, by system calls that a worker of the
// engine makes without the scheduler of Go.
//
// All go to the kernel directly (RawSyscall): the calls on non-blocking descriptors because
// they never block, and the wait for events although it does. By Syscall, the
// runtime's monitor thread would take the worker's processor away in every wait
// that it happens to see, and look again every 20 µs as long as it finds one to
// take: 4,000 wake-ups a second on the worker's own CPU, which then waits for it in
// a tenth of the time. So a worker keeps its processor while it sleeps; whoever
// runs n workers sets GOMAXPROCS to more than n. The signal with which the runtime
// preempts, to collect garbage for instance, ends a wait with EINTR.
package poll

import (
	"errors"
	"math"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Read reads what has arrived on a socket. Read and Write go by recv and send rather than read and
// write, which spares the kernel the way through the file system's layer: about a tenth of a
// microsecond each.
func Read(fd int32, p []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), 0, 0, 0)
	return int(n), errno
}

// Write writes as much as the socket takes at once.
func Write(fd int32, p []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), unix.MSG_NOSIGNAL, 0, 0)
	return int(n), errno
}

// WriteAll writes as much as the socket takes, and returns the rest.
func WriteAll(fd int32, p []byte) (rest []byte, errno unix.Errno) {
	for len(p) > 0 {
		n, errno := Write(fd, p)
		switch errno {
		case 0:
			p = p[n:]
		case unix.EINTR:
		case unix.EAGAIN:
			return p, 0
		default:
			return p, errno
		}
	}
	return p, 0
}

// ConnectResult returns how the connecting of a socket ended: nil if well.
func ConnectResult(fd int32) error {
	errno, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && errno != 0 {
		err = unix.Errno(errno)
	}
	return err
}

// A Poller is one epoll instance. One thread uses it, except for Wake.
type Poller struct {
	fd, event int
	coarse    bool // there is no epoll_pwait2 (Linux 5.11): milliseconds only
	events    []unix.EpollEvent
}

// WakeToken marks the events of the wake-up descriptor.
const WakeToken = -1

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
	p := &Poller{fd: fd, event: event, events: make([]unix.EpollEvent, 256)}
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: WakeToken}
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
	ev := unix.EpollEvent{
		Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET,
		Fd:     token,
		Pad:    int32(generation), //nolint:gosec // carried, not computed with
	}
	return unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &ev)
}

// Wake ends a wait, from any thread.
func (p *Poller) Wake() {
	one := [8]byte{1}
	_, _ = unix.Write(p.event, one[:]) // a full counter already wakes
}

// Poll returns the events at hand without waiting.
func (p *Poller) Poll() []unix.EpollEvent {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd),
		uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)), 0, 0, 0)
	if errno != 0 {
		return nil
	}
	return p.events[:n]
}

// Full tells whether there may be more events than those that were returned.
func (p *Poller) Full(events []unix.EpollEvent) bool { return len(events) == cap(p.events) }

// Wait returns the next events, or none when timeout has passed or a signal came.
// It may return up to a thousandth early, and then leaves the rest to the caller.
func (p *Poller) Wait(timeout time.Duration) []unix.EpollEvent {
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
func (p *Poller) waitCoarsely(timeout time.Duration) []unix.EpollEvent {
	ms := min(int64(timeout/time.Millisecond), math.MaxInt32)
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd),
		uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)), uintptr(ms), 0, 0)
	if errno != 0 {
		return nil
	}
	return p.events[:n]
}
