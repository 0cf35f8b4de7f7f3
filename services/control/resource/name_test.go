package resource

import (
	"regexp"
	"strings"
	"testing"
)

// TestNames: which names are valid, for a configuration and for a service, and what is said of others.
func TestNames(t *testing.T) {
	schema := regexp.MustCompile(Schemas()["ConfigName"].(map[string]any)["pattern"].(string))
	for _, c := range []struct {
		name            string
		config, service string // what is said; "" is nothing
	}{
		{"a", "", ""},
		{"A-1_b.c:d", "", ""},
		{"-", "", ""},
		{"größe 設定 %2F*", "", ""},
		{"...", "", ""},
		{".a", "", ""},
		{strings.Repeat("x", 253), "", ""},
		{"app/db/url", "", "no slash"},
		{"app/.../ü", "", "no slash"},
		{"", "1 to 253 bytes", "1 to 253 bytes"},
		{strings.Repeat("é", 127), "1 to 253 bytes", "1 to 253 bytes"},
		{"/a", "no slash at an end", "no slash"},
		{"a/", "no slash at an end", "no slash"},
		{"a//b", "part between slashes", "no slash"},
		{"a/../b", "part between slashes", "no slash"},
		{"./a", "part between slashes", "no slash"},
		{".", "part between slashes", "part between slashes"},
		{"..", "part between slashes", "part between slashes"},
		{"*", "all names", "all names"},
		{" a", "white space", "white space"},
		{"a\u00a0", "white space", "white space"},
		{"a\nb", "control", "control"},
		{"a\u0085b", "control", "control"},
		{"\xff", "UTF-8", "UTF-8"},
		{"e\u0301", `form NFC: "\u00e9"`, `form NFC: "\u00e9"`},
	} {
		for _, r := range []struct {
			Ref
			want string
		}{
			{Ref{Kind: Configs, Namespace: "n", Name: c.name}, c.config},
			{Ref{Kind: Policies, Namespace: "n", Name: c.name}, c.service},
			{Ref{Kind: Instances, Namespace: "n", Name: c.name, ID: "x"}, c.service},
			{Ref{Kind: Instances, Namespace: "n", Name: "x", ID: c.name}, c.service},
		} {
			err := r.Check()
			if (err == nil) != (r.want == "") || err != nil && !strings.Contains(err.Error(), r.want) {
				t.Errorf("%q: %v, want %q", r.Ref, err, r.want)
			}
			if err == nil && r.Kind == Configs && !schema.MatchString(c.name) {
				t.Errorf("%q: not by the schema", c.name)
			}
		}
	}
	for _, r := range []Ref{
		{Kind: Principals, Namespace: Everywhere, Name: "größe"},
		{Kind: Roles, Namespace: Everywhere, Name: "a/b"},
		{Kind: Roles, Namespace: "n", Name: "a"},
		{Kind: Configs, Namespace: Everywhere, Name: "a"},
	} {
		if r.Check() == nil {
			t.Errorf("%q is valid", r)
		}
	}
	for _, name := range []string{"", ".", "..", "a/..", "a//b", "a/", "/", "a\tb"} {
		if schema.MatchString(name) {
			t.Errorf("%q: by the schema", name)
		}
	}
}

// FuzzPath: a valid name has one path, which leads back to it, and an escaped prefix is the prefix of the escaped name.
// Whatever parses is the path of what was parsed.
func FuzzPath(f *testing.F) {
	f.Add("app/db", "x%2F/y", 3)
	f.Add("größe%", "%25", 4)
	f.Fuzz(func(t *testing.T, name, id string, cut int) {
		for _, r := range []Ref{{Kind: Configs, Namespace: "n", Name: name}, {Kind: Roles, Namespace: Everywhere, Name: name}, {Kind: Instances, Namespace: "n", Name: name, ID: id}} {
			if r.Check() == nil {
				if got, err := ParsePath(r.Path()); err != nil || got != r {
					t.Errorf("%q: %q, %v", r, got, err)
				}
			}
		}
		if cut >= 0 && cut <= len(name) && !strings.HasPrefix(EscapeName(name), EscapeName(name[:cut])) {
			t.Errorf("%q: %q is no prefix", EscapeName(name), EscapeName(name[:cut]))
		}
		if r, err := ParsePath(name + "/" + id); err == nil && r.Path() != name+"/"+id {
			t.Errorf("%q is %q", name+"/"+id, r.Path())
		}
	})
}

func TestAddress(t *testing.T) {
	for want, r := range map[string]Ref{
		"/v1/policies":                      {Kind: Policies},
		"/v1/configs/app%2Fgr%C3%B6%C3%9Fe": {Kind: Configs, Name: "app/größe"},
		"/v1/services":                      {Kind: Instances},
		"/v1/services/a:b/instances":        {Kind: Instances, Name: "a:b"},
		"/v1/services/a/instances/1":        {Kind: Instances, Name: "a", ID: "1"},
	} {
		if got := r.Address(); got != want {
			t.Errorf("%v: %s, want %s", r, got, want)
		}
	}
}
