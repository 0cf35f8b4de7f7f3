package sockets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// receiveBuffer holds the largest piece of an answer: the kernel makes none of more
// than 32 KiB.
const receiveBuffer = 64 << 10

// A diag is a netlink socket through which the kernel describes the sockets of one
// network namespace (sock_diag(7)). It is used by one goroutine at a time.
type diag struct {
	pid      int // a process of the namespace; 0 for this process's
	timeout  time.Duration
	fd       int // -1: closed
	sequence uint32
	buf      []byte
	out      []byte
}

// newDiag opens a diag and finds out whether the kernel answers it.
func newDiag(pid int, timeout time.Duration) (*diag, error) {
	d := &diag{pid: pid, timeout: timeout, fd: -1, buf: make([]byte, receiveBuffer)}
	// No socket has no state: this is an empty answer, or the reason for none.
	err := d.dump(context.Background(), request{family: unix.AF_INET, states: 0}, nil)
	if err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *diag) open() (err error) {
	if d.pid == 0 {
		d.fd, err = openNetlink(d.timeout)
		return err
	}
	namespace, err := os.Open("/proc/" + strconv.Itoa(d.pid) + "/ns/net")
	if err != nil {
		return err
	}
	defer func() { _ = namespace.Close() }() // only entered
	// A socket belongs to the namespace of the thread that made it.
	done := make(chan error)
	go func() {
		done <- within(namespace, func() (err error) { d.fd, err = openNetlink(d.timeout); return err })
	}()
	if err := <-done; err != nil {
		return fmt.Errorf("network namespace of process %d: %w", d.pid, err)
	}
	return nil
}

// within calls f in a network namespace. It is the whole work of a goroutine: should
// the thread find no way back, it ends with that, and nobody else runs there. (The
// process's first thread would not end. So the way back is tried first.)
func within(namespace *os.File, f func() error) error {
	runtime.LockOSThread()
	back, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer func() { _ = back.Close() }() // only entered
	err = unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET)
	if err == nil {
		err = f()
		if err2 := unix.Setns(int(back.Fd()), unix.CLONE_NEWNET); err2 != nil {
			return errors.Join(err, err2) // locked
		}
	}
	runtime.UnlockOSThread()
	return err
}

func openNetlink(timeout time.Duration) (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return -1, fmt.Errorf("netlink socket: %w", err)
	}
	limit := unix.NsecToTimeval(timeout.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("netlink socket: %w", err)
	}
	return fd, nil
}

// dump calls visit for every socket asked for. After an error, also visit's, the rest of
// the answer is dropped and the next dump starts from scratch.
func (d *diag) dump(ctx context.Context, r request, visit func(*socket) error) (err error) {
	if d.fd < 0 {
		if err := d.open(); err != nil {
			return err
		}
	}
	defer func() {
		if err != nil {
			d.close() // the rest of the answer with it
		}
	}()
	d.sequence++
	d.out = r.append(d.out[:0], d.sequence)
	kernel := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
	if err := ignoringEINTR(func() error { return unix.Sendto(d.fd, d.out, 0, kernel) }); err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		var n int
		err := ignoringEINTR(func() (err error) { n, err = unix.Read(d.fd, d.buf); return err })
		switch {
		case errors.Is(err, unix.EAGAIN):
			return fmt.Errorf("netlink: no answer within %v", d.timeout)
		case err != nil:
			return fmt.Errorf("netlink: %w", err)
		case n == 0:
			return fmt.Errorf("netlink: %w", errShort)
		}
		done, err := parseMessages(d.buf[:n], d.sequence, visit)
		if err != nil {
			return fmt.Errorf("netlink: %w", err)
		}
		if done {
			return nil
		}
	}
}

func ignoringEINTR(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (d *diag) close() {
	if d.fd >= 0 {
		unix.Close(d.fd)
		d.fd = -1
	}
}
