// Package sockets opens the sockets from which the event-driven services accept and to
// which they connect. These sockets are not in Go's own poller; they are for the poller
// of package loop.
package sockets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
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

// A Remote is an address to connect to.
type Remote struct {
	Addr   net.Addr
	domain int
	addr   func() unix.Sockaddr // a new one each time, because connecting writes into it
}

// IsName reports whether Lookup may find other addresses at another time.
func IsName(a serve.Address) bool {
	host, _, err := net.SplitHostPort(a.Address)
	if a.Network == "unix" || err != nil || host == "" {
		return false
	}
	_, err = netip.ParseAddr(host)
	return err != nil
}

// hostsPath is the file of names that needs no other machine (hosts(5)).
const hostsPath = "/etc/hosts"

// Lookup returns all addresses of a, those of IPv4 first. A name is looked up.
func Lookup(ctx context.Context, a serve.Address) ([]Remote, error) {
	if a.Network == "unix" {
		return []Remote{{
			Addr:   &net.UnixAddr{Name: a.Address, Net: "unix"},
			domain: unix.AF_UNIX,
			addr:   func() unix.Sockaddr { return &unix.SockaddrUnix{Name: a.Address} },
		}}, nil
	}
	list, err := lookup(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", a, err)
	}
	return list, nil
}

func lookup(ctx context.Context, a serve.Address) ([]Remote, error) {
	host, port, err := net.SplitHostPort(a.Address)
	if err != nil {
		return nil, err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, err
	}
	var found []netip.Addr
	switch ip, err := netip.ParseAddr(host); {
	case err == nil:
		found = []netip.Addr{ip}
	case host == "": // this machine
		found = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	default:
		if found = inHosts(hostsPath, host); len(found) > 0 {
			break
		}
		if found, err = net.DefaultResolver.LookupNetIP(ctx, "ip", host); err != nil {
			return nil, err
		}
	}
	for i := range found {
		found[i] = found[i].Unmap()
	}
	slices.SortStableFunc(found, func(a, b netip.Addr) int { return cmp.Compare(a.BitLen(), b.BitLen()) })
	var list []Remote
	for i, ip := range found {
		if slices.Contains(found[:i], ip) {
			continue
		}
		r, err := remote(netip.AddrPortFrom(ip, uint16(number)))
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	if len(list) == 0 {
		return nil, errors.New("no address")
	}
	return list, nil
}

// inHosts returns the addresses that a file of hosts(5) has for a name. The standard library keeps what it has read
// of that file for five seconds. A failed connection should not have to wait for that.
func inHosts(path, name string) (found []netip.Addr) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil // without the file, names have other sources
	}
	name = strings.TrimSuffix(name, ".")
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		ip, err := netip.ParseAddr(fields[0])
		if err == nil && slices.ContainsFunc(fields[1:], func(f string) bool { return strings.EqualFold(f, name) }) {
			found = append(found, ip)
		}
	}
	return found
}

// remote returns the Remote of an address.
func remote(a netip.AddrPort) (Remote, error) {
	ip, port := a.Addr(), int(a.Port())
	addr := net.TCPAddrFromAddrPort(a)
	if ip.Is4() {
		return Remote{Addr: addr, domain: unix.AF_INET, addr: func() unix.Sockaddr {
			return &unix.SockaddrInet4{Port: port, Addr: ip.As4()}
		}}, nil
	}
	sa := unix.SockaddrInet6{Port: port, Addr: ip.As16()}
	if zone := ip.Zone(); zone != "" {
		iface, err := net.InterfaceByName(zone)
		if err != nil {
			return Remote{}, err
		}
		sa.ZoneId = uint32(iface.Index)
	}
	return Remote{Addr: addr, domain: unix.AF_INET6, addr: func() unix.Sockaddr { c := sa; return &c }}, nil
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
