package target

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// Ports hands out each free loopback port only once. It never hands out a port of another process that
// uses Ports in the same network namespace. The zero value is ready to use, by any number of
// goroutines. A process needs only one.
type Ports struct {
	mu    sync.Mutex   // guards the rest
	given map[int]bool // at most 65,535 entries
	mine  []int        // blocks that no other process hands out
	held  []*os.File   // sockets that say so, as long as the process lives
}

const (
	lowestPort = 10000 // above the ports that well-known services use
	blockPorts = 64    // in a block; a block costs its owner a descriptor
)

// Free returns a port for "tcp" or "udp" that nothing listens on, neither on 127.0.0.1
// nor on ::1. The port is outside the ephemeral range, unless none is free there: within
// that range the kernel could give it to a client's socket before the target has bound
// it. A program that does not use Ports may take it, and Start then reports that.
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
	for _, block := range p.mine {
		if port, ok := p.first(network, span(block*blockPorts, (block+1)*blockPorts-1)); ok {
			return port, nil
		}
	}
	var blocks []int
	for block := (lowestPort + blockPorts - 1) / blockPorts; (block+1)*blockPorts <= 65536; block++ {
		if (block+1)*blockPorts <= low || block*blockPorts > high {
			blocks = append(blocks, block)
		}
	}
	rand.Shuffle(len(blocks), func(i, j int) { blocks[i], blocks[j] = blocks[j], blocks[i] })
	for _, block := range blocks {
		if slices.Contains(p.mine, block) || !p.reserve(block) {
			continue
		}
		if port, ok := p.first(network, span(block*blockPorts, (block+1)*blockPorts-1)); ok {
			return port, nil
		}
	}
	if port, ok := p.first(network, span(max(low, lowestPort), high)); ok {
		return port, nil
	}
	return 0, errors.New("free port: none left")
}

// first returns one of some ports that is free, and that was not given before.
func (p *Ports) first(network string, ports []int) (port int, ok bool) {
	rand.Shuffle(len(ports), func(i, j int) { ports[i], ports[j] = ports[j], ports[i] })
	i := slices.IndexFunc(ports, func(port int) bool { return !p.given[port] && bindable(network, port) })
	if i < 0 {
		return 0, false
	}
	p.given[ports[i]] = true
	return ports[i], true
}

// reserve takes a block, unless another process has it. The reservation is a socket with an
// abstract name (unix(7)): names are the network namespace's own, as ports are, and end with
// the process.
func (p *Ports) reserve(block int) bool {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("@dyno/ports/%d", block*blockPorts)}); err != nil {
		_ = unix.Close(fd)
		return false
	}
	p.mine = append(p.mine, block)
	p.held = append(p.held, os.NewFile(uintptr(fd), "reservation of ports"))
	return true
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
// The socket is bound and never listens. A process that dyno starts at the same moment has a copy of it
// until it executes its program. That takes up to 20 ms on a busy machine. Start would find that
// another process answers on the port, and would blame the target.
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

// noAddress reports whether an error means that an address does not exist on this
// machine.
func noAddress(err error) bool {
	return errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EAFNOSUPPORT)
}
