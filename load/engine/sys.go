package engine

import (
	"errors"
	"math"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The engine's system calls. All go to the kernel directly (RawSyscall), without
// the scheduler's entry and exit: the calls on non-blocking descriptors because
// they never block, and the wait for events although it does. By Syscall, the
// runtime's monitor thread would take the worker's processor away in every wait
// that it happens to see, and look again every 20 µs as long as it finds one to
// take: 4,000 wake-ups a second on the worker's own CPU, which then waits for it in
// a tenth of the time. So a worker keeps its processor while it sleeps; whoever
// runs n workers sets GOMAXPROCS to more than n. The signal with which the runtime
// preempts, to collect garbage for instance, ends a wait with EINTR.

// rawRead and rawWrite go by recv and send rather than read and write, which
// spares the kernel the way through the file system's layer: about a tenth of a
// microsecond each.
func rawRead(fd int32, p []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), 0, 0, 0)
	return int(n), errno
}

func rawWrite(fd int32, p []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), unix.MSG_NOSIGNAL, 0, 0)
	return int(n), errno
}

// writeAll writes as much as the socket takes, and returns the rest.
func writeAll(fd int32, p []byte) (rest []byte, errno unix.Errno) {
	for len(p) > 0 {
		n, errno := rawWrite(fd, p)
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

// connectResult returns how the connecting of a socket ended: nil if well.
func connectResult(fd int32) error {
	errno, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && errno != 0 {
		err = unix.Errno(errno)
	}
	return err
}

// A poller is one epoll instance. It is used by one thread, except for wake.
type poller struct {
	fd, event int
	coarse    bool // there is no epoll_pwait2 (Linux 5.11): milliseconds only
	events    []unix.EpollEvent
}

// wakeToken marks the events of the wake-up descriptor.
const wakeToken = -1

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	event, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	p := &poller{fd: fd, event: event, events: make([]unix.EpollEvent, 256)}
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: wakeToken}
	if err := unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, event, &ev); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *poller) close() {
	unix.Close(p.event)
	unix.Close(p.fd)
}

// add registers a socket once and for good: edge-triggered in both directions,
// so that no later request costs an epoll_ctl. The token and the generation come
// back with its events; the generation tells events of a closed socket from
// those of its successor.
func (p *poller) add(fd int, token int32, generation uint32) error {
	ev := unix.EpollEvent{
		Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET,
		Fd:     token,
		Pad:    int32(generation), //nolint:gosec // carried, not computed with
	}
	return unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &ev)
}

// wake ends a wait, from any thread.
func (p *poller) wake() {
	one := [8]byte{1}
	_, _ = unix.Write(p.event, one[:]) // a full counter already wakes
}

// poll returns the events at hand without waiting.
func (p *poller) poll() []unix.EpollEvent {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd),
		uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)), 0, 0, 0)
	if errno != 0 {
		return nil
	}
	return p.events[:n]
}

// wait returns the next events, or none when timeout has passed or a signal came.
// It may return up to a thousandth early, and then leaves the rest to the caller.
func (p *poller) wait(timeout time.Duration) []unix.EpollEvent {
	if timeout <= 0 {
		return p.poll()
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
func (p *poller) waitCoarsely(timeout time.Duration) []unix.EpollEvent {
	ms := min(int64(timeout/time.Millisecond), math.MaxInt32)
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd),
		uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)), uintptr(ms), 0, 0)
	if errno != 0 {
		return nil
	}
	return p.events[:n]
}

// threadCPU returns the processor time the calling thread has used.
func threadCPU() CPUTime { return rusage(unix.RUSAGE_THREAD) }

// processCPU returns the processor time this process has used.
func processCPU() CPUTime { return rusage(unix.RUSAGE_SELF) }

func rusage(who int) CPUTime {
	var u unix.Rusage
	if err := unix.Getrusage(who, &u); err != nil {
		return CPUTime{} // cannot fail for these two values of who
	}
	return CPUTime{User: time.Duration(u.Utime.Nano()), System: time.Duration(u.Stime.Nano())}
}

// placeThread ties the calling thread to one CPU, if cpu is not negative, and
// asks for timers without slack: the default of 50 µs would end up in the send
// lag.
func placeThread(cpu int) error {
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return err
	}
	if cpu < 0 {
		return nil
	}
	var set unix.CPUSet
	set.Set(cpu)
	return unix.SchedSetaffinity(0, &set)
}
