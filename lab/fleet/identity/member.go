package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"dyno/internal/secretfile"
)

// MemberFile is the file in a member's folder with its key and certificates.
const MemberFile = "member.pem"

// retryRenewal is the pause after a renewal that failed.
const retryRenewal = time.Hour

// A Member belongs to a fleet. Its methods may be called from any goroutine.
type Member struct {
	authority *x509.Certificate
	peer      Peer
	pair      atomic.Pointer[tls.Certificate] // the member's certificate, and the authority's
	dial      dialer                          // nil is net.Dialer's

	mu      sync.Mutex         // guards the fields below
	revoked *Revocations       // nil: not known yet
	open    map[*tls.Conn]bool // connections under Track
}

// newMember verifies that a certificate matches its key, and is signed by the authority after it in the chain.
func newMember(pair tls.Certificate) (m *Member, err error) {
	if len(pair.Certificate) != 2 {
		return nil, fmt.Errorf("%d certificates: want the member's and the authority's", len(pair.Certificate))
	}
	m = &Member{}
	if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
		return nil, err
	}
	if m.authority, err = x509.ParseCertificate(pair.Certificate[1]); err != nil {
		return nil, err
	}
	if m.peer, err = verify([]*x509.Certificate{pair.Leaf}, m.authority); err != nil {
		return nil, err
	}
	if key, ok := pair.PrivateKey.(*ecdsa.PrivateKey); !ok || !key.PublicKey.Equal(pair.Leaf.PublicKey) {
		return nil, errors.New("the certificate is not of the member's key")
	}
	m.pair.Store(&pair)
	return m, nil
}

// Load reads a member from a file that Save wrote. The error for a missing file is os.ErrNotExist.
func Load(file string) (*Member, error) {
	text, err := secretfile.Read(file)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	m, err := newMember(pair)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: join again with a token", file, err)
	}
	return m, nil
}

// Save writes the member's key and certificates to a file that only its owner may read.
func (m *Member) Save(file string) error {
	text, err := m.PEM()
	if err != nil {
		return err
	}
	return writeFile(file, text, os.Rename)
}

// PEM returns the member's key and certificates as Load reads them from a file.
func (m *Member) PEM() ([]byte, error) { return encode(m.pair.Load()) }

// Peer returns the member's name and role.
func (m *Member) Peer() Peer { return m.peer }

// Ends returns when the member's certificate ends.
func (m *Member) Ends() time.Time { return m.pair.Load().Leaf.NotAfter }

// config returns the common configuration of clients and servers. New connections use a renewed certificate.
func (m *Member) config() *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		GetCertificate:         func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return m.pair.Load(), nil },
		GetClientCertificate:   func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return m.pair.Load(), nil },
		SessionTicketsDisabled: true, // each connection is verified
	}
}

func (m *Member) roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(m.authority)
	return pool
}

// Server returns a server's configuration, which accepts members that have one of these roles.
func (m *Member) Server(roles ...Role) *tls.Config {
	c := m.config()
	c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, m.roots()
	c.VerifyConnection = m.verifyRole(roles...)
	return c
}

// Joining returns the configuration of the server that has an Authority's Handler. It accepts members, and
// clients without a certificate.
func (m *Member) Joining() *tls.Config {
	c := m.config()
	c.ClientAuth, c.ClientCAs = tls.VerifyClientCertIfGiven, m.roots()
	return c
}

// Client returns the configuration of a client of one member, at whatever address. The server's name in TLS is the
// member's. Without a name, any member of the role may answer; PeerOf returns which one did.
func (m *Member) Client(name string, role Role) *tls.Config {
	c := m.config()
	if name == "" {
		c.InsecureSkipVerify = true // crypto/tls needs a name
		c.VerifyConnection = func(s tls.ConnectionState) error {
			if _, err := verify(s.PeerCertificates, m.authority); err != nil {
				return err
			}
			return m.verifyRole(role)(s)
		}
		return c
	}
	c.RootCAs, c.ServerName = m.roots(), name
	c.VerifyConnection = m.verifyRole(role)
	return c
}

// PeerOf returns the peer of a verified connection.
func PeerOf(s tls.ConnectionState) (Peer, error) { return peerOf(s.PeerCertificates[0]) }

// verifyRole is for certificates that crypto/tls has verified.
func (m *Member) verifyRole(roles ...Role) func(tls.ConnectionState) error {
	return func(s tls.ConnectionState) error {
		peer, err := PeerOf(s)
		if err != nil {
			return err
		}
		return errors.Join(peer.mustBe(roles...), m.Admits(s.PeerCertificates[0]))
	}
}

// Renew gets another certificate from the coordinator at an address, HOST:PORT, for another key. The member's
// certificate must not have ended.
func (m *Member) Renew(ctx context.Context, address string) error {
	config := m.config()
	config.InsecureSkipVerify = true // any coordinator may answer
	config.VerifyConnection = func(s tls.ConnectionState) error { return verifyCoordinator(s, m.authority) }
	renewed, err := requestCertificate(ctx, m.dial, config, address, m.peer.Name, nil, func() *x509.Certificate { return m.authority })
	if err != nil {
		return fmt.Errorf("renew the certificate at %s: %w", address, err)
	}
	if renewed.peer != m.peer {
		return fmt.Errorf("renew the certificate at %s: it is for a member of another role: %s", address, renewed.peer.Role)
	}
	m.pair.Store(renewed.pair.Load())
	return nil
}

// Keep renews the certificate after two thirds of its life, and saves it to a file. It tries again each hour. It
// returns when the context ends, or with an error when the certificate has ended.
func (m *Member) Keep(ctx context.Context, address, file string, log *slog.Logger) error {
	due := m.due()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			continue
		case <-time.After(time.Until(due)):
		}
		next := time.Now().Add(retryRenewal)
		err := m.Renew(ctx, address)
		if err == nil {
			err = m.Save(file)
		}
		switch {
		case err == nil:
			if due = m.due(); due.Before(next) { // the authority itself ends
				due = next
			}
			log.Info("certificate renewed", "ends", m.Ends())
		case ctx.Err() != nil: // interrupted, not failed
		case time.Now().After(m.Ends()):
			return fmt.Errorf("the certificate ended at %v: join again with a token: %w", m.Ends(), err)
		default:
			due = next
			log.Warn("certificate not renewed", "error", err, "ends", m.Ends())
		}
	}
	return nil
}

// due is when two thirds of the certificate's life have passed.
func (m *Member) due() time.Time { return m.Ends().Add(-m.peer.Role.lifetime() / 3) }
