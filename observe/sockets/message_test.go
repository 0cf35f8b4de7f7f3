package sockets

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"dyno/host/sockdiag"
	"dyno/observe"
)

// info makes a struct tcp_info of a length, with its counters at values.
func info(length int, retransmits uint32, busy uint64) []byte {
	b := make([]byte, 256)
	binary.NativeEndian.PutUint32(b[infoRetransmits:], retransmits)
	binary.NativeEndian.PutUint64(b[infoBusy:], busy)
	return b[:length]
}

// Sockets come, count and go. The sums add up the last readings of each, and never shrink.
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
				sum.add(&sockdiag.Socket{State: sockdiag.Established, Cookie: cookie, Info: info(240, latest[cookie], uint64(latest[cookie])*1000)})
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
		sum.add(&sockdiag.Socket{State: sockdiag.Established, Cookie: 1, Info: b[:length]})
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
