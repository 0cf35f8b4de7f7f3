package socket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// An Endpoint is a resolved address. It belongs to one thread: connecting writes
// to its encoded form.
type Endpoint struct {
	Name   string // host:port, with the number of the host, or the path
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

// Endpoints are what an address stands for.
type Endpoints struct {
	Used   []Endpoint // those that connections go to, each in turn; not empty
	Others []Other
}

// An Other is an address that no connection goes to.
type Other struct {
	Name string
	Why  error // it accepted no connection; nil if it was not tried
}

// acceptTimeout is how long an address of several has to accept a connection: a busy one may miss the first packet or two.
const acceptTimeout = 3 * time.Second

// mostTried bounds the addresses of one name that are tried at once.
const mostTried = 64

// Resolve looks the address up. It uses all addresses that accept a connection. So a name like
// localhost means the families that the target listens on; or, with one, the first of these. If none
// does, it uses the first there is. The same addresses are always in the same order.
func Resolve(ctx context.Context, network, address string, one bool) (Endpoints, error) {
	if network == "unix" {
		return Endpoints{Used: []Endpoint{{address, syscall.AF_UNIX, &syscall.SockaddrUnix{Name: address}}}}, nil
	}
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return Endpoints{}, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, network, service)
	if err != nil {
		return Endpoints{}, err
	}
	lookup := map[string]string{"tcp": "ip", "tcp4": "ip4", "tcp6": "ip6"}[network]
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, lookup, host)
	if err != nil {
		return Endpoints{}, err
	}
	if len(addrs) == 0 {
		return Endpoints{}, fmt.Errorf("%s has no address for %s", host, network)
	}
	return choose(ctx, addrs, port, one)
}

// choose says which of some addresses are used.
func choose(ctx context.Context, addrs []netip.Addr, port int, one bool) (to Endpoints, err error) {
	preferred := make([]netip.Addr, 0, len(addrs)) // in the order of the system
	for _, a := range addrs {
		if a = a.Unmap(); !slices.Contains(preferred, a) {
			preferred = append(preferred, a)
		}
	}
	refused := map[netip.Addr]error{}
	if len(preferred) > 1 {
		refused = try(ctx, preferred, port)
	}
	isOpen := func(a netip.Addr) bool { return refused[a] == nil }
	first := preferred[max(0, slices.IndexFunc(preferred, isOpen))]
	sorted := slices.SortedFunc(slices.Values(preferred), netip.Addr.Compare)
	for _, a := range sorted {
		if a == first || !one && isOpen(a) {
			e, err := endpointOf(a, port)
			if err != nil {
				return Endpoints{}, err
			}
			to.Used = append(to.Used, e)
			continue
		}
		to.Others = append(to.Others, Other{nameOf(a, port), refused[a]})
	}
	return to, nil
}

// try returns why addresses accept no connection, of those that do not.
func try(ctx context.Context, addrs []netip.Addr, port int) map[netip.Addr]error {
	refused := map[netip.Addr]error{}
	var trying sync.WaitGroup
	var mu sync.Mutex // guards refused
	slots := make(chan struct{}, mostTried)
	for _, a := range addrs {
		slots <- struct{}{}
		trying.Go(func() {
			defer func() { <-slots }()
			d := net.Dialer{Timeout: acceptTimeout}
			c, err := d.DialContext(ctx, "tcp", nameOf(a, port))
			if err == nil {
				_ = c.Close() // only asked whether it is there
				return
			}
			mu.Lock()
			defer mu.Unlock()
			refused[a] = cause(err)
		})
	}
	trying.Wait()
	return refused
}

// cause is the system's reason for a connection's failure, without the addresses.
func cause(err error) error {
	if failed, ok := errors.AsType[*net.OpError](err); ok && failed.Timeout() {
		return syscall.ETIMEDOUT
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return err
}

func nameOf(a netip.Addr, port int) string { return net.JoinHostPort(a.String(), strconv.Itoa(port)) }

func endpointOf(a netip.Addr, port int) (Endpoint, error) {
	if a.Is4() {
		return Endpoint{nameOf(a, port), syscall.AF_INET, &syscall.SockaddrInet4{Port: port, Addr: a.As4()}}, nil
	}
	sa := &syscall.SockaddrInet6{Port: port, Addr: a.As16()}
	if zone := a.Zone(); zone != "" {
		ifi, err := net.InterfaceByName(zone)
		if err != nil {
			return Endpoint{}, err
		}
		sa.ZoneId = uint32(ifi.Index) //nolint:gosec // an interface's index is positive
	}
	return Endpoint{nameOf(a, port), syscall.AF_INET6, sa}, nil
}
