// Package access says who may do what: principals with tokens or certificates, what
// their roles permit in which namespace, and how often they may ask. It does no I/O and
// reads no clock.
package access

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
)

// A Permission names a kind of operation.
type Permission string

// The permissions.
const (
	Read       Permission = "read"       // read, watch and acknowledge policies, services, and configurations that are not secret
	Secrets    Permission = "secrets"    // read secret configurations
	Register   Permission = "register"   // instances, sessions, locks and counters
	Write      Permission = "write"      // policies and configurations
	Audit      Permission = "audit"      // read who changed what
	Administer Permission = "administer" // back up and reclaim; in all namespaces only
)

// A Role is a set of permissions.
type Role string

// The roles. Registrar and writer are different parts of editor.
const (
	Reader    Role = "reader"
	Registrar Role = "registrar" // what a service needs: to read, and to register
	Writer    Role = "writer"    // reads and writes, but reads no secrets: they may be left for others
	Editor    Role = "editor"
	Admin     Role = "admin"
)

var permissions = map[Role][]Permission{
	Reader:    {Read},
	Registrar: {Read, Secrets, Register},
	Writer:    {Read, Write},
	Editor:    {Read, Secrets, Register, Write},
	Admin:     {Read, Secrets, Register, Write, Audit, Administer},
}

// AllNamespaces stands for every namespace in a grant.
const AllNamespaces = "*"

// A Grant is a role in a namespace.
type Grant struct {
	Namespace string `yaml:"namespace"`
	Role      Role   `yaml:"role"`
}

// A Principal is who may ask, and for what.
type Principal struct {
	Name string `yaml:"name"`
	// TokenSHA256 is the SHA-256 of its token, in hexadecimal; "" is none. A token should have at least 128 random
	// bits: a hash of less could be searched.
	TokenSHA256 string `yaml:"token_sha256"`
	// Certificate is the common name or a DNS or URI name of its client certificate.
	Certificate string  `yaml:"certificate"`
	Grants      []Grant `yaml:"grants"`
	// Rate is its requests per second, and Burst how many it may make at once; 0 takes the default for all
	// principals.
	Rate  float64 `yaml:"rate"`
	Burst int     `yaml:"burst"`
}

// May reports whether a principal has a permission in a namespace. AllNamespaces asks for all of them.
func (p *Principal) May(what Permission, namespace string) bool {
	for _, g := range p.Grants {
		if (g.Namespace == AllNamespaces || g.Namespace == namespace && what != Administer) && slices.Contains(permissions[g.Role], what) {
			return true
		}
	}
	return false
}

// MayAnywhere reports whether a principal has a permission in any namespace.
func (p *Principal) MayAnywhere(what Permission) bool {
	return slices.ContainsFunc(p.Grants, func(g Grant) bool { return p.May(what, g.Namespace) })
}

// Anonymous is the principal of all requests where no principals are configured and only this machine can connect.
func Anonymous() *Principal {
	return &Principal{Name: "anonymous", Grants: []Grant{{AllNamespaces, Admin}}}
}

// A Book has all principals. Its methods may be called from any goroutine.
type Book struct {
	pages atomic.Pointer[pages]

	mu   sync.Mutex                // guards the fields below, and the replacement of pages
	held map[string]map[*hold]bool // by the principal's name
}

// A hold is a long operation of a principal, such as a watch.
type hold struct {
	by  *Principal
	end func()
}

// pages are the contents of a Book at one time; they are immutable.
type pages struct {
	names        map[string]*Principal
	tokens       map[[sha256.Size]byte]*Principal
	certificates map[string]*Principal
}

// Replace gives the Book the principals of another one, from the next request on. It ends holds of principals that
// were removed, got other credentials, or got other permissions. Clients that are still permitted reconnect.
func (b *Book) Replace(by *Book) {
	next := by.pages.Load()
	var over []func()
	b.mu.Lock()
	b.pages.Store(next)
	for name, holds := range b.held {
		for h := range holds {
			if !next.names[name].same(h.by) {
				over = append(over, h.end)
			}
		}
	}
	b.mu.Unlock()
	for _, end := range over {
		end()
	}
}

// same reports whether two principals have the same credentials and permissions.
func (p *Principal) same(as *Principal) bool {
	return p != nil && p.TokenSHA256 == as.TokenSHA256 && p.Certificate == as.Certificate && slices.Equal(p.Grants, as.Grants)
}

// Hold calls end when a replacement of the Book removes or changes the principal, until release is called. It is not
// ok if that has happened already. A nil Book has no principals, and never changes.
func (b *Book) Hold(p *Principal, end func()) (release func(), ok bool) {
	if b == nil {
		return func() {}, true
	}
	h := &hold{p, end}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.pages.Load().names[p.Name].same(p) {
		return func() {}, false
	}
	if b.held[p.Name] == nil {
		if b.held == nil {
			b.held = map[string]map[*hold]bool{}
		}
		b.held[p.Name] = map[*hold]bool{}
	}
	b.held[p.Name][h] = true
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if delete(b.held[p.Name], h); len(b.held[p.Name]) == 0 {
			delete(b.held, p.Name)
		}
	}, true
}

// document is the file.
type document struct {
	Principals []Principal `yaml:"principals"`
}

// maxPrincipals bounds a file.
const maxPrincipals = 100_000

// ParseBook reads a file of principals in YAML:
//
//	principals:
//	  - name: deployer
//	    token_sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//	    grants: [{namespace: shop, role: editor}]
//
// The error lists every fault.
func ParseBook(text []byte) (*Book, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("principals: the file must be UTF-8")
	}
	var d document
	if err := yaml.UnmarshalWithOptions(text, &d, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("principals: %w", err)
	}
	b := &pages{names: map[string]*Principal{}, tokens: map[[sha256.Size]byte]*Principal{}, certificates: map[string]*Principal{}}
	var errs []error
	fault := func(i int, format string, args ...any) {
		errs = append(errs, fmt.Errorf("principals[%d]: %s", i, fmt.Sprintf(format, args...)))
	}
	if len(d.Principals) == 0 || len(d.Principals) > maxPrincipals {
		return nil, fmt.Errorf("principals: %d of them: want 1 to %d", len(d.Principals), maxPrincipals)
	}
	for i := range d.Principals {
		p := &d.Principals[i]
		if p.Name == "" || len(p.Name) > 128 || b.names[p.Name] != nil || strings.ContainsFunc(p.Name, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			fault(i, "name: %.130q: must be given once, and have 1 to 128 bytes without spaces", p.Name)
		}
		b.names[p.Name] = p
		if p.TokenSHA256 == "" && p.Certificate == "" {
			fault(i, "token_sha256 or certificate: one must be given")
		}
		if p.TokenSHA256 != "" {
			sum, err := hex.DecodeString(p.TokenSHA256)
			if err != nil || len(sum) != sha256.Size {
				fault(i, "token_sha256: must be 64 hexadecimal digits: printf %%s TOKEN | sha256sum")
			} else if b.tokens[[sha256.Size]byte(sum)] != nil {
				fault(i, "token_sha256: another principal has this token")
			} else {
				b.tokens[[sha256.Size]byte(sum)] = p
			}
		}
		if p.Certificate != "" {
			if b.certificates[p.Certificate] != nil {
				fault(i, "certificate: another principal has %.130q", p.Certificate)
			}
			b.certificates[p.Certificate] = p
		}
		if len(p.Grants) == 0 {
			fault(i, "grants: must have one at least")
		}
		for k, g := range p.Grants {
			if permissions[g.Role] == nil {
				fault(i, "grants[%d].role: %.40q: must be reader, registrar, writer, editor or admin", k, g.Role)
			}
			if g.Namespace == "" {
				fault(i, "grants[%d].namespace: must be given; %q is all of them", k, AllNamespaces)
			}
		}
		if p.Rate < 0 || p.Burst < 0 {
			fault(i, "rate, burst: must be 0 or more")
		}
	}
	book := new(Book)
	book.pages.Store(b)
	return book, errors.Join(errs...)
}

// ByToken returns the principal with a token; nil is none. The look-up by hash may take time that depends on the
// hash: to use that, an attacker would have to invert SHA-256.
func (b *Book) ByToken(token string) *Principal {
	return b.pages.Load().tokens[sha256.Sum256([]byte(token))]
}

// ByCertificate returns the principal with one of a certificate's names; nil is none.
func (b *Book) ByCertificate(names []string) *Principal {
	known := b.pages.Load().certificates
	for _, n := range names {
		if p := known[n]; p != nil && n != "" {
			return p
		}
	}
	return nil
}

// CertificateNames are the names that a principal may be known by: the common name, and
// DNS and URI names.
func CertificateNames(leaf *x509.Certificate) []string {
	names := append([]string{leaf.Subject.CommonName}, leaf.DNSNames...)
	for _, u := range leaf.URIs {
		names = append(names, u.String())
	}
	return names
}

// Certificates reports whether any principal is identified by a certificate.
func (b *Book) Certificates() bool { return len(b.pages.Load().certificates) > 0 }
