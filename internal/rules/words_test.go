package rules

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strings"
	"testing"
)

// A phrase is something that readers stumble over, and what to write instead.
type phrase struct {
	pattern *regexp.Regexp
	instead string
}

// phrases must not be in documents, comments and strings. They are spelled so that they do not find
// themselves.
var phrases = []phrase{
	{regexp.MustCompile(`(?i)\bbesid[e]\b`), "next to, together with, in addition to, during"},
	{regexp.MustCompile(`(?i)\bso\s+man[y]\b`), "the number, or its name"},
	{regexp.MustCompile(`(?i)\bat\s+the\s+mos[t]\b`), "at most"},
	{regexp.MustCompile(`(?i)\bfor\s+eve[r]\b`), "without end, permanently"},
	{regexp.MustCompile(`(?i)\bane[w]\b`), "again, from scratch"},
	{regexp.MustCompile(`(?i)\blikewis[e]\b`), "say it again"},
	{regexp.MustCompile(`(?i)\bas\s+abov[e]\b`), "say it again"},
	{regexp.MustCompile(`(?i)\btold\s+apar[t]\b`), "distinguished"},
	{regexp.MustCompile(`\b(?:an a[n]|are ar[e]|be b[e]|for fo[r]|is i[s]|it i[t]|of o[f]|the th[e]|to t[o]|with wit[h])\b`), "the word once"},
	{regexp.MustCompile(`(?i)\bwhoeve[r]\b`), "who it is: the caller, the reader, a client"},
	{regexp.MustCompile(`(?i)spoi[l]`), "disturbed, malformed, changed"},
}

// findPhrases returns what to write instead of the phrases in a text.
func findPhrases(text string) (said []string) {
	for _, p := range phrases {
		if found := p.pattern.FindString(text); found != "" {
			said = append(said, fmt.Sprintf("%q: write %s", strings.Join(strings.Fields(found), " "), p.instead))
		}
	}
	return said
}

// camelCase finds names as only code has them.
var camelCase = regexp.MustCompile(`\b[a-z]+[A-Z]\w*\b`)

// elsewhere are names in comments that others have declared.
var elsewhere = []string{"closeWriteAndWait", "lowerCamelCase", "readFromUntil", "unmarshalMap", "vCPUs"}

// findUndeclared returns the names in comments that no code has: what they were given to has been
// renamed or is gone.
func findUndeclared(files []file) (faults []string, err error) {
	word := regexp.MustCompile(`\w+`)
	known := map[string]bool{}
	for _, name := range elsewhere {
		known[name] = true
	}
	var groups []*ast.CommentGroup
	fset := token.NewFileSet()
	for _, f := range files {
		switch path.Ext(f.path) {
		case ".go":
			tree, err := parser.ParseFile(fset, f.path, f.text, parser.SkipObjectResolution|parser.ParseComments)
			if err != nil {
				return nil, err
			}
			groups = append(groups, tree.Comments...)
			ast.Inspect(tree, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Ident:
					known[n.Name] = true
				case *ast.BasicLit:
					for _, w := range word.FindAllString(n.Value, -1) {
						known[w] = true
					}
				}
				return true
			})
		case ".md":
		default:
			for _, w := range word.FindAllString(f.text, -1) {
				known[w] = true
			}
		}
	}
	for _, g := range groups {
		for _, name := range camelCase.FindAllString(g.Text(), -1) {
			if !known[name] {
				faults = append(faults, fmt.Sprintf("%s: %s: no code has this name", fset.Position(g.Pos()), name))
			}
		}
	}
	return faults, nil
}

func TestNamesInComments(t *testing.T) {
	faults, err := findUndeclared(readFiles(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		t.Error(f)
	}
}

// checkWords reports the phrases in a Go file.
func checkWords(tree *ast.File, fault func(at token.Pos, format string, args ...any)) {
	check := func(at token.Pos, text string) {
		for _, said := range findPhrases(text) {
			fault(at, "%s", said)
		}
	}
	for _, group := range tree.Comments {
		check(group.Pos(), group.Text())
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			check(literal.Pos(), literal.Value)
		}
		return true
	})
}
