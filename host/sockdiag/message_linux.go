package sockdiag

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"
)

// linux/netlink.h and linux/inet_diag.h have the layouts. Numbers are in the machine's order, ports and
// addresses in the network's.
const (
	messageSize = 72 // struct inet_diag_msg
	requestSize = 56 // struct inet_diag_req_v2
	attrSize    = 4  // struct nlattr, without its value

	sockDiagByFamily = 20
	requestBytecode  = 1 // INET_DIAG_REQ_BYTECODE
	attributeInfo    = 2 // INET_DIAG_INFO
)

var errShort = errors.New("a message is cut short")

// marshal returns the request for one family as the data of a netlink message.
func (r Request) marshal(family uint8) []byte {
	n := binary.NativeEndian
	var extensions byte
	if r.Info {
		extensions = 1 << (attributeInfo - 1)
	}
	b := []byte{family, unix.IPPROTO_TCP, extensions, 0}
	b = n.AppendUint32(b, r.States)
	b = binary.BigEndian.AppendUint16(b, r.Port)
	b = append(b, make([]byte, requestSize-len(b))...) // peer's port, addresses, interface, cookie: any
	if len(r.Filter) > 0 {
		b = n.AppendUint16(b, uint16(attrSize+len(r.Filter)))
		b = n.AppendUint16(b, requestBytecode)
		b = append(b, r.Filter...)
	}
	return b
}

// align rounds up to where the next attribute begins.
func align(n int) int { return (n + 3) &^ 3 }

// parse reads struct inet_diag_msg and the attributes after it.
func (s *Socket) parse(b []byte) error {
	if len(b) < messageSize {
		return errShort
	}
	n := binary.NativeEndian
	family := b[0]
	*s = Socket{
		State:        1 << b[1],
		Local:        address(family, b[8:24], b[4:6]),
		Remote:       address(family, b[24:40], b[6:8]),
		Cookie:       uint64(n.Uint32(b[44:])) | uint64(n.Uint32(b[48:]))<<32,
		ReceiveQueue: n.Uint32(b[56:]),
		SendQueue:    n.Uint32(b[60:]),
		Inode:        n.Uint32(b[68:]),
	}
	for b = b[messageSize:]; len(b) >= attrSize; {
		size := int(n.Uint16(b))
		if size < attrSize || size > len(b) {
			return errShort
		}
		if n.Uint16(b[2:]) == attributeInfo {
			s.Info = b[attrSize:size]
		}
		b = b[min(align(size), len(b)):]
	}
	return nil
}

func address(family uint8, b, port []byte) netip.AddrPort {
	var a netip.Addr
	if family == unix.AF_INET6 {
		a = netip.AddrFrom16([16]byte(b)).Unmap()
	} else {
		a = netip.AddrFrom4([4]byte(b))
	}
	return netip.AddrPortFrom(a, binary.BigEndian.Uint16(port))
}
