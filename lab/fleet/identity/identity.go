// Package identity decides who belongs to a fleet, and proves it in every connection.
//
// An Authority signs certificates and makes tokens. A machine joins with a token, and is a Member
// after that:
//
//	authority, err := identity.Open(folder)                                     // made on first use
//	token, err := authority.Token(identity.Agent, 24*time.Hour, 10)             // for ten agents
//	coordinator, err := authority.Member("main", identity.Coordinator)
//	server := &http.Server{Handler: authority.Handler(coordinator, log), TLSConfig: coordinator.Joining()}
//
//	agent, err := identity.Join(ctx, "10.0.0.1:7200", token, "node-3")          // on another machine
//	listener := tls.NewListener(l, agent.Server(identity.Coordinator))
//	conn, err := tls.Dial("tcp", address, coordinator.Client("node-3", identity.Agent))
//
// What it promises:
//
//   - Every connection is TLS 1.3, and both sides have a certificate of the authority. A client
//     verifies its server's name and role, a server its client's role. Addresses do not matter.
//   - Who joins verifies the server before it sends anything: a token has the hash of the
//     authority's public key, as the token of kubeadm has it. Only a coordinator may answer.
//   - A token works for a time and for a number of members. The authority keeps its hash only.
//   - The token has the role, and no name. Its holder may choose any name.
//   - A certificate ends after the lifetime of its role. Keep renews it before that, unless it was revoked.
//   - SetRevoked ends connections with revoked members, and lets no others begin.
//
// Keys are ECDSA P-256. Files that have a key are for their owner only.
package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"dyno/internal/nearest"
)

// How long certificates are valid. Agents renew theirs automatically; those of coordinators are made by hand.
const (
	AgentLifetime = 7 * 24 * time.Hour
	Lifetime      = 30 * 24 * time.Hour // of coordinators; the longest of all
)

// skew bounds how far a machine's clock may be behind the authority's.
const skew = time.Hour

// A Role says what a member may do.
type Role string

// The roles.
const (
	Agent       Role = "agent"       // answers coordinators
	Coordinator Role = "coordinator" // asks agents, and lets others join
)

func (r Role) lifetime() time.Duration {
	if r == Agent {
		return AgentLifetime
	}
	return Lifetime
}

// A Peer is the member that a certificate names.
type Peer struct {
	Name string
	Role Role
}

// validName is a name of DNS, because crypto/tls verifies it as one.
var validName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// maxName bounds a name in a certificate's subject (RFC 5280, ub-common-name-length).
const maxName = 64

func validateName(name string) error {
	if _, err := netip.ParseAddr(name); len(name) > maxName || !validName.MatchString(name) || err == nil {
		return fmt.Errorf("%q is no name of a member: want at most %d lower-case letters, digits, - and ., and no address", nearest.Clip(name), maxName)
	}
	return nil
}

func (r Role) validate() error {
	if r != Agent && r != Coordinator {
		return fmt.Errorf("%q is no role: want %s or %s", nearest.Clip(string(r)), Agent, Coordinator)
	}
	return nil
}

// peerOf returns the member of a verified certificate.
func peerOf(c *x509.Certificate) (Peer, error) {
	p := Peer{Name: c.Subject.CommonName}
	if units := c.Subject.OrganizationalUnit; len(units) == 1 {
		p.Role = Role(units[0])
	}
	return p, errors.Join(validateName(p.Name), p.Role.validate())
}

// verify returns the member of a chain. The authority must have signed it, for servers; its certificates are for
// clients, too.
func verify(chain []*x509.Certificate, authority *x509.Certificate) (Peer, error) {
	if len(chain) == 0 {
		return Peer{}, errors.New("no certificate")
	}
	roots := x509.NewCertPool()
	roots.AddCert(authority)
	if _, err := chain[0].Verify(x509.VerifyOptions{Roots: roots}); err != nil {
		return Peer{}, err
	}
	return peerOf(chain[0])
}

// mustBe refuses a peer that has none of these roles.
func (p Peer) mustBe(roles ...Role) error {
	if !slices.Contains(roles, p.Role) {
		return fmt.Errorf("%s is %s, want %s", p.Name, p.Role, roles)
	}
	return nil
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// encode writes a key and its chain as PEM.
func encode(pair *tls.Certificate) ([]byte, error) {
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
	for _, certificate := range pair.Certificate {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})...)
	}
	return text, nil
}

// writeFile writes a file that only its owner may read: first under another name; place then moves it.
func writeFile(path string, text []byte, place func(from, to string) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // with mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = place(f.Name(), path)
	}
	if remove := os.Remove(f.Name()); !errors.Is(remove, os.ErrNotExist) { // it does not exist if it was renamed
		err = errors.Join(err, remove)
	}
	return err
}
