//go:build linux

package sockets

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

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
