package plane

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dyno/services/control/access"
	"dyno/services/control/audit"
	"dyno/services/control/catalog"
	"dyno/services/control/resource"
)

// having is a caller with grants, as NAMESPACE:ROLE separated by blanks.
func having(grants string) Caller {
	return Caller{Principal: &access.Principal{Name: "who", Grants: grantsOf(grants)}}
}

func grantsOf(text string) (list []access.Grant) {
	for one := range strings.FieldsSeq(text) {
		namespace, role, _ := strings.Cut(one, ":")
		list = append(list, access.Grant{Namespace: namespace, Role: access.Role(role)})
	}
	return list
}

// TestDelegation: nobody gives, takes or takes over more than he has.
func TestDelegation(t *testing.T) {
	p := opened(t, newStore(t), nil)
	root := having("*:admin")
	put := func(by Caller, doc resource.Document) error {
		_, err := p.Put(t.Context(), by, doc, Options{})
		return err
	}
	principal := func(name, roles, grants string) *resource.Principal {
		return &resource.Principal{Name: name, Roles: strings.Fields(roles), Grants: grantsOf(grants)}
	}
	role := func(name, grants string) *resource.Role { return &resource.Role{Name: name, Grants: grantsOf(grants)} }
	remove := func(k resource.Kind, name string) func(Caller) error {
		return func(by Caller) error {
			_, err := p.Remove(t.Context(), by, accessRef(k, name), Options{})
			return err
		}
	}
	puts := func(doc resource.Document) func(Caller) error { return func(by Caller) error { return put(by, doc) } }
	token := func(name string) func(Caller) error {
		return func(by Caller) error {
			_, _, err := p.CreateToken(t.Context(), by, name, resource.Token{}, Options{})
			return err
		}
	}
	get := func(k resource.Kind, name string) func(Caller) error {
		return func(by Caller) error {
			_, _, err := p.Get(t.Context(), by, accessRef(k, name), false)
			return err
		}
	}
	const shop, other = "shop:admin", "shop:editor other:admin *:reader"
	for _, c := range []struct {
		what string
		by   string
		do   func(Caller) error
		want ProblemKind // "" is permitted
	}{
		{"a principal with all he has", shop, puts(principal("p", "", "shop:admin")), ""},
		{"a role with a part of it", shop, puts(role("r", "shop:editor")), ""},
		{"one with that role", shop, puts(principal("p", "r", "")), ""},
		{"in another namespace", shop, puts(principal("p", "", "other:reader")), NotPermitted},
		{"in one more namespace", shop, puts(principal("p", "", "shop:reader other:reader")), NotPermitted},
		{"in all namespaces", shop, puts(principal("p", "", "*:reader")), NotPermitted},
		{"a role in another namespace", shop, puts(role("q", "other:reader")), NotPermitted},
		{"where he may not delegate", other, puts(principal("p", "", "shop:reader")), NotPermitted},
		{"in all namespaces, where he may not delegate", other, puts(principal("p", "", "*:reader")), NotPermitted},
		{"by an editor", "*:editor", puts(principal("p", "", "shop:reader")), NotPermitted},
		{"by nobody", "", puts(principal("p", "", "shop:reader")), NotPermitted},
		{"a role of root", shop, puts(principal("p", "ops", "")), NotPermitted},
		{"a role that does not exist", shop, puts(principal("p", "none", "shop:reader")), NotValid},
		{"nothing", shop, puts(principal("p", "", "")), NotValid},
		{"a rate", shop, puts(&resource.Principal{Name: "p", Rate: 1e6, Grants: grantsOf("shop:reader")}), NotPermitted},
		{"a rate, by root", "*:admin", puts(&resource.Principal{Name: "p", Rate: 1e6, Burst: 10, Grants: grantsOf("shop:reader")}), ""},
		{"the same rate", shop, puts(&resource.Principal{Name: "p", Rate: 1e6, Burst: 10, Grants: grantsOf("shop:editor")}), ""},
		{"a name of an issuer's", "*:admin", puts(principal("oidc:ann", "", "shop:reader")), NotValid},
		{"tokens", "*:admin", puts(&resource.Principal{Name: "p", Grants: grantsOf("shop:reader"), Tokens: []resource.Token{{ID: "x"}}}), NotValid},

		{"to take over who has more", shop, puts(principal("deployer", "", "shop:reader")), NotPermitted},
		{"to take over who has more by a role", shop, puts(principal("operator", "", "shop:reader")), NotPermitted},
		{"to take over a role with more", shop, puts(role("ops", "shop:reader")), NotPermitted},
		{"to remove who has more", shop, remove(resource.Principals, "deployer"), NotPermitted},
		{"to remove a role with more", shop, remove(resource.Roles, "unused"), NotPermitted},
		{"a token of who has more", shop, token("deployer"), NotPermitted},
		{"a token of who has more by a role", shop, token("operator"), NotPermitted},
		{"a token of who has less", shop, token("clerk"), ""},
		{"a token of nobody", shop, token("none"), Missing},
		{"a token, by an editor", "*:editor", token("clerk"), NotPermitted},
		{"to see who has more", shop, get(resource.Principals, "deployer"), NotPermitted},
		{"to see a role with more", shop, get(resource.Roles, "ops"), NotPermitted},
		{"to see who has less", shop, get(resource.Principals, "clerk"), ""},
		{"to see, by a reader of all", "*:editor", get(resource.Principals, "clerk"), NotPermitted},
		{"a role in use", "*:admin", remove(resource.Roles, "ops"), InUse},
		{"to remove who has less", shop, remove(resource.Principals, "clerk"), ""},
	} {
		for _, doc := range []resource.Document{role("ops", "*:editor"), role("unused", "*:reader"), principal("deployer", "", "shop:editor other:reader"), principal("operator", "ops", ""), principal("clerk", "", "shop:reader")} {
			if err := put(root, doc); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.do(having(c.by)); (err == nil) != (c.want == "") || err != nil && ProblemOf(err).Kind != c.want {
			t.Errorf("%s, by %q: %v, want %q", c.what, c.by, err, c.want)
		}
	}
	// A list has what the caller may delegate.
	l, err := p.List(t.Context(), having(shop), resource.Principals, resource.Everywhere, Page{Limit: 10})
	if err != nil || len(l.Items) != 1 || l.Items[0].Name != "p" {
		t.Errorf("%+v, %v", l.Items, err)
	}
}

// TestRoleGone: a change that gives a role is not made if the role goes before it is committed. A role that principals
// have is not made: who gave them it may not have been permitted to give what it has now.
func TestRoleGone(t *testing.T) {
	s := newStore(t)
	p := opened(t, s, nil)
	root, r := having("*:admin"), accessRef(resource.Roles, "r")
	role := func() error {
		_, err := p.Put(t.Context(), root, &resource.Role{Name: "r", Grants: grantsOf("shop:reader")}, Options{})
		return err
	}
	if err := role(); err != nil {
		t.Fatal(err)
	}
	c := change{ref: accessRef(resource.Principals, "p"), act: resource.Updated, next: func(*catalog.Item) (resource.Document, error) {
		return &resource.Principal{Name: "p", Roles: []string{"r"}}, nil
	}}
	if err := p.catchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	d, err := decide(c, Options{}, p.facts(root, c))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Remove(t.Context(), root, r, Options{}); err != nil {
		t.Fatal(err)
	}
	if outcome, err := s.Apply(t.Context(), d.request); err != nil || outcome.Done {
		t.Fatalf("%+v, %v: the role is given, and is gone", outcome, err)
	}
	d.request.If = nil // as if it had been committed just before the removal
	if outcome, err := s.Apply(t.Context(), d.request); err != nil || !outcome.Done {
		t.Fatal(outcome, err)
	}
	if err := role(); err == nil || ProblemOf(err).Kind != InUse {
		t.Errorf("the role is made again: %v", err)
	}
	made, _, err := p.CreateToken(t.Context(), root, "p", resource.Token{}, Options{})
	if err == nil {
		err = p.RevokeToken(t.Context(), root, "p", made.ID, Options{})
	}
	if err != nil {
		t.Errorf("tokens of who has a role that is gone: %v", err)
	}
}

// TestTokens: a token is valid at once on the replica that made it, and soon on others; revoked, it is not. It is kept
// as its hash only, in the audit by its ID.
func TestTokens(t *testing.T) {
	s := newStore(t)
	book := func() *access.Book {
		b, err := access.ParseBook([]byte("principals: [{name: file, certificate: x, grants: [{namespace: n, role: reader}]}]"))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	one := opened(t, s, func(c *Config) { c.Book, c.Limits.TokenTTL = book(), time.Hour })
	two := opened(t, s, func(c *Config) { c.Book, c.Replica = book(), "two" })
	root := having("*:admin")
	if _, err := one.Put(t.Context(), root, &resource.Principal{Name: "file", Grants: grantsOf("n:reader")}, Options{}); err == nil || ProblemOf(err).Kind != Exists {
		t.Errorf("the name is in the file: %v", err)
	}
	if _, err := one.Put(t.Context(), root, &resource.Principal{Name: "p", Grants: grantsOf("shop:editor")}, Options{}); err != nil {
		t.Fatal(err)
	}
	for _, at := range []time.Time{time.Now().Add(-time.Second), time.Now().Add(2 * time.Hour)} {
		if _, _, err := one.CreateToken(t.Context(), root, "p", resource.Token{Expires: at}, Options{}); err == nil || ProblemOf(err).Kind != NotValid {
			t.Errorf("a token until %v: %v", at, err)
		}
	}
	made, text, err := one.CreateToken(t.Context(), root, "p", resource.Token{Description: "pipeline"}, Options{Key: "k"})
	if err != nil || !strings.HasPrefix(text, TokenPrefix) || made.Expires.IsZero() || made.By != "who" {
		t.Fatalf("%+v, %q, %v", made, text, err)
	}
	if _, again, err := one.CreateToken(t.Context(), root, "p", resource.Token{Description: "pipeline"}, Options{Key: "k"}); err == nil || ProblemOf(err).Kind != Exists {
		t.Errorf("%q is made by the same key: %v", again, err)
	}
	admit := func(p *Plane) error {
		_, err := NewGate(p.cfg.Book, 0, 0).Admit(Credentials{Authorization: "Bearer " + text})
		return err
	}
	if err := admit(one); err != nil {
		t.Error(err)
	}
	learnt(t, two)
	if err := admit(two); err != nil {
		t.Error(err)
	}
	if _, err := one.Put(t.Context(), root, &resource.Principal{Name: "p", Grants: grantsOf("shop:reader")}, Options{}); err != nil {
		t.Fatal(err)
	}
	if who := one.cfg.Book.ByToken(text); who == nil || who.May(access.Write, "shop") {
		t.Errorf("the token does not stay with less: %+v", who)
	}
	kvs, _, err := s.List(t.Context(), "", "", 1000)
	if err != nil || len(kvs) < 5 {
		t.Fatal(len(kvs), err)
	}
	for _, kv := range kvs {
		if strings.Contains(string(kv.Value), text) {
			t.Errorf("%s has the token", kv.Key)
		}
	}
	if err := one.RevokeToken(t.Context(), root, "p", made.ID, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := admit(one); err == nil || ProblemOf(err).Kind != BadToken {
		t.Errorf("a revoked token: %v", err)
	}
	var missing *NotFound
	if err := one.RevokeToken(t.Context(), root, "p", made.ID, Options{}); !errors.As(err, &missing) {
		t.Errorf("revoked again: %v", err)
	}
	page, err := one.Audit(t.Context(), root, audit.Query{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	var acts []string
	for _, a := range page.Items {
		if a.ID == made.ID {
			acts = append(acts, string(a.Act))
		}
	}
	if strings.Join(acts, " ") != "create-token revoke-token" {
		t.Errorf("the audit has %v", acts)
	}
	if page, err := one.Audit(t.Context(), having("shop:admin"), audit.Query{Limit: 100}); err != nil || len(page.Items) > 0 {
		t.Errorf("an admin of a namespace sees %v, %v", page.Items, err)
	}
}

// TestExpiry: a token is refused from the moment when it expires, and what was begun with it ends then.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book, err := access.ParseBook([]byte("principals: [{name: file, certificate: x, grants: [{namespace: n, role: reader}]}]"))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256([]byte("t"))
		book.SetStored([]*resource.Principal{{Name: "p", Grants: grantsOf("n:reader"), Tokens: []resource.Token{{SHA256: hex.EncodeToString(sum[:]), Expires: time.Now().Add(time.Minute)}}}}, nil)
		g := NewGate(book, 0, 0)
		admit := func() (Caller, error) { return g.Admit(Credentials{Authorization: "Bearer t"}) }
		who, err := admit()
		if err != nil {
			t.Fatal(err)
		}
		var ended atomic.Bool
		if _, err := g.Hold(who, func(error) { ended.Store(true) }); err != nil {
			t.Fatal(err)
		}
		release, err := g.Hold(who, func(error) { t.Error("what was released has ended") })
		if err != nil {
			t.Fatal(err)
		}
		release()
		<-time.After(time.Minute - 1)
		synctest.Wait()
		if _, err := admit(); err != nil || ended.Load() {
			t.Errorf("before: %v, %t", err, ended.Load())
		}
		<-time.After(1)
		synctest.Wait()
		if _, err := admit(); err == nil || !strings.Contains(err.Error(), "expired") || !ended.Load() {
			t.Errorf("after: %v, %t", err, ended.Load())
		}
	})
}

// TestAccessIsNotWatched: no client learns of principals and roles by a watch, by the list of namespaces or by an
// acknowledgement.
func TestAccessIsNotWatched(t *testing.T) {
	p := opened(t, newStore(t), nil)
	root := having("*:admin")
	for _, doc := range []resource.Document{&resource.Role{Name: "r", Grants: grantsOf("shop:reader")}, &resource.Principal{Name: "p", Roles: []string{"r"}}, policy("a")} {
		if _, err := p.Put(t.Context(), root, doc, Options{}); err != nil {
			t.Fatal(err)
		}
	}
	w, err := p.Watch(t.Context(), root, Query{Namespace: access.AllNamespaces})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for round := range 2 {
		changes, _, _, err := w.Next(t.Context(), 100)
		if err != nil || len(changes) != 1 || changes[0].Ref != policy("a").Ref() {
			t.Errorf("round %d: %+v, %v", round, changes, err)
		}
		for _, doc := range []resource.Document{&resource.Principal{Name: "q", Roles: []string{"r"}}, policy("a")} {
			if _, err := p.Put(t.Context(), root, doc, Options{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := p.Watch(t.Context(), root, Query{Namespace: access.AllNamespaces, Kinds: []resource.Kind{resource.Principals}}); err == nil {
		t.Error("principals are watched")
	}
	if _, err := p.Watch(t.Context(), root, Query{Namespace: access.AllNamespaces, Kinds: []resource.Kind{resource.Principals}, Prefix: "p"}); err == nil {
		t.Error("principals are watched by a prefix")
	}
	if l, err := p.Names(t.Context(), root, resource.Principals, resource.Everywhere, "", Page{Limit: 10}); err == nil {
		t.Errorf("names without what they give: %v", l.Items)
	}
	names, _, _, err := p.Namespaces(t.Context(), root, 10, false)
	if err != nil || len(names) != 1 {
		t.Errorf("%v, %v", names, err)
	}
	if _, _, err := p.Ack(t.Context(), root, "c", []resource.Ack{{Ref: accessRef(resource.Principals, "p"), Version: 9, State: resource.Applied}}); err == nil || ProblemOf(err).Kind != NotValid {
		t.Errorf("an acknowledgement: %v", err)
	}
}
