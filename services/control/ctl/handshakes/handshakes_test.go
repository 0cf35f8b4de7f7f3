package handshakes

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"dyno/internal/leak"
)

// hangGuard bounds every wait of these tests. It is no expectation of speed.
const hangGuard = time.Minute

// delay is how long servers take to answer a ClientHello.
const delay = 20 * time.Millisecond

// TestMain lets the test binary be somebody without rights.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "unprivileged" {
		_, err := Begin()
		fmt.Println(err, errors.Is(err, os.ErrPermission))
		return
	}
	leak.Main(m)
}

func begin(t testing.TB) *Watch {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to load eBPF programs")
	}
	w, err := Begin()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func count(t testing.TB, w *Watch, at map[netip.AddrPort]string) map[string]Tally {
	t.Helper()
	all, err := w.Count(at)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// certificate is one that nobody has signed but itself.
func certificate(t testing.TB) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool
}

// serve answers each line with the same line, behind a handshake.
func serve(t testing.TB, address string, config *tls.Config) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Skipf("cannot listen on %s: %v", address, err)
	}
	var connections sync.WaitGroup
	connections.Go(func() {
		for {
			raw, err := l.Accept()
			if err != nil {
				return
			}
			connections.Go(func() {
				c := tls.Server(raw, config)
				defer c.Close()
				_ = raw.SetDeadline(time.Now().Add(hangGuard))
				_, _ = io.Copy(c, c) // until the client has done, or is refused
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		connections.Wait()
	})
	return netip.MustParseAddrPort(l.Addr().String())
}

// exchange makes a handshake and sends a line and gets it back. It returns how long the handshake took.
func exchange(at netip.AddrPort, config *tls.Config) (time.Duration, error) {
	raw, err := net.DialTimeout("tcp", at.String(), hangGuard)
	if err != nil {
		return 0, err
	}
	defer raw.Close()
	if err := raw.SetDeadline(time.Now().Add(hangGuard)); err != nil {
		return 0, err
	}
	c := tls.Client(raw, config)
	began := time.Now()
	if err := c.Handshake(); err != nil {
		return 0, err
	}
	took := time.Since(began)
	if _, err := io.WriteString(c, "x\n"); err != nil {
		return took, err
	}
	_, err = io.ReadFull(c, make([]byte, 2))
	return took, errors.Join(err, c.Close())
}

// slowly takes its time to answer a ClientHello, twice as long for the first one, and gives the rest of
// the configuration.
func slowly(config *tls.Config) *tls.Config {
	var answered atomic.Bool
	return &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if time.Sleep(delay); answered.CompareAndSwap(false, true) {
			time.Sleep(delay)
		}
		return config, nil
	}}
}

// TestHandshakes: of each kind of handshake the time lies between what the server took at least and
// what the client has measured.
func TestHandshakes(t *testing.T) {
	own, roots := certificate(t)
	client := func(change func(*tls.Config)) *tls.Config {
		c := &tls.Config{RootCAs: roots, ServerName: "localhost"}
		change(c)
		return c
	}
	server := func(change func(*tls.Config)) *tls.Config {
		c := &tls.Config{Certificates: []tls.Certificate{own}}
		change(c)
		return c
	}
	only := func(version uint16) func(*tls.Config) {
		return func(c *tls.Config) { c.MinVersion, c.MaxVersion = version, version }
	}
	nothing := func(*tls.Config) {}
	for _, test := range []struct {
		name           string
		address        string
		client, server *tls.Config
	}{
		{"TLS 1.3", "127.0.0.1:0", client(nothing), server(nothing)},
		{"TLS 1.3 over IPv6", "[::1]:0", client(nothing), server(nothing)},
		{"TLS 1.2", "127.0.0.1:0", client(only(tls.VersionTLS12)), server(nothing)},
		{"TLS 1.2 over IPv6", "[::1]:0", client(only(tls.VersionTLS12)), server(nothing)},
		{"TLS 1.2 without tickets", "127.0.0.1:0", client(only(tls.VersionTLS12)), server(func(c *tls.Config) { c.SessionTicketsDisabled = true })},
		{"another group than the first", "127.0.0.1:0", // a HelloRetryRequest
			client(func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.X25519, tls.CurveP384} }),
			server(func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.CurveP384} })},
		{"TLS 1.3 with a client certificate", "127.0.0.1:0",
			client(func(c *tls.Config) { c.Certificates = []tls.Certificate{own} }),
			server(func(c *tls.Config) { c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, roots })},
		{"TLS 1.2 with a client certificate", "127.0.0.1:0",
			client(func(c *tls.Config) {
				c.Certificates = []tls.Certificate{own}
				c.MaxVersion = tls.VersionTLS12
			}),
			server(func(c *tls.Config) { c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, roots })},
		{"TLS 1.3 resumed", "127.0.0.1:0", client(func(c *tls.Config) { c.ClientSessionCache = tls.NewLRUClientSessionCache(1) }), server(nothing)},
		{"TLS 1.2 resumed", "127.0.0.1:0", client(func(c *tls.Config) {
			c.ClientSessionCache = tls.NewLRUClientSessionCache(1)
			c.MaxVersion = tls.VersionTLS12
		}), server(nothing)},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := begin(t)
			at := serve(t, test.address, slowly(test.server))
			groups := map[netip.AddrPort]string{at: "s"}
			count(t, w, groups)
			var total, longest time.Duration
			const n = 3 // of which the first cannot resume
			for range n {
				took, err := exchange(at, test.client)
				if err != nil {
					t.Fatal(err)
				}
				total, longest = total+took, max(longest, took)
			}
			got := count(t, w, groups)["s"]
			if got.Completed != n || got.Failed != 0 || got.Max < 2*delay || got.Max > longest || got.Mean() < (n+1)*delay/n || got.Total > total {
				t.Errorf("%+v; the client has measured %v in all, %v at most", got, total, longest)
			}
			if left := pendingOf(t, w); left != 0 {
				t.Errorf("%d handshakes are still pending", left)
			}
		})
	}
}

// pendingOf is how many handshakes are under way.
func pendingOf(t *testing.T, w *Watch) (n int) {
	t.Helper()
	var key [2]address
	var value handshake
	all := w.pending.Iterate()
	for all.Next(&key, &value) {
		n++
	}
	if err := all.Err(); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestFailures: whatever ends a handshake before its end is a failure, and none is a handshake.
func TestFailures(t *testing.T) {
	own, roots := certificate(t)
	trusting := &tls.Config{RootCAs: roots, ServerName: "localhost"}
	with := func(config *tls.Config, version uint16) *tls.Config {
		c := config.Clone()
		c.MinVersion, c.MaxVersion = version, version
		return c
	}
	doubting := &tls.Config{ServerName: "localhost"} // it does not know who has signed
	handshake := func(config *tls.Config) func(netip.AddrPort) error {
		return func(at netip.AddrPort) error {
			if _, err := exchange(at, config); err == nil {
				return errors.New("want a failure")
			}
			return nil
		}
	}
	raw := func(sent string, end func(*net.TCPConn) error) func(netip.AddrPort) error {
		return func(at netip.AddrPort) error {
			c, err := net.DialTimeout("tcp", at.String(), hangGuard)
			if err != nil {
				return err
			}
			defer c.Close()
			if _, err := io.WriteString(c, sent); err != nil {
				return err
			}
			if err := end(c.(*net.TCPConn)); err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, c)
			if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed) {
				err = nil
			}
			return err
		}
	}
	half := "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
	for _, test := range []struct {
		name   string
		server *tls.Config
		client func(netip.AddrPort) error
		failed uint64
	}{
		{"no version in common", with(&tls.Config{Certificates: []tls.Certificate{own}}, tls.VersionTLS13), handshake(with(trusting, tls.VersionTLS12)), 1},
		{"TLS 1.3, an unknown authority", &tls.Config{Certificates: []tls.Certificate{own}}, handshake(with(doubting, tls.VersionTLS13)), 1},
		{"TLS 1.2, an unknown authority", &tls.Config{Certificates: []tls.Certificate{own}}, handshake(with(doubting, tls.VersionTLS12)), 1},
		{"TLS 1.2, no client certificate", &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAnyClientCert}, handshake(with(trusting, tls.VersionTLS12)), 1},
		{"the client goes", &tls.Config{Certificates: []tls.Certificate{own}}, raw(half, (*net.TCPConn).CloseWrite), 1},
		{"the client resets", &tls.Config{Certificates: []tls.Certificate{own}}, raw(half, func(c *net.TCPConn) error { return errors.Join(c.SetLinger(0), c.Close()) }), 1},
		{"no TLS at all", &tls.Config{Certificates: []tls.Certificate{own}}, raw("GET / HTTP/1.1\r\n\r\n", (*net.TCPConn).CloseWrite), 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := begin(t)
			at := serve(t, "127.0.0.1:0", test.server)
			groups := map[netip.AddrPort]string{at: "s"}
			count(t, w, groups)
			if err := test.client(at); err != nil {
				t.Fatal(err)
			}
			// The end of a connection may be seen a moment after its client has gone on.
			var got Tally
			for end := time.Now().Add(hangGuard); ; time.Sleep(time.Millisecond) {
				if got = count(t, w, groups)["s"]; got.Failed >= test.failed || time.Now().After(end) {
					break
				}
			}
			if got != (Tally{Failed: test.failed}) {
				t.Errorf("%+v; want %d failures", got, test.failed)
			}
			if left := pendingOf(t, w); left != 0 {
				t.Errorf("%d handshakes are still pending", left)
			}
		})
	}
}

// TestGroups: addresses that nobody asks for are passed over, several addresses make a group, and
// an address takes what it counts from then on to another group.
func TestGroups(t *testing.T) {
	w := begin(t)
	own, roots := certificate(t)
	config := &tls.Config{RootCAs: roots, ServerName: "localhost"}
	server := &tls.Config{Certificates: []tls.Certificate{own}}
	a, b, other := serve(t, "127.0.0.1:0", server), serve(t, "[::1]:0", server), serve(t, "127.0.0.1:0", server)
	handshakes := func(n int) {
		t.Helper()
		for range n {
			for _, at := range []netip.AddrPort{a, b, other} {
				if _, err := exchange(at, config); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	handshakes(1)
	first := map[netip.AddrPort]string{a: "x", b: "x"}
	if got := count(t, w, first); got["x"] != (Tally{}) {
		t.Errorf("before any was followed: %+v", got)
	}
	handshakes(2)
	before := count(t, w, first)
	if len(before) != 1 || before["x"].Completed != 4 {
		t.Errorf("%+v; want 4 of x", before)
	}
	second := map[netip.AddrPort]string{a: "y"}
	count(t, w, second)
	handshakes(1)
	after := count(t, w, second)
	if len(after) != 2 || after["x"].Completed != 5 || after["y"].Completed != 1 || after["y"].Max > after["y"].Total {
		t.Errorf("%+v; want 5 of x and 1 of y", after)
	}
}

// TestOtherClients: openssl and curl shake hands in their own ways, with a client's own order of messages.
func TestOtherClients(t *testing.T) {
	own, _ := certificate(t)
	at := serve(t, "127.0.0.1:0", slowly(&tls.Config{Certificates: []tls.Certificate{own}, CurvePreferences: []tls.CurveID{tls.CurveP256}}))
	for _, version := range []string{"-tls1_3", "-tls1_2"} {
		for _, groups := range []string{"P-256", "X25519:P-256"} {
			t.Run(version+" "+groups, func(t *testing.T) {
				w := begin(t)
				here := map[netip.AddrPort]string{at: "s"}
				count(t, w, here)
				openssl := exec.Command("openssl", "s_client", version, "-groups", groups, "-connect", at.String())
				openssl.Stdin = strings.NewReader("Q\n")
				var said bytes.Buffer
				openssl.Stdout, openssl.Stderr = &said, &said
				began := time.Now()
				if err := openssl.Run(); err != nil {
					t.Fatalf("%v\n%s", err, said.String())
				}
				if got := count(t, w, here)["s"]; got.Completed != 1 || got.Failed != 0 || got.Max < delay || got.Max > time.Since(began) {
					t.Errorf("%+v\n%s", got, said.String())
				}
			})
		}
	}
	t.Run("curl refuses", func(t *testing.T) {
		w := begin(t)
		here := map[netip.AddrPort]string{at: "s"}
		count(t, w, here)
		out, err := exec.Command("curl", "-sS", "https://"+at.String()+"/").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "certificate") {
			t.Fatalf("%v: %s", err, out)
		}
		var got Tally
		for end := time.Now().Add(hangGuard); got.Failed == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
			got = count(t, w, here)["s"]
		}
		if got.Failed != 1 || got.Completed != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// TestManyAtOnce: none is lost or counted twice, on however many CPUs they are.
func TestManyAtOnce(t *testing.T) {
	w := begin(t)
	own, roots := certificate(t)
	at := serve(t, "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{own}})
	here := map[netip.AddrPort]string{at: "s"}
	count(t, w, here)
	const clients, each = 8, 25
	var wait sync.WaitGroup
	errs := make([]error, clients)
	for i := range clients {
		wait.Go(func() {
			version := []uint16{tls.VersionTLS12, tls.VersionTLS13}[i%2]
			config := &tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: version, MaxVersion: version}
			for range each {
				_, err := exchange(at, config)
				errs[i] = errors.Join(errs[i], err)
			}
		})
	}
	wait.Wait()
	if err := errors.Join(slices.Clone(errs)...); err != nil {
		t.Fatal(err)
	}
	if got := count(t, w, here)["s"]; got.Completed != clients*each || got.Failed != 0 {
		t.Errorf("%+v; want %d", got, clients*each)
	}
}

// TestUnprivileged: who may not watch is told.
func TestUnprivileged(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to become somebody without rights")
	}
	cmd := exec.Command("/proc/self/exe", "unprivileged")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "handshakes: ") || !strings.HasSuffix(string(out), " true\n") {
		t.Errorf("%v: %s", err, out)
	}
}
