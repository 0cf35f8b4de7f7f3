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

// metaphors must not be words of a name that is declared, in addition to phrases.
var metaphors = []phrase{
	{regexp.MustCompile(`\b(?:told|tells?|said|teller)\b`), "what is sent or returned: message, output, notify"},
	{regexp.MustCompile(`\black(?:s|ing)?\b`), "missing, absent, unavailable"},
	{regexp.MustCompile(`\b(?:nobody|everybody|somebody|strangers?|whose|whom)\b`), "who it is: anonymous, unauthenticated, all clients"},
	{regexp.MustCompile(`\b(?:patience|unhurried)\b`), "timeout, grace"},
	{regexp.MustCompile(`\b(?:seats?|couple)\b`), "the CPUs, the place, the pair"},
	{regexp.MustCompile(`\b(?:blames?|hopeless|odd|felt)\b`), "the condition: at fault, unreadable, invalid"},
	{regexp.MustCompile(`\b(?:owed|begun)\b`), "due, pending, started"},
	{regexp.MustCompile(`\b(?:go on|goes on|under way|over with|give up|gives up)\b`), "continue, in flight, ended, abandon"},
	{regexp.MustCompile(`\b(?:turnstile|lull|crowd|world|scene|habit|lapse|beware|twin|vacate|expelled|ration)\b`), "the field's word"},
}

// findPhrases returns what to write instead of the phrases in a text.
func findPhrases(text string, phrases ...phrase) (faults []string) {
	for _, p := range phrases {
		if found := p.pattern.FindString(text); found != "" {
			faults = append(faults, fmt.Sprintf("%q: write %s", strings.Join(strings.Fields(found), " "), p.instead))
		}
	}
	return faults
}

// wordOfName finds the words of a name such as besideServers, TLSError or Max_size2.
var wordOfName = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)

// findInName returns what to write instead of the words of a name.
func findInName(name string) []string {
	text := strings.ToLower(strings.Join(wordOfName.FindAllString(name, -1), " "))
	return append(findPhrases(text, phrases...), findPhrases(text, metaphors...)...)
}

func TestFindInName(t *testing.T) {
	for _, name := range []string{"besideServers", "SeatKey", "lack", "goOn", "maxUnderWay", "TestFailuresAreTold", "LACKS_CPU", "soManyUsers"} {
		if len(findInName(name)) != 1 {
			t.Errorf("%s: %q, want one fault", name, findInName(name))
		}
	}
	for _, name := range []string{"besides", "Black", "seating", "goodTool", "AtMost", "oddity"} {
		if faults := findInName(name); faults != nil {
			t.Errorf("%s: %q", name, faults)
		}
	}
}

// declared returns the names that others read: those of functions, types, fields and methods, and of
// variables and constants of the package.
func declared(tree *ast.File) (names []*ast.Ident) {
	for _, decl := range tree.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			names = append(names, decl.Name)
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					names = append(names, spec.Name)
				case *ast.ValueSpec:
					names = append(names, spec.Names...)
				}
			}
		}
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		var fields *ast.FieldList
		switch n := n.(type) {
		case *ast.StructType:
			fields = n.Fields
		case *ast.InterfaceType:
			fields = n.Methods
		default:
			return true
		}
		for _, f := range fields.List {
			names = append(names, f.Names...)
		}
		return true
	})
	return names
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

// checkWords reports the phrases in a Go file and the metaphors in its names.
func checkWords(tree *ast.File, fault func(at token.Pos, format string, args ...any)) {
	check := func(at token.Pos, text string) {
		for _, found := range findPhrases(text, phrases...) {
			fault(at, "%s", found)
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
	for _, id := range declared(tree) {
		for _, found := range findInName(id.Name) {
			fault(id.Pos(), "%s: %s", id.Name, found)
		}
	}
}
