package tlslayer

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"dyno/load/wire"
)

// serverHello is one for TLS 1.2 and below: a version, a random, no session, a suite,
// no compression, no extensions.
func serverHello(version, suite uint16) []byte {
	m := []byte{2, 0, 0, 38, byte(version >> 8), byte(version)}
	m = append(m, bytes.Repeat([]byte{7}, 32)...)
	m = append(m, 0, byte(suite>>8), byte(suite), 0)
	return append([]byte{22, 3, 3, 0, byte(len(m))}, m...)
}

// badAnswers are what a server may answer instead of a handshake.
var badAnswers = []struct {
	name, answer string
	err          string // part of the text: when it is there, or at the end; "" where crypto/tls has the words
}{
	{"nothing", "", "closed the connection instead of answering the handshake"},
	{"plain HTTP", "HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak TLS: it answered in plain HTTP"},
	{"SSH", "SSH-2.0-OpenSSH_9.2\r\n", `does not speak TLS: its answer begins with "SSH-2"`},
	{"a few bytes", "no\n", `does not speak TLS: it answered "no\n" and closed`},
	{"control bytes", "\x00\x1b[2Jx", `its answer begins with "\x00\x1b[2J"`},
	{"SSL 2", "\x80\x2e\x01\x00\x02", `its answer begins with "\x80.\x01\x00\x02"`},
	{"data at once", "\x17\x03\x03\x00\x01x", "it begins with a record of type 23"},
	{"half a header", "\x16\x03\x03", "closed the connection in the middle of the handshake"},
	{"a record that never ends", "\x16\x03\x03\x40\x00\x02", "closed the connection in the middle of the handshake"},
	{"a record that is too long", "\x16\x03\x03\xff\xff", "a record longer than it may be"},
	{"a message that is too long", "\x16\x03\x03\x00\x04\x02\xff\xff\xff", ""},
	{"an unknown message", "\x16\x03\x03\x00\x04\x63\x00\x00\x00", ""},
	{"a message out of place", "\x16\x03\x03\x00\x04\x0e\x00\x00\x00", ""},
	{"an empty handshake record", "\x16\x03\x03\x00\x00", ""},
	{"an alert of three bytes", "\x15\x03\x03\x00\x03\x02\x28\x00", ""},
	{"close_notify", "\x15\x03\x03\x00\x02\x01\x00", "ended the session in the middle of the handshake"},
	{"an alert about the name", "\x15\x03\x03\x00\x02\x02\x70", `unrecognized_name: it does not know the server name "server.test"`},
	{"an unknown alert", "\x15\x03\x03\x00\x02\x02\x63", "the server refused the handshake: alert 99"},
	{"endless warnings", strings.Repeat("\x15\x03\x01\x00\x02\x01\x70", 50), ""},
	{"TLS 1.0", string(serverHello(tls.VersionTLS10, 0xc013)), "the server chose TLS 1.0: only TLS 1.2 and TLS 1.3 are offered"},
	{"TLS 1.9", string(serverHello(0x030a, 0xc013)), "the server chose 0x030A: only"},
	{"a suite that was not offered", string(serverHello(tls.VersionTLS12, 0x0001)), ""},
	{"another record version", string(serverHello(tls.VersionTLS12, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256)) + "\x16\x03\x00\x00\x01\x0b", "a record of version 0x0300, want 0x0303"},
	{"no record after the hello", string(serverHello(tls.VersionTLS12, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256)) + "HELLO", `"HELLO" where a record should begin`},
}

func TestBadAnswers(t *testing.T) {
	for _, c := range badAnswers {
		t.Run(c.name, func(t *testing.T) {
			for _, piece := range []int{0, 1} {
				x := newContext(t, clientConfig(""))
				l := &link{client: x.Conn(), piece: piece}
				must(l.client.Start(nil))
				l.toClient([]byte(c.answer))
				if l.err == nil {
					l.err = l.client.End()
				}
				if wire.KindOf(l.err) != wire.TLS || !strings.Contains(l.err.Error(), c.err) {
					t.Errorf("%v\nwant one of kind tls with %q", l.err, c.err)
				}
				if l.client.State() != Failed || x.Failed() != 1 {
					t.Errorf("state %v, %d handshakes failed", l.client.State(), x.Failed())
				}
			}
		})
	}
}

// Faults of a certificate, and their remedies.
func TestUntrusted(t *testing.T) {
	stranger := issue("a stranger", nil, asAuthority)
	self := issue(serverName, nil, nil)
	valid := func(from, to string) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = must(time.Parse(time.DateOnly, from)), must(time.Parse(time.DateOnly, to))
		}
	}
	for _, c := range []struct {
		name   string
		server *credentials
		edit   func(*Config)
		err    string // part of the text; "" when it is trusted
	}{
		{"trusted", serverCredentials(), nil, ""},
		{"self-signed and given", self, func(c *Config) { c.CA = File{"self.pem", self.cert} }, ""},
		{
			"an unknown authority", issue(serverName, stranger, nil), nil,
			"the server's certificate is signed by an unknown authority (a stranger): give its certificate by --cacert, or skip the check by --insecure",
		},
		{
			"self-signed", issue("me", nil, func(c *x509.Certificate) { c.DNSNames = []string{serverName} }), nil,
			"the server's certificate (me) is self-signed: trust it by --cacert, or skip the check by --insecure",
		},
		{"insecure", issue("me", nil, nil), func(c *Config) { c.Insecure = true }, ""},
		{
			"another name", serverCredentials(), func(c *Config) { c.ServerName = "other.test" },
			`the server's certificate is for server.test, 127.0.0.1, not for "other.test": ask for a name that it has, or skip the check by --insecure`,
		},

		{
			"many names", issue("a", authority(), func(c *x509.Certificate) { c.DNSNames = []string{"a", "b", "c", "d", "e"} }), nil,
			`the server's certificate is for a, b, c, 2 more, not for "server.test"`,
		},
		{
			"no name", issue("a", authority(), func(c *x509.Certificate) { c.DNSNames = nil }), nil,
			"the server's certificate is for no name that counts (it has no subject alternative names)",
		},
		{
			"expired", issue(serverName, authority(), valid("2020-02-03", "2021-04-05")), nil,
			"the server's certificate or one of its chain (server.test) is valid from 2020-02-03 to 2021-04-05 only: renew it, correct the clock, or skip the check by --insecure",
		},
		{"not yet valid", issue(serverName, authority(), valid("2120-02-03", "2121-04-05")), nil, "is valid from 2120-02-03 to 2121-04-05 only"},
		{
			"for clients only", issue(serverName, authority(), func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }), nil,
			"the server's certificate is not accepted: ",
		},
		{
			"words that are no words", issue("x\x1b[2J"+strings.Repeat("y", 60), nil, func(c *x509.Certificate) { c.DNSNames = []string{serverName} }), nil,
			"(x?[2Jyyy",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, version := range []string{"1.2", "1.3"} {
				client, server := clientConfig(version), serverConfig()
				if c.edit != nil {
					c.edit(&client)
				}
				server.Certificates = []tls.Certificate{c.server.pair}
				x := newContext(t, client)
				l := newLink(t, x, server).handshake()
				if c.err == "" {
					if l.err != nil {
						t.Errorf("%s: %v", version, l.err)
					}
					continue
				}
				if wire.KindOf(l.err) != wire.TLS || !strings.Contains(l.err.Error(), c.err) {
					t.Errorf("%s: %v\nwant one of kind tls with %q", version, l.err, c.err)
				}
				if l.server.err == nil || !strings.Contains(l.server.err.Text, "bad_certificate") {
					t.Errorf("%s: the server learnt %v, want an alert", version, l.server.err)
				}
				// The engine counts errors by value.
				if again := newLink(t, x, server).handshake(); !errors.Is(again.err, l.err) {
					t.Errorf("%s: the same fault is another error: %v, %v", version, l.err, again.err)
				}
			}
		})
	}
}

// Refusals of a server, and their remedies.
func TestRefused(t *testing.T) {
	strict := func(c *tls.Config) {
		c.ClientAuth = tls.RequireAndVerifyClientCert
		c.ClientCAs = x509.NewCertPool()
		c.ClientCAs.AddCert(authority().parsed)
	}
	with := func(who *credentials) func(*Config) {
		return func(c *Config) { c.Certificate, c.Key = File{"me.pem", who.cert}, File{"me.key", who.key} }
	}
	for _, c := range []struct {
		name    string
		version string
		edit    func(*Config)
		server  func(*tls.Config)
		err     string // "": none
	}{
		{"a certificate", "1.2", with(clientCredentials()), strict, ""},
		{"a certificate", "1.3", with(clientCredentials()), strict, ""},
		{"no certificate", "1.2", nil, strict, "the server refused the handshake: handshake_failure: the two may share no version, cipher suite or group, or it wants a client certificate"},
		{"no certificate", "1.3", nil, strict, "the server ended the session by an alert: certificate_required: it wants a client certificate"},
		{
			"another's certificate", "1.3", with(issue("other", nil, nil)), strict,
			"the server ended the session by an alert: unknown_ca: it does not know who signed the client certificate",
		},
		{"another's certificate", "1.2", with(issue("other", nil, nil)), strict, "unknown_ca: it does not know who signed the client certificate"},
		{
			"no version in common", "1.3", nil, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 },
			"the server refused the handshake: protocol_version: only TLS 1.3 is offered",
		},
		{
			"no suite in common", "1.2", func(c *Config) { c.CipherSuites = []string{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"} }, nil,
			"handshake_failure: the two may share no version, cipher suite or group",
		},
		{
			"no protocol in common", "1.3", func(c *Config) { c.ALPN = []string{"h2", "h3"} },
			func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} },
			"no_application_protocol: it speaks none of the protocols offered by ALPN: h2, h3",
		},
		{
			"an internal error", "1.3", nil,
			func(c *tls.Config) {
				c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, errors.New("broken") }
			},
			"internal_error: its log may tell more",
		},
	} {
		t.Run(c.version+" "+c.name, func(t *testing.T) {
			client, server := clientConfig(c.version), serverConfig()
			if c.edit != nil {
				c.edit(&client)
			}
			if c.server != nil {
				c.server(server)
			}
			l := newLink(t, newContext(t, client), server).handshake()
			switch {
			case c.err == "" && (l.err != nil || l.server.State() != Established):
				t.Errorf("%v, the server's state is %v", l.err, l.server.State())
			case c.err != "" && (wire.KindOf(l.err) != wire.TLS || !strings.Contains(l.err.Error(), c.err)):
				t.Errorf("%v\nwant one of kind tls with %q", l.err, c.err)
			}
		})
	}
}

// Faults of a server after the handshake.
func TestFaultsOfTheSession(t *testing.T) {
	repeat := func(n int, record func() []byte) (all []byte) {
		for range n {
			all = append(all, record()...)
		}
		return all
	}
	for _, c := range []struct {
		name, version string
		send          func(*forger) []byte
		err           error  // or
		text          string // part of it; "" where crypto/tls has the words
		kind          wire.Kind
	}{
		{"renegotiation", "1.2", func(f *forger) []byte { return f.record(recordHandshake, helloRequest) }, ErrRenegotiation, "", 0},
		{"a forged record", "1.2", func(f *forger) []byte { r := f.record(recordData, []byte("x")); r[8] ^= 1; return r }, ErrForged, "", 0},
		{"a forged record", "1.3", func(f *forger) []byte { r := f.record(recordData, []byte("x")); r[8] ^= 1; return r }, ErrForged, "", 0},
		{"a repeated record", "1.3", func(f *forger) []byte { r := f.record(recordData, []byte("x")); return append(r, r...) }, ErrForged, "", 0},
		{"a missing record", "1.2", func(f *forger) []byte { f.sequence++; return f.record(recordData, []byte("x")) }, ErrForged, "", 0},
		{"empty records", "1.2", func(f *forger) []byte { return repeat(50, func() []byte { return f.record(recordData, nil) }) }, ErrNoData, "", 0},
		{"empty records", "1.3", func(f *forger) []byte { return repeat(50, func() []byte { return f.record(recordData, nil) }) }, ErrNoData, "", 0},
		{"warnings", "1.2", func(f *forger) []byte {
			return repeat(50, func() []byte { return f.record(recordAlert, []byte{1, 50}) })
		}, ErrNoData, "", 0},
		{
			"tickets", "1.3", func(f *forger) []byte {
				ticket := []byte{4, 0, 0, 14, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 'x', 0, 0}
				return repeat(50, func() []byte { return f.record(recordHandshake, ticket) })
			}, ErrNoData, "", 0,
		},
		{
			"key updates without an answer", "1.3", func(f *forger) (all []byte) {
				for range 1000 {
					all = append(all, f.record(recordHandshake, updateRequested)...)
					*f = *f.updated()
					all = append(all, f.record(recordData, []byte("x"))...)
				}
				return all
			}, ErrKeyUpdates, "", 0,
		},
		{"a record that is too long", "1.3", func(*forger) []byte { return []byte{23, 3, 3, 0x41, 0x01} }, nil, "a record longer than it may be", wire.Protocol},
		{"a record that is too long", "1.2", func(*forger) []byte { return []byte{23, 3, 3, 0x48, 0x01} }, nil, "a record longer than it may be", wire.Protocol},
		{"data that is too long", "1.3", func(f *forger) []byte { return f.record(recordData, make([]byte, maxPlaintext+1)) }, nil, "record_overflow", wire.Protocol},
		{"another version", "1.3", func(*forger) []byte { return []byte{23, 3, 1, 0, 1} }, nil, "a record of version 0x0301", wire.Protocol},
		{"plain HTTP", "1.3", func(*forger) []byte { return []byte("HTTP/1.1 200 OK\r\n\r\n") }, nil, "plain HTTP", wire.Protocol},
		{"plain text", "1.3", func(*forger) []byte { return []byte("hello") }, nil, `"hello" where a record should begin`, wire.Protocol},
		{"a handshake", "1.3", func(f *forger) []byte { return f.record(recordHandshake, []byte{1, 0, 0, 0}) }, nil, "decode_error", wire.Protocol},
		{"a finished message", "1.3", func(f *forger) []byte { return f.record(recordHandshake, []byte{20, 0, 0, 0}) }, nil, "", wire.Protocol},
		{"half a message", "1.3", func(f *forger) []byte {
			return append(f.record(recordHandshake, updateSilent[:3]), f.record(recordData, []byte("x"))...)
		}, nil, "unexpected_message", wire.Protocol},
		{"an unknown type", "1.3", func(f *forger) []byte { return f.record(99, []byte("x")) }, nil, "unexpected_message", wire.Protocol},
		{"an alert", "1.3", func(f *forger) []byte { return f.record(recordAlert, []byte{2, 80}) }, nil, "the server ended the session by an alert: internal_error", wire.TLS},
		{"an alert", "1.2", func(f *forger) []byte { return f.record(recordAlert, []byte{2, 20}) }, nil, "the server ended the session by an alert: bad_record_mac", wire.TLS},
	} {
		t.Run(c.version+" "+c.name, func(t *testing.T) {
			l, s, _ := forged(t, c.version)
			l.toClient(c.send(s))
			switch {
			case c.err != nil && !errors.Is(l.err, c.err):
				t.Errorf("%v, want %v", l.err, c.err)
			case c.err == nil && (wire.KindOf(l.err) != c.kind || !strings.Contains(l.err.Error(), c.text)):
				t.Errorf("%v\nwant one of kind %v with %q", l.err, c.kind, c.text)
			}
			if l.client.State() != Failed {
				t.Errorf("state %v", l.client.State())
			}
			if _, err := l.client.Seal(nil, []byte("x")); !errors.Is(err, l.err) {
				t.Errorf("sealing afterwards: %v, want %v", err, l.err)
			}
			if size := len(l.client.transport.out); size > maxUnasked+1000 {
				t.Errorf("%d bytes to send", size)
			}
			if err := l.client.End(); !errors.Is(err, l.err) {
				t.Errorf("at the end: %v", err)
			}
		})
	}
}

// A context keeps a bounded number of errors, however many texts a server makes up.
func TestFailuresAreBounded(t *testing.T) {
	x := newContext(t, clientConfig(""))
	for i := range 10 * maxFailures {
		_ = x.failure(wire.TLS, fmt.Sprint(i))
	}
	if len(x.failures) != maxFailures {
		t.Errorf("%d errors are kept, want %d", len(x.failures), maxFailures)
	}
	first := x.failure(wire.TLS, "0")
	if again := x.failure(wire.TLS, "0"); again != first {
		t.Error("the same failure is two errors")
	}
	if other := x.failure(wire.Protocol, "0"); other == first || other.Kind != wire.Protocol {
		t.Error("two kinds are one error")
	}
}
