package report

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dyno/results/rundir"
)

func TestMarkdown(t *testing.T) {
	for name, folders := range map[string][]*rundir.Folder{
		"compare": {exampleCompare()}, "quick": {exampleQuick()}, "ladder": {exampleLadder()}, "pairs": {examplePairs()},
		"document": {exampleProgram(), exampleInvalid(), exampleCapacity(), exampleSoak()},
	} {
		var b bytes.Buffer
		if err := Markdown(&b, folders...); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".md", b.String())
	}
	if err := Markdown(&bytes.Buffer{}); err == nil {
		t.Error("a document of no run: no error")
	}
}

// The short form of every kind of run fits a comment: whatever the texts, and however many.
func TestShortMarkdown(t *testing.T) {
	for name, f := range examples() {
		var b bytes.Buffer
		if err := ShortMarkdown(&b, f); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".short.md", b.String())
		if n := strings.Count(b.String(), "\n"); n > 25 {
			t.Errorf("%s: %d lines:\n%s", name, n, b.String())
		}
		rewild(reflect.ValueOf(f), []string{"Kind", "State", "Outcome", "Role", "Verdict", "Interval", "Metric", "Figure", "Loop", "Dir"})
		b.Reset()
		if err := ShortMarkdown(&b, f, f); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(b.String(), "\x1b\u009b\u202e\r\x00") || strings.Count(b.String(), "\n") > 51 {
			t.Errorf("%s, of wild texts: %q", name, b.String())
		}
	}
	if err := ShortMarkdown(&bytes.Buffer{}); err == nil {
		t.Error("a document of no run: no error")
	}
}

// Escaped text has nothing left that ends a cell, begins HTML, or is formatted.
func TestMarkdownEscapes(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"a|b", `a\|b`}, {"`x`", "\\`x\\`"}, {"<script>", "&lt;script&gt;"}, {"a & b", "a &amp; b"}, {"**a**", `\*\*a\*\*`},
		{"target.cpu_per_request", "target.cpu_per_request"}, {"_a_", `\_a\_`}, {"[1] x", `\[1\] x`}, {"~ (1)", `\~ (1)`},
		{"- a", `\- a`}, {"1. a", `1\. a`}, {"12) a", `12\) a`}, {"1.5 ms", "1.5 ms"}, {"+1.5%", "+1.5%"}, {"a\nb", "a b"}, {`\`, `\\`}, {"# a", `\# a`}, {"$x$", `\$x\$`},
		{"![a](b)", `\!\[a\](b)`}, {"---", `\-\-\-`}, {"1.", `1\.`}, {"a\x1bb", "a&lt;U+001B&gt;b"}, {"", ""},
	} {
		if got := markdown(c.text); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		out := markdown(rapid.StringOf(rapid.SampledFrom([]rune("|`*_<>&[]\\~\n\r #-a1.)é\x00"))).Draw(t, "text"))
		bare := strings.NewReplacer("&lt;", "", "&gt;", "", "&amp;", "", `\\`, "", `\|`, "", "\\`", "", `\*`, "", `\[`, "", `\]`, "", `\~`, "", `\#`, "").Replace(out)
		if i := strings.IndexAny(bare, "|`*<>&[]~#\n\r\x00"); i >= 0 {
			t.Errorf("%q is left of %q", bare[i:], out)
		}
	})
}

// Every row of a table has as many cells as its head.
func TestMarkdownTables(t *testing.T) {
	for name, f := range examples() {
		var b bytes.Buffer
		if err := Markdown(&b, f, f); err != nil {
			t.Fatal(err)
		}
		cells := 0
		for line := range strings.Lines(b.String()) {
			n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
			if !strings.HasPrefix(line, "|") {
				n = 0
			}
			if n > 0 && cells > 0 && n != cells {
				t.Errorf("%s: %d cells, want %d: %s", name, n, cells, line)
			}
			cells = n
		}
	}
}

func TestNatural(t *testing.T) {
	want := []string{"", "R1.1", "R1.2", "R1.2/switch", "R1.10", "R2", "R02", "R10.1", "a"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortStableFunc(got, natural)
	// R2 and R02 are the same number: any order that does not change is right.
	if natural("R2", "R02") > 0 {
		i := slices.Index(want, "R2")
		want[i], want[i+1] = want[i+1], want[i]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringOfN(rapid.SampledFrom([]rune("R.019")), 0, 6, -1)
		a, b, c := name.Draw(t, "a"), name.Draw(t, "b"), name.Draw(t, "c")
		if natural(a, b) != -natural(b, a) || natural(a, b) == 0 != (a == b) {
			t.Errorf("%q and %q: %d and %d", a, b, natural(a, b), natural(b, a))
		}
		if natural(a, b) < 0 && natural(b, c) < 0 && natural(a, c) >= 0 {
			t.Errorf("%q < %q < %q, and the first is not before the last", a, b, c)
		}
	})
}
