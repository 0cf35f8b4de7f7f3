package main

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// readySignal is queued for each readiness of a connection (F_SETSIG). The Go runtime uses 33 of the real-time signals.
const readySignal = 40

const (
	fSetSignal  = 10 // F_SETSIG
	fSetOwnerEx = 15 // F_SETOWN_EX
	ownerTID    = 0  // F_OWNER_TID
)

// signalInfo is siginfo_t of a signal about a descriptor.
type signalInfo struct {
	number, errno, code, _ int32
	band                   int64
	fd                     int32
	_                      [100]byte
}

// serveSignals echoes what a signal says is ready, until the last connection has ended. The signals are blocked and
// fetched one by one: no handler runs. The calling thread must end afterwards, with its mask of signals.
func serveSignals(fds []int) error {
	var set unix.Sigset_t
	for _, s := range []int{readySignal, int(unix.SIGIO)} {
		set.Val[0] |= 1 << (s - 1)
	}
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil); err != nil {
		return fmt.Errorf("block signals: %w", err)
	}
	owner := struct{ kind, id int32 }{ownerTID, int32(unix.Gettid())}
	open := map[int]bool{}
	for _, fd := range fds {
		if _, err := unix.FcntlInt(uintptr(fd), fSetSignal, readySignal); err != nil {
			return fmt.Errorf("F_SETSIG: %w", err)
		}
		if _, _, errno := unix.Syscall(unix.SYS_FCNTL, uintptr(fd), fSetOwnerEx, uintptr(unsafe.Pointer(&owner))); errno != 0 {
			return fmt.Errorf("F_SETOWN_EX: %w", errno)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_ASYNC|unix.O_NONBLOCK); err != nil {
			return fmt.Errorf("O_ASYNC: %w", err)
		}
		open[fd] = true
	}
	var buffer [messageBytes]byte
	drain := func(fd int) error {
		for open[fd] {
			switch end, err := echo(fd, buffer[:]); {
			case errors.Is(err, unix.EAGAIN):
				return nil
			case err != nil:
				return err
			case end:
				delete(open, fd)
			}
		}
		return nil
	}
	drainAll := func() (err error) {
		for _, fd := range fds {
			err = errors.Join(err, drain(fd))
		}
		return err
	}
	if err := drainAll(); err != nil { // what came before O_ASYNC has no signal
		return err
	}
	var info signalInfo
	for len(open) > 0 {
		n, _, errno := unix.Syscall6(unix.SYS_RT_SIGTIMEDWAIT, uintptr(unsafe.Pointer(&set)), uintptr(unsafe.Pointer(&info)), 0, 8, 0, 0)
		var err error
		switch {
		case errno == unix.EINTR:
		case errno != 0:
			return fmt.Errorf("rt_sigtimedwait: %w", errno)
		case n == uintptr(unix.SIGIO): // the queue of signals overflowed
			err = drainAll()
		default:
			err = drain(int(info.fd))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
