package texts

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Both languages state the same facts: they have the same kinds, with the same values.
func TestBothLanguages(t *testing.T) {
	english, chinese := tables()[English], tables()[Chinese]
	if a, b := slices.Sorted(maps.Keys(english)), slices.Sorted(maps.Keys(chinese)); !slices.Equal(a, b) {
		t.Errorf("kinds differ:\n%v\n%v", a, b)
	}
	// A sentence about exactly one may leave out the number.
	values := func(text string) []string {
		found := slot.FindAllString(text, -1)
		slices.Sort(found)
		return slices.DeleteFunc(slices.Compact(found), func(v string) bool { return v == "{n}" })
	}
	for kind, text := range english {
		if a, b := values(text), values(chinese[kind]); !slices.Equal(a, b) {
			t.Errorf("%s: %v in English, %v in Chinese", kind, a, b)
		}
	}
	han := regexp.MustCompile(`\p{Han}`)
	for kind, text := range chinese {
		if words := slot.ReplaceAllString(text, ""); regexp.MustCompile(`[a-z]{3} [a-z]{2}`).MatchString(words) && !han.MatchString(words) {
			t.Errorf("%s is English: %s", kind, text)
		}
	}
}

func TestSay(t *testing.T) {
	for _, c := range []struct {
		kind   string
		values map[string]string
		want   string
	}{
		{"needs.rounds", map[string]string{"n": "6"}, "an interval needs ≥ 6 rounds"},
		{"needs.rounds", nil, "an interval needs ≥ {n} rounds"},
		{"answer.capacity", map[string]string{"variant": "{rate}", "rate": "5/s"}, "{rate} keeps all thresholds up to 5/s"},
		{"no.such", nil, "no.such"},
	} {
		if got := Say(English, c.kind, c.values); got != c.want {
			t.Errorf("%s: %q, want %q", c.kind, got, c.want)
		}
	}
}

// Every sentence is used somewhere, and every sentence that is used exists. A sentence is
// used if its kind is in the code. If only the kind's beginning is there, such as
// "broke.", its end must be a flag's kind. The forms for one, for events and for quick loads
// are used where the sentence is.
func TestKindsAreThoseOfTheCode(t *testing.T) {
	inGo, inPages := literals(t)
	used := func(literal string) bool { return inGo[literal] || inPages[literal] }
	table := tables()[English]
	spaces := map[string]bool{}
	for kind := range table {
		space, _, _ := strings.Cut(kind, ".")
		spaces[space] = true
	}
	for kind := range table {
		plain := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(kind, ".event"), ".one"), ".quick")
		space, end, _ := strings.Cut(plain, ".")
		if isUsed := used(plain) || used(space+".") && used(end); !isUsed {
			t.Errorf("%s is never said", kind)
		}
	}
	kind := regexp.MustCompile(`^([a-z]+)(\.[a-z_]+)+$`)
	for literal := range inGo {
		if m := kind.FindStringSubmatch(literal); m != nil && spaces[m[1]] && table[literal] == "" {
			t.Errorf("there is no sentence %s", literal)
		}
	}
}

// literals are the strings in the code of the module and of the pages, tests left out.
func literals(t *testing.T) (inGo, inPages map[string]bool) {
	t.Helper()
	inGo, inPages = map[string]bool{}, map[string]bool{}
	quoted := regexp.MustCompile("\"([^\"\n]+)\"|`([a-z]+\\.)\\$\\{")
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "node_modules", "runs", "testdata", "assets"}, d.Name()):
			return filepath.SkipDir
		case strings.HasSuffix(path, "_test.go"):
		case strings.HasSuffix(path, ".go"):
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
					if s, err := strconv.Unquote(l.Value); err == nil {
						inGo[s] = true
					}
				}
				return true
			})
		case strings.HasSuffix(path, ".ts") && strings.Contains(path, "src"):
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range quoted.FindAllStringSubmatch(string(b), -1) {
				inPages[m[1]+m[2]] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return inGo, inPages
}

func TestMessages(t *testing.T) {
	steal, late := New("cause", "cause", "steal"), New("cause", "cause", "late_wakeups")
	disturbed := New("found.disturbed", "share", "30 %").With("causes", steal, late)
	for _, c := range []struct {
		name string
		m    Message
		want string
	}{
		{"values", New("found.steal", "share", "3 %"), "the hypervisor took 3 % of the CPUs' time"},
		{"a missing value", New("found.steal"), "the hypervisor took {share} of the CPUs' time"},
		{"a value that looks like one", New("found.steal", "share", "{share}"), "the hypervisor took {share} of the CPUs' time"},
		{"parts", disturbed, "for 30 % of the window something else had a CPU that generator or target wanted: steal, late_wakeups"},
		{"parts of parts", Because("unsure.broken", disturbed, New("growth.none")),
			"as measured: for 30 % of the window something else had a CPU that generator or target wanted: steal, late_wakeups; it never changed"},
		{"a check", New("why.beyond_limit", "check", "late_wakeups"), "late wakeups: beyond its limit in some trial"},
		{"no check", New("answer.capacity.limit", "variant", "a_b", "rate", "5/s", "limit", "a_b < 1"), "a_b keeps all thresholds up to 5/s, limited by a_b < 1"},
		{"one together", Together(steal), "steal"},
		{"several together", Together(steal, late, steal), "steal; late_wakeups"},
		{"others", Verbatim("exit status 9"), "exit status 9"},
	} {
		if got := c.m.In(English); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if got := disturbed.With("causes").In(English); !strings.HasSuffix(got, ": ") || len(disturbed.Parts["causes"]) != 2 {
		t.Errorf("%q: a message was changed", got)
	}
	if got := disturbed.In(Chinese); !strings.HasSuffix(got, "steal，late_wakeups") {
		t.Errorf("in Chinese: %q", got)
	}
	if got := (*Message)(nil).English(); got != "" {
		t.Errorf("nothing says %q", got)
	}
}

func TestErrors(t *testing.T) {
	none, two := NewError("growth.none"), errors.New("one\ntwo")
	for _, c := range []struct {
		err     error
		reasons string
		alone   bool
	}{
		{nil, "", false},
		{none, "it never changed", true},
		{errors.Join(none, nil), "it never changed", true},
		{errors.Join(none, two, none), "it never changed; one; two", false},
		{fmt.Errorf("trial 3: %w", none), "trial 3: it never changed", false},
		{two, "one; two", false},
	} {
		if got := join(English, "answer.semicolon", Reasons(c.err)); got != c.reasons {
			t.Errorf("%v: %q, want %q", c.err, got, c.reasons)
		}
		if m, ok := Of(c.err); ok != c.alone || ok && m.In(English) != c.reasons {
			t.Errorf("%v: %v, %v", c.err, m, ok)
		}
	}
}
