package ctl

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A census counts the side that has connected, by group.
func TestCensus(t *testing.T) {
	groups := map[netip.AddrPort]string{}
	place := func(network, address, group string, n int) (clients, servers []net.Conn) {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		if group != "" {
			groups[netip.MustParseAddrPort(l.Addr().String())] = group
		}
		for range n {
			client, err := net.Dial(network, l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			server, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { client.Close(); server.Close() })
			clients, servers = append(clients, client), append(servers, server)
		}
		return clients, servers
	}
	clients, servers := place("tcp4", "127.0.0.1:0", "a", 2)
	place("tcp6", "[::1]:0", "a", 1)
	place("tcp4", "127.0.0.1:0", "b", 0)
	place("tcp4", "127.0.0.1:0", "", 1)

	c, err := newCensus(10_000)
	if err != nil {
		t.Fatal(err)
	}
	defer c.conn.Close()
	count := func() map[string]*tally {
		t.Helper()
		all, err := c.count(groups)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if _, err := servers[0].Write([]byte("12345")); err != nil {
		t.Fatal(err)
	}
	got := count()
	if a := got["a"]; len(got) != 1 || a.connections != 3 || a.measured != 3 || a.rtt < a.maxRTT || a.maxRTT <= 0 || a.retransmits != 0 || a.unread != 5 {
		t.Errorf("%+v", got)
	}
	for i := range clients {
		clients[i].Close()
		servers[i].Close()
	}
	if a := count()["a"]; a.connections != 1 || a.unread != 0 || len(a.now) != 1 {
		t.Errorf("after two have ended: %+v", a)
	}

	c.most = 1
	if _, err := c.count(groups); err == nil || !strings.Contains(err.Error(), "more than 1 sockets") {
		t.Errorf("more than may be counted: %v", err)
	}
}

// What a connection has sent again stays counted when it has ended, and counts once.
func TestCensusGrowth(t *testing.T) {
	c, err := newCensus(10_000)
	if err != nil {
		t.Fatal(err)
	}
	defer c.conn.Close()
	s := &socket{state: unix.BPF_TCP_ESTABLISHED, cookie: 1, info: unix.TCPInfo{Total_retrans: 7, Busy_time: 1_500_000}}
	c.groups["a"] = &tally{now: map[uint64]growth{}}
	c.groups["a"].add(s)
	next := &tally{growth: c.groups["a"].growth, seen: c.groups["a"].now, now: map[uint64]growth{}}
	s.info.Total_retrans = 9
	next.add(s)
	s.cookie, s.state = 2, unix.BPF_TCP_LAST_ACK
	next.add(s)
	if next.connections != 1 || next.measured != 0 || next.retransmits != 18 || next.busy != 3*time.Second {
		t.Errorf("after a second count: %+v", next)
	}
	c.groups["a"] = next
	all, err := c.count(nil)
	if err != nil {
		t.Fatal(err)
	}
	if a := all["a"]; a.connections != 0 || a.retransmits != 18 || a.busy != 3*time.Second {
		t.Errorf("after it has ended: %+v", a)
	}
}

func TestParseSocket(t *testing.T) {
	message := make([]byte, messageSize)
	for n := range message {
		if _, err := parseSocket(message[:n]); err == nil {
			t.Errorf("%d bytes were taken", n)
		}
	}
	if _, err := parseSocket(append(message, 255, 0, 2, 0)); err == nil {
		t.Error("an attribute beyond the message was taken")
	}
	// An old kernel's tcp_info is shorter: it has no time with data to send.
	old := append(message, make([]byte, 4+8)...)
	old[messageSize], old[messageSize+2], old[messageSize+4] = 4+8, attributeInfo, 1
	if s, err := parseSocket(old); err != nil || s.info.State != 1 || s.info.Busy_time != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}
