package target

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
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
func bindable(network string, port int) bool {
	for _, host := range []string{"127.0.0.1", "::1"} {
		addr := net.JoinHostPort(host, strconv.Itoa(port))
		var c interface{ Close() error }
		var err error
		if network == "tcp" {
			c, err = net.Listen("tcp", addr)
		} else {
			c, err = net.ListenPacket("udp", addr)
		}
		if err == nil {
			err = c.Close()
		} else if host == "::1" && noAddress(err) {
			err = nil
		}
		if err != nil {
			return false
		}
	}
	return true
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
