package sockets

import (
	"math"
	"net/netip"
	"strings"
	"testing"
)

// A census counts the side that has connected, by group, and what has ended stays in its sums.
func TestCensus(t *testing.T) {
	groups := map[netip.AddrPort]string{}
	place := func(network, address, group string, n int) []pair {
		l := listen(t, network, address)
		at := netip.MustParseAddrPort(l.Addr().String())
		if group != "" {
			groups[at] = group
		}
		return connect(t, l, l.Addr().String(), n)
	}
	a := place("tcp4", "127.0.0.1:0", "a", 2)
	place("tcp6", "[::1]:0", "a", 1)
	place("tcp4", "127.0.0.1:0", "b", 0)
	place("tcp4", "127.0.0.1:0", "", 1)

	c, err := NewCensus(10_000)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	count := func() map[string]Standing {
		t.Helper()
		all, err := c.Count(t.Context(), func(remote netip.AddrPort) (string, bool) {
			group, ok := groups[remote]
			return group, ok
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if _, err := a[0].server.Write([]byte("12345")); err != nil {
		t.Fatal(err)
	}
	got := count()
	if s := got["a"]; len(got) != 1 || s.Connections != 3 || !(s.MeanRTT > 0) || !(s.MaxRTT >= s.MeanRTT) || s.Retransmits != 0 || s.ReceiveQueue != 5 || !(s.Busy >= 0) {
		t.Errorf("%+v", got)
	}
	for _, p := range a {
		p.client.Close()
		p.server.Close()
	}
	if s := count()["a"]; s.Connections != 1 || s.ReceiveQueue != 0 {
		t.Errorf("after two have ended: %+v", s)
	}

	// What has been sent again stays counted when its connection has ended.
	c.groups["gone"] = &tally{}
	c.groups["gone"].begin()
	c.groups["gone"].add(&socket{state: stateEstablished, cookie: 1, info: info(infoSendBuffer+8, 7, 1_500_000)})
	if s := count()["gone"]; s.Connections != 0 || s.Retransmits != 7 || s.Busy != 1.5 || !math.IsNaN(s.MeanRTT) {
		t.Errorf("a group whose connection has ended: %+v", s)
	}

	c.most = 1
	if _, err := c.Count(t.Context(), func(netip.AddrPort) (string, bool) { return "", false }); err == nil || !strings.Contains(err.Error(), "more than 1 sockets") {
		t.Errorf("more than may be counted: %v", err)
	}
}
