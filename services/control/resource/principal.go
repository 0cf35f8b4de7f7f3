package resource

import (
	"strings"
	"time"
)

// Everywhere is the namespace of principals and roles, where nothing else can be. In a grant, it is every namespace.
const Everywhere = "*"

// A BasicRole is a set of permissions. Package access says which.
type BasicRole string

// A Grant is a basic role in a namespace, or Everywhere.
type Grant struct {
	Namespace string    `json:"namespace" yaml:"namespace" required:"true" is:"scope"`
	Role      BasicRole `json:"role" yaml:"role" required:"true" oneof:"reader registrar writer editor admin"`
}

// A Role is a named set of grants, for principals that refer to it, and for people of Groups at an OpenID Connect issuer.
type Role struct {
	Name   string   `json:"name"`
	Grants []Grant  `json:"grants"`
	Groups []string `json:"groups,omitempty"`
	Change
}

// A Principal is who may ask, and for what: its grants, and those of its roles. The file of principals has others.
type Principal struct {
	Name   string   `json:"name"`
	Roles  []string `json:"roles,omitempty" is:"name"`
	Grants []Grant  `json:"grants,omitempty"`
	Rate   float64  `json:"rate,omitempty" range:"0..1e9"`
	Burst  int      `json:"burst,omitempty" range:"0..1073741824"`
	Tokens []Token  `json:"tokens,omitempty"` // made and revoked by themselves
	Change
}

// A Token is what a principal may show. Only its hash is kept.
type Token struct {
	ID          string    `json:"id"`
	Description string    `json:"description,omitempty"`
	SHA256      string    `json:"sha256"` // in hexadecimal
	At          time.Time `json:"created_at"`
	By          string    `json:"created_by"`
	Expires     time.Time `json:"expires_at,omitzero"` // zero is never
}

// Bounds of a principal. A change of the store has a condition for each role.
const (
	MaxRoles  = 8
	MaxTokens = 100
)

// OIDCPrefix begins the names of principals that an OpenID Connect issuer knows.
const OIDCPrefix = "oidc:"

// Ref names the role.
func (r *Role) Ref() Ref { return Ref{Kind: Roles, Namespace: Everywhere, Name: r.Name} }

// Check returns Invalid with every fault of the role.
func (r *Role) Check(Limits) error {
	var f faults
	r.Ref().check(&f)
	f.check(len(r.Grants) > 0, "/grants", "must have one at least")
	checkTags(&f, "", r)
	return f.err()
}

// Ref names the principal.
func (p *Principal) Ref() Ref { return Ref{Kind: Principals, Namespace: Everywhere, Name: p.Name} }

// Check returns Invalid with every fault of the principal.
func (p *Principal) Check(Limits) error {
	var f faults
	p.Ref().check(&f)
	f.check(!strings.HasPrefix(p.Name, OIDCPrefix), "/name", "%.80q: names of an issuer's people begin with %s", p.Name, OIDCPrefix)
	// Without any, everybody who may delegate could make a token, which would get what the principal gets later.
	f.check(len(p.Grants)+len(p.Roles) > 0, "/grants", "must have one at least, or roles")
	f.check(len(p.Roles) <= MaxRoles, "/roles", "has %d entries: must have %d at most", len(p.Roles), MaxRoles)
	f.check(p.Tokens == nil, "/tokens", "are made and revoked by themselves, at /tokens")
	checkTags(&f, "", p)
	return f.err()
}

// Check returns Invalid with every fault of what a client says of a token.
func (t *Token) Check() error {
	var f faults
	f.check(plain(t.Description), "/description", "must be UTF-8 without control characters")
	f.check(t.ID == "" && t.SHA256 == "" && t.By == "" && t.At.IsZero(), "", "may have description and expires_at only")
	checkTags(&f, "", t)
	return f.err()
}
