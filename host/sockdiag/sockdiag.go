// Package sockdiag asks the kernel which TCP sockets there are in a network namespace (sock_diag(7)). It is Linux's;
// elsewhere Open fails.
package sockdiag

import "net/netip"

// States of TCP sockets (net/tcp_states.h), as bits of a request.
const (
	Established = 1 << 1
	FinWait1    = 1 << 4
	CloseWait   = 1 << 8
	LastAck     = 1 << 9
	Listening   = 1 << 10
	Closing     = 1 << 11

	// Sending are the states in which a socket may still send. Sockets that only wait for the peer or for time have
	// nothing to report, and there may be very many.
	Sending = Established | FinWait1 | CloseWait | LastAck | Closing
)

// A Request asks for TCP sockets of both address families.
type Request struct {
	States uint32
	Info   bool   // with struct tcp_info
	Port   uint16 // their own port; 0 for any
	Filter []byte // a program of linux/inet_diag.h; empty for none
}

// A Socket is one as the kernel describes it. Its Info is only good until the next message is read.
type Socket struct {
	State         uint32         // one of the bits above
	Local, Remote netip.AddrPort // IPv4-mapped addresses as IPv4
	Cookie        uint64         // no other socket has it while the machine runs
	Inode         uint32         // as in the links of /proc/PID/fd; 0 if no process holds it

	// Bytes that the application has not read yet, and bytes written that the peer has not
	// acknowledged. For a listening socket: connections that wait to be accepted, and how many may.
	ReceiveQueue, SendQueue uint32

	Info []byte // struct tcp_info, as long as the kernel's; empty without
}
