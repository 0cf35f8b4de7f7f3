//go:build linux && !portable

package poll

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Read reads what has arrived on a socket. Read and Write use recv and send instead of read and write.
// The kernel then skips the file system's layer: about a tenth of a microsecond each.
func Read(fd int32, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), 0, 0, 0)
	return int(n), errno
}

// Write writes as much as the socket takes at once.
func Write(fd int32, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), unix.MSG_NOSIGNAL, 0, 0)
	return int(n), errno
}

// An Event says what happened to a socket: Fd is its token, and Pad its generation.
type Event = unix.EpollEvent

// Events of a socket.
const (
	In        = unix.EPOLLIN
	Out       = unix.EPOLLOUT
	PeerEnded = unix.EPOLLRDHUP
	HangUp    = unix.EPOLLHUP
	Failure   = unix.EPOLLERR
)

// A Poller is one epoll instance. One thread uses it, except for Wake.
type Poller struct {
	fd, event, timer int
	armed            int64 // when the timer is due, or was
	spec             unix.ItimerSpec
	events           []Event
}

// New returns a poller that waits for Wake alone.
func New() (*Poller, error) {
	p := &Poller{event: -1, timer: -1, events: make([]Event, 256)}
	var err error
	if p.fd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err == nil {
		p.event, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	}
	if err == nil {
		p.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	}
	ev := Event{Events: unix.EPOLLIN | unix.EPOLLET, Fd: WakeToken}
	for _, fd := range []int{p.event, p.timer} {
		if err == nil {
			err = unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &ev)
		}
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Close closes the poller. Wakes must have ended.
func (p *Poller) Close() {
	for _, fd := range []int{p.timer, p.event, p.fd} {
		unix.Close(fd)
	}
}

// Add registers a socket once and for good: edge-triggered in both directions, so that no later request
// costs an epoll_ctl. The token and the generation come back with its events; the generation
// distinguishes events of a closed socket from those of its successor.
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

// IgnoreIn ends the arrival events of a socket whose reader has its own pace. By epoll there are few as
// it is: one for each segment.
func (p *Poller) IgnoreIn(int32) {}

// Wake ends a wait, from any thread.
func (p *Poller) Wake() {
	one := [8]byte{1}
	_, _ = unix.Write(p.event, one[:]) // a full counter already wakes
}

// Poll returns the events at hand without waiting.
func (p *Poller) Poll() []Event { return p.wait(0) }

// Full tells whether there may be more events than those that were returned.
func (p *Poller) Full(events []Event) bool { return len(events) == cap(p.events) }

// Wait returns the next events. From now until a time it waits for some, and then ends with an event of WakeToken.
// A wait may end early without what it waits for: when a signal comes, or when the timer of an earlier wait is due.
//
// That timer is why a wait that ends by an event costs little. A timeout of epoll is a timer that
// starts and ends with each wait. For it the CPU's clock is set twice.
func (p *Poller) Wait(now, until int64) []Event {
	if until <= now {
		return p.wait(0)
	}
	if p.armed <= now || p.armed > until {
		p.armed, p.spec.Value = until, unix.NsecToTimespec(until-now)
		_, _, _ = syscall.RawSyscall6(unix.SYS_TIMERFD_SETTIME, uintptr(p.timer), 0, uintptr(unsafe.Pointer(&p.spec)), 0, 0, 0)
	}
	return p.wait(-1)
}

func (p *Poller) wait(ms int) []Event {
	n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd),
		uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)), uintptr(ms), 0, 0)
	if errno != 0 {
		return nil
	}
	return p.events[:n]
}
