package grpcecho

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"flag"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// Security is what connections are secured with: TLS by a certificate of the server's own
// making, or nothing. Tickets are crypto/tls's, so a client can resume a session.
type Security string

// The kinds of keys that a certificate can have.
const (
	Insecure Security = ""
	ECDSA    Security = "ecdsa" // P-256
	RSA      Security = "rsa"   // of 2,048 bits
)

// Define adds the option to those of a program.
func (s *Security) Define(flags *flag.FlagSet) {
	kinds := []Security{ECDSA, RSA}
	flags.Func("tls", fmt.Sprintf("speak TLS, by a certificate made at the start with a `KEY` of this kind: %v (default no TLS)", kinds), func(v string) error {
		if !slices.Contains(kinds, Security(v)) {
			return fmt.Errorf("must be one of %v", kinds)
		}
		*s = Security(v)
		return nil
	})
}

// Options are those of a server that is secured so.
func (s Security) Options() ([]grpc.ServerOption, error) {
	if s == Insecure {
		return nil, nil
	}
	certificate, err := s.certificate(time.Now())
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	return []grpc.ServerOption{grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{certificate},
		MinVersion:   tls.VersionTLS12,
	}))}, nil
}

// lifetime is how long a certificate holds. Its program ends sooner.
const lifetime = 30 * 24 * time.Hour

// certificate makes a certificate for this machine's own addresses, which nobody else has
// signed.
func (s Security) certificate(now time.Time) (tls.Certificate, error) {
	var (
		key crypto.Signer
		err error
	)
	if s == RSA {
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	} else {
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "localhost"},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(lifetime),
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
