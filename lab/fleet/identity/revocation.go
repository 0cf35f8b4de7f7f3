package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Revocations list certificates that are revoked before their end.
type Revocations struct {
	Names   map[string]time.Time // by member: certificates signed until then
	Serials map[string]bool      // serial numbers, as Serial writes them
}

// ErrRevoked says that a certificate was revoked.
var ErrRevoked = errors.New("the certificate was revoked")

// Serial returns the serial number of a certificate, as revocations name it.
func Serial(c *x509.Certificate) string { return fmt.Sprintf("%x", c.SerialNumber) }

// NormalSerial returns a serial number that a user wrote, such as 0A:1B, as revocations name it.
func NormalSerial(text string) string {
	return strings.TrimLeft(strings.ReplaceAll(strings.ToLower(text), ":", ""), "0")
}

// check refuses a certificate that was revoked.
func (r *Revocations) check(c *x509.Certificate) error {
	if r == nil {
		return nil
	}
	until, named := r.Names[c.Subject.CommonName]
	if signed := c.NotBefore.Add(skew); named && !signed.After(until) || r.Serials[Serial(c)] {
		return fmt.Errorf("%s, serial number %s: %w", c.Subject.CommonName, Serial(c), ErrRevoked)
	}
	return nil
}

// SetRevoked sets the fleet's revocations. Connections with revoked members end, and new ones are refused. The error
// is ErrRevoked if this member is revoked.
func (m *Member) SetRevoked(r *Revocations) error {
	m.mu.Lock()
	m.revoked = r
	var over []*tls.Conn
	for conn := range m.open {
		if r.check(conn.ConnectionState().PeerCertificates[0]) != nil {
			over = append(over, conn)
		}
	}
	m.mu.Unlock()
	for _, conn := range over {
		_ = conn.NetConn().Close() // without TLS's close, which might block
	}
	return r.check(m.pair.Load().Leaf)
}

// Track ends a verified connection when its peer is revoked, until untrack is called. A nil Member tracks nothing.
func (m *Member) Track(conn any) (untrack func()) {
	secured, ok := conn.(*tls.Conn)
	if m == nil || !ok {
		return func() {}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open == nil {
		m.open = map[*tls.Conn]bool{}
	}
	m.open[secured] = true
	if m.revoked.check(secured.ConnectionState().PeerCertificates[0]) != nil { // revoked since the handshake
		_ = secured.NetConn().Close()
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.open, secured)
	}
}

// Admits refuses a certificate that was revoked, for connections that were verified before.
func (m *Member) Admits(c *x509.Certificate) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.revoked.check(c)
}

// RevokedUntil implements Trust.
func (m *Member) RevokedUntil(name string) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.revoked == nil {
		return time.Time{}
	}
	return m.revoked.Names[name]
}
