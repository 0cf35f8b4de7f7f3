package rules

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"strings"
)

// A phrase is one that readers stumble over, and what to write instead.
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
