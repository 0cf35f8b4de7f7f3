package target

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Ports hands out free loopback ports, each only once. The zero value is ready to use, by
// any number of goroutines. A process needs only one.
type Ports struct {
	mu    sync.Mutex   // guards given
	given map[int]bool // at most 65,535 entries
}

// lowestPort stays above the ports that well-known services use.
const lowestPort = 10000

// Free returns a port for "tcp" or "udp" that nothing listens on, neither on 127.0.0.1
// nor on ::1. The port is outside the ephemeral range, unless none is free there: within
// that range the kernel could give it to a client's socket before the target has bound
// it. The port is not reserved: another program may take it, and Start then reports that.
func (p *Ports) Free(network string) (int, error) {
	if network != "tcp" && network != "udp" {
		return 0, fmt.Errorf("free port: network %q; want tcp or udp", network)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.given == nil {
		p.given = make(map[int]bool)
	}
	low, high, err := ephemeralRange()
	if err != nil {
		low, high = 32768, 60999 // the kernel's default
	}
	candidates := append(span(lowestPort, low-1), span(max(high+1, lowestPort), 65535)...)
	// The order is random, so that two dynos on one machine rarely choose the same port.
	rand.Shuffle(len(candidates), func(i, j int) { candidates[i], candidates[j] = candidates[j], candidates[i] })
	for _, port := range append(candidates, span(low, high)...) {
		if !p.given[port] && bindable(network, port) {
			p.given[port] = true
			return port, nil
		}
	}
	return 0, errors.New("free port: none left")
}

// span returns the ports from low to high.
func span(low, high int) []int {
	s := make([]int, 0, max(0, high-low+1))
	for port := max(low, 1); port <= min(high, 65535); port++ {
		s = append(s, port)
	}
	return s
}

// bindable reports whether the port is free on both loopback addresses. On a machine
// without IPv6, binding ::1 fails for another reason; the port then counts as free.
//
// The socket is bound and never listens. A process that dyno starts at the same moment has a
// copy of it until it executes its program, for as long as 20 ms on a busy machine. Start
// would find that somebody answers on the port, and would blame the target.
func bindable(network string, port int) bool {
	kind := unix.SOCK_STREAM
	if network == "udp" {
		kind = unix.SOCK_DGRAM
	}
	for family, address := range map[int]unix.Sockaddr{
		unix.AF_INET:  &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}},
		unix.AF_INET6: &unix.SockaddrInet6{Port: port, Addr: [16]byte{15: 1}},
	} {
		err := tryBind(family, kind, address)
		if err != nil && (family != unix.AF_INET6 || !noAddress(err)) {
			return false
		}
	}
	return true
}

func tryBind(family, kind int, address unix.Sockaddr) error {
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if kind == unix.SOCK_STREAM {
		// As servers do, so that connections that ended a moment ago are no hindrance. A
		// socket that listens still is.
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
			return err
		}
	}
	return unix.Bind(fd, address)
}

// ephemeralRange returns the range from which the kernel gives ports to sockets that ask
// for none.
func ephemeralRange() (low, high int, err error) {
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0, 0, fmt.Errorf("ephemeral port range: %w", err)
	}
	if _, err := fmt.Sscan(string(b), &low, &high); err != nil {
		return 0, 0, fmt.Errorf("ephemeral port range: %w", err)
	}
	return low, high, nil
}
