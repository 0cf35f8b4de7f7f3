// Sequential prints the packages of this module whose tests run in a single goroutine, one a
// line, or with -not those whose tests do not. The race detector can find nothing in the
// former, and makes them several times slower: most are statistics, checked by simulations.
// Some packages are named here, with the reason why it would find as little in them.
//
// A package is sequential if its files, those of its tests among them, start no goroutine, run
// no tests in parallel and import nothing that calls back from goroutines of its own, and if no
// package of this module that they import starts one.
//
//	go run ./scripts/sequential [-not]
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// callingBack are packages that call the code of those who import them from goroutines of
// their own.
var callingBack = []string{
	"net", "net/http", "net/http/httptest", "net/http/httputil", "net/rpc", "os/exec", "os/signal", "testing/synctest",
	"golang.org/x/sync/errgroup", "google.golang.org/grpc",
}

// starters are functions and methods that start goroutines, or let a test run in parallel
// with others.
var starters = []string{"Go", "AfterFunc", "Parallel", "RunParallel"}

// excused are packages that the race detector has nothing to find in although their tests may
// start goroutines, with the reason.
var excused = map[string]string{
	"dyno/services/echo/rpc":                 "its tests are clients of programs, which are built without the race detector",
	"dyno/internal/cli/imports/differential": "its loads are of one user, and what carries them out has tests of its own",
	"dyno/internal/rules":                    "its tests read sources, and wait for each command that they run",
}

// A goPackage is what go list tells of a package.
type goPackage struct {
	ImportPath, Dir                              string
	GoFiles, CgoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports           []string
}

func main() {
	others := flag.Bool("not", false, "print the packages that are not sequential")
	flag.Parse()
	if err := run(os.Stdout, *others); err != nil {
		fmt.Fprintln(os.Stderr, "sequential:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, others bool) error {
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports", "./...")
	cmd.Stderr = os.Stderr
	listed, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	packages, err := decode(listed)
	if err != nil {
		return err
	}
	concurrent, err := concurrent(packages)
	if err != nil {
		return err
	}
	for _, p := range packages {
		if len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 && concurrent[p.ImportPath] == others {
			if _, err := fmt.Fprintln(out, p.ImportPath); err != nil {
				return err
			}
		}
	}
	return nil
}

func decode(listed []byte) (packages []goPackage, err error) {
	for d := json.NewDecoder(strings.NewReader(string(listed))); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
}

// concurrent tells of each package whether its tests may run in several goroutines.
func concurrent(packages []goPackage) (map[string]bool, error) {
	byPath := map[string]goPackage{}
	for _, p := range packages {
		byPath[p.ImportPath] = p
	}
	// Without tests first: those of another package are not imported.
	starts := map[string]bool{}
	for _, p := range packages {
		found, err := anyFile(p.Dir, slices.Concat(p.GoFiles, p.CgoFiles), fileStarts)
		if err != nil {
			return nil, err
		}
		starts[p.ImportPath] = found
	}
	reached := map[string]bool{} // whether it or what it imports starts any
	var reach func(path string) bool
	reach = func(path string) bool {
		if known, ok := reached[path]; ok {
			return known
		}
		p := byPath[path] // empty for other modules' packages
		reached[path] = starts[path] || slices.ContainsFunc(p.Imports, reach)
		return reached[path]
	}
	tested := map[string]bool{}
	for _, p := range packages {
		found, err := anyFile(p.Dir, slices.Concat(p.GoFiles, p.CgoFiles, p.TestGoFiles, p.XTestGoFiles), func(tree *ast.File) bool {
			return fileStarts(tree) || fileIsCalled(tree)
		})
		if err != nil {
			return nil, err
		}
		tested[p.ImportPath] = excused[p.ImportPath] == "" &&
			(found || reach(p.ImportPath) || slices.ContainsFunc(slices.Concat(p.TestImports, p.XTestImports), reach))
	}
	return tested, nil
}

func anyFile(dir string, names []string, is func(*ast.File) bool) (bool, error) {
	for _, name := range names {
		tree, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return false, err
		}
		if is(tree) {
			return true, nil
		}
	}
	return false, nil
}

// fileIsCalled tells whether others' goroutines can run a file's code.
func fileIsCalled(tree *ast.File) bool {
	return slices.ContainsFunc(tree.Imports, func(spec *ast.ImportSpec) bool {
		path, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
		return slices.Contains(callingBack, path)
	})
}

// fileStarts tells whether a file starts goroutines.
func fileStarts(tree *ast.File) (found bool) {
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.SelectorExpr:
			found = found || slices.Contains(starters, n.Sel.Name)
		}
		return !found
	})
	return found
}
