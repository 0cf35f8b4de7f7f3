package main

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What of io_uring(7) is used here.
const (
	uringOffSQ       = 0
	uringOffSQEs     = 0x10000000
	uringSingleMmap  = 1 << 0 // a feature, since Linux 5.4
	uringEnterGetEvs = 1 << 0
	opSend           = 26
	opRecv           = 27
)

// uringParams is struct io_uring_params.
type uringParams struct {
	sqEntries, cqEntries, flags, sqThreadCPU, sqThreadIdle, features, wqFD uint32
	_                                                                      [3]uint32
	sq                                                                     struct {
		head, tail, ringMask, ringEntries, flags, dropped, array, _ uint32
		_                                                           uint64
	}
	cq struct {
		head, tail, ringMask, ringEntries, overflow, cqes, flags, _ uint32
		_                                                           uint64
	}
}

// A submission is struct io_uring_sqe.
type submission struct {
	op, flags uint8
	priority  uint16
	fd        int32
	offset    uint64
	address   uint64
	length    uint32
	opFlags   uint32
	userData  uint64
	_         [3]uint64
}

// A completion is struct io_uring_cqe.
type completion struct {
	userData uint64
	result   int32
	flags    uint32
}

// A uring is one io_uring for one thread. The kernel and the thread share its
// rings; each writes one end of a ring and reads the other, with the ordering of
// sync/atomic. All that the kernel reads or writes between calls lies in memory
// that was mapped, never on Go's heap.
type uring struct {
	fd             int
	ring, sqeBytes []byte
	buffers        []byte // of messages, one for each connection

	sqHead, sqTail, cqHead, cqTail *uint32 // in ring
	sqMask, cqMask                 uint32
	sqArray                        []uint32
	sqes                           []submission
	cqes                           []completion

	queued uint32 // submissions that the kernel does not know yet
}

// newUring makes a ring for n connections, with one operation under way on
// each. Many machines do not permit it; the error says so.
func newUring(connections int) (*uring, error) {
	var p uringParams
	fd, _, errno := syscall.Syscall(unix.SYS_IO_URING_SETUP, uintptr(connections), uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil, fmt.Errorf("io_uring_setup: %w%s", errno, refusal(errno))
	}
	u := &uring{fd: int(fd)}
	if p.features&uringSingleMmap == 0 {
		u.close()
		return nil, errors.New("io_uring: this kernel maps its rings apart; it takes Linux 5.4")
	}
	size := max(p.sq.array+p.sqEntries*4, p.cq.cqes+p.cqEntries*uint32(unsafe.Sizeof(completion{})))
	var err error
	if u.ring, err = unix.Mmap(u.fd, uringOffSQ, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err == nil {
		u.sqeBytes, err = unix.Mmap(u.fd, uringOffSQEs, int(p.sqEntries)*int(unsafe.Sizeof(submission{})), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	}
	if err == nil {
		u.buffers, err = unix.Mmap(-1, 0, connections*messageBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	}
	if err != nil {
		u.close()
		return nil, fmt.Errorf("io_uring: map the rings: %w", err)
	}
	// The kernel gives these offsets, and aligns what lies there.
	word := func(offset uint32) *uint32 { return (*uint32)(unsafe.Pointer(&u.ring[offset])) }
	u.sqHead, u.sqTail, u.sqMask = word(p.sq.head), word(p.sq.tail), *word(p.sq.ringMask)
	u.cqHead, u.cqTail, u.cqMask = word(p.cq.head), word(p.cq.tail), *word(p.cq.ringMask)
	u.sqArray = unsafe.Slice(word(p.sq.array), p.sqEntries)
	u.sqes = unsafe.Slice((*submission)(unsafe.Pointer(&u.sqeBytes[0])), p.sqEntries)
	u.cqes = unsafe.Slice((*completion)(unsafe.Pointer(&u.ring[p.cq.cqes])), p.cqEntries)
	return u, nil
}

// refusal explains why io_uring_setup failed.
func refusal(errno syscall.Errno) string {
	switch errno {
	case unix.EPERM:
		return ": io_uring is not permitted here (kernel.io_uring_disabled, or a container's seccomp filter)"
	case unix.ENOSYS:
		return ": this kernel has no io_uring"
	case unix.ENOMEM:
		return ": too little memory may be locked (ulimit -l)"
	}
	return ""
}

// close gives all back. The connections must be at their end, so that nothing is
// left to be written to the buffers.
func (u *uring) close() {
	_ = unix.Close(u.fd)
	for _, mapped := range [][]byte{u.ring, u.sqeBytes, u.buffers} {
		if mapped != nil {
			_ = unix.Munmap(mapped)
		}
	}
}

// submit queues an operation on the first n bytes of a connection's buffer. There
// is room as long as one is under way on each.
func (u *uring) submit(op uint8, fd, connection, n int, userData uint64) error {
	tail := atomic.LoadUint32(u.sqTail)
	if tail-atomic.LoadUint32(u.sqHead) > u.sqMask {
		return errors.New("io_uring: the queue is full")
	}
	at := tail & u.sqMask
	u.sqes[at] = submission{
		op: op, fd: int32(fd), opFlags: unix.MSG_NOSIGNAL, userData: userData,
		address: uint64(uintptr(unsafe.Pointer(&u.buffers[connection*messageBytes]))), length: uint32(n),
	}
	u.sqArray[at] = at
	atomic.StoreUint32(u.sqTail, tail+1)
	u.queued++
	return nil
}

// enter tells the kernel of what was queued and waits for a completion.
func (u *uring) enter() error {
	n, _, errno := syscall.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(u.fd), uintptr(u.queued), 1, uringEnterGetEvs, 0, 0)
	switch errno {
	case 0:
		u.queued -= uint32(n)
		return nil
	case unix.EINTR:
		return nil // nothing was taken: had something been, the call would say how much
	}
	return fmt.Errorf("io_uring_enter: %w", errno)
}

// completed calls f with each operation that is done.
func (u *uring) completed(f func(completion) error) error {
	head := atomic.LoadUint32(u.cqHead)
	for tail := atomic.LoadUint32(u.cqTail); head != tail; head++ {
		c := u.cqes[head&u.cqMask]
		atomic.StoreUint32(u.cqHead, head+1)
		if err := f(c); err != nil {
			return err
		}
	}
	return nil
}

// serveAsynchronous has the kernel receive and send, one operation under way for
// each connection, until the last has ended.
func serveAsynchronous(u *uring, fds []int) error {
	const sending = 1 << 32 // in the user data, next to the connection's place
	for i, fd := range fds {
		if err := u.submit(opRecv, fd, i, messageBytes, uint64(i)); err != nil {
			return err
		}
	}
	for open := len(fds); open > 0; {
		if err := u.enter(); err != nil {
			return err
		}
		err := u.completed(func(c completion) error {
			i := int(c.userData &^ sending)
			sent := c.userData&sending != 0
			switch {
			case c.result == 0 || sent && c.result == -int32(unix.EPIPE):
				open--
				return nil
			case c.result < 0:
				return fmt.Errorf("io_uring: %w", syscall.Errno(-c.result))
			case sent:
				return u.submit(opRecv, fds[i], i, messageBytes, uint64(i))
			}
			return u.submit(opSend, fds[i], i, int(c.result), uint64(i)|sending)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
