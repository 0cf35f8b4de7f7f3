// Package identity issues certificates that say which service a program is: X.509 SVIDs of SPIFFE
// (https://spiffe.io, "X.509-SVID"). An Authority is a self-signed certificate and its key, of the control plane's own
// making or given. It keeps nothing else: certificates are short-lived, and are not revoked.
package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"strings"
	"time"
)

// An Authority signs certificates of one trust domain. Its methods may be called from any goroutine.
type Authority struct {
	domain string
	cert   *x509.Certificate
	key    crypto.Signer
	roots  []byte
}

// lifetime of an authority that is made here.
const lifetime = 10 * 365 * 24 * time.Hour

// backdate lets certificates begin before the present, for machines whose clocks are behind.
const backdate = 5 * time.Minute

// New makes an authority, and returns its certificate and key in PEM.
func New(domain string, now time.Time) (cert, key []byte, err error) {
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := serialNumber()
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "control plane of " + domain}, URIs: []*url.URL{{Scheme: "spiffe", Host: domain}},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(lifetime),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	if err != nil {
		return nil, nil, err
	}
	key, err = keyPEM(signer)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key, err
}

// Parse makes an authority of a certificate, with those above it if it is an intermediate one, and its key, in PEM.
func Parse(domain string, cert, key []byte) (*Authority, error) {
	block, _ := pem.Decode(cert)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("the authority's certificate: is none in PEM")
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the authority's certificate: %w", err)
	}
	if !parsed.IsCA {
		return nil, errors.New("the authority's certificate: may not sign others")
	}
	block, _ = pem.Decode(key)
	if block == nil {
		return nil, errors.New("the authority's key: is none in PEM")
	}
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the authority's key: want PKCS #8: %w", err)
	}
	signer, ok := private.(crypto.Signer)
	if !ok {
		return nil, errors.New("the authority's key: cannot sign")
	}
	if public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(parsed.PublicKey) {
		return nil, errors.New("the authority's key: is not that of its certificate")
	}
	return &Authority{domain, parsed, signer, cert}, nil
}

// Roots are the certificates by which those of this authority are verified, in PEM.
func (a *Authority) Roots() []byte { return a.roots }

// CheckDomain returns the fault of a trust domain ("SPIFFE ID", section 2.1).
func CheckDomain(domain string) error {
	if domain == "" || len(domain) > 255 || strings.ContainsFunc(domain, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '.' && r != '-' && r != '_'
	}) {
		return fmt.Errorf("%.80q: must have 1 to 255 of a-z, 0-9, ., - and _", domain)
	}
	return nil
}

// Domain is the trust domain.
func (a *Authority) Domain() string { return a.domain }

// ID returns the SPIFFE ID of a service.
func (a *Authority) ID(namespace, service string) string {
	return Prefix(a.domain, namespace) + service
}

// Prefix is what the SPIFFE IDs of a namespace's services begin with.
func Prefix(domain, namespace string) string {
	return "spiffe://" + domain + "/ns/" + namespace + "/sa/"
}

// A Certificate is a service's, with its key, in PEM.
type Certificate struct {
	Chain, Key []byte
	Expires    time.Time
}

// Issue makes a new key and a certificate for a service.
func (a *Authority) Issue(namespace, service string, now time.Time, ttl time.Duration) (*Certificate, error) {
	id, err := url.Parse(a.ID(namespace, service))
	if err != nil {
		return nil, err
	}
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := serialNumber()
	if err != nil {
		return nil, err
	}
	expires := now.Add(ttl)
	if expires.After(a.cert.NotAfter) {
		expires = a.cert.NotAfter
	}
	if !expires.After(now) {
		return nil, fmt.Errorf("the authority's certificate has ended at %v: give another by --authority-cert", a.cert.NotAfter)
	}
	template := &x509.Certificate{
		SerialNumber: serial, URIs: []*url.URL{id}, NotBefore: now.Add(-backdate), NotAfter: expires, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, signer.Public(), a.key)
	if err != nil {
		return nil, err
	}
	key, err := keyPEM(signer)
	chain := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), a.roots...)
	return &Certificate{chain, key, expires}, err
}

func keyPEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}

// serialNumber returns a random number of 127 bits (RFC 5280, section 4.1.2.2).
func serialNumber() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
}
