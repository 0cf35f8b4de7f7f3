package sockets

import (
	"encoding/binary"
	"errors"
	"math"
	"net/netip"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"dyno/observe"
)

// TestInfoOffsets holds the offsets to the layout as golang.org/x/sys has it.
func TestInfoOffsets(t *testing.T) {
	var i unix.TCPInfo
	for _, c := range []struct {
		name      string
		got, want uintptr
	}{
		{"unacked", infoUnacked, unsafe.Offsetof(i.Unacked)},
		{"rtt", infoRTT, unsafe.Offsetof(i.Rtt)},
		{"snd_cwnd", infoCongestion, unsafe.Offsetof(i.Snd_cwnd)},
		{"total_retrans", infoRetransmits, unsafe.Offsetof(i.Total_retrans)},
		{"notsent_bytes", infoUnsent, unsafe.Offsetof(i.Notsent_bytes)},
		{"min_rtt", infoMinRTT, unsafe.Offsetof(i.Min_rtt)},
		{"delivery_rate", infoDelivery, unsafe.Offsetof(i.Delivery_rate)},
		{"busy_time", infoBusy, unsafe.Offsetof(i.Busy_time)},
		{"rwnd_limited", infoWindow, unsafe.Offsetof(i.Rwnd_limited)},
		{"sndbuf_limited", infoSendBuffer, unsafe.Offsetof(i.Sndbuf_limited)},
	} {
		if c.got != c.want {
			t.Errorf("%s is at %d, not at %d", c.name, c.want, c.got)
		}
	}
}

// netlinkMessage makes one, padded as the kernel pads.
func netlinkMessage(kind uint16, sequence uint32, payload []byte) []byte {
	b := native(nil, uint32(headerSize+len(payload)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_MULTI)
	b = native(b, sequence, 0)
	b = append(b, payload...)
	return append(b, make([]byte, align(len(b))-len(b))...)
}

// described is a socket as struct inet_diag_msg with its tcp_info.
func described(s socket) []byte {
	family := byte(unix.AF_INET)
	if s.local.Addr().Is6() {
		family = unix.AF_INET6
	}
	b := []byte{family, s.state, 0, 0}
	b = binary.BigEndian.AppendUint16(b, s.local.Port())
	b = binary.BigEndian.AppendUint16(b, s.remote.Port())
	for _, a := range []netip.Addr{s.local.Addr(), s.remote.Addr()} {
		var field [16]byte
		copy(field[:], a.AsSlice())
		b = append(b, field[:]...)
	}
	b = native(b, 0, uint32(s.cookie), uint32(s.cookie>>32), 0, s.receiveQueue, s.sendQueue, 0, 0)
	if s.info == nil {
		return b
	}
	b = binary.NativeEndian.AppendUint16(b, 5) // an attribute of another type, of one byte and three of padding
	b = binary.NativeEndian.AppendUint16(b, 7)
	b = append(b, 1, 0, 0, 0)
	b = binary.NativeEndian.AppendUint16(b, uint16(attrSize+len(s.info)))
	b = binary.NativeEndian.AppendUint16(b, attributeInfo)
	return append(b, s.info...)
}

func TestParseMessages(t *testing.T) {
	want := []socket{
		{state: stateEstablished, local: netip.MustParseAddrPort("127.0.0.1:80"), remote: netip.MustParseAddrPort("127.0.0.2:49152"),
			cookie: 0x1_0000_0002, receiveQueue: 3, sendQueue: 4, info: []byte{1, 2, 3, 4, 5}},
		{state: stateListen, local: netip.MustParseAddrPort("[::1]:80"), remote: netip.MustParseAddrPort("[::]:0"), cookie: math.MaxUint64, sendQueue: 4096},
	}
	var b []byte
	for _, s := range want {
		b = append(b, netlinkMessage(sockDiagByFamily, 9, described(s))...)
	}
	var got []socket
	keep := func(s *socket) error {
		kept := *s
		kept.info = slices.Clone(s.info)
		got = append(got, kept)
		return nil
	}
	equal := func(a, b socket) bool {
		return a.state == b.state && a.local == b.local && a.remote == b.remote && a.cookie == b.cookie &&
			a.receiveQueue == b.receiveQueue && a.sendQueue == b.sendQueue && slices.Equal(a.info, b.info)
	}
	done, err := parseMessages(b, 9, keep)
	if done || err != nil || !slices.EqualFunc(got, want, equal) {
		t.Errorf("%v, %v:\n%+v, want\n%+v", done, err, got, want)
	}
	if done, err := parseMessages(netlinkMessage(unix.NLMSG_DONE, 9, native(nil, 0)), 9, keep); !done || err != nil {
		t.Errorf("the end: %v, %v", done, err)
	}
	refusal := func(e unix.Errno) []byte { return native(nil, uint32(-int32(e)), 1, 2) }
	for _, kind := range []uint16{unix.NLMSG_ERROR, unix.NLMSG_DONE} {
		if _, err := parseMessages(netlinkMessage(kind, 9, refusal(unix.EPERM)), 9, keep); !errors.Is(err, unix.EPERM) {
			t.Errorf("a refusal: %v", err)
		}
	}
	if _, err := parseMessages(b, 8, keep); !errors.Is(err, errNotOurs) {
		t.Errorf("of another request: %v", err)
	}
	// The kernel has cut nothing off when it has cut nothing in two.
	whole := netlinkMessage(sockDiagByFamily, 9, described(want[0]))
	for n := 1; n < len(whole)-3; n++ {
		if _, err := parseMessages(whole[:n], 9, keep); !errors.Is(err, errShort) {
			t.Fatalf("%d bytes of %d: %v", n, len(whole), err)
		}
	}
	stop := errors.New("enough")
	if _, err := parseMessages(b, 9, func(*socket) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("stopped: %v", err)
	}
	if _, err := parseMessages(netlinkMessage(99, 9, nil), 9, keep); err == nil {
		t.Error("an unknown message was accepted")
	}
}

func FuzzParseMessages(f *testing.F) {
	f.Add(netlinkMessage(sockDiagByFamily, 1, described(socket{local: netip.MustParseAddrPort("[::ffff:1.2.3.4]:5"), remote: netip.MustParseAddrPort("[::1]:6"), info: make([]byte, 240)})))
	f.Add(netlinkMessage(unix.NLMSG_DONE, 1, nil))
	f.Fuzz(func(_ *testing.T, b []byte) {
		var sides tally
		sides.begin()
		_, _ = parseMessages(b, 1, func(s *socket) error { sides.add(s); return nil })
		sides.end()
		row := make([]float64, sideWidth)
		sides.fill(row)
	})
}

// info makes a struct tcp_info of a length, with its counters at values.
func info(length int, retransmits uint32, busy uint64) []byte {
	b := make([]byte, 256)
	binary.NativeEndian.PutUint32(b[infoRetransmits:], retransmits)
	binary.NativeEndian.PutUint64(b[infoBusy:], busy)
	return b[:length]
}

// Of sockets that come, count and go, the sums are those of the last readings of
// each, and never shrink.
func TestTallyNeverForgets(t *testing.T) {
	columns := sideColumns("", "")
	if len(columns) != sideWidth {
		t.Fatalf("%d columns, not %d", len(columns), sideWidth)
	}
	at := func(name string) int {
		return slices.IndexFunc(columns, func(c observe.Column) bool { return c.Name == name })
	}
	rapid.Check(t, func(t *rapid.T) {
		var sum tally
		latest := map[uint64]uint32{}
		alive := map[uint64]bool{}
		row := make([]float64, sideWidth)
		for next := uint64(1); next < 20; next++ {
			alive[next] = true
			sum.begin()
			for cookie := range alive {
				if rapid.Float64Range(0, 1).Draw(t, "ends") < 0.3 {
					delete(alive, cookie)
					continue
				}
				latest[cookie] += rapid.Uint32Range(0, 5).Draw(t, "more")
				sum.add(&socket{state: stateEstablished, cookie: cookie, info: info(240, latest[cookie], uint64(latest[cookie])*1000)})
			}
			sum.end()
			want := 0.0
			for _, n := range latest {
				want += float64(n)
			}
			sum.fill(row)
			if got := row[at("retransmits_total")]; got != want {
				t.Fatalf("%v sent again, want %v", got, want)
			}
			if got := row[at("busy_seconds")]; math.Abs(got-want/1000) > 1e-9 {
				t.Fatalf("%v s busy, want %v", got, want/1000)
			}
			if row[0] != float64(len(alive)) || len(sum.accounts) != len(alive) {
				t.Fatalf("%v connections, %d accounts, of %d", row[0], len(sum.accounts), len(alive))
			}
		}
	})
}

// An older kernel's tcp_info is shorter: what it lacks is not known, and not zero.
func TestShortInfo(t *testing.T) {
	known := func(length int) (n int) {
		var sum tally
		sum.begin()
		b := info(256, 1, 1)
		for i := range b[:length] {
			b[i] = 1
		}
		sum.add(&socket{state: stateEstablished, cookie: 1, info: b[:length]})
		sum.end()
		row := make([]float64, sideWidth)
		sum.fill(row)
		for _, v := range row {
			if !math.IsNaN(v) {
				n++
			}
		}
		return n
	}
	for length, want := range map[int]int{
		0:           3, // the connection and its two queues
		infoRTT + 4: 6, infoCongestion + 4: 7, infoRetransmits + 4: 8, infoUnsent + 4: 9, infoMinRTT + 4: 10,
		infoDelivery + 8: 11, infoBusy + 8: 12, infoSendBuffer + 8: sideWidth,
	} {
		if got := known(length); got != want {
			t.Errorf("of %d bytes: %d values known, want %d", length, got, want)
		}
	}
}

const (
	netstatText = "TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPTimeouts\nTcpExt: 0 17 18 9\nIpExt: InNoRoutes ListenOverflows\nIpExt: 5 6\n"
	snmpText    = "Tcp: RtoAlgorithm MaxConn OutSegs RetransSegs\nTcp: 1 -1 12345678901 3\n"
)

func TestParseCounter(t *testing.T) {
	for _, c := range []struct {
		text, prefix, name string
		want               uint64
		ok                 bool
	}{
		{netstatText, "TcpExt", "ListenOverflows", 17, true},
		{netstatText, "TcpExt", "TCPTimeouts", 9, true},
		{netstatText, "IpExt", "ListenOverflows", 6, true},
		{snmpText, "Tcp", "OutSegs", 12345678901, true},
		{snmpText, "Tcp", "MaxConn", 0, false},
		{snmpText, "Tcp", "Nothing", 0, false},
		{snmpText, "Tc", "OutSegs", 0, false},
		{"Tcp: A B\nTcp: 1\n", "Tcp", "B", 0, false},
		{"Tcp: A\nUdp: 1\n", "Tcp", "A", 0, false},
		{"Tcp: A\nTcp: 99999999999999999999\n", "Tcp", "A", 0, false},
		{"", "Tcp", "A", 0, false},
	} {
		if got, ok := parseCounter([]byte(c.text), c.prefix, c.name); got != c.want || ok != c.ok {
			t.Errorf("%s %s: %d, %v; want %d, %v", c.prefix, c.name, got, ok, c.want, c.ok)
		}
	}
}

func FuzzParseCounter(f *testing.F) {
	f.Add([]byte(netstatText))
	f.Add([]byte(snmpText))
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = parseCounter(b, "Tcp", "OutSegs")
		_, _ = parseCounter(b, "TcpExt", "TCPTimeouts")
	})
}

// All counters are there on this kernel, and count.
func TestCounters(t *testing.T) {
	c, err := NewCounters("", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for name, v := range counted(t, c) {
		if math.IsNaN(v) {
			t.Errorf("%s is not known", name)
		}
	}
	l := listen(t, "tcp4", "127.0.0.1:0")
	before := counted(t, c)
	connect(t, l, l.Addr().String(), 5)
	after := counted(t, c)
	for _, column := range []string{"opened_total", "accepted_total", "segments_sent_total"} {
		if after[column]-before[column] < 5 { // others are at it, too
			t.Errorf("%s went from %v to %v", column, before[column], after[column])
		}
	}
}
