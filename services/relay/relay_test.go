package relay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"dyno/internal/fields"

	"github.com/pires/go-proxyproto"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func TestValidate(t *testing.T) {
	good := Defaults()
	good.Listen, good.To = "127.0.0.1:0", "127.0.0.1:1"
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	bad := good
	bad.Listen, bad.To, bad.Admin, bad.Model, bad.Network = "0.0.0.0:80", "nowhere", ":6060", Epoll, "delay=1ms,jitter=2ms"
	_, err := New(bad)
	var faults *fields.Faults
	if !errors.As(err, &faults) {
		t.Fatal(err)
	}
	var got []string
	for _, f := range faults.Faults {
		got = append(got, f.Field)
	}
	if want := []string{"listen", "to", "admin", "admin_token_file", "network", "model"}; !slices.Equal(got, want) {
		t.Errorf("faults of %v, want %v: %v", got, want, err)
	}
}

// TestTicksCoverTheTimeout: n ticks, the first of which may come at once, last at least
// as long as the timeout.
func TestTicksCoverTheTimeout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		span := rapid.Int64Range(int64(time.Millisecond), int64(time.Hour))
		c := Config{
			ConnectTimeout: time.Duration(span.Draw(t, "connect")),
			IdleTimeout:    time.Duration(span.Draw(t, "idle")),
			HeaderTimeout:  time.Duration(span.Draw(t, "header")),
			ProxyIn:        ProxyInRequire,
		}
		for _, d := range []time.Duration{c.ConnectTimeout, c.IdleTimeout, c.HeaderTimeout} {
			n, tick := time.Duration(c.ticks(d)), c.tick()
			if (n-1)*tick < d {
				t.Fatalf("%v: %d ticks of %v can be over in %v", d, n, tick, (n-1)*tick)
			}
			if slack := n*tick - d; slack >= 2*tick {
				t.Fatalf("%v: %d ticks of %v last %v longer", d, n, tick, slack)
			}
		}
	})
}

func TestListenFailures(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for _, m := range models {
		for name, change := range map[string]func(*Config){
			"port in use":       func(c *Config) { c.Listen = taken.Addr().String() },
			"admin port in use": func(c *Config) { c.Admin = taken.Addr().String() },
			"unknown host":      func(c *Config) { c.To = "no.such.host.invalid:1" },
		} {
			c := Defaults()
			c.Listen, c.To, c.Model = "127.0.0.1:0", "127.0.0.1:1", m
			change(&c)
			s, err := New(c)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Serve(context.Background()); err == nil {
				t.Errorf("%s, %s: no error", m, name)
			}
		}
	}
}

// TestMetricsPage: Prometheus sees the same as Stats.
func TestMetricsPage(t *testing.T) {
	b := bed{t, Epoll}
	s := b.relay(b.echo(), func(c *Config) { c.Admin = "127.0.0.1:0" })
	b.ping(b.dial(s), "hello")
	// The client may have the answer before the relay has counted it.
	b.eventually("counted", func() bool { return s.Stats().ToClient == 5 && s.Stats().Buffered == 0 })
	resp, err := http.Get("http://" + s.AdminAddr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	page, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`relay_connections_open{model="epoll"} 1`,
		`relay_connections_total{model="epoll"} 1`,
		`relay_bytes_total{model="epoll",to="client"} 5`,
		`relay_bytes_total{model="epoll",to="upstream"} 5`,
		`relay_connection_ends_total{model="epoll",reason="idle"} 0`,
		`relay_buffered_bytes{model="epoll"} 0`,
	} {
		if !bytes.Contains(page, []byte(want+"\n")) {
			t.Errorf("missing: %s", want)
		}
	}
}

// TestConditions: the goroutine model forwards through conditions, passes on the end, and
// breaks the connections that they break.
func TestConditions(t *testing.T) {
	b := bed{t, Goroutine}
	exchanges(b, b.relay(b.echo(), func(c *Config) { c.ToServer = "delay=1ms" }), 5, 50_000)

	broken := b.relay(b.echo(), func(c *Config) { c.ToServer = "reset_after=3" })
	c := b.dial(broken)
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Fatal(err)
	}
	b.wantReset(c)
	b.wantCount(broken, resetByDesign, 1)

	// What conditions hold back when an idle connection is ended is lost, and a reset says so.
	slow := b.relay(b.echo(), func(c *Config) { c.IdleTimeout, c.ToServer = 200*time.Millisecond, "delay=2s" })
	held, silent := b.dial(slow), b.dial(slow)
	if _, err := io.WriteString(held, "hello"); err != nil {
		t.Fatal(err)
	}
	b.wantReset(held)
	b.wantEnd(silent, "")
	b.wantCount(slow, idled, 2)
}

// FuzzParseHeader: a header is found where it ends, whatever follows, and asks
// for more bytes only within its bound.
func FuzzParseHeader(f *testing.F) {
	for _, s := range []string{
		"", "P", "PROXY UNKNOWN\r\nx", "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n", "PROXY TCP6 ::1 ::2 1 2\r\n", "GET /",
		string(proxyproto.SIGV2) + "\x20\x00\x00\x00", string(proxyproto.SIGV2) + "\x21\x11\x00\x0c12345678\x01\x00\x02\x00",
		string(proxyproto.SIGV2) + "\x21\x11\xff\xff",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, n, err := parseHeader(b)
		switch {
		case errors.Is(err, errHeaderShort):
			if len(b) >= maxHeader {
				t.Fatalf("wants more than %d bytes", len(b))
			}
		case err != nil:
		case h == nil || n <= 0 || n > len(b) || n > maxHeader:
			t.Fatalf("header %v of %d bytes in %d", h, n, len(b))
		default:
			if _, m, err := parseHeader(append(b[:n:n], "more"...)); err != nil || m != n {
				t.Fatalf("%d bytes alone, %d with more: %v", n, m, err)
			}
			for _, v := range []ProxyOut{ProxyOutV1, ProxyOutV2} {
				if out, err := formatHeader(v, h, nil, nil); err == nil && len(out) > headroom {
					t.Fatalf("%d bytes to send", len(out))
				}
			}
		}
	})
}

// A connection that is dealt to a loop that has failed is reset, and its slot is free again.
func TestDealtToALostLoop(t *testing.T) {
	s := &Server{cfg: Config{Model: Epoll}}
	s.slots.limit, s.slots.freed = 1, func() {}
	group := newReactors(s)
	for range 2 {
		r := &reactor{group: group}
		r.acceptor.server = s
		group.loops = append(group.loops, r)
	}
	from, lost := group.loops[0], group.loops[1]
	from.next = 1
	lost.abandon()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[1])
	if !s.slots.take() {
		t.Fatal("no slot")
	}
	s.stats.open.Add(1)
	from.deal(accepted{fd: pair[0]})
	if n, err := unix.Read(pair[1], make([]byte, 1)); n > 0 || err != nil && !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("read %d bytes, %v: want the end", n, err)
	}
	if !s.slots.any() || s.stats.open.Load() != 0 || len(lost.inbox) > 0 {
		t.Errorf("%d open, %d in the inbox, a slot free: %v", s.stats.open.Load(), len(lost.inbox), s.slots.any())
	}
}
