package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"dyno/internal/secretfile"
)

// The files in an authority's folder.
const (
	authorityFile = "authority.pem"
	tokensFile    = "tokens.json"
	lockFile      = "lock" // held while tokens are changed
)

// authorityLifetime equals that of kubeadm's authority.
const authorityLifetime = 10 * 365 * 24 * time.Hour

// An Authority decides who belongs to a fleet. Several processes may use its folder at the same time. Its methods may
// be called from any goroutine.
type Authority struct {
	folder      string
	certificate *x509.Certificate
	key         crypto.PrivateKey
}

// Open returns a folder's authority, and makes one if there is none. If two processes make one at once, both get the
// first.
func Open(folder string) (*Authority, error) {
	file := filepath.Join(folder, authorityFile)
	text, err := secretfile.Read(file)
	if errors.Is(err, os.ErrNotExist) {
		if err = makeAuthority(folder, file); err == nil {
			text, err = secretfile.Read(file)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("authority of the fleet: %w", err)
	}
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, fmt.Errorf("authority of the fleet: %s: %w", file, err)
	}
	return &Authority{folder, pair.Leaf, pair.PrivateKey}, nil
}

// makeAuthority makes the file, unless another process does so first.
func makeAuthority(folder, file string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	now := time.Now()
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "dyno fleet"},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(authorityLifetime),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	text, err := encode(&tls.Certificate{Certificate: [][]byte{certificate}, PrivateKey: key})
	if err != nil {
		return err
	}
	// A link, unlike a rename, replaces no file.
	if err := writeFile(file, text, os.Link); !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// sign makes the certificate of a member, valid from a time later than after. Certificates have whole seconds.
func (a *Authority) sign(p Peer, key *ecdsa.PublicKey, after time.Time) ([]byte, error) {
	if err := errors.Join(validateName(p.Name), p.Role.validate()); err != nil {
		return nil, err
	}
	now := time.Now()
	if next := after.Truncate(time.Second).Add(time.Second); !after.IsZero() && next.After(now) {
		now = next
	}
	ends := now.Add(p.Role.lifetime())
	if ends.After(a.certificate.NotAfter) {
		ends = a.certificate.NotAfter
	}
	return x509.CreateCertificate(rand.Reader, &x509.Certificate{
		Subject:               pkix.Name{CommonName: p.Name, OrganizationalUnit: []string{string(p.Role)}},
		DNSNames:              []string{p.Name},
		NotBefore:             now.Add(-skew),
		NotAfter:              ends,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}, a.certificate, key, a.key)
}

// Member returns a member that joins without a token: a process that can read the authority's key is trusted.
func (a *Authority) Member(name string, role Role) (*Member, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	certificate, err := a.sign(Peer{name, role}, &key.PublicKey, time.Time{})
	if err != nil {
		return nil, err
	}
	return newMember(tls.Certificate{Certificate: [][]byte{certificate, a.certificate.Raw}, PrivateKey: key})
}
