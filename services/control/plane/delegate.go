package plane

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"dyno/services/control/access"
	"dyno/services/control/catalog"
	"dyno/services/control/resource"
	"dyno/services/control/store"
)

// TokenPrefix begins the tokens that are made here, so that a search for leaked secrets finds them.
const TokenPrefix = "dyno_"

// updateBook gives the book what the catalog has.
func (p *Plane) updateBook() {
	if p.cfg.Book == nil {
		return
	}
	p.updating.Lock()
	defer p.updating.Unlock()
	items, _ := p.catalog.Snapshot(catalog.Scope{Prefixes: []string{string(resource.Principals) + "/", string(resource.Roles) + "/"}})
	var principals []*resource.Principal
	roles := map[string]*resource.Role{}
	for _, i := range items {
		switch d := i.Resource.(type) {
		case *resource.Principal:
			principals = append(principals, d)
		case *resource.Role:
			roles[d.Name] = d
		}
	}
	p.cfg.Book.SetStored(principals, roles)
}

func accessRef(k resource.Kind, name string) resource.Ref {
	return resource.Ref{Kind: k, Namespace: resource.Everywhere, Name: name}
}

func (p *Plane) role(name string) *resource.Role {
	if i := p.catalog.Get(accessRef(resource.Roles, name)); i != nil {
		return i.Resource.(*resource.Role)
	}
	return nil
}

// given returns the grants that a principal or a role gives, and a role that it names and that does not exist.
func (p *Plane) given(doc any) (grants []access.Grant, unknown string) {
	switch d := doc.(type) {
	case *resource.Principal:
		return access.GrantsOf(d, p.role)
	case *resource.Role:
		return d.Grants, ""
	}
	return nil, ""
}

// maySee refuses a principal or a role that gives more than the caller has.
func (p *Plane) maySee(by Caller, i *catalog.Item) error {
	if grants, _ := p.given(i.Resource); !i.Kind.OfAccess() || by.Covers(grants) {
		return nil
	}
	return &Problem{Kind: NotPermitted, Detail: fmt.Sprintf("%s may not delegate all that %s %s gives", by.Name, i.Kind, i.Name)}
}

// checkDelegation refuses a change of a principal or a role if the caller lacks a permission that the old or the new
// one gives. It returns conditions that the roles of the new one are those that were checked. A role that principals
// have is neither removed nor made: who made them could not have given them the new one.
func (p *Plane) checkDelegation(by Caller, r resource.Ref, old *catalog.Item, doc any) (roles []store.Condition, err error) {
	var before resource.Principal
	if old != nil {
		if err := p.maySee(by, old); err != nil {
			return nil, err
		}
		if d, ok := old.Resource.(*resource.Principal); ok {
			before = *d
		}
	}
	if r.Kind == resource.Roles && (old == nil || doc == nil) {
		if users := p.usersOf(r.Name); len(users) > 0 {
			return nil, &Problem{Kind: InUse, Detail: fmt.Sprintf("principals have role %s: take it from them first: %.200s", r.Name, strings.Join(users, ", "))}
		}
	}
	grants, unknown := p.given(doc)
	d, ok := doc.(*resource.Principal)
	if unknown != "" && !slices.Equal(d.Roles, before.Roles) { // tokens of who has a role that is gone can be revoked
		return nil, resource.Invalid{{Pointer: "#/roles", Detail: fmt.Sprintf("there is no role %.80q: make it first", unknown)}}
	}
	if !by.Covers(grants) {
		return nil, &Problem{Kind: NotPermitted, Detail: fmt.Sprintf("%s may not delegate all that this %s would give: nobody can give more than he has", by.Name, r.Kind)}
	}
	if !ok {
		return nil, nil
	}
	if p.cfg.Book.InFile(d.Name) {
		return nil, &Problem{Kind: Exists, Detail: "the file of principals has " + d.Name}
	}
	if d.Rate != before.Rate || d.Burst != before.Burst { // rates protect all namespaces
		if err := by.may(access.Delegate, access.AllNamespaces); err != nil {
			return nil, err
		}
	}
	for _, name := range d.Roles {
		ref := accessRef(resource.Roles, name)
		condition := store.Condition{Key: store.State + ref.Path()}
		if i := p.catalog.Get(ref); i != nil {
			condition.Revision = i.Revision
		}
		roles = append(roles, condition)
	}
	return roles, nil
}

// usersOf returns the principals with a role.
func (p *Plane) usersOf(role string) (names []string) {
	items, _ := p.catalog.Snapshot(catalog.Scope{Prefixes: []string{string(resource.Principals) + "/"}})
	for _, i := range items {
		if slices.Contains(i.Resource.(*resource.Principal).Roles, role) {
			names = append(names, i.Name)
		}
	}
	return names
}

// CreateToken makes a token of a principal, which is shown only here. t has its description, and perhaps when it
// expires.
func (p *Plane) CreateToken(ctx context.Context, by Caller, principal string, t resource.Token, o Options) (made resource.Token, token string, err error) {
	asked, err := json.Marshal(t)
	if err == nil {
		err = t.Check()
	}
	if err != nil {
		return t, "", err
	}
	now := timeNow().UTC().Truncate(time.Second)
	if ttl := p.Limits().TokenTTL; ttl > 0 {
		if latest := now.Add(ttl); t.Expires.IsZero() {
			t.Expires = latest
		} else if t.Expires.After(latest) {
			return t, "", resource.Invalid{{Pointer: "#/expires_at", Detail: "must be " + latest.Format(time.RFC3339) + " at the latest, by max_token_ttl"}}
		}
	}
	if !t.Expires.IsZero() && !t.Expires.After(now) {
		return t, "", resource.Invalid{{Pointer: "#/expires_at", Detail: "must be in the future"}}
	}
	token = TokenPrefix + rand.Text()
	sum := sha256.Sum256([]byte(token))
	t.ID, t.SHA256, t.At, t.By = strings.ToLower(rand.Text()[:12]), hex.EncodeToString(sum[:]), now, by.Name
	result, err := p.changeTokens(ctx, by, principal, change{act: resource.TokenMade, part: t.ID, asked: asked}, o, func(list []resource.Token) ([]resource.Token, error) {
		list = slices.DeleteFunc(list, func(one resource.Token) bool { return !one.Expires.IsZero() && one.Expires.Before(now) })
		if len(list) >= resource.MaxTokens {
			return nil, &resource.TooMany{What: "tokens of this principal", Limit: resource.MaxTokens}
		}
		return append(list, t), nil
	})
	if err == nil && result.Repeated {
		err = &Problem{Kind: Exists, Detail: "the token of this key was made before, and is shown only once: revoke it, and make another"}
	}
	return t, token, err
}

// RevokeToken revokes a token of a principal.
func (p *Plane) RevokeToken(ctx context.Context, by Caller, principal, id string, o Options) error {
	_, err := p.changeTokens(ctx, by, principal, change{act: resource.Revoked, part: id, asked: []byte(id)}, o, func(list []resource.Token) ([]resource.Token, error) {
		i := slices.IndexFunc(list, func(t resource.Token) bool { return t.ID == id })
		if i < 0 {
			return nil, fmt.Errorf("token %.40q: %w", id, &NotFound{accessRef(resource.Principals, principal)})
		}
		return slices.Delete(list, i, i+1), nil
	})
	return err
}

// changeTokens changes a principal's list of tokens.
func (p *Plane) changeTokens(ctx context.Context, by Caller, principal string, c change, o Options, alter func([]resource.Token) ([]resource.Token, error)) (Result, error) {
	c.ref = accessRef(resource.Principals, principal)
	c.next = func(old *catalog.Item) (resource.Document, error) {
		if old == nil {
			return nil, &NotFound{c.ref}
		}
		next := *old.Resource.(*resource.Principal)
		var err error
		next.Tokens, err = alter(slices.Clone(next.Tokens))
		return &next, err
	}
	return p.apply(ctx, by, c, o)
}
