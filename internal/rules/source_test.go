package rules

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A file is one file of the repository.
type file struct {
	path string // from the repository's root, with slashes
	text string
}

// skipped are folders that hold nothing of ours.
var skipped = []string{".git", "bin", "runs", "node_modules", "testdata"}

// checked are the kinds of text that rules on text hold for.
var checked = []string{".go", ".ts", ".sh", ".yaml", ".yml", ".md", ".mod", ".cfg", ".conf"}

// allowed lets a file break a rule, with the reason.
var allowed = map[string]map[string]string{
	"sleep": {
		"cli/fleet/script_test.go":                "pauses between attempts to reach a real process, which no fake clock moves",
		"cli/script_test.go":                      "pauses between attempts to reach a real process, which no fake clock moves",
		"cli/stop_test.go":                        "pauses between looks at real processes, which no fake clock moves",
		"services/relay/bed_test.go":              "pauses between looks at a loop on real sockets, which no fake clock moves",
		"services/channels/chaos_test.go":         "pauses between looks at real sockets and files, and while nobody listens, which no fake clock moves",
		"services/relay/conformance_test.go":      "looks twice to see that real sockets stand still, which is no event to wait for",
		"services/control/program/script_test.go": "pauses between attempts to reach a real process, which no fake clock moves",
	},
	"words": {
		"CHANGELOG.md": "what was said then",
	},
	"wildcard": {
		"internal/rules":                "the rule itself",
		"deploy/bot":                    "programs in containers of their own: who reaches them is the network policy's to say, and compose publishes loopback addresses only",
		"deploy/control":                "what is in a container is reached by the container's address; the manifests say by whom",
		"deploy/events":                 "a hub in a container is reached by the container's address; the network policy says by whom",
		"deploy/fleet":                  "pods are reached by their addresses; agents and the authority know by certificates who connects",
		"lab/fleet/kubernetes":          "pods are reached by their addresses; agents know by certificates who connects",
		"scripts/rolling-kubernetes.sh": "pods are reached by their addresses, on this machine only",
		"scripts/r0-kubernetes.sh":      "pods are reached by their addresses, on this machine only",
		"services/bot/outward":          "names networks that must not be called, and some names hold it",
		"services/bot/imports":          "names networks, and some names hold it",
	},
	// Others print to the writers that main has cleaned.
	"terminal": {
		"scripts":                      "development tools print what is in the repository",
		"experiments":                  "referees, what is measured, and calibration print figures and names of their own",
		"cmd":                          "what it passes on is cleaned there",
		"internal/terminal":            "the one place",
		"cli/output":                   "it asks what is behind the writer, and draws colours over lines that are clean",
		"cli/run.go":                   "it draws the board, whose texts are clean",
		"cli/serve":                    "records of a channel stand for themselves",
		"services/control/ctl":         "a backup stands for itself",
		"services/echo/rpc/go":         "programs that are measured, which print what they are given as flags",
		"services/bot/store/storetest": "it is a test's main",
		"observe/profile":              "programs that make files for tests",
		"host/child":                   "a child has the standard error of its parent",
		"host/sysctl":                  "a child's exchange with its parent",
		"lab/generator":                "a child's exchange with its parent",
		"lab/remote":                   "a child's exchange with its parent",
		"internal/leak":                "it is a test's main",
		"internal/roles":               "it is a test's main",
	},
	"names": {
		"results/rundir":   "the one place",
		"web/src/names.ts": "made of that place",
		"load/engine":      "it knows no files; a test of lab/trial holds its tags to those of the folder",
		"observe/scrape":   "it reads what others have named",
	},
}

// badNames say nothing about what a package does.
var badNames = []string{"util", "utils", "common", "lib", "libs", "pkg", "helper", "helpers", "misc", "shared", "base"}

// marker finds notes about unfinished work. It is spelled so that it does not find
// itself.
var (
	markers = []string{"TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"}
	marker  = regexp.MustCompile(`\b(` + strings.Join(markers, "|") + `)\b`)
)

// Names of figures and their units are in results/rundir only. unitEnd finds code that takes
// a unit from the end of a name, and tagList a list of tags.
var (
	unitEnd = regexp.MustCompile(`(HasSuffix|CutSuffix|TrimSuffix|endsWith)\([^()]*["'` + "`" + `][._]?(seconds|bytes|total|ratio|share|per_second|per_request)["'` + "`" + `]`)
	tag     = `(response|service|send_lag|connect|first_byte|read_delay|service_read|handshake|first_message|message_gap|message|opening|first_event|event_gap|delivery)`
	tagList = regexp.MustCompile(`("` + tag + `", *){4}|(` + tag + `\|){4}`)
)

// uncleaned are ways around what keeps texts of others from steering a terminal.
var uncleaned = []string{"os.Stdout", "os.Stderr", "fmt.Print", "fmt.Printf", "fmt.Println", "terminal.Raw", "terminal.Data"}

// checkNames returns where a file knows what figures are called.
func checkNames(f file) (faults []string) {
	code := path.Ext(f.path) == ".go" || path.Ext(f.path) == ".ts"
	if !code || strings.HasSuffix(f.path, "_test.go") || strings.HasSuffix(f.path, ".test.ts") || excused("names", f.path) {
		return nil
	}
	for i, line := range strings.Split(f.text, "\n") {
		for _, m := range []string{find(unitEnd, line, "Suffix(", "endsWith("), find(tagList, line, `",`, "|")} {
			if m != "" {
				faults = append(faults, fmt.Sprintf("%s:%d: %s: names and units of figures are in results/rundir/names.go", f.path, i+1, m))
			}
		}
	}
	return faults
}

// find returns what a pattern finds in a line. Every match holds one of some texts: looking
// for those first is what makes a pattern affordable on every line of the repository.
func find(pattern *regexp.Regexp, line string, texts ...string) string {
	if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(line, text) }) {
		return ""
	}
	return pattern.FindString(line)
}

// excused tells whether a file may break a rule.
func excused(rule, file string) bool {
	for tree := range allowed[rule] {
		if within(file, tree) {
			return true
		}
	}
	return false
}

// checkFile returns what is wrong with a file.
func checkFile(f file) (faults []string) {
	for i, line := range strings.Split(f.text, "\n") {
		if m := find(marker, line, markers...); m != "" {
			faults = append(faults, fmt.Sprintf("%s:%d: %s: do it, or leave it", f.path, i+1, m))
		}
		if strings.HasPrefix(line, "<<<<<<< ") || strings.HasPrefix(line, ">>>>>>> ") {
			faults = append(faults, fmt.Sprintf("%s:%d: the mark of a merge", f.path, i+1))
		}
		if path.Ext(f.path) != ".go" && path.Ext(f.path) != ".md" && strings.Contains(line, "0.0.0.0") && !excused("wildcard", f.path) {
			faults = append(faults, fmt.Sprintf("%s:%d: 0.0.0.0: listen on loopback by default", f.path, i+1))
		}
	}
	if path.Ext(f.path) == ".go" {
		faults = append(faults, checkGo(f)...)
	} else if !excused("words", f.path) {
		for i, line := range strings.Split(f.text, "\n") {
			for _, fault := range findPhrases(line, phrases...) {
				faults = append(faults, fmt.Sprintf("%s:%d: %s", f.path, i+1, fault))
			}
		}
	}
	return append(faults, checkNames(f)...)
}

// checkGo returns what is wrong with a Go file.
func checkGo(f file) (faults []string) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, f.path, f.text, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return []string{err.Error()}
	}
	if ast.IsGenerated(tree) {
		return nil // its rules are its generator's
	}
	fault := func(at token.Pos, format string, args ...any) {
		where := fset.Position(at)
		faults = append(faults, fmt.Sprintf("%s:%d: %s", where.Filename, where.Line, fmt.Sprintf(format, args...)))
	}
	if slices.Contains(badNames, tree.Name.Name) {
		fault(tree.Name.Pos(), "package %s: name it by what it does", tree.Name.Name)
	}
	for _, segment := range strings.Split(path.Dir(f.path), "/") {
		if slices.Contains(badNames, segment) {
			fault(tree.Name.Pos(), "folder %s: name it by what it holds", segment)
		}
	}
	timePackage := ""
	for _, spec := range tree.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
		switch imported {
		case "math/rand":
			fault(spec.Pos(), "math/rand: use math/rand/v2, seeded, so that a run can be repeated")
		case "time":
			timePackage = "time"
			if spec.Name != nil {
				timePackage = spec.Name.Name
			}
		}
	}
	checkWords(tree, fault)
	sleepless := within(f.path, "load/engine") || strings.HasSuffix(f.path, "_test.go")
	var bubbles []*ast.CallExpr // in which time is not the machine's
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Name.Name == "init" && n.Recv == nil {
				fault(n.Pos(), "func init: say it where it is used; nothing happens by being imported")
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && slices.Contains(uncleaned, x.Name+"."+n.Sel.Name) && !strings.HasSuffix(f.path, "_test.go") && !excused("terminal", f.path) {
				fault(n.Pos(), "%s.%s: print to the command's writers, which are clean for a terminal", x.Name, n.Sel.Name)
			}
			if x, ok := n.X.(*ast.Ident); ok && x.Name == timePackage && n.Sel.Name == "Sleep" && sleepless &&
				!excused("sleep", f.path) && !slices.ContainsFunc(bubbles, func(b *ast.CallExpr) bool { return b.Pos() < n.Pos() && n.End() < b.End() }) {
				fault(n.Pos(), "time.Sleep: the engine waits in epoll; tests use testing/synctest or wait for what must happen")
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Test" {
				if x, ok := f.X.(*ast.Ident); ok && x.Name == "synctest" {
					bubbles = append(bubbles, n)
				}
			}
			if at, address, ok := listens(n); ok && wildcard(address) && !excused("wildcard", f.path) {
				fault(at, "listens on %q: listen on loopback by default", address)
			}
		case *ast.BasicLit:
			// Tests may name it, to see that it is refused.
			if n.Kind == token.STRING && !strings.HasSuffix(f.path, "_test.go") && strings.Contains(n.Value, "0.0.0.0") && !excused("wildcard", f.path) {
				fault(n.Pos(), "0.0.0.0: listen on loopback by default")
			}
		}
		return true
	})
	return faults
}

// listens returns the literal address of a call that listens.
func listens(call *ast.CallExpr) (at token.Pos, address string, ok bool) {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !strings.HasPrefix(f.Sel.Name, "Listen") {
		return 0, "", false
	}
	for _, arg := range call.Args {
		lit, ok := arg.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			continue
		}
		if s, err := strconv.Unquote(lit.Value); err == nil && strings.Contains(s, ":") {
			return lit.Pos(), s, true
		}
	}
	return 0, "", false
}

// wildcard tells whether an address means all of the machine's.
func wildcard(address string) bool {
	return strings.HasPrefix(address, ":") || strings.HasPrefix(address, "[::]") || strings.HasPrefix(address, "0.0.0.0")
}

// readFiles returns the repository's text files.
func readFiles(t *testing.T) (files []file) {
	t.Helper()
	top := root(t)
	err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains(skipped, d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if !slices.Contains(checked, filepath.Ext(name)) && d.Name() != "Makefile" || !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, name)
		files = append(files, file{filepath.ToSlash(rel), string(text)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 10 {
		t.Fatalf("only %d files below %s: is this the repository?", len(files), top)
	}
	return files
}

func TestSource(t *testing.T) {
	for _, f := range readFiles(t) {
		for _, fault := range checkFile(f) {
			t.Error(fault)
		}
	}
}

// checkComments returns the packages that do not say what they are for.
func checkComments(packages []goPackage) (faults []string) {
	for _, p := range packages {
		if len(p.GoFiles) > 0 && p.Doc == "" {
			faults = append(faults, p.ImportPath+": no package comment: say what it is for, in the reader's words")
		}
	}
	return faults
}

func TestPackageComments(t *testing.T) {
	for _, f := range checkComments(listPackages(t)) {
		t.Error(f)
	}
}
