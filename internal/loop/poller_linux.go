package loop

import (
	"fmt"
	"math"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Readiness, in epoll's bits.
const (
	In     = unix.EPOLLIN
	Out    = unix.EPOLLOUT
	Urgent = unix.EPOLLPRI
	End    = unix.EPOLLRDHUP // the peer will send no more
	Hangup = unix.EPOLLHUP   // neither side sends any more
	Error  = unix.EPOLLERR

	// Stream is the set of events that a connection is registered for.
	Stream = In | Out | Urgent | End | unix.EPOLLET
	// Listener is the set of events for a listening socket. It is level-triggered, and if
	// several pollers have the socket, only some of them wake up.
	Listener = In | unix.EPOLLEXCLUSIVE
)

// Keys that a Slab never hands out.
const (
	KeyWake     uint64 = math.MaxUint64 - iota // Wake was called
	KeyTick                                    // the ticker's period has passed
	KeyListener                                // for the owner's listening socket
)

// batch is how many events one wait can return: enough to spread the cost of the call,
// and few enough to learn soon what else is ready.
const batch = 256

// A Poller waits for descriptors to become ready. Wait and Event belong to one goroutine.
// The other methods may be called from any goroutine.
type Poller struct {
	epoll, wake, tick int
	file              *os.File // owns epoll, for Park
	parked            syscall.RawConn
	events            [batch]unix.EpollEvent
}

// NewPoller returns a poller whose tick is off.
func NewPoller() (_ *Poller, err error) {
	p := &Poller{epoll: -1, wake: -1, tick: -1}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	// Go's own poller takes only non-blocking descriptors.
	if err = unix.SetNonblock(p.epoll, true); err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	p.file = os.NewFile(uintptr(p.epoll), "epoll")
	if p.parked, err = p.file.SyscallConn(); err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	if p.wake, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	if p.tick, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
		return nil, fmt.Errorf("timerfd_create: %w", err)
	}
	// Because it is edge-triggered, the eventfd need not be read: every write is an edge.
	if err = p.Add(p.wake, KeyWake, In|unix.EPOLLET); err != nil {
		return nil, err
	}
	if err = p.Add(p.tick, KeyTick, In|unix.EPOLLET); err != nil {
		return nil, err
	}
	return p, nil
}

// Close frees the poller. No other method may be running.
func (p *Poller) Close() {
	for _, fd := range []int{p.tick, p.wake} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	if p.file != nil {
		_ = p.file.Close()
	}
}

// Tick makes the poller report KeyTick every period; 0 turns it off. The kernel's timer
// costs a loop nothing between ticks; the loop does not even read the clock.
func (p *Poller) Tick(period time.Duration) error {
	ts := unix.NsecToTimespec(period.Nanoseconds())
	if err := unix.TimerfdSettime(p.tick, 0, &unix.ItimerSpec{Interval: ts, Value: ts}, nil); err != nil {
		return fmt.Errorf("timerfd_settime: %w", err)
	}
	return nil
}

// Wake makes Wait return with KeyWake, now or at its next call.
func (p *Poller) Wake() {
	one := uint64(1)
	// The write fails only if 2^64-2 wakes are unread, and then it is not needed.
	_, _ = unix.Write(p.wake, (*[8]byte)(unsafe.Pointer(&one))[:])
}

// Add registers fd under key. Closing fd removes it, unless it was duplicated.
func (p *Poller) Add(fd int, key uint64, interest uint32) error {
	ev := unix.EpollEvent{Events: interest, Fd: int32(uint32(key)), Pad: int32(uint32(key >> 32))}
	if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return fmt.Errorf("epoll_ctl add: %w", err)
	}
	return nil
}

// Remove removes fd.
func (p *Poller) Remove(fd int) error {
	if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_DEL, fd, nil); err != nil {
		return fmt.Errorf("epoll_ctl del: %w", err)
	}
	return nil
}

// hold is how many milliseconds Wait keeps its processor from the Go scheduler.
const hold = 1

// Wait returns how many events there are. Without block it returns at once. It may return
// 0 at any time.
//
// It first sleeps for a moment without telling the Go scheduler. Under load, events arrive within that
// moment. This matters: the scheduler would respond to every short sleep by waking another thread to
// look for work. That thread would use the CPU that has just become free. Other goroutines are delayed
// by at most that moment.
func (p *Poller) Wait(block bool) (int, error) {
	if !block {
		return p.poll(0)
	}
	if n, err := p.poll(hold); n > 0 || err != nil {
		return n, err
	}
	n, err := unix.EpollWait(p.epoll, p.events[:], -1)
	if err != nil && err != unix.EINTR {
		return 0, fmt.Errorf("epoll_wait: %w", err)
	}
	return max(n, 0), nil
}

// Park is Wait for a goroutine that hands work to other goroutines: it sleeps in Go's own
// poller, so that they can run meanwhile.
func (p *Poller) Park() (n int, err error) {
	if n, err = p.poll(0); n > 0 || err != nil {
		return n, err
	}
	perr := p.parked.Read(func(uintptr) bool {
		n, err = p.poll(0)
		return n > 0 || err != nil
	})
	if perr != nil {
		return 0, fmt.Errorf("wait for the poller: %w", perr)
	}
	return n, err
}

// poll calls epoll_wait without telling the scheduler.
func (p *Poller) poll(milliseconds int) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.epoll),
		uintptr(unsafe.Pointer(&p.events)), batch, uintptr(milliseconds), 0, 0)
	switch errno {
	case 0:
		return int(n), nil
	case unix.EINTR:
		return 0, nil
	}
	return 0, fmt.Errorf("epoll_wait: %w", errno)
}

// Event returns the i-th event of the last Wait.
func (p *Poller) Event(i int) (key uint64, ready uint32) {
	ev := &p.events[i]
	key = uint64(uint32(ev.Fd)) | uint64(uint32(ev.Pad))<<32
	if key == KeyTick {
		// The timer's next period starts when this is read.
		var periods [8]byte
		_, _ = unix.Read(p.tick, periods[:])
	}
	return key, ev.Events
}
