package tlslayer

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
	"time"
)

// A chain that was verified is not verified again for a while. Any other one is.
func TestVerifiedOnce(t *testing.T) {
	config := clientConfig("").tls(t)
	v := &verifier{roots: config.RootCAs, name: config.ServerName}
	config.VerifyConnection = v.verify
	x := newContext(t, clientConfig(""))
	x.config = config
	server := serverConfig()
	try := func() error { return newLink(t, x, server).handshake().err }

	if err := try(); err != nil {
		t.Fatal(err)
	}
	v.roots = x509.NewCertPool() // from here on nothing is in order
	if err := try(); err != nil {
		t.Errorf("the same chain: %v", err)
	}
	server.Certificates = []tls.Certificate{issue(serverName, authority(), nil).pair}
	if err := try(); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("another certificate: %v", err)
	}
	server.Certificates = []tls.Certificate{serverCredentials().pair}
	longer := serverCredentials().pair
	longer.Certificate = append(longer.Certificate[:1:1], authority().parsed.Raw)
	server.Certificates = []tls.Certificate{longer}
	if err := try(); err == nil {
		t.Error("a longer chain was taken for the same")
	}
	server.Certificates = []tls.Certificate{serverCredentials().pair}
	if err := try(); err != nil {
		t.Errorf("the same chain, after others that failed: %v", err)
	}
	v.until = time.Now().Add(-time.Second)
	if err := try(); err == nil {
		t.Error("the same chain is valid without end")
	}
}

// tls is crypto/tls's configuration of a test's.
func (c Config) tls(tb testing.TB) *tls.Config {
	tb.Helper()
	config, err := c.read(time.Now())
	if err != nil {
		tb.Fatal(err)
	}
	return config
}

// The certificates between the server's and the authority's come from the server.
func TestIntermediates(t *testing.T) {
	between := issue("between", authority(), asAuthority)
	leaf := issue(serverName, between, nil)
	x := newContext(t, clientConfig(""))
	server := serverConfig()
	server.Certificates = []tls.Certificate{leaf.pair}
	if err := newLink(t, x, server).handshake().err; err == nil || !strings.Contains(err.Error(), "unknown authority (between)") {
		t.Errorf("without the one between: %v", err)
	}
	whole := leaf.pair
	whole.Certificate = append(whole.Certificate[:1:1], between.parsed.Raw)
	server.Certificates = []tls.Certificate{whole}
	if err := newLink(t, x, server).handshake().err; err != nil {
		t.Errorf("with the one between: %v", err)
	}
}
