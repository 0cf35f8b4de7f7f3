package tlslayer

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"dyno/internal/race"
	"dyno/load/wire"
)

// apart is how far apart the next place is at which a stream is cut. With the race detector, all places
// would take half a minute, and a tenth of them finds as much.
func apart() int {
	if race.Enabled {
		return 1 + rand.IntN(20)
	}
	return 1
}

// A script is all that a server sends, from its hello to its close_notify.
type script struct {
	name    string
	version string
	run     func(testing.TB, *Context, link) *link
	data    string // that the client must get out of it
}

var scripts = []script{
	{
		// With a session ticket: after the handshake in TLS 1.3, in it in TLS 1.2.
		"1.2 by crypto/tls", "1.2", honest, "hello, world",
	},
	{"1.3 by crypto/tls", "1.3", honest, "hello, world"},
	{
		"1.2 forged", "1.2",
		func(tb testing.TB, x *Context, cuts link) *link {
			l, s, _ := forgedOn(tb, x, cuts)
			if s != nil {
				l.toClient(s.record(recordData, []byte("one ")))
				l.toClient(bytes.Join([][]byte{
					s.record(recordData, nil),             // allowed, against attacks on CBC
					s.record(recordAlert, []byte{1, 112}), // a warning, which is ignored
					s.record(recordData, []byte("two")),
					s.record(recordAlert, closeNotify), // crypto/tls looks at it along with the data
					s.record(recordData, []byte("ignored")),
				}, nil))
			}
			return l
		},
		"one two",
	},
	{
		"1.3 forged", "1.3",
		func(tb testing.TB, x *Context, cuts link) *link {
			l, s, _ := forgedOn(tb, x, cuts)
			if s != nil {
				l.toClient(s.record(recordData, []byte("one ")))
				// A message in three records, and then data of the same read.
				l.toClient(bytes.Join([][]byte{
					s.record(recordHandshake, updateRequested[:2]),
					s.record(recordHandshake, updateRequested[2:4]),
					s.record(recordHandshake, updateRequested[4:]),
				}, nil))
				s = s.updated()
				l.toClient(bytes.Join([][]byte{
					s.record(recordAlert, []byte{1, 90}), // user_canceled, which is ignored
					s.record(recordData, nil),
					s.record(recordData, []byte("two ")),
					s.record(recordHandshake, updateSilent),
				}, nil))
				s = s.updated()
				l.toClient(append(s.record(recordData, []byte("three")), s.record(recordAlert, closeNotify)...))
				l.toClient([]byte("what follows is ignored"))
			}
			return l
		},
		"one two three",
	},
}

// forged tells whether it is a forger that sends what follows the handshake.
func (s script) forged() bool { return strings.HasSuffix(s.name, "forged") }

// first is the first place at which to cut. The handshake of a forged script is another
// one's, too; its signatures vary in length by a few bytes.
func (s script) first(l *link) int {
	if s.forged() {
		return int(l.client.Info().Received) - 8
	}
	return 1
}

// honest has crypto/tls's server send data in two records and then end the connection.
func honest(tb testing.TB, x *Context, cuts link) *link {
	config := serverConfig()
	config.SessionTicketsDisabled = false
	l := newLink(tb, x, config)
	l.cut, l.piece, l.limit = cuts.cut, cuts.piece, cuts.limit
	l.handshake()
	if l.server.State() == Established {
		out := must(l.server.Seal(nil, []byte("hello, ")))
		l.toClient(must(l.server.Seal(out, []byte("world"))))
		l.toClient(l.server.CloseNotify(nil))
	}
	return l
}

// newScriptContext returns a context for connections that do not know of each other.
func newScriptContext(tb testing.TB, s script) *Context {
	c := clientConfig(s.version)
	c.Tickets = !s.forged()
	return newContext(tb, c)
}

// The same bytes must have the same outcome, wherever they are cut: in two at each
// place, and into pieces of each small size. This holds crypto/tls to what the package's
// comment says of it.
func TestEveryCut(t *testing.T) {
	for _, s := range scripts {
		t.Run(s.name, func(t *testing.T) {
			check := func(cuts link) (size, first int) {
				x := newScriptContext(t, s)
				l := s.run(t, x, cuts)
				if l.err != nil || string(l.data) != s.data || l.client.State() != Ended {
					t.Fatalf("cut at %d, pieces of %d: got %q, error %v, state %v; want %q and the end",
						cuts.cut, cuts.piece, l.data, l.err, l.client.State(), s.data)
				}
				if err := l.client.End(); err != nil {
					t.Fatalf("cut at %d, pieces of %d: %v at the end", cuts.cut, cuts.piece, err)
				}
				if config := x.config; config.ClientSessionCache != nil && len(config.ClientSessionCache.(*tickets).states) != 1 {
					t.Fatalf("cut at %d, pieces of %d: the ticket is missing", cuts.cut, cuts.piece)
				}
				return l.offset, s.first(l)
			}
			size, first := check(link{})
			if size-first < 100 {
				t.Fatalf("only %d bytes from %d on", size, first)
			}
			for cut := first; cut <= size; cut += apart() {
				check(link{cut: cut})
			}
			for _, piece := range []int{1, 2, 3, 5, 7, 64} {
				check(link{piece: piece})
			}
		})
	}
}

// A stream that ends early is an error, wherever it ends: of kind TLS in the handshake,
// and of kind Reset after it.
func TestEveryTruncation(t *testing.T) {
	for _, s := range scripts {
		t.Run(s.name, func(t *testing.T) {
			first := s.first(s.run(t, newScriptContext(t, s), link{}))
			end := 0 // before the stream's end, if the stream goes on after close_notify
			for limit := first; ; limit += apart() {
				l := s.run(t, newScriptContext(t, s), link{limit: limit})
				if l.client.State() == Ended {
					end = limit
					break
				}
				if l.err != nil || !strings.HasPrefix(s.data, string(l.data)) {
					t.Fatalf("after %d bytes: got %q, error %v", limit, l.data, l.err)
				}
				want := wire.Reset
				if l.client.State() == Handshaking {
					want = wire.TLS
				}
				inside := l.client.transport.records.inside()
				err := l.client.End()
				if wire.KindOf(err) != want {
					t.Fatalf("after %d bytes: %v, want kind %v", limit, err, want)
				}
				if want == wire.Reset && errors.Is(err, ErrCutRecord) != inside {
					t.Fatalf("after %d bytes: %v", limit, err)
				}
				if again := l.client.End(); !errors.Is(again, err) {
					t.Fatalf("after %d bytes: %v, then %v", limit, err, again)
				}
				if _, err := l.client.Open([]byte{1}); err == nil {
					t.Fatalf("after %d bytes: bytes after the end are accepted", limit)
				}
			}
			if end-first < 100 {
				t.Fatalf("began at %d and ended at %d", first, end)
			}
		})
	}
}

func TestInfo(t *testing.T) {
	for _, c := range []struct {
		name   string
		client func(*Config)
		server func(*tls.Config)
		want   Info
	}{
		{
			"1.3", func(c *Config) { c.ALPN = []string{"h2", "http/1.1"} },
			func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} },
			Info{Version: "TLS 1.3", CipherSuite: "TLS_AES_128_GCM_SHA256", Group: "x25519", ALPN: "http/1.1"},
		},
		{
			"1.2", func(c *Config) { c.MaxVersion = "1.2"; c.CipherSuites = []string{"ECDHE-ECDSA-AES256-GCM-SHA384"} }, nil,
			Info{Version: "TLS 1.2", CipherSuite: "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", Group: "x25519"},
		},
		{
			"the server's version", nil, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 },
			Info{Version: "TLS 1.2", CipherSuite: "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", Group: "x25519"},
		},
		{
			// The client sends a key share for its preferred group only.
			"another group", func(c *Config) { c.Groups = []string{"x25519", "P-384"} },
			func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.CurveP384} },
			Info{Version: "TLS 1.3", CipherSuite: "TLS_AES_128_GCM_SHA256", Group: "secp384r1", Retried: true},
		},
		{
			"default groups", func(c *Config) { c.Groups = nil }, nil,
			Info{Version: "TLS 1.3", CipherSuite: "TLS_AES_128_GCM_SHA256", Group: "X25519MLKEM768"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, server := clientConfig(""), serverConfig()
			if c.client != nil {
				c.client(&client)
			}
			if c.server != nil {
				c.server(server)
			}
			l := established(t, newContext(t, client), server)
			got := l.client.Info()
			there := l.server.Info()
			if got.Received != there.Sent || got.Sent != there.Received || got.Received < 400 || got.Sent < 150 {
				t.Errorf("%d bytes received and %d sent; the server sent %d and received %d", got.Received, got.Sent, there.Sent, there.Received)
			}
			got.Received, got.Sent = 0, 0
			if got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// Session tickets that come after the handshake are not counted as part of it.
func TestTicketsAreNoHandshake(t *testing.T) {
	client, server := clientConfig("1.3"), serverConfig()
	client.Tickets, server.SessionTicketsDisabled = true, false
	l := newLink(t, newContext(t, client), server).handshake()
	beyond := int64(l.offset) - l.client.Info().Received
	if l.err != nil || l.client.State() != Established || beyond < 100 {
		t.Errorf("%d bytes after the handshake, want a ticket's; error %v", beyond, l.err)
	}
}

// Data that follows the handshake in the same read is not lost.
func TestDataWithTheHandshake(t *testing.T) {
	x := newContext(t, clientConfig("1.2"))
	l := newLink(t, x, serverConfig())
	out := must(l.client.Start(nil))
	must(l.server.Open(out))
	l.toClient(l.server.Flush(nil))
	must(l.server.Open(l.client.Flush(nil)))
	last := l.server.Flush(nil) // the server's Finished ends it in TLS 1.2
	last = must(l.server.Seal(last, []byte("early")))
	if l.client.State() != Handshaking {
		t.Fatalf("state %v before the server's Finished", l.client.State())
	}
	size := len(last)
	l.toClient(last)
	if l.err != nil || string(l.data) != "early" || l.client.State() != Established {
		t.Fatalf("got %q, error %v, state %v", l.data, l.err, l.client.State())
	}
	if got := l.client.Info().Received; got != l.server.Info().Sent || got >= int64(l.offset) {
		t.Errorf("%d bytes of handshake; the server sent %d, and %d in all, %d at last", got, l.server.Info().Sent, l.offset, size)
	}
}

func TestExchangesOfAnySize(t *testing.T) {
	for _, version := range []string{"1.2", "1.3"} {
		l := established(t, newContext(t, clientConfig(version)), serverConfig())
		rapid.Check(t, func(rt *rapid.T) {
			size := rapid.OneOf(rapid.IntRange(0, 300), rapid.IntRange(16380, 16390), rapid.IntRange(0, 100_000))
			request := bytes.Repeat([]byte{'q'}, size.Draw(rt, "request"))
			response := bytes.Repeat([]byte{'r'}, size.Draw(rt, "response"))
			l.piece = rapid.SampledFrom([]int{0, 1000, 4096, 64 << 10}).Draw(rt, "piece")
			l.exchange(t, request, response)
		})
	}
}

// Open hands out the data of all records at once, and keeps nothing of its input.
func TestManyRecordsInOneRead(t *testing.T) {
	l, s, _ := forged(t, "1.3")
	var in, want []byte
	for i := range 500 {
		content := fmt.Appendf(nil, "%d,", i)
		want = append(want, content...)
		in = append(in, s.record(recordData, content)...)
	}
	tail := s.record(recordData, []byte("end"))
	in = append(in, tail[:len(tail)-1]...)
	got, err := l.client.Open(in)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("got %q, error %v", got, err)
	}
	clear(in)
	if got, err = l.client.Open(tail[len(tail)-1:]); err != nil || string(got) != "end" {
		t.Errorf("got %q of the last record, error %v", got, err)
	}
}

// Data that precedes a fault is handed out with it.
func TestDataBeforeFault(t *testing.T) {
	l, s, _ := forged(t, "1.3")
	bad := s.record(recordData, []byte("good"))
	broken := s.record(recordData, []byte("bad"))
	broken[len(broken)-1] ^= 1
	got, err := l.client.Open(append(bad, broken...))
	if string(got) != "good" || !errors.Is(err, ErrForged) || l.client.State() != Failed {
		t.Errorf("got %q, error %v, state %v", got, err, l.client.State())
	}
	if !l.client.Pending() {
		t.Error("no alert for the server")
	}
}

// The answer to a key update leaves before data that is sealed after it, whichever way
// it is asked for.
func TestKeyUpdateIsAnswered(t *testing.T) {
	for _, flush := range []bool{false, true} {
		t.Run(fmt.Sprint("flush ", flush), func(t *testing.T) {
			l, s, c := forged(t, "1.3")
			out := must(l.client.Seal(nil, []byte("before")))
			l.toClient(s.record(recordHandshake, updateRequested))
			if l.err != nil || !l.client.Pending() {
				t.Fatalf("error %v, pending %v", l.err, l.client.Pending())
			}
			if flush {
				out = l.client.Flush(out)
			}
			out = must(l.client.Seal(out, []byte("after")))
			if l.client.Pending() {
				t.Error("the answer is still pending")
			}
			kind, content, rest := c.open(t, out)
			if kind != recordData || string(content) != "before" {
				t.Fatalf("type %d, %q", kind, content)
			}
			kind, content, rest = c.open(t, rest)
			if kind != recordHandshake || !bytes.Equal(content, updateSilent) {
				t.Fatalf("type %d, %x; want a key update", kind, content)
			}
			kind, content, rest = c.updated().open(t, rest)
			if kind != recordData || string(content) != "after" || len(rest) > 0 {
				t.Fatalf("type %d, %q and %d bytes more", kind, content, len(rest))
			}
			l.toClient(s.updated().record(recordData, []byte("fine")))
			if l.err != nil || string(l.data) != "fine" {
				t.Errorf("got %q, error %v", l.data, l.err)
			}
		})
	}
}

func TestCloseNotify(t *testing.T) {
	for _, version := range []string{"1.2", "1.3"} {
		l := established(t, newContext(t, clientConfig(version)), serverConfig())
		out := l.client.CloseNotify(nil)
		if again := l.client.CloseNotify(nil); len(again) > 0 {
			t.Errorf("%s: %d more bytes", version, len(again))
		}
		if _, err := l.server.Open(out); err != nil || l.server.State() != Ended {
			t.Errorf("%s: the server's state is %v, error %v", version, l.server.State(), err)
		}
		if _, err := l.client.Seal(nil, []byte("x")); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: sealing after it: %v", version, err)
		}
		// The other direction is still open.
		l.toClient(must(newSealer(l.server).Seal(nil, []byte("bye"))))
		if l.err != nil || string(l.data) != "bye" {
			t.Errorf("%s: got %q, error %v", version, l.data, l.err)
		}
	}
}

// newSealer lets a test's server send after it received close_notify, as TLS 1.3 permits.
func newSealer(c *Conn) *Conn {
	c.state = Established
	return c
}

func TestWrongOrder(t *testing.T) {
	x := newContext(t, clientConfig("1.3"))
	c := x.Conn()
	seal := func() error { _, err := c.Seal(nil, []byte("x")); return err }
	if _, err := c.Open([]byte("x")); !errors.Is(err, ErrIdle) {
		t.Errorf("opening before the start: %v", err)
	}
	if err := seal(); !errors.Is(err, ErrIdle) {
		t.Errorf("sealing before the start: %v", err)
	}
	if err := c.End(); err != nil {
		t.Errorf("the end before the start: %v", err)
	}
	if out := c.CloseNotify(nil); len(out) > 0 {
		t.Errorf("close_notify before the start: %x", out)
	}
	if out := must(c.Start(nil)); len(out) < 100 || c.State() != Handshaking {
		t.Errorf("%d bytes of client hello, state %v", len(out), c.State())
	}
	if err := seal(); !errors.Is(err, ErrIdle) {
		t.Errorf("sealing in the handshake: %v", err)
	}
	if out := c.CloseNotify(nil); len(out) > 0 {
		t.Errorf("close_notify in the handshake: %x", out)
	}
	if data, err := c.Open(nil); len(data) > 0 || err != nil || c.State() != Handshaking {
		t.Errorf("nothing opened: %q, error %v, state %v", data, err, c.State())
	}
	c.Reset()
	if c.State() != Idle || c.Info() != (Info{}) || c.Pending() {
		t.Errorf("state %v, info %+v, pending %v after a reset", c.State(), c.Info(), c.Pending())
	}
}

// A connection can be used for one after another, also when a handshake was given up.
func TestReuse(t *testing.T) {
	x := newContext(t, clientConfig("1.3"))
	l := newLink(t, x, serverConfig())
	for i := range 4 {
		out := must(l.client.Start([]byte("keep")))
		if !bytes.HasPrefix(out, []byte("keep")) {
			t.Fatal("what was in dst is gone")
		}
		if i%2 == 0 {
			continue // given up
		}
		l.server.Reset()
		l.server = newServer(serverConfig())
		must(l.server.Open(out[4:]))
		l.toClient(l.server.Flush(nil))
		must(l.server.Open(l.client.Flush(nil)))
		l.exchange(t, []byte("q"), []byte("r"))
	}
}

// An established connection has no goroutine; a handshake has one, until it ends.
func TestGoroutines(t *testing.T) {
	x := newContext(t, clientConfig(""))
	for range 20 {
		established(t, x, serverConfig())
	}
	if n := coroutines(); n != 0 {
		t.Errorf("%d goroutines for 20 connections", n)
	}
	c := x.Conn()
	must(c.Start(nil))
	if n := coroutines(); n != 1 {
		t.Errorf("%d goroutines for a handshake, want its coroutine", n)
	}
	if err := c.End(); err == nil {
		t.Error("no error for a handshake that was cut off")
	}
	if n := coroutines(); n != 0 {
		t.Errorf("%d goroutines are left of a handshake that failed", n)
	}
}

// coroutines counts the handshakes that a goroutine is carrying out. Goroutines of an earlier test may
// still be ending.
func coroutines() int {
	stacks := make([]byte, 1<<20)
	return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte("tlslayer.(*Conn).begin.func1("))
}
