package sockdiag

import (
	"encoding/binary"
	"math"
	"math/bits"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// described is a socket as struct inet_diag_msg with its tcp_info.
func described(s Socket) []byte {
	family := byte(unix.AF_INET)
	if s.Local.Addr().Is6() {
		family = unix.AF_INET6
	}
	b := []byte{family, byte(bits.TrailingZeros32(s.State)), 0, 0}
	b = binary.BigEndian.AppendUint16(b, s.Local.Port())
	b = binary.BigEndian.AppendUint16(b, s.Remote.Port())
	for _, a := range []netip.Addr{s.Local.Addr(), s.Remote.Addr()} {
		var field [16]byte
		copy(field[:], a.AsSlice())
		b = append(b, field[:]...)
	}
	for _, n := range []uint32{0, uint32(s.Cookie), uint32(s.Cookie >> 32), 0, s.ReceiveQueue, s.SendQueue, 0, s.Inode} {
		b = binary.NativeEndian.AppendUint32(b, n)
	}
	if s.Info == nil {
		return b
	}
	b = binary.NativeEndian.AppendUint16(b, 5) // an attribute of another type, of one byte and three of padding
	b = binary.NativeEndian.AppendUint16(b, 7)
	b = append(b, 1, 0, 0, 0)
	b = binary.NativeEndian.AppendUint16(b, uint16(attrSize+len(s.Info)))
	b = binary.NativeEndian.AppendUint16(b, attributeInfo)
	return append(b, s.Info...)
}

func TestParseSocket(t *testing.T) {
	for _, want := range []Socket{
		{State: Established, Local: netip.MustParseAddrPort("127.0.0.1:80"), Remote: netip.MustParseAddrPort("127.0.0.2:49152"),
			Cookie: 0x1_0000_0002, ReceiveQueue: 3, SendQueue: 4, Inode: 4711, Info: []byte{1, 2, 3, 4, 5}},
		{State: Listening, Local: netip.MustParseAddrPort("[::1]:80"), Remote: netip.MustParseAddrPort("[::]:0"), Cookie: math.MaxUint64, SendQueue: 4096},
	} {
		var got Socket
		b := described(want)
		if err := got.parse(b); err != nil || got.Local != want.Local || got.Remote != want.Remote || got.State != want.State || got.Cookie != want.Cookie ||
			got.ReceiveQueue != want.ReceiveQueue || got.SendQueue != want.SendQueue || got.Inode != want.Inode || !slices.Equal(got.Info, want.Info) {
			t.Errorf("%+v, %v, want\n%+v", got, err, want)
		}
		for n := range b {
			// A message that ends before its last attribute is whole.
			if err := got.parse(b[:n]); err == nil && (n < messageSize || len(got.Info) > 0) {
				t.Errorf("%d bytes of %d are a socket: %+v", n, len(b), got)
			}
		}
	}
}
