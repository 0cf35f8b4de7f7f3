// Package sockets opens the sockets from which the event-driven services accept and to
// which they connect. These sockets are not in Go's own poller; they are for the poller
// of package loop.
package sockets

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"dyno/services/internal/serve"
)

// Accept takes one connection from a listening socket. TCP connections get TCP_NODELAY: a
// relay or an echo must not hold back the second half of a message. It skips connections
// that have failed (serve.OfConnection). EAGAIN means that there is none. After an error
// that is serve.Passing the caller pauses.
func Accept(listener int, tcp bool) (int, error) {
	for {
		fd, _, err := unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch err {
		case nil:
			if tcp {
				_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
			}
			return fd, nil
		default:
			if !serve.OfConnection(err) {
				return -1, err
			}
		}
	}
}

// A Listener is a listening socket for a loop.Poller. It is not in Go's own poller, so an
// arriving connection wakes one loop and no other thread.
type Listener struct {
	FD   int
	Addr net.Addr
	path string // of a Unix socket, to be removed by Close
}

// Listen opens a listening socket. With reusePort several sockets share one TCP address
// and the kernel spreads connections over them (SO_REUSEPORT); for a Unix socket
// reusePort has no effect.
func Listen(text string, reusePort bool) (*Listener, error) {
	control := func(network, _ string, c syscall.RawConn) error {
		var err error
		if reusePort && network != "unix" {
			if cerr := c.Control(func(fd uintptr) {
				err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
			}); cerr != nil {
				return cerr
			}
		}
		return err
	}
	l, err := serve.Listen(context.Background(), text, control)
	if err != nil {
		return nil, err
	}
	// The descriptor is duplicated and Go's own is closed, which removes the socket from
	// Go's poller. The socket stays open.
	var file *os.File
	s := &Listener{FD: -1, Addr: l.Addr()}
	switch l := l.(type) {
	case *net.TCPListener:
		file, err = l.File()
	case *net.UnixListener:
		l.SetUnlinkOnClose(false)
		s.path = l.Addr().String()
		file, err = l.File()
	}
	if err == nil {
		s.FD, err = unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		_ = file.Close()
	}
	_ = l.Close()
	if err == nil {
		err = unix.SetNonblock(s.FD, true)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("listen on %s: %w", text, err)
	}
	return s, nil
}

// TCP reports whether the socket accepts TCP connections.
func (s *Listener) TCP() bool { return s.Addr.Network() != "unix" }

// Again returns another descriptor of the same socket. Closing it leaves the socket and the file of a
// Unix socket to s.
func (s *Listener) Again() (*Listener, error) {
	fd, err := unix.FcntlInt(uintptr(s.FD), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("listen on %v: %w", s.Addr, err)
	}
	return &Listener{FD: fd, Addr: s.Addr}, nil
}

// Close stops listening and resets connections that were not yet accepted. Closing it
// again is harmless.
func (s *Listener) Close() {
	if s.FD >= 0 {
		_ = unix.Close(s.FD)
		s.FD = -1
	}
	if s.path != "" {
		_ = os.Remove(s.path)
		s.path = ""
	}
}

// A Remote is an address to connect to, resolved once.
type Remote struct {
	Addr   net.Addr
	domain int
	addr   func() unix.Sockaddr // a new one each time, because connecting writes into it
}

// Resolve looks an address up. Of several addresses of a name it takes one, an IPv4
// address if there is any.
func Resolve(text string) (Remote, error) {
	a, err := serve.ParseAddress(text)
	if err != nil {
		return Remote{}, err
	}
	if a.Network == "unix" {
		return Remote{
			Addr:   &net.UnixAddr{Name: a.Address, Net: "unix"},
			domain: unix.AF_UNIX,
			addr:   func() unix.Sockaddr { return &unix.SockaddrUnix{Name: a.Address} },
		}, nil
	}
	t, err := net.ResolveTCPAddr("tcp", a.Address)
	if err != nil {
		return Remote{}, fmt.Errorf("resolve %s: %w", text, err)
	}
	if ip := t.IP.To4(); ip != nil {
		return Remote{Addr: t, domain: unix.AF_INET, addr: func() unix.Sockaddr {
			return &unix.SockaddrInet4{Port: t.Port, Addr: [4]byte(ip)}
		}}, nil
	}
	sa := unix.SockaddrInet6{Port: t.Port}
	copy(sa.Addr[:], t.IP.To16()) // a nil IP is the unspecified address
	if t.Zone != "" {
		iface, err := net.InterfaceByName(t.Zone)
		if err != nil {
			return Remote{}, fmt.Errorf("resolve %s: %w", text, err)
		}
		sa.ZoneId = uint32(iface.Index)
	}
	return Remote{Addr: t, domain: unix.AF_INET6, addr: func() unix.Sockaddr { c := sa; return &c }}, nil
}

// TCP reports whether the remote is reached by TCP.
func (r Remote) TCP() bool { return r.domain != unix.AF_UNIX }

// Socket makes a socket for Connect.
func (r Remote) Socket() (int, error) {
	fd, err := unix.Socket(r.domain, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	if r.TCP() {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	return fd, nil
}

// Connect starts connecting. EINPROGRESS means that the socket becomes writable when it
// is connected. EAGAIN comes from Unix sockets only: the listener's queue is full, and
// the call must be repeated.
func (r Remote) Connect(fd int) unix.Errno {
	err := unix.Connect(fd, r.addr())
	if err == nil {
		return 0
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return unix.EINVAL
}
