package access

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"dyno/internal/leak"
	"dyno/services/control/resource"
)

func TestMain(m *testing.M) { leak.Main(m) }

func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// TestMay is the table of roles and permissions.
func TestMay(t *testing.T) {
	every := []Permission{Read, Secrets, Register, Write, Audit, Delegate, Administer}
	for _, c := range []struct {
		role      Role
		namespace string // of the grant
		asked     string
		may       string
	}{
		{Reader, "shop", "shop", "read"},
		{Registrar, "shop", "shop", "read secrets register"},
		{Editor, "shop", "shop", "read secrets register write"},
		{Admin, "shop", "shop", "read secrets register write audit delegate"},
		{Admin, "*", "shop", "read secrets register write audit delegate administer"},
		{Admin, "*", "*", "read secrets register write audit delegate administer"},
		{Editor, "*", "shop", "read secrets register write"},
		{Admin, "shop", "other", ""},
		{Admin, "shop", "*", ""},
		{Admin, "shop", "", ""},
		{"other", "*", "shop", ""},
	} {
		p := Principal{Grants: []Grant{{Namespace: c.namespace, Role: c.role}}}
		var may []string
		for _, what := range every {
			if p.May(what, c.asked) {
				may = append(may, string(what))
			}
		}
		if got := strings.Join(may, " "); got != c.may {
			t.Errorf("%s in %q, asked for %q: may %q, want %q", c.role, c.namespace, c.asked, got, c.may)
		}
	}
}

func TestBook(t *testing.T) {
	b, err := ParseBook([]byte(`
principals:
  - name: a
    token_sha256: ` + hash("secret") + `
    grants: [{namespace: shop, role: reader}, {namespace: x, role: editor}]
    rate: 5
  - name: b
    certificate: spiffe://example.org/b
    grants: [{namespace: "*", role: admin}]
`))
	if err != nil {
		t.Fatal(err)
	}
	if p := b.ByToken("secret"); p == nil || p.Name != "a" || p.Rate != 5 || !p.May(Write, "x") || p.May(Write, "shop") {
		t.Errorf("%+v", p)
	}
	for _, token := range []string{"", "Secret", hash("secret")} {
		if p := b.ByToken(token); p != nil {
			t.Errorf("%q is the token of %+v", token, p)
		}
	}
	if p := b.ByCertificate([]string{"x", "", "spiffe://example.org/b"}); p == nil || p.Name != "b" {
		t.Errorf("%+v", p)
	}
	if p := b.ByCertificate([]string{""}); p != nil || !b.Certificates() {
		t.Errorf("no name is that of %+v", p)
	}
}

func parse(t *testing.T, text string) *Book {
	t.Helper()
	b, err := ParseBook([]byte("principals:\n" + text))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestReplace: a Book has the principals of another one after a replacement.
func TestReplace(t *testing.T) {
	b := parse(t, "  - {name: a, token_sha256: "+hash("old")+", grants: [{namespace: n, role: reader}]}\n")
	b.Replace(parse(t, "  - {name: a, token_sha256: "+hash("new")+", certificate: x, grants: [{namespace: n, role: editor}]}\n"))
	if b.ByToken("old") != nil || b.ByToken("new") == nil || !b.ByToken("new").May(Write, "n") || b.ByCertificate([]string{"x"}) == nil || !b.Certificates() {
		t.Errorf("%+v", b.pages.Load())
	}
}

// TestHold: a hold ends when its principal changes, and not before.
func TestHold(t *testing.T) {
	one := func(name, token, role, more string) string {
		return "  - {name: " + name + ", token_sha256: " + hash(token) + ", grants: [{namespace: n, role: " + role + "}]" + more + "}\n"
	}
	first := one("a", "1", "reader", "") + one("b", "2", "reader", "")
	for name, c := range map[string]struct {
		next string
		ends bool
	}{
		"the same":      {first, false},
		"others change": {one("a", "1", "reader", "") + one("c", "3", "reader", ""), false},
		"another rate":  {one("a", "1", "reader", ", rate: 5"), false},
		"gone":          {one("b", "2", "reader", ""), true},
		"another token": {one("a", "3", "reader", ""), true},
		"another role":  {one("a", "1", "editor", ""), true},
		"a certificate": {one("a", "1", "reader", ", certificate: x"), true},
	} {
		b, ended := parse(t, first), 0
		p := b.ByToken("1")
		release, ok := b.Hold(p, func() { ended++ })
		left, _ := b.Hold(p, func() { t.Errorf("%s: what was released has ended", name) })
		left()
		b.Replace(parse(t, c.next))
		if !ok || (ended == 1) != c.ends {
			t.Errorf("%s: %v, ended %d times", name, ok, ended)
		}
		release()
		if len(b.held) != 0 {
			t.Errorf("%s: %v is held", name, b.held)
		}
		if _, ok := b.Hold(p, nil); ok == c.ends {
			t.Errorf("%s: who is another may hold", name)
		}
	}
	if _, ok := (*Book)(nil).Hold(Anonymous(), nil); !ok {
		t.Error("nobody may hold without a book")
	}
}

func TestBookFaults(t *testing.T) {
	good := "name: a\n    token_sha256: " + hash("a") + "\n    grants: [{namespace: n, role: reader}]\n"
	for name, c := range map[string]struct{ text, want string }{
		"nothing":       {"", "0 of them"},
		"unknown field": {"principals:\n  - " + good + "    tokn: x\n", "tokn"},
		"not UTF-8":     {"principals:\n  - " + strings.Replace(good, "name: a", "name: a\xff", 1), "UTF-8"},
		"no name":       {"principals:\n  - " + strings.Replace(good, "name: a", "name: ''", 1), "[0]: name"},
		"same name":     {"principals:\n  - " + good + "  - " + good, "[1]: name"},
		"same token":    {"principals:\n  - " + good + "  - " + strings.Replace(good, "name: a", "name: b", 1), "[1]: token_sha256: another principal"},
		"no credential": {"principals:\n  - name: a\n    grants: [{namespace: n, role: reader}]\n", "one must be given"},
		"the token":     {"principals:\n  - " + strings.Replace(good, hash("a"), "secret", 1), "sha256sum"},
		"no grant":      {"principals:\n  - name: a\n    certificate: x\n", "grants: must"},
		"role":          {"principals:\n  - " + strings.Replace(good, "role: reader", "role: king", 1), `"king"`},
		"namespace":     {"principals:\n  - " + strings.Replace(good, "namespace: n", "namespace: ''", 1), "namespace: must"},
		"rate":          {"principals:\n  - " + good + "    rate: -1\n", "rate"},
	} {
		if _, err := ParseBook([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestCovers: nobody covers more than he has, or anything where he may not delegate.
func TestCovers(t *testing.T) {
	for _, c := range []struct {
		has, grants string
		covers      bool
	}{
		{"*:admin", "*:admin shop:editor", true},
		{"shop:admin", "shop:admin shop:reader", true},
		{"shop:admin", "", true},
		{"shop:admin", "other:reader", false},
		{"shop:admin", "*:reader", false},
		{"shop:admin", "shop:reader *:reader", false},
		{"shop:admin *:reader", "*:reader", false},
		{"shop:admin other:editor", "other:reader", false},
		{"shop:admin other:admin", "other:editor shop:admin", true},
		{"*:editor", "shop:reader", false},
		{"shop:editor", "shop:reader", false},
		{"*:editor shop:admin", "shop:admin", true},
	} {
		if p := (&Principal{Grants: grants(c.has)}); p.Covers(grants(c.grants)) != c.covers {
			t.Errorf("%s covers %q: %v", c.has, c.grants, !c.covers)
		}
	}
}

// grants parses NAMESPACE:ROLE, separated by blanks.
func grants(text string) (list []Grant) {
	for one := range strings.FieldsSeq(text) {
		namespace, role, _ := strings.Cut(one, ":")
		list = append(list, Grant{Namespace: namespace, Role: Role(role)})
	}
	return list
}

// stored is a principal of the store with tokens.
func stored(name, roles, has string, tokens ...string) *resource.Principal {
	p := &resource.Principal{Name: name, Roles: strings.Fields(roles), Grants: grants(has)}
	for _, text := range tokens {
		p.Tokens = append(p.Tokens, resource.Token{ID: text, SHA256: hash(text)})
	}
	return p
}

// TestStored: principals of the store have their grants and those of their roles. The file counts where both have a
// name. Holds end when the token or the permissions change, and not before.
func TestStored(t *testing.T) {
	b := parse(t, "  - {name: file, token_sha256: "+hash("file")+", grants: [{namespace: n, role: reader}]}\n")
	roles := func(has string) map[string]*resource.Role {
		return map[string]*resource.Role{"team": {Name: "team", Grants: grants(has), Groups: []string{"staff"}}}
	}
	b.SetStored([]*resource.Principal{stored("a", "team gone", "x:reader", "a1", "a2"), stored("file", "", "*:admin", "stolen")}, roles("shop:editor"))
	if p := b.ByToken("a2"); p == nil || p.Name != "a" || !p.May(Write, "shop") || !p.May(Read, "x") || p.May(Write, "x") {
		t.Errorf("%+v", p)
	}
	if b.ByToken("stolen") != nil || b.ByToken("file") == nil || !b.InFile("file") || b.InFile("a") {
		t.Error("the file does not count")
	}
	member := b.Member("oidc:ann", []string{"staff", "others"}, time.Time{})
	if !member.May(Write, "shop") || member.May(Read, "x") {
		t.Errorf("%+v", member)
	}
	ended := map[string]bool{}
	hold := func(name string, p *Principal) {
		if _, ok := b.Hold(p, func() { ended[name] = true }); !ok {
			t.Errorf("%s is not held", name)
		}
	}
	want := func(when string, names ...string) {
		t.Helper()
		if len(ended) != len(names) {
			t.Errorf("%s: %v ended, want %v", when, ended, names)
		}
		for _, n := range names {
			if !ended[n] {
				t.Errorf("%s: %s goes on", when, n)
			}
		}
	}
	hold("a1", b.ByToken("a1"))
	hold("a2", b.ByToken("a2"))
	hold("file", b.ByToken("file"))
	hold("member", member)
	b.SetStored([]*resource.Principal{stored("a", "team gone", "x:reader", "a2", "a3")}, roles("shop:editor"))
	want("a token is revoked", "a1")
	b.Replace(parse(t, "  - {name: file, token_sha256: "+hash("file")+", grants: [{namespace: n, role: reader}]}\n"))
	want("the file is read again", "a1")
	b.SetStored([]*resource.Principal{stored("a", "team gone", "x:reader", "a2", "a3")}, roles("shop:reader"))
	want("the role changes", "a1", "a2", "member")
	b.Replace(parse(t, "  - {name: a, token_sha256: "+hash("file")+", grants: [{namespace: n, role: reader}]}\n"))
	want("the file has another name", "a1", "a2", "member", "file")
	if b.ByToken("a3") != nil {
		t.Error("the file does not count after it was read again")
	}
}
