package tlslayer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"sync"
	"time"
)

// credentials are a certificate and its key, as crypto/tls and as files have them.
type credentials struct {
	parsed *x509.Certificate
	pair   tls.Certificate
	cert   []byte // PEM
	key    []byte // PEM
}

// serverName is what the test servers' certificates are for.
const serverName = "server.test"

// issue makes a certificate, signed by a parent or, without one, by itself. An edit may
// change it before that.
func issue(name string, parent *credentials, edit func(*x509.Certificate)) *credentials {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		DNSNames:              []string{name},
		BasicConstraintsValid: true,
	}
	if edit != nil {
		edit(template)
	}
	signer, above := key, template
	if parent != nil {
		signer, above = parent.pair.PrivateKey.(*ecdsa.PrivateKey), parent.parsed
	}
	der := must(x509.CreateCertificate(rand.Reader, template, above, key.Public(), signer))
	return &credentials{
		parsed: must(x509.ParseCertificate(der)),
		pair:   tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		cert:   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:    pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(key))}),
	}
}

// asAuthority makes a certificate one that may sign others.
func asAuthority(c *x509.Certificate) {
	c.DNSNames = nil
	c.IsCA = true
	c.KeyUsage = x509.KeyUsageCertSign
}

// The credentials that most tests use.
var (
	authority = sync.OnceValue(func() *credentials { return issue("test authority", nil, asAuthority) })

	serverCredentials = sync.OnceValue(func() *credentials {
		return issue(serverName, authority(), func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} })
	})

	clientCredentials = sync.OnceValue(func() *credentials { return issue("client.test", authority(), nil) })
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
