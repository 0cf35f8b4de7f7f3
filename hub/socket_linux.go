package hub

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// setSocket sets the configured options of a connection and reads them back. A connection
// that is not TCP has none.
func (c Config) setSocket(conn net.Conn) ([]socketOption, error) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok || !c.socketOptions() {
		return nil, nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("socket options: %w", err)
	}
	var options []socketOption
	var errs []error
	err = raw.Control(func(fd uintptr) {
		set := func(name string, level, option, value int) {
			if err := unix.SetsockoptInt(int(fd), level, option, value); err != nil {
				errs = append(errs, fmt.Errorf("set %s to %d: %w", name, value, err))
				return
			}
			given, err := unix.GetsockoptInt(int(fd), level, option)
			if err != nil {
				errs = append(errs, fmt.Errorf("read %s: %w", name, err))
				return
			}
			options = append(options, socketOption{name, value, given})
		}
		if c.NoDelay != nil {
			value := 0
			if *c.NoDelay {
				value = 1
			}
			set("TCP_NODELAY", unix.IPPROTO_TCP, unix.TCP_NODELAY, value)
		}
		if c.SendBuffer > 0 {
			set("SO_SNDBUF", unix.SOL_SOCKET, unix.SO_SNDBUF, c.SendBuffer)
		}
		if c.ReceiveBuffer > 0 {
			set("SO_RCVBUF", unix.SOL_SOCKET, unix.SO_RCVBUF, c.ReceiveBuffer)
		}
		if k := c.KeepAlive; k != (KeepAlive{}) {
			set("SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
			set("TCP_KEEPIDLE", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, int(k.Idle.Seconds()))
			set("TCP_KEEPINTVL", unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, int(k.Interval.Seconds()))
			set("TCP_KEEPCNT", unix.IPPROTO_TCP, unix.TCP_KEEPCNT, k.Count)
		}
	})
	if err = errors.Join(append(errs, err)...); err != nil {
		return options, fmt.Errorf("socket options: %w", err)
	}
	return options, nil
}

// duplicate returns another descriptor of a socket. It does not block: Go's sockets are
// non-blocking.
func duplicate(c syscall.Conn) (fd int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	cerr := raw.Control(func(own uintptr) {
		fd, err = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0)
	})
	if err = errors.Join(err, cerr); err != nil {
		return -1, fmt.Errorf("duplicate the socket: %w", err)
	}
	return fd, nil
}
