package tlslayer

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"time"
)

// recheck is for how long a chain of certificates that was verified is not verified
// again. Only expiry could change the outcome.
const recheck = time.Minute

// A verifier checks servers' certificates as crypto/tls would, but the same chain once a
// minute only: to do so in every handshake takes a third of its CPU time, and tells
// nothing new. That the server has the certificate's key is proven, and checked by
// crypto/tls, in every full handshake.
type verifier struct {
	roots *x509.CertPool
	name  string

	chain []*x509.Certificate // the last that was in order
	until time.Time           // when it is to be verified again
}

// verify is crypto/tls's VerifyConnection.
func (v *verifier) verify(s tls.ConnectionState) error {
	if s.DidResume {
		return nil // the session is from a connection of the same context
	}
	now := time.Now()
	if now.Before(v.until) && slices.EqualFunc(s.PeerCertificates, v.chain, (*x509.Certificate).Equal) {
		return nil
	}
	between := x509.NewCertPool()
	for _, c := range s.PeerCertificates[1:] {
		between.AddCert(c)
	}
	_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{DNSName: v.name, Roots: v.roots, Intermediates: between, CurrentTime: now})
	if err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: s.PeerCertificates, Err: err}
	}
	v.chain, v.until = s.PeerCertificates, now.Add(recheck)
	return nil
}
