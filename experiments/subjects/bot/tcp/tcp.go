// Package tcp sets the congestion control of sockets, of which report R2 makes a claim.
package tcp

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// available is the kernel's list of congestion controls.
const available = "/proc/sys/net/ipv4/tcp_available_congestion_control"

// maxName bounds a congestion control's name (TCP_CA_NAME_MAX).
const maxName = 15

// Check returns nil if sockets can have a congestion control, such as bbr or cubic; ""
// always can.
func Check(name string) error {
	if name == "" {
		return nil
	}
	if len(name) > maxName || strings.ContainsAny(name, " \x00/") {
		return fmt.Errorf("congestion control %q: must be a name of 1 to %d bytes", name, maxName)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := set(fd, name); err != nil {
		list, _ := os.ReadFile(available) // if it can be read, it helps
		return fmt.Errorf("%w; available are: %s", err, strings.TrimSpace(string(list)))
	}
	return nil
}

func set(fd int, name string) error {
	if err := unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name); err != nil {
		return fmt.Errorf("congestion control %q: %w", name, err)
	}
	return nil
}

// Control returns what sets a socket's congestion control before it listens or connects,
// for net.ListenConfig and net.Dialer. Sockets that are accepted have their listener's. For "", and
// networks other than TCP, it does nothing.
func Control(name string) func(network, address string, c syscall.RawConn) error {
	return func(network, _ string, c syscall.RawConn) error {
		if name == "" || !strings.HasPrefix(network, "tcp") {
			return nil
		}
		var fault error
		err := c.Control(func(fd uintptr) { fault = set(int(fd), name) }) //nolint:gosec // a descriptor
		return errors.Join(err, fault)
	}
}
