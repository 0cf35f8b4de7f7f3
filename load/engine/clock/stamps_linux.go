//go:build !portable

package clock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"dyno/load/engine/poll"
)

// held is the time that the kernel may take from stamp to readable bytes without a second look. A
// segment after a lost one waits until that is sent again. Then its stamp does not say when the
// response was whole. One that waited because the kernel was busy has arrived all the same.
const held = int64(50 * time.Microsecond)

// stamps are the arrival stamps of a clock.
type stamps struct {
	stamping bool
	holder   int32 // the socket that keeps the stamps coming, if stamping
	receiver receiver
	offset   offset
}

// real returns the real-time clock's time: Unix time in nanoseconds.
func (c *Clock) real() int64 { return time.Now().UnixNano() }

// Stamping tells whether sockets are to tell when segments arrived.
func (s *stamps) Stamping() bool { return s.stamping }

// Steps returns how often the real-time clock was stepped, as far as this clock has seen it.
func (s *stamps) Steps() uint64 { return s.offset.steps }

// Uncertainty returns by how much a stamp may be off on this clock, at most.
func (s *stamps) Uncertainty() time.Duration { return time.Duration(s.offset.worst) }

// Read reads what has arrived on a socket, with a stamp if the socket was asked for stamps. The
// socket was known to be empty at a time, which is 0 if that is not known.
func (c *Clock) Read(fd int32, p []byte, stamps bool, empty int64) (n int, r Reading, errno syscall.Errno) {
	var real int64
	if stamps {
		n, real, errno = c.receiver.read(fd, p)
	} else {
		n, errno = poll.Read(fd, p)
	}
	r = At(c.Now())
	if real == 0 {
		return n, r, errno
	}
	c.offset.keep(c, r.Read)
	r.Arrived, r.Stamp = real-c.offset.middle(), Stamped
	switch {
	case r.Arrived > r.Read:
		r = r.refused(Late)
	case r.Arrived < empty-held && c.receiver.disordered(fd):
		r = r.refused(Stale)
	}
	return n, r, errno
}

// A receiver reads bytes and their time stamp from sockets. It is used by one thread, and holds the
// buffers that the kernel writes to, so that nothing is allocated.
type receiver struct {
	header  unix.Msghdr
	vector  unix.Iovec
	control [controlSize]byte
	info    unix.TCPInfo
}

const (
	// controlSize has room for the time stamp and for what another option of the
	// socket might add.
	controlSize = 128
	headSize    = unix.SizeofCmsghdr
	// stampSize is the size of struct scm_timestamping: three times seconds and nanoseconds; the first
	// is the software's.
	stampSize = 3 * 16
)

// read returns the number of bytes, and the time stamp in nanoseconds of the real-time
// clock; 0 without one.
func (r *receiver) read(fd int32, p []byte) (n int, real int64, errno syscall.Errno) {
	r.vector.Base = unsafe.SliceData(p)
	r.vector.Len = uint64(len(p))
	r.header.Iov, r.header.Iovlen = &r.vector, 1
	r.header.Control, r.header.Controllen = &r.control[0], controlSize
	got, _, errno := syscall.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&r.header)), 0)
	if errno != 0 {
		return int(got), 0, errno
	}
	return int(got), arrivalStamp(r.control[:min(r.header.Controllen, controlSize)]), 0
}

// disordered tells whether segments of the socket's connection have come out of order,
// or that cannot be known.
func (r *receiver) disordered(fd int32) bool {
	r.info.Rcv_ooopack = 1 // unless the kernel says otherwise: before Linux 5.4 it does not
	size := uint32(unix.SizeofTCPInfo)
	_, _, errno := syscall.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.IPPROTO_TCP, unix.TCP_INFO,
		uintptr(unsafe.Pointer(&r.info)), uintptr(unsafe.Pointer(&size)), 0)
	return errno != 0 || r.info.Rcv_ooopack > 0
}

// arrivalStamp returns the software time stamp among control messages (cmsg(3)), in
// nanoseconds of the real-time clock; 0 if there is none.
func arrivalStamp(control []byte) int64 {
	for len(control) >= headSize {
		size := binary.NativeEndian.Uint64(control)
		if size < headSize || size > uint64(len(control)) {
			return 0
		}
		level := binary.NativeEndian.Uint32(control[8:])
		kind := binary.NativeEndian.Uint32(control[12:])
		if level == unix.SOL_SOCKET && kind == unix.SCM_TIMESTAMPING && size >= headSize+stampSize {
			seconds := int64(binary.NativeEndian.Uint64(control[headSize:])) //nolint:gosec // carried as it is
			nanos := int64(binary.NativeEndian.Uint64(control[headSize+8:])) //nolint:gosec // carried as it is
			if seconds < 0 || seconds > maxSeconds || nanos < 0 || nanos >= int64(time.Second) {
				return 0
			}
			return seconds*int64(time.Second) + nanos
		}
		size = (size + 7) &^ 7 // CMSG_ALIGN
		if size >= uint64(len(control)) {
			return 0
		}
		control = control[size:]
	}
	return 0
}

// maxSeconds is the last second of the real-time clock that an int64 of nanoseconds
// holds: in the year 2262.
const maxSeconds = int64(1<<63-1)/int64(time.Second) - 1

// An offset is how far the real-time clock is ahead of the engine's: somewhere from low to high. Linux
// slews both clocks alike (adjtimex(2)) and steps only the former. So the offset stays the same until a
// step. Each look at both clocks, the engine's before and after the other, bounds it; the remaining
// range is what no look excludes.
type offset struct {
	low, high int64
	next      int64 // when to look again, on the engine's clock
	worst     int64 // the widest that it has been when it was used
	steps     uint64
}

const (
	// lookEvery is how long a step of the real-time clock may stay unnoticed. Until then
	// stamps are off by it, and refused where that makes them impossible.
	lookEvery = int64(100 * time.Millisecond)
	// looks is the number of looks at once while nothing is known: one of the looks is not interrupted.
	looks = 16
)

// keep looks again at the clocks if it is time.
func (o *offset) keep(c clocks, now int64) {
	if now < o.next {
		return
	}
	first := o.next == 0
	if !first && o.look(c) {
		o.steps++
		first = true
	}
	if first {
		o.low, o.high = -1<<62, 1<<62
		for range looks {
			o.look(c)
		}
	}
	o.next = now + lookEvery
	o.worst = max(o.worst, (o.high-o.low)/2)
}

// clocks are the two clocks of an offset.
type clocks interface {
	Now() int64  // the engine's
	real() int64 // the real-time clock's, Unix time in nanoseconds
}

// look narrows the offset by one look. It tells whether the reading was impossible before, which means
// that the clock was stepped; then only this reading counts.
func (o *offset) look(c clocks) (stepped bool) {
	before := c.Now()
	real := c.real()
	after := c.Now()
	low, high := real-after, real-before
	if low > o.high || high < o.low {
		o.low, o.high = low, high
		return true
	}
	o.low, o.high = max(o.low, low), min(o.high, high)
	return false
}

func (o *offset) middle() int64 { return o.low + (o.high-o.low)/2 }

// StartStamping asks the kernel for stamps from now on, of sockets of a family. A socket of its own
// keeps them coming: the kernel stamps segments while any socket wants it. It begins and ceases by
// changing its own code, which is too slow to do for each connection.
func (s *stamps) StartStamping(family int) error {
	if family == unix.AF_UNIX {
		return errors.New("there are no arrival stamps on Unix sockets")
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		if err = RequestStamps(fd); err != nil {
			unix.Close(fd)
		}
	}
	if err != nil {
		return fmt.Errorf("the kernel gives no arrival stamps: %w", err)
	}
	s.holder, s.stamping = int32(fd), true
	return nil
}

// Close ends the stamps.
func (s *stamps) Close() {
	if s.stamping {
		unix.Close(int(s.holder))
	}
}

// RequestStamps makes reads from a socket tell when the segments arrived.
func RequestStamps(fd int) error {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING,
		unix.SOF_TIMESTAMPING_RX_SOFTWARE|unix.SOF_TIMESTAMPING_SOFTWARE)
}
