package tlslayer

import (
	"bytes"
	"crypto/tls"
	"testing"

	"dyno/load/wire"
)

// clientConfig is what most tests' clients have. Without ML-KEM, handshakes are short, so
// that there are not too many places to cut at.
func clientConfig(version string) Config {
	return Config{
		ServerName: serverName, CA: File{"ca.pem", authority().cert}, Groups: []string{"x25519", "secp256r1"},
		MinVersion: version, MaxVersion: version,
	}
}

// serverConfig is what most tests' servers have.
func serverConfig() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{serverCredentials().pair}, SessionTicketsDisabled: true}
}

func newContext(tb testing.TB, c Config) *Context {
	tb.Helper()
	x, err := NewContext(c)
	if err != nil {
		tb.Fatal(err)
	}
	return x
}

// newServer returns the server's side of a connection: crypto/tls, run in the same way
// as the client's.
func newServer(config *tls.Config) *Conn {
	x := &Context{config: config, failures: map[wire.Error]*wire.Error{}}
	c := x.Conn()
	c.begin(tls.Server(&c.transport, config))
	_ = c.shake() // has nothing to read yet
	return c
}

// A link carries bytes between a client and a server. It may cut the bytes to the client into pieces,
// or off.
type link struct {
	client, server *Conn

	cut   int // the place at which to cut; 0: none
	piece int // the size of all pieces; 0: whole
	limit int // bytes that the client gets; 0: none

	offset int    // bytes that the client got
	data   []byte // that it returned
	err    error  // the client's first
}

func newLink(tb testing.TB, x *Context, config *tls.Config) *link {
	tb.Helper()
	l := &link{client: x.Conn(), server: newServer(config)}
	tb.Cleanup(func() {
		l.client.Reset()
		l.server.Reset()
	})
	return l
}

// handshake runs until neither side has anything to say.
func (l *link) handshake() *link {
	var out []byte
	out, l.err = l.client.Start(nil)
	for len(out) > 0 {
		_, _ = l.server.Open(out) // its error is for the client to find
		l.toClient(l.server.Flush(nil))
		out = l.client.Flush(nil)
	}
	return l
}

// toClient carries bytes to the client.
func (l *link) toClient(p []byte) {
	for len(p) > 0 && l.err == nil {
		n := len(p)
		if l.cut > l.offset {
			n = min(n, l.cut-l.offset)
		}
		if l.piece > 0 {
			n = min(n, l.piece)
		}
		if l.limit > 0 {
			if n = min(n, l.limit-l.offset); n == 0 {
				return
			}
		}
		given := bytes.Clone(p[:n])
		data, err := l.client.Open(given)
		l.data, l.err = append(l.data, data...), err
		clear(given) // it was to be used up
		l.offset += n
		p = p[n:]
	}
}

// established runs a handshake that must not fail.
func established(tb testing.TB, x *Context, config *tls.Config) *link {
	tb.Helper()
	l := newLink(tb, x, config).handshake()
	if l.err != nil || l.client.State() != Established || l.server.State() != Established {
		tb.Fatalf("client %v, server %v, error %v (server's: %v)", l.client.State(), l.server.State(), l.err, l.server.err)
	}
	return l
}

// exchange carries data from the client to the server, and other data back.
func (l *link) exchange(tb testing.TB, request, response []byte) {
	tb.Helper()
	out, err := l.client.Seal(nil, request)
	if err != nil {
		tb.Fatal(err)
	}
	got, err := l.server.Open(out)
	if err != nil || !bytes.Equal(got, request) {
		tb.Fatalf("the server got %d bytes, want %d; error %v", len(got), len(request), err)
	}
	if out, err = l.server.Seal(nil, response); err != nil {
		tb.Fatal(err)
	}
	l.data = nil
	l.toClient(out)
	if l.err != nil || !bytes.Equal(l.data, response) {
		tb.Fatalf("the client got %d bytes, want %d; error %v", len(l.data), len(response), l.err)
	}
}
