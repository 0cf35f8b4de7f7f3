package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"slices"
	"time"

	"dyno/experiments/subjects/measurement"

	"golang.org/x/crypto/ocsp"
)

// Handshake measures what ALPN and a stapled OCSP response add to a TLS handshake (RFC 7301, RFC 6960). Handshakes are
// in memory, in random order: without both, with ALPN, and with a response that the client verifies. Those of a round are compared,
// so the machine's speed cancels out.
//
// Figures, medians: handshake_seconds of a plain handshake, both sides together; alpn_seconds and staple_seconds, the
// differences from it.
type Handshake struct {
	Rounds int `yaml:"rounds" range:"1..1000000" default:"1000" doc:"handshakes of each kind"`
}

// Run measures all rounds.
func (h Handshake) Run(ctx context.Context) (measurement.Result, error) {
	plain, err := newPeers()
	if err != nil {
		return nil, err
	}
	alpn := plain.clone()
	alpn.client.NextProtos, alpn.server.NextProtos = []string{"h2", "http/1.1"}, []string{"h2", "http/1.1"}
	staple := plain.clone()
	staple.server.Certificates = []tls.Certificate{staple.certificate}
	staple.server.Certificates[0].OCSPStaple = staple.response
	staple.client.VerifyConnection = staple.verify
	var took [3][]float64
	for range h.Rounds {
		if err := interrupted(ctx); err != nil {
			return nil, err
		}
		var seconds [3]float64
		for _, kind := range mathrand.Perm(len(seconds)) { // each may come after any other
			if seconds[kind], err = []*peers{plain, alpn, staple}[kind].shake(); err != nil {
				return nil, fmt.Errorf("handshake: %w", err)
			}
		}
		took[0] = append(took[0], seconds[0])
		took[1] = append(took[1], seconds[1]-seconds[0])
		took[2] = append(took[2], seconds[2]-seconds[0])
	}
	r := measurement.Result{}
	for i, name := range []string{"handshake_seconds", "alpn_seconds", "staple_seconds"} {
		slices.Sort(took[i])
		r[name] = took[i][len(took[i])/2]
	}
	return r, nil
}

// peers are both sides of handshakes, and what they agree on.
type peers struct {
	client, server *tls.Config
	certificate    tls.Certificate
	issuer         *x509.Certificate
	response       []byte // OCSP: the certificate is good
}

func (p *peers) clone() *peers {
	c := *p
	c.client, c.server = p.client.Clone(), p.server.Clone()
	return &c
}

// newPeers returns a server with a key of P-256, whose issuer has an RSA key of 2,048 bits.
func newPeers() (*peers, error) {
	issuerKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "issuer"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	issuer, err := issue(template, template, issuerKey.Public(), issuerKey)
	if err != nil {
		return nil, err
	}
	leaf, err := issue(&x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{"localhost"}, NotBefore: template.NotBefore, NotAfter: template.NotAfter,
	}, issuer, key.Public(), issuerKey)
	if err != nil {
		return nil, err
	}
	response, err := ocsp.CreateResponse(issuer, issuer, ocsp.Response{
		Status: ocsp.Good, SerialNumber: leaf.SerialNumber, ThisUpdate: now, NextUpdate: template.NotAfter,
	}, issuerKey)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(issuer)
	certificate := tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}
	return &peers{
		client:      &tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS13},
		server:      &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true},
		certificate: certificate, issuer: issuer, response: response,
	}, nil
}

func issue(template, parent *x509.Certificate, key crypto.PublicKey, by crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, by)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// verify accepts a stapled response that the issuer has signed.
func (p *peers) verify(s tls.ConnectionState) error {
	r, err := ocsp.ParseResponseForCert(s.OCSPResponse, s.PeerCertificates[0], p.issuer)
	if err == nil && r.Status != ocsp.Good {
		err = errors.New("the certificate is revoked")
	}
	return err
}

// shake makes a handshake, and returns how long it took.
func (p *peers) shake() (seconds float64, err error) {
	near, far := net.Pipe()
	defer near.Close()
	served := make(chan error, 1)
	began := time.Now()
	go func() {
		defer far.Close()
		served <- tls.Server(far, p.server).Handshake()
	}()
	client := tls.Client(near, p.client)
	if err = client.Handshake(); err == nil {
		err = <-served
	}
	seconds = time.Since(began).Seconds()
	if got := client.ConnectionState().NegotiatedProtocol; err == nil && (got == "h2") != (p.client.NextProtos != nil) {
		err = fmt.Errorf("the sides agreed on %q", got)
	}
	return seconds, err
}
