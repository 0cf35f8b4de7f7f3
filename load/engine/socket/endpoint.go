package socket

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"
)

// An Endpoint is a resolved address. It belongs to one thread: connecting writes
// to its encoded form.
type Endpoint struct {
	family int
	addr   syscall.Sockaddr
}

// clone returns an endpoint for another thread.
func (e Endpoint) clone() Endpoint {
	switch a := e.addr.(type) {
	case *syscall.SockaddrInet4:
		c := *a
		e.addr = &c
	case *syscall.SockaddrInet6:
		c := *a
		e.addr = &c
	case *syscall.SockaddrUnix:
		c := *a
		e.addr = &c
	}
	return e
}

// Resolve looks the address up. Of several, it takes the first that accepts a
// connection, so that a name like localhost means the family the target listens on.
func Resolve(ctx context.Context, network, address string) (Endpoint, error) {
	if network == "unix" {
		return Endpoint{syscall.AF_UNIX, &syscall.SockaddrUnix{Name: address}}, nil
	}
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return Endpoint{}, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, network, service)
	if err != nil {
		return Endpoint{}, err
	}
	lookup := map[string]string{"tcp": "ip", "tcp4": "ip4", "tcp6": "ip6"}[network]
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, lookup, host)
	if err != nil {
		return Endpoint{}, err
	}
	if len(addrs) == 0 {
		return Endpoint{}, fmt.Errorf("%s has no address for %s", host, network)
	}
	if len(addrs) > 1 {
		for _, a := range addrs {
			d := net.Dialer{Timeout: time.Second}
			c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(a.String(), strconv.Itoa(port)))
			if err == nil {
				_ = c.Close() // only asked whether it is there
				return endpointOf(a, port)
			}
		}
	}
	return endpointOf(addrs[0], port)
}

func endpointOf(a netip.Addr, port int) (Endpoint, error) {
	a = a.Unmap()
	if a.Is4() {
		return Endpoint{syscall.AF_INET, &syscall.SockaddrInet4{Port: port, Addr: a.As4()}}, nil
	}
	sa := &syscall.SockaddrInet6{Port: port, Addr: a.As16()}
	if zone := a.Zone(); zone != "" {
		ifi, err := net.InterfaceByName(zone)
		if err != nil {
			return Endpoint{}, err
		}
		sa.ZoneId = uint32(ifi.Index) //nolint:gosec // an interface's index is positive
	}
	return Endpoint{syscall.AF_INET6, sa}, nil
}
