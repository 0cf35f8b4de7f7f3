package engine_test

import (
	"context"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"dyno/load/engine/config"
	"dyno/load/engine/record"
	"dyno/load/options"
	"dyno/load/pace"
)

// manyName is a name that stands for several addresses while a test has it.
const manyName = "many.test."

// resolveMany has the name stand for addresses, until the test ends.
func resolveMany(t *testing.T, addrs ...string) {
	t.Helper()
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 1500)
		for {
			n, from, err := l.ReadFrom(b)
			if err != nil {
				return
			}
			if reply := answer(b[:n], addrs); reply != nil {
				_, _ = l.WriteTo(reply, from) // a resolver without an answer asks again
			}
		}
	}()
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", l.LocalAddr().String())
	}}
	t.Cleanup(func() {
		net.DefaultResolver = before
		_ = l.Close()
		<-done
	})
}

// answer is what a server says that knows the addresses of one name.
func answer(query []byte, addrs []string) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	m.Response, m.Additionals = true, nil
	for _, text := range addrs {
		a := netip.MustParseAddr(text)
		h := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, Type: q.Type}
		switch {
		case q.Type == dnsmessage.TypeA && a.Is4():
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: a.As4()}})
		case q.Type == dnsmessage.TypeAAAA && a.Is6():
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
		}
	}
	reply, err := m.Pack()
	if err != nil {
		return nil
	}
	return reply
}

// Each loop and each worker spreads connections over all addresses of a name that accept one. The
// counts of the addresses add up to the whole. One that refuses is named.
func TestSeveralAddresses(t *testing.T) {
	hosts := []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"}
	var served [3]atomic.Int64
	first := listenOn(t, "tcp", hosts[0]+":0", func(c net.Conn) { echoCounted(c, &served[0]) })
	_, text, _ := net.SplitHostPort(first)
	for i := range 2 {
		l, err := net.Listen("tcp", net.JoinHostPort(hosts[i+1], text))
		if err != nil {
			t.Skipf("this machine has no %s, or its port is taken: %v", hosts[i+1], err)
		}
		_ = l.Close()
		listenOn(t, "tcp", net.JoinHostPort(hosts[i+1], text), func(c net.Conn) { echoCounted(c, &served[i+1]) })
	}
	resolveMany(t, "127.0.0.3", "127.0.0.9", "127.0.0.1", "::1", "127.0.0.2")
	steady := func(perSecond float64) *pace.Schedule {
		s, err := pace.New(pace.Steady(perSecond, 0), pace.Constant, 1)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for name, c := range map[string]config.Config{
		"closed":             {Connections: 6, Requests: 300},
		"workers":            {Connections: 9, Requests: 300, Threads: options.Threads{Workers: 2}},
		"a worker for each":  {Connections: 3, Requests: 300, Threads: options.Threads{Workers: 3}},
		"without keep-alive": {Connections: 3, Requests: 60, ExchangesPerConnection: 1},
		"open":               {Connections: 50, Schedule: steady(400), Window: 500 * time.Millisecond},
		"open, reconnecting": {Connections: 50, Schedule: steady(400), Window: 500 * time.Millisecond, ExchangesPerConnection: 1},
		"one":                {Connections: 6, Requests: 300, OneAddress: true},
	} {
		t.Run(name, func(t *testing.T) {
			var before [3]int64
			for i := range served {
				before[i] = served[i].Load()
			}
			c.Address, c.NewClients = net.JoinHostPort(manyName, text), echo(8)
			c.Drain, c.Timeout, c.ConnectTimeout = time.Minute, time.Minute, time.Minute // a busy machine is none of the test's
			r := run(t, c)
			var good, bad uint64
			var loaded []int
			for _, a := range r.Addresses {
				good, bad = good+a.OK, bad+a.Bad
				at := slices.IndexFunc(hosts, func(h string) bool { return net.JoinHostPort(h, text) == a.Name })
				if at < 0 {
					if a.Opened+a.Failed+a.OK+a.Bad != 0 || a.Why == "" {
						t.Errorf("nothing listens there: %+v", a)
					}
					continue
				}
				if a.OK > 0 {
					loaded = append(loaded, at)
				}
				if n := served[at].Load() - before[at]; uint64(n) != a.OK { //nolint:gosec // not negative
					t.Errorf("%+v, and the server has answered %d", a, n)
				}
				if c.Schedule == nil && c.ExchangesPerConnection == 0 && !c.OneAddress && a.Opened != uint64(c.Connections/3) { //nolint:gosec // a few
					t.Errorf("%+v of %d connections", a, c.Connections)
				}
			}
			if good != r.Counts.OK+r.Carried.OK || bad != 0 || len(r.Addresses) != 5 {
				t.Errorf("%+v, and in all %+v", r.Addresses, r.Counts)
			}
			if c.OneAddress != (len(loaded) == 1) || !c.OneAddress && len(loaded) != 3 {
				t.Errorf("addresses %v were loaded: %+v", loaded, r.Addresses)
			}
		})
	}
}

// echoCounted answers messages of 8 bytes, and counts them before.
func echoCounted(c net.Conn, n *atomic.Int64) {
	b := make([]byte, 8)
	for {
		if _, err := io.ReadFull(c, b); err != nil {
			return
		}
		n.Add(1)
		if _, err := c.Write(b); err != nil {
			return
		}
	}
}

// The engines of one load, in processes of their own, spread their connections alike.
func TestAddressesOfSeveralEngines(t *testing.T) {
	var served [2]atomic.Int64
	first := listenOn(t, "tcp", "127.0.0.1:0", func(c net.Conn) { echoCounted(c, &served[0]) })
	_, text, _ := net.SplitHostPort(first)
	port, _ := strconv.Atoi(text)
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.2", strconv.Itoa(port)))
	if err != nil {
		t.Skipf("this machine has no 127.0.0.2, or its port is taken: %v", err)
	}
	_ = l.Close()
	listenOn(t, "tcp", net.JoinHostPort("127.0.0.2", text), func(c net.Conn) { echoCounted(c, &served[1]) })
	resolveMany(t, "127.0.0.1", "127.0.0.2")
	sum := &record.Result{}
	for i := range 4 {
		r := run(t, config.Config{
			Address: net.JoinHostPort(manyName, text), NewClients: echo(8), Connections: 1, Requests: 10, Shard: pace.Shard{Index: i, Count: 4},
		})
		sum.AddAddresses(r.Addresses)
	}
	for _, a := range sum.Addresses {
		if a.Opened != 2 || a.OK != 20 {
			t.Errorf("%+v", sum.Addresses)
		}
	}
}
