// Package loopback keeps a client on this machine. dyno asks a program for its own figures
// only on this machine by default, whatever address a name resolves to.
package loopback

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// Dialer returns a dialer that refuses to connect to other machines, unless anyHost is
// set.
func Dialer(anyHost bool) *net.Dialer {
	if anyHost {
		return &net.Dialer{}
	}
	return &net.Dialer{Control: only}
}

func only(_, address string, _ syscall.RawConn) error {
	if a, err := netip.ParseAddrPort(address); err != nil || !a.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("%s is not a loopback address", address)
	}
	return nil
}
