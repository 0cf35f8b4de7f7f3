package oracle

import (
	"encoding/binary"
	"errors"
	"math"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ip4 builds an IPv4 packet with a TCP segment, cut after its headers.
func ip4(from, to netip.AddrPort, sequence uint32, size int, syn bool) []byte {
	p := make([]byte, 20+32)
	p[0], p[9] = 0x45, unix.IPPROTO_TCP
	binary.BigEndian.PutUint16(p[2:], uint16(len(p)+size))
	copy(p[12:], from.Addr().AsSlice())
	copy(p[16:], to.Addr().AsSlice())
	fillTCP(p[20:], from, to, sequence, syn)
	return p
}

func ip6(from, to netip.AddrPort, sequence uint32, size int) []byte {
	p := make([]byte, 40+32)
	p[0], p[6] = 0x60, unix.IPPROTO_TCP
	binary.BigEndian.PutUint16(p[4:], uint16(32+size))
	copy(p[8:], from.Addr().AsSlice())
	copy(p[24:], to.Addr().AsSlice())
	fillTCP(p[40:], from, to, sequence, false)
	return p
}

func fillTCP(t []byte, from, to netip.AddrPort, sequence uint32, syn bool) {
	binary.BigEndian.PutUint16(t, from.Port())
	binary.BigEndian.PutUint16(t[2:], to.Port())
	binary.BigEndian.PutUint32(t[4:], sequence)
	t[12] = 8 << 4
	if syn {
		t[13] = 2
	}
}

// The follower times from a request's last packet to its response's last one. Sequence numbers may
// wrap, packets may be repeated, and ports used twice; acknowledgements do not count.
func TestFollower(t *testing.T) {
	for _, family := range []string{"127.0.0.1", "::1"} {
		server, client := netip.AddrPortFrom(netip.MustParseAddr(family), 80), netip.AddrPortFrom(netip.MustParseAddr(family), 5000)
		f := follower{server: server, open: map[netip.AddrPort]*flow{}}
		make4 := func(from, to netip.AddrPort, sequence uint32, size int) []byte {
			if from.Addr().Is6() {
				return ip6(from, to, sequence, size)
			}
			return ip4(from, to, sequence, size, false)
		}
		c := uint32(math.MaxUint32 - 50)
		for _, p := range []struct {
			fromServer bool
			sequence   uint32
			size       int
			at         int64
		}{
			{true, 900, 40, 5},              // a greeting is no response
			{false, c, 30, 10},              // first half of a request
			{false, c + 30, 40, 20},         // second half, over the wrap
			{true, 1000, 0, 25},             // acknowledged
			{true, 1000, 100, 100},          // a response in two
			{true, 1100, 100, 130},          // parts
			{true, 1000, 100, 400},          // sent again
			{false, c + 70, 70, 1000},       // the next request
			{false, c + 70, 70, 1100},       // sent again
			{true, 1200, 10, 1500},          // and its response
			{false, c + 140, 70, 2000},      // never answered
			{false, c + 140 + 70, 70, 2500}, // nor this
		} {
			from, to := client, server
			if p.fromServer {
				from, to = server, client
			}
			f.take(make4(from, to, p.sequence, p.size), p.at)
		}
		got, err := f.exchanges()
		if err != nil {
			t.Fatal(err)
		}
		want := []Exchange{{time.Unix(0, 20), 110}, {time.Unix(0, 1000), 500}}
		if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
			t.Errorf("%s: %v, want %v", family, got, want)
		}
	}
}

func TestFollowerPortUsedAgain(t *testing.T) {
	server, client := netip.MustParseAddrPort("127.0.0.1:80"), netip.MustParseAddrPort("127.0.0.1:5000")
	f := follower{server: server, open: map[netip.AddrPort]*flow{}}
	for i := range int64(2) {
		isn := uint32(4e9 * (1 - i)) // the second connection's numbers are lower
		f.take(ip4(client, server, isn, 0, true), 100*i+1)
		f.take(ip4(client, server, isn+1, 50, false), 100*i+2)
		f.take(ip4(server, client, isn+7, 50, false), 100*i+12)
	}
	if got, err := f.exchanges(); err != nil || len(got) != 2 || got[0].Took != 10 || got[1].Took != 10 {
		t.Errorf("%v, %v: want two exchanges of 10 ns", got, err)
	}
	f.take([]byte{0x45}, 1)
	if _, err := f.exchanges(); err == nil {
		t.Error("a packet that cannot be read went unnoticed")
	}
}

func TestFollowerIsBounded(t *testing.T) {
	server := netip.MustParseAddrPort("127.0.0.1:80")
	f := follower{server: server, open: map[netip.AddrPort]*flow{}}
	for i := range maxTapped + 1 {
		from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, byte(i >> 16), byte(i >> 15)}), uint16(i))
		f.take(ip4(from, server, 1, 10, false), 1)
	}
	if _, err := f.exchanges(); len(f.open) > maxTapped || err == nil && len(f.open) == maxTapped {
		t.Errorf("%d connections, %v", len(f.open), err)
	}
}

func FuzzParseSegment(f *testing.F) {
	a, b := netip.MustParseAddrPort("127.0.0.1:80"), netip.MustParseAddrPort("127.0.0.1:5000")
	f.Add(ip4(a, b, 7, 100, false))
	f.Add(ip6(netip.MustParseAddrPort("[::1]:80"), netip.MustParseAddrPort("[::1]:1"), 7, 100))
	f.Add([]byte{0x4f})
	f.Fuzz(func(t *testing.T, p []byte) {
		if s, ok := parseSegment(p); ok && (s.size < 0 || s.size > math.MaxUint16 || !s.from.IsValid()) {
			t.Errorf("%+v", s)
		}
	})
}

// Real packets: the tap sees every request once, and not less time than the
// server held it.
func TestTap(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		s := must[*Timed](t)(StartDelay(t.Context(), Config{Addr: address}, Fixed(2*time.Millisecond), 1))
		defer s.Close()
		tap, err := StartTap(netip.MustParseAddrPort(s.Addr().String()), nil)
		if errors.Is(err, unix.EPERM) {
			t.Skipf("packets cannot be seen here, which takes CAP_NET_RAW: %v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		const each = 20
		for range 3 {
			c := dial(t, s.Server)
			for range each {
				if _, _, err := c.get(plain); err != nil {
					t.Fatal(err)
				}
			}
		}
		got, err := tap.Stop()
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 3*each {
			t.Errorf("%d exchanges, want %d", len(got), 3*each)
		}
		for i, x := range got {
			if x.Took < 2*time.Millisecond {
				t.Errorf("exchange %d took %v, and the server held it 2 ms", i, x.Took)
			}
		}
	}
}

func TestTapRefusesOtherMachines(t *testing.T) {
	if tap, err := StartTap(netip.MustParseAddrPort("192.0.2.1:80"), nil); err == nil {
		_, _ = tap.Stop()
		t.Error("a tap on an address that is not loopback")
	}
}
