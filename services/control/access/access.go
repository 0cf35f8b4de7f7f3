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
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"

	"dyno/services/control/resource"
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
	Delegate   Permission = "delegate"   // change principals, roles and tokens, and give what one has
	Administer Permission = "administer" // back up and reclaim; in all namespaces only
)

// A Role is a set of permissions.
type Role = resource.BasicRole

// A Grant is a role in a namespace.
type Grant = resource.Grant

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
	Admin:     {Read, Secrets, Register, Write, Audit, Delegate, Administer},
}

// AllNamespaces stands for every namespace in a grant.
const AllNamespaces = resource.Everywhere

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

	Expires time.Time `yaml:"-"` // when what it has shown is valid no more; zero is never
	Groups  []string  `yaml:"-"` // by an OpenID Connect issuer; nil for all others
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

// Covers reports whether a principal may delegate all of some grants: it has each permission that they give.
func (p *Principal) Covers(grants []Grant) bool {
	return !slices.ContainsFunc(grants, func(g Grant) bool {
		return !p.May(Delegate, g.Namespace) || slices.ContainsFunc(permissions[g.Role], func(what Permission) bool {
			given := what != Administer || g.Namespace == AllNamespaces
			return given && !p.May(what, g.Namespace)
		})
	})
}

// GrantsOf returns the grants of a stored principal: its own, and those of its roles. unknown is a role that does not
// exist; "" if all do.
func GrantsOf(p *resource.Principal, role func(name string) *resource.Role) (grants []Grant, unknown string) {
	grants = slices.Clone(p.Grants)
	for _, name := range p.Roles {
		if r := role(name); r != nil {
			grants = append(grants, r.Grants...)
		} else {
			unknown = name
		}
	}
	return grants, unknown
}

// Anonymous is the principal of all requests where no principals are configured and only this machine can connect.
func Anonymous() *Principal {
	return &Principal{Name: "anonymous", Grants: []Grant{{Namespace: AllNamespaces, Role: Admin}}}
}

// A Book has all principals: those of the file, those of the store, and people whom an issuer knows. Its methods may be
// called from any goroutine.
type Book struct {
	pages atomic.Pointer[pages]

	mu   sync.Mutex                // guards the field below, and the replacement of pages
	held map[string]map[*hold]bool // by the principal's name
}

// A hold is a long operation of a principal, such as a watch.
type hold struct {
	by  *Principal
	end func()
}

// pages are the contents of a Book at one time; they are immutable.
type pages struct {
	// Of the file.
	names        map[string]*Principal
	tokens       map[[sha256.Size]byte]*Principal
	certificates map[string]*Principal

	// Of the store.
	principals []*resource.Principal
	roles      map[string]*resource.Role
	stored     map[[sha256.Size]byte]*Principal // one for each token
	groups     map[string][]Grant               // of the roles with this group
}

// Replace gives the Book the file of another one, from the next request on. It ends holds of principals that
// were removed, got other credentials, or got other permissions. Clients that are still permitted reconnect.
func (b *Book) Replace(by *Book) {
	file := by.pages.Load()
	b.change(func(p *pages) { p.names, p.tokens, p.certificates = file.names, file.tokens, file.certificates })
}

// SetStored gives the Book the principals and roles of the store, as Replace does with those of the file. If both have
// a name, that of the file counts.
func (b *Book) SetStored(principals []*resource.Principal, roles map[string]*resource.Role) {
	b.change(func(p *pages) { p.principals, p.roles = principals, roles })
}

// index makes the maps of what the store has.
func (p *pages) index() {
	p.stored, p.groups = map[[sha256.Size]byte]*Principal{}, map[string][]Grant{}
	for _, one := range p.principals {
		if p.names[one.Name] != nil {
			continue
		}
		grants, _ := GrantsOf(one, func(name string) *resource.Role { return p.roles[name] })
		for _, t := range one.Tokens {
			if sum, ok := parseSum(t.SHA256); ok {
				p.stored[sum] = &Principal{Name: one.Name, TokenSHA256: t.SHA256, Grants: grants, Rate: one.Rate, Burst: one.Burst, Expires: t.Expires}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.roles)) {
		for _, group := range p.roles[name].Groups {
			p.groups[group] = append(p.groups[group], p.roles[name].Grants...)
		}
	}
}

// parseSum parses a SHA-256 in hexadecimal.
func parseSum(text string) (sum [sha256.Size]byte, ok bool) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != sha256.Size {
		return sum, false
	}
	return [sha256.Size]byte(b), true
}

// change changes a copy of the pages, which then are the Book's, and ends holds that it concerns.
func (b *Book) change(set func(*pages)) {
	var over []func()
	b.mu.Lock()
	next := *b.pages.Load()
	set(&next)
	next.index()
	b.pages.Store(&next)
	for _, holds := range b.held {
		for h := range holds {
			if !next.current(h.by).same(h.by) {
				over = append(over, h.end)
			}
		}
	}
	b.mu.Unlock()
	for _, end := range over {
		end()
	}
}

// byHash returns the principal with a token's hash; nil is none.
func (p *pages) byHash(sum [sha256.Size]byte) *Principal {
	if one := p.tokens[sum]; one != nil {
		return one
	}
	return p.stored[sum]
}

// current returns what a principal that was identified before is by these pages; nil if it is none.
func (p *pages) current(before *Principal) *Principal {
	sum, shown := parseSum(before.TokenSHA256)
	switch {
	case before.Groups != nil:
		return p.member(before.Name, before.Groups, before.Expires)
	case shown:
		return p.byHash(sum)
	}
	return p.certificates[before.Certificate]
}

func (p *pages) member(name string, groups []string, expires time.Time) *Principal {
	one := &Principal{Name: name, Groups: groups, Expires: expires}
	for _, g := range groups {
		one.Grants = append(one.Grants, p.groups[g]...)
	}
	return one
}

// same reports whether two principals have the same credentials and permissions.
func (p *Principal) same(as *Principal) bool {
	return p != nil && p.Name == as.Name && p.TokenSHA256 == as.TokenSHA256 && p.Certificate == as.Certificate && slices.Equal(p.Grants, as.Grants)
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
	if !b.pages.Load().current(p).same(p) {
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
		if !IsName(p.Name) || b.names[p.Name] != nil || strings.HasPrefix(p.Name, resource.OIDCPrefix) {
			fault(i, "name: %.130q: must be given once, have 1 to 128 bytes without spaces, and not begin with %s", p.Name, resource.OIDCPrefix)
		}
		b.names[p.Name] = p
		if p.TokenSHA256 == "" && p.Certificate == "" {
			fault(i, "token_sha256 or certificate: one must be given")
		}
		if p.TokenSHA256 != "" {
			sum, ok := parseSum(p.TokenSHA256)
			if !ok {
				fault(i, "token_sha256: must be 64 hexadecimal digits: printf %%s TOKEN | sha256sum")
			} else if b.tokens[sum] != nil {
				fault(i, "token_sha256: another principal has this token")
			} else {
				b.tokens[sum] = p
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

// IsName reports whether text can name a principal.
func IsName(text string) bool {
	return text != "" && len(text) <= 128 && utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// InFile reports whether the file has a principal of this name. A nil Book has no file.
func (b *Book) InFile(name string) bool { return b != nil && b.pages.Load().names[name] != nil }

// Member returns whom an OpenID Connect issuer knows, with the grants of the roles that have one of its groups.
func (b *Book) Member(name string, groups []string, expires time.Time) *Principal {
	return b.pages.Load().member(name, groups, expires)
}

// ByToken returns the principal with a token, which may have expired; nil is none. SHA-256 suffices: tokens are random,
// and too long to be searched, so that a slow hash would protect nothing more. The look-up by hash may take time that depends on the
// hash: to use that, an attacker would have to invert SHA-256.
func (b *Book) ByToken(token string) *Principal {
	return b.pages.Load().byHash(sha256.Sum256([]byte(token)))
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
