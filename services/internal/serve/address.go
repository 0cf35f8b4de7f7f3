package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"dyno/internal/fields"
)

// An Address is where a service listens or connects to: a TCP address
// ("127.0.0.1:8080", "[::1]:8080", "localhost:0") or a Unix socket
// ("unix:/run/relay.sock").
type Address struct {
	Network string // "tcp" or "unix"
	Address string // host:port, or the socket's path
}

// maxUnixPath is the size of sockaddr_un.sun_path without its closing zero.
const maxUnixPath = 107

// ParseAddress reads the two forms of an Address. It resolves no names.
func ParseAddress(text string) (Address, error) {
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		if path == "" || len(path) > maxUnixPath {
			return Address{}, fmt.Errorf("%q; a unix socket's path has 1 to %d bytes", text, maxUnixPath)
		}
		return Address{Network: "unix", Address: path}, nil
	}
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return Address{}, fmt.Errorf("%q; want host:port, [ipv6]:port or unix:PATH", text)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return Address{}, fmt.Errorf("%q; the port must be a number from 0 to 65535", text)
	}
	return Address{Network: "tcp", Address: text}, nil
}

// String returns the address in the form that ParseAddress reads.
func (a Address) String() string {
	if a.Network == "unix" {
		return "unix:" + a.Address
	}
	return a.Address
}

// Local reports whether only this machine can reach the address: a Unix socket, a
// loopback IP address, or the name localhost. An empty host means every interface and is
// not local.
func (a Address) Local() bool {
	if a.Network == "unix" {
		return true
	}
	host, _, err := net.SplitHostPort(a.Address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// CheckListener reports a field if it is not allowed to listen on its address: any address is
// with allowRemote, otherwise only a local one.
func CheckListener(r *fields.Report, field, text string, allowRemote bool) {
	switch a, err := ParseAddress(text); {
	case text == "":
		r.Fault(field, "is missing", "host:port, [ipv6]:port or unix:PATH")
	case err != nil:
		r.Error(field, err)
	default:
		r.Check(allowRemote || a.Local(), field, fmt.Sprintf("%q can be reached from other machines", text), "a loopback address or a unix socket, or --allow-remote")
	}
}

// Listen opens a listener. It replaces a Unix socket of a process that has died, but not
// one that still answers. Keep-alive probes are off, because services have idle timeouts of
// their own.
//
// If a TCP address is in use, Listen tries again for a short while. A listener whose Close has returned may still
// hold its address: a thread that polls the socket at that moment has a reference. The kernel closes the socket with
// the last reference.
func Listen(ctx context.Context, text string, control func(network, address string, c syscall.RawConn) error) (net.Listener, error) {
	a, err := ParseAddress(text)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	lc := net.ListenConfig{Control: control, KeepAlive: -1}
	l, err := lc.Listen(ctx, a.Network, a.Address)
	for range 20 {
		if a.Network == "unix" || !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
		l, err = lc.Listen(ctx, a.Network, a.Address)
	}
	if err != nil && a.Network == "unix" && errors.Is(err, syscall.EADDRINUSE) && abandoned(a.Address) {
		if err := os.Remove(a.Address); err != nil {
			return nil, fmt.Errorf("listen on %s: remove the dead process's socket: %w", a, err)
		}
		l, err = lc.Listen(ctx, a.Network, a.Address)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", a, err)
	}
	return l, nil
}

// abandoned reports whether path is a socket without a listener.
func abandoned(path string) bool {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return false
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		_ = c.Close()
		return false
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
