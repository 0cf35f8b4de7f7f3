package engine

import (
	"encoding/binary"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The arrival clock. The kernel stamps a segment when the network's driver hands it
// over (SO_TIMESTAMPING, software), long before this process may get round to reading
// it. What ends a response is that stamp: a generator that wakes up late lengthens no
// service time.
//
// The stamp belongs to the read, not to a protocol: recvmsg(2) returns it together with the
// bytes. It is that of the last segment of which bytes were copied. The kernel joins small
// segments that wait in a socket, and what it has joined bears the latest stamp. So a
// response that is the last thing in its read ends by its own stamp, and what was followed
// by more in the same read ends by a later one, but never later than the read.

// A Clock says what ends a response: its last byte's arrival at this machine, or its
// being read.
type Clock uint8

// The clocks.
const (
	// ClockAuto is by arrival in an open loop and with subscribers. In a closed loop
	// each worker reads for the first three quarters of the warm-up, or of the window for
	// 100 ms if there is no warm-up. If it had no use for a quarter of its CPU's time, it
	// goes on by arrival, and else by reading, which costs less.
	ClockAuto Clock = iota
	ClockArrival
	ClockRead
)

var clockNames = [...]string{"auto", "arrival", "read"}

// String returns the clock's name as it stands in plans.
func (c Clock) String() string {
	if int(c) < len(clockNames) {
		return clockNames[c]
	}
	return "unknown"
}

// idleEnough is the share of its CPU's time that a worker of a closed loop may use in
// the warm-up and still take stamps: above it, what they cost is in the throughput.
const idleEnough = 0.75

// trialRun is how long a worker reads before it decides, without a warm-up.
const trialRun = int64(100 * time.Millisecond)

// Ends says how the good responses, and the events, of the window ended.
type Ends struct {
	ByArrival uint64 // when the kernel stamped their last segment
	ByRead    uint64 // when they were read: no stamp was asked for, or none came

	// Those of ByRead whose stamp was refused. Late ones were after the read, early ones
	// before the request's write; both are the real-time clock's doing. Stale ones are of
	// segments that the kernel held back for one that was lost or overtaken: the worker
	// has found the socket empty since, and segments had come out of order.
	Late, Early, Stale uint64

	// Shared are those of ByArrival that were followed by more in the same read. Their
	// stamp may be too late, by no more than the tag SharedStamp holds.
	Shared uint64

	Steps       uint64        // of the real-time clock, as far as workers saw them
	Uncertainty time.Duration // of the conversion of stamps to the engine's clock, at most
	Fault       string        // why no stamps could be asked for, where they should have been
}

// endings is how what this worker saw of the window ended.
func (w *worker) endings() Ends {
	e := w.ends
	e.Steps, e.Uncertainty = w.offset.steps, time.Duration(w.offset.worst)
	if w.stamping && e.ByArrival == 0 && e.ByRead > 0 && e.Late+e.Early+e.Stale == 0 {
		e.Fault = "the kernel stamped nothing that arrived"
	}
	return e
}

func (a *Ends) add(o Ends) {
	a.ByArrival += o.ByArrival
	a.ByRead += o.ByRead
	a.Late += o.Late
	a.Early += o.Early
	a.Stale += o.Stale
	a.Shared += o.Shared
	a.Steps += o.Steps
	a.Uncertainty = max(a.Uncertainty, o.Uncertainty)
	if a.Fault == "" {
		a.Fault = o.Fault
	}
}

// count enters one that ended by a reading.
func (a *Ends) count(r reading) {
	switch r.stamp {
	case stamped:
		a.ByArrival++
		return
	case late:
		a.Late++
	case early:
		a.Early++
	case stale:
		a.Stale++
	}
	a.ByRead++
}

// A reading says when bytes were read, on the engine's clock, and when they had
// arrived. Without a stamp that can be believed, both are the same.
type reading struct {
	read, arrived int64
	stamp         stamp
	more          bool // there was more in it that cannot be taken in yet: the beginning of a record
}

// A stamp says what became of a reading's time stamp.
type stamp uint8

const (
	unstamped stamp = iota
	stamped
	late
	early
	stale
)

// readAt is the reading of what bears no stamp.
func readAt(now int64) reading { return reading{read: now, arrived: now} }

// refused is the reading without its stamp, for a reason.
func (r reading) refused(why stamp) reading {
	return reading{read: r.read, arrived: r.read, stamp: why}
}

// after is the reading if it did not arrive before a time, and else refused as early.
func (r reading) after(t int64) reading {
	if r.stamp == stamped && r.arrived < t {
		return r.refused(early)
	}
	return r
}

// held is how long the kernel may take from the stamp until the bytes can be read, without
// a second look. A segment that follows a lost one waits for that to be sent again, and
// its stamp says nothing of when the response was whole. One that waited because the
// kernel was busy has arrived all the same.
const held = int64(50 * time.Microsecond)

// take reads what has arrived on a socket. The socket was known to be empty at the time
// given, which is 0 if that is not known.
func (w *worker) take(fd int32, p []byte, stamps bool, empty int64) (n int, r reading, errno unix.Errno) {
	var real int64
	if stamps {
		n, real, errno = w.receiver.read(fd, p)
	} else {
		n, errno = rawRead(fd, p)
	}
	r = readAt(w.now())
	if errno == 0 && r.read >= w.windowStart && r.read < w.windowEnd {
		w.readBytes += uint64(n) //nolint:gosec // not negative
	}
	if real == 0 {
		return n, r, errno
	}
	w.offset.keep(w, r.read)
	r.arrived, r.stamp = real-w.offset.middle(), stamped
	switch {
	case r.arrived > r.read:
		r = r.refused(late)
	case r.arrived < empty-held && w.receiver.disordered(fd):
		r = r.refused(stale)
	}
	return n, r, errno
}

// A receiver reads bytes and their time stamp from sockets. It is used by one thread,
// and holds what the kernel writes to, so that nothing is allocated.
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
	// stampSize is that of struct scm_timestamping: three times seconds and nanoseconds,
	// of which the first is the software's.
	stampSize = 3 * 16
)

// read returns the number of bytes, and the time stamp in nanoseconds of the real-time
// clock; 0 without one.
func (r *receiver) read(fd int32, p []byte) (n int, real int64, errno unix.Errno) {
	r.vector.Base = unsafe.SliceData(p)
	r.vector.Len = uint64(len(p))
	r.header.Iov, r.header.Iovlen = &r.vector, 1
	r.header.Control, r.header.Controllen = &r.control[0], controlSize
	got, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&r.header)), 0)
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
	_, _, errno := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.IPPROTO_TCP, unix.TCP_INFO,
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

// An offset is how far the real-time clock is ahead of the engine's: somewhere from low
// to high. Linux slews both clocks alike (adjtimex(2)) and steps only the former, so that
// the offset stays what it is until a step. Each look at both clocks, the engine's
// before and after the other, bounds it; what no look excludes is what is left.
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
	// looks is how often to look at once, when nothing is known yet or any more: one of
	// the looks is not interrupted.
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

// clocks are those that an offset is between.
type clocks interface {
	now() int64  // the engine's
	real() int64 // the real-time clock's, Unix time in nanoseconds
}

// look narrows the offset by one look. It tells whether what it saw was impossible
// before, which means that the clock was stepped; what it saw is what is known then.
func (o *offset) look(c clocks) (stepped bool) {
	before := c.now()
	real := c.real()
	after := c.now()
	low, high := real-after, real-before
	if low > o.high || high < o.low {
		o.low, o.high = low, high
		return true
	}
	o.low, o.high = max(o.low, low), min(o.high, high)
	return false
}

func (o *offset) middle() int64 { return o.low + (o.high-o.low)/2 }

func (w *worker) real() int64 { return time.Now().UnixNano() }

// stampArrivals asks the kernel for stamps from now on. A socket of its own keeps them
// coming: the kernel stamps segments as long as anybody wants it, and begins and ceases
// with a change of its own code, which is nothing to do for each connection.
func (w *worker) stampArrivals() {
	if w.endpoint.family == unix.AF_UNIX {
		w.ends.Fault = "Unix sockets have no arrival stamps"
		return
	}
	fd, err := unix.Socket(w.endpoint.family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		if err = askForStamps(fd); err != nil {
			unix.Close(fd)
		}
	}
	if err != nil {
		w.ends.Fault = fmt.Sprintf("the kernel gives no arrival stamps: %v", err)
		return
	}
	w.holder = int32(fd)
	w.stamping = true
}

// askForStamps makes reads from a socket tell when the segments arrived.
func askForStamps(fd int) error {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING,
		unix.SOF_TIMESTAMPING_RX_SOFTWARE|unix.SOF_TIMESTAMPING_SOFTWARE)
}

// chooseClock decides what the configuration leaves open, in a closed loop not yet.
func (w *worker) chooseClock() {
	c := &w.engine.config
	switch {
	case c.Clock == ClockArrival, c.Clock == ClockAuto && (c.Schedule != nil || c.Subscribers != nil):
		w.stampArrivals()
	case c.Clock == ClockAuto:
		w.undecided = true
	}
}

// decideClock decides by how the warm-up went.
func (w *worker) decideClock(now int64) {
	w.undecided = false
	if float64(threadCPU().Total()-w.cpuAtStart) <= idleEnough*float64(now-w.origin) {
		w.stampArrivals()
	}
}
