package agent

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// BoundSilence is the Control of a listener or a dialer: it also ends connections whose data is not acknowledged in
// time (TCP_USER_TIMEOUT, tcp(7)).
func BoundSilence(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds())) //nolint:gosec // a descriptor is an int
	})
	return errors.Join(err, failed)
}
