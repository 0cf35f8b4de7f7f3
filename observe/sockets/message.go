//go:build linux

package sockets

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"unsafe"

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

// States of TCP sockets (net/tcp_states.h), as bits of a request.
const (
	stateEstablished = 1
	stateFinWait1    = 4
	stateCloseWait   = 8
	stateLastAck     = 9
	stateListen      = 10
	stateClosing     = 11

	// States in which a socket may still send. Sockets that only wait for the peer or for time have
	// nothing to report, and there may be very many.
	statesOpen = 1<<stateEstablished | 1<<stateFinWait1 | 1<<stateCloseWait | 1<<stateLastAck | 1<<stateClosing
)

var errShort = errors.New("a message is cut short")

// A request asks for the sockets of one address family.
type request struct {
	family uint8
	states uint32
	info   bool   // with struct tcp_info
	port   uint16 // their own port; 0 for any
	filter []byte // compiled; empty for none
}

// marshal returns the request as the data of a netlink message.
func (r request) marshal() []byte {
	n := binary.NativeEndian
	var extensions byte
	if r.info {
		extensions = 1 << (attributeInfo - 1)
	}
	b := []byte{r.family, unix.IPPROTO_TCP, extensions, 0}
	b = n.AppendUint32(b, r.states)
	b = binary.BigEndian.AppendUint16(b, r.port)
	b = append(b, make([]byte, requestSize-len(b))...) // peer's port, addresses, interface, cookie: any
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

	// Bytes that the application has not read yet, and bytes written that the peer has not
	// acknowledged. For a listening socket: connections that wait to be accepted, and how many may.
	receiveQueue, sendQueue uint32

	info []byte // struct tcp_info, as long as the kernel's; empty without
}

// align rounds up to where the next attribute begins.
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
	infoUnacked     = int(unsafe.Offsetof(unix.TCPInfo{}.Unacked))
	infoRTT         = int(unsafe.Offsetof(unix.TCPInfo{}.Rtt)) // microseconds, as all its times
	infoCongestion  = int(unsafe.Offsetof(unix.TCPInfo{}.Snd_cwnd))
	infoRetransmits = int(unsafe.Offsetof(unix.TCPInfo{}.Total_retrans))
	infoUnsent      = int(unsafe.Offsetof(unix.TCPInfo{}.Notsent_bytes))
	infoMinRTT      = int(unsafe.Offsetof(unix.TCPInfo{}.Min_rtt))
	infoDelivery    = int(unsafe.Offsetof(unix.TCPInfo{}.Delivery_rate)) // the first of four numbers of 64 bits
	infoBusy        = int(unsafe.Offsetof(unix.TCPInfo{}.Busy_time))
	infoWindow      = int(unsafe.Offsetof(unix.TCPInfo{}.Rwnd_limited))   // limited by the receiver's window
	infoSendBuffer  = int(unsafe.Offsetof(unix.TCPInfo{}.Sndbuf_limited)) // limited by the own send buffer
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
