package sockets

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// The layouts are those of linux/netlink.h, linux/inet_diag.h and linux/tcp.h.
// Numbers are in the machine's order, ports and addresses in the network's.
const (
	headerSize  = 16 // struct nlmsghdr
	messageSize = 72 // struct inet_diag_msg
	requestSize = 56 // struct inet_diag_req_v2
	attrSize    = 4  // struct nlattr, without its value

	sockDiagByFamily = 20
	requestBytecode  = 1 // INET_DIAG_REQ_BYTECODE
	attributeInfo    = 2 // INET_DIAG_INFO
)

// States of TCP sockets (net/tcp_states.h), as bits of a request.
const (
	stateEstablished = 1
	stateFinWait1    = 4
	stateCloseWait   = 8
	stateLastAck     = 9
	stateListen      = 10
	stateClosing     = 11

	// Whatever may still send. What only waits for the peer or for time has
	// nothing to tell, and there may be very many of those.
	statesOpen = 1<<stateEstablished | 1<<stateFinWait1 | 1<<stateCloseWait | 1<<stateLastAck | 1<<stateClosing
)

var (
	errShort   = errors.New("a message is cut short")
	errNotOurs = errors.New("an answer to another request")
)

// A request asks for the sockets of one address family.
type request struct {
	family uint8
	states uint32
	info   bool   // with struct tcp_info
	port   uint16 // their own port; 0 for any
	filter []byte // compiled; empty for none
}

// append appends the request as one netlink message.
func (r request) append(b []byte, sequence uint32) []byte {
	size := headerSize + requestSize
	if len(r.filter) > 0 {
		size += attrSize + len(r.filter) // a multiple of four
	}
	n := binary.NativeEndian
	b = n.AppendUint32(b, uint32(size))
	b = n.AppendUint16(b, sockDiagByFamily)
	b = n.AppendUint16(b, unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	b = n.AppendUint32(b, sequence)
	b = n.AppendUint32(b, 0) // to the kernel
	var extensions byte
	if r.info {
		extensions = 1 << (attributeInfo - 1)
	}
	b = append(b, r.family, unix.IPPROTO_TCP, extensions, 0)
	b = n.AppendUint32(b, r.states)
	b = binary.BigEndian.AppendUint16(b, r.port)
	b = append(b, make([]byte, 2+16+16+4+8)...) // peer's port, addresses, interface, cookie: any
	if len(r.filter) > 0 {
		b = n.AppendUint16(b, uint16(attrSize+len(r.filter)))
		b = n.AppendUint16(b, requestBytecode)
		b = append(b, r.filter...)
	}
	return b
}

// A socket is one as the kernel describes it. Its info is only good until the next
// message is read.
type socket struct {
	state         uint8
	local, remote netip.AddrPort // IPv4-mapped addresses as IPv4
	cookie        uint64         // no other socket has it while the machine runs

	// Bytes that the application has not read yet, and bytes written that the
	// peer has not acknowledged. Of a listening socket: connections that wait to
	// be accepted, and how many may.
	receiveQueue, sendQueue uint32

	info []byte // struct tcp_info, as long as the kernel's; empty without
}

// parseMessages calls visit for every socket in b, which holds whole netlink
// messages, and tells whether the last one has been seen.
func parseMessages(b []byte, sequence uint32, visit func(*socket) error) (done bool, err error) {
	n := binary.NativeEndian
	var s socket
	for len(b) > 0 {
		if len(b) < headerSize {
			return false, errShort
		}
		size := int(n.Uint32(b))
		if size < headerSize || size > len(b) {
			return false, errShort
		}
		if n.Uint32(b[8:]) != sequence {
			return false, errNotOurs
		}
		payload := b[headerSize:size]
		switch kind := n.Uint16(b[4:]); kind {
		case unix.NLMSG_DONE, unix.NLMSG_ERROR:
			// Both carry a negative errno; old kernels end without one.
			if len(payload) >= 4 {
				if code := int32(n.Uint32(payload)); code < 0 {
					return true, unix.Errno(-code)
				}
			}
			return true, nil
		case unix.NLMSG_NOOP:
		case sockDiagByFamily:
			if err := s.parse(payload); err != nil {
				return false, err
			}
			if err := visit(&s); err != nil {
				return false, err
			}
		default:
			return false, fmt.Errorf("message of unknown type %d", kind)
		}
		b = b[min(align(size), len(b)):]
	}
	return false, nil
}

// align rounds up to where the next message or attribute begins.
func align(n int) int { return (n + 3) &^ 3 }

// parse reads struct inet_diag_msg and the attributes after it.
func (s *socket) parse(b []byte) error {
	if len(b) < messageSize {
		return errShort
	}
	n := binary.NativeEndian
	family := b[0]
	*s = socket{
		state:        b[1],
		local:        address(family, b[8:24], b[4:6]),
		remote:       address(family, b[24:40], b[6:8]),
		cookie:       uint64(n.Uint32(b[44:])) | uint64(n.Uint32(b[48:]))<<32,
		receiveQueue: n.Uint32(b[56:]),
		sendQueue:    n.Uint32(b[60:]),
	}
	for b = b[messageSize:]; len(b) >= attrSize; {
		size := int(n.Uint16(b))
		if size < attrSize || size > len(b) {
			return errShort
		}
		if n.Uint16(b[2:]) == attributeInfo {
			s.info = b[attrSize:size]
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

// Offsets into struct tcp_info. It has only ever grown at its end: a field is known
// if the kernel's is long enough.
const (
	infoUnacked     = 24
	infoRTT         = 68 // microseconds, as all its times
	infoCongestion  = 80
	infoRetransmits = 100 // tcpi_total_retrans
	infoUnsent      = 144
	infoMinRTT      = 148
	infoDelivery    = 160 // the first of four numbers of 64 bits
	infoBusy        = 168
	infoWindow      = 176 // limited by the receiver's window
	infoSendBuffer  = 184 // limited by the own send buffer
)

// has32 and has64 tell whether a struct tcp_info of a length has the field.
func has32(length, offset int) bool { return length >= offset+4 }
func has64(length, offset int) bool { return length >= offset+8 }

// u32 and u64 return a field, 0 where there is none.
func u32(info []byte, offset int) uint32 {
	if !has32(len(info), offset) {
		return 0
	}
	return binary.NativeEndian.Uint32(info[offset:])
}

func u64(info []byte, offset int) uint64 {
	if !has64(len(info), offset) {
		return 0
	}
	return binary.NativeEndian.Uint64(info[offset:])
}
