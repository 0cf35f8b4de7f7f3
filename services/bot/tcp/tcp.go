// Package tcp sets what report R2 says of TCP: the congestion control, which is a socket's;
// and reads what is none of a process's to set: whether connections begin slowly again
// after they were idle, which is of the network namespace.
package tcp

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Files of the kernel.
const (
	available = "/proc/sys/net/ipv4/tcp_available_congestion_control"
	slowStart = "/proc/sys/net/ipv4/tcp_slow_start_after_idle"
)

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

// SlowStartAfterIdle tells whether connections of this network namespace begin slowly
// again after they were idle (net.ipv4.tcp_slow_start_after_idle). A process does not set
// it for itself alone.
func SlowStartAfterIdle() (bool, error) {
	text, err := os.ReadFile(slowStart)
	if err != nil {
		return false, err
	}
	switch v := strings.TrimSpace(string(text)); v {
	case "0":
		return false, nil
	case "1":
		return true, nil
	default:
		return false, fmt.Errorf("%s: %q: want 0 or 1", slowStart, v)
	}
}
