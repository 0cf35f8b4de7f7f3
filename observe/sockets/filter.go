//go:build linux

package sockets

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Operations of inet_diag's filter language (linux/inet_diag.h): jumps forward,
// by "yes" bytes where the condition holds and "no" bytes where it does not. A
// socket is reported when the program's end is reached exactly.
const (
	opJump   = 1
	opSource = 7 // INET_DIAG_BC_S_COND: the socket's own address and port
	opDest   = 8 // INET_DIAG_BC_D_COND: its peer's
	opSize   = 4 // code and yes of a byte each, no of two
	condSize = 8 // family and prefix length of a byte each, two of padding, port of four
)

// A condition is something that a socket can meet.
type condition struct {
	op      byte
	address netip.AddrPort // an unspecified address stands for any
}

// compile makes the program that reports sockets which meet any of the conditions:
// for each but the last, the condition and a jump to the end after it.
func compile(conditions []condition) []byte {
	var end int // of the program
	for _, c := range conditions {
		end += c.size() + opSize
	}
	end -= opSize // no jump after the last
	program := make([]byte, 0, max(end, 0))
	for i, c := range conditions {
		size := c.size()
		no := size + opSize // past the jump, and after the last past the end, which rejects
		program = append(program, c.op, byte(size))
		program = binary.NativeEndian.AppendUint16(program, uint16(no))
		program = c.appendAddress(program)
		if i < len(conditions)-1 {
			// A jump is taken as if its condition never held; its "yes" only leads
			// the kernel's check of the program on to the next condition.
			program = append(program, opJump, opSize)
			program = binary.NativeEndian.AppendUint16(program, uint16(end-len(program)+2))
		}
	}
	return program
}

func (c condition) size() int {
	return opSize + condSize + c.prefix()/8
}

// prefix is the length of the address in bits, 0 for any.
func (c condition) prefix() int {
	if c.address.Addr().IsUnspecified() {
		return 0
	}
	return c.address.Addr().BitLen()
}

// appendAddress appends struct inet_diag_hostcond. The kernel compares an IPv4
// address with IPv4-mapped IPv6 ones, too.
func (c condition) appendAddress(b []byte) []byte {
	family, prefix := byte(unix.AF_UNSPEC), c.prefix()
	switch prefix {
	case 32:
		family = unix.AF_INET
	case 128:
		family = unix.AF_INET6
	}
	b = append(b, family, byte(prefix), 0, 0)
	b = binary.NativeEndian.AppendUint32(b, uint32(c.address.Port()))
	if prefix > 0 {
		b = append(b, c.address.Addr().AsSlice()...)
	}
	return b
}
