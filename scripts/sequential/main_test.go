package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFiles(t *testing.T) {
	for text, want := range map[string]bool{
		"":                                false,
		"import \"sync\"\nvar m sync.Map": false,
		"import \"network/http\"":         false,
		"func f() { go f() }":             true,
		"func f() { defer f() }":          false,
		"func f() { group.Go(f) }":        true,
		"func f() { t.Parallel() }":       true,
		"func f() { b.RunParallel(f) }":   true,
		"var f = time.AfterFunc":          true,
		"import \"net/http/httptest\"":    true,
		"import \"net/netip\"":            false,
		"import x \"os/exec\"":            true,
	} {
		tree, err := parser.ParseFile(token.NewFileSet(), "a.go", "package a\n"+text, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := fileStarts(tree) || fileIsCalled(tree); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// What a package's tests reach counts: its files, its tests' and what those import, but no
// other package's tests.
func TestConcurrent(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"still": "", "starts": "func f() { go f() }"} {
		if err := os.WriteFile(filepath.Join(dir, name+".go"), []byte("package a\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	still, starts := []string{"still.go"}, []string{"starts.go"}
	packages := []goPackage{
		{ImportPath: "m/pure", GoFiles: still, TestGoFiles: still, Imports: []string{"fmt"}},
		{ImportPath: "m/server", GoFiles: starts},
		{ImportPath: "m/above", GoFiles: still, Imports: []string{"m/server"}},
		{ImportPath: "m/top", GoFiles: still, Imports: []string{"m/pure", "m/above"}},
		{ImportPath: "m/tested", GoFiles: still, XTestGoFiles: starts},
		{ImportPath: "m/driven", GoFiles: still, TestImports: []string{"m/above"}},
		{ImportPath: "m/inert", GoFiles: still, Imports: []string{"m/tested"}},
		{ImportPath: "dyno/services/echo/rpc", TestGoFiles: starts}, // which is excused
		{ImportPath: "m/dyno/services/echo/rpc", TestGoFiles: starts},
	}
	for i := range packages {
		packages[i].Dir = dir
	}
	got, err := concurrent(packages)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"m/pure": false, "m/server": true, "m/above": true, "m/top": true, "m/tested": true, "m/driven": true, "m/inert": false,
		"dyno/services/echo/rpc": false, "m/dyno/services/echo/rpc": true,
	} {
		if got[path] != want {
			t.Errorf("%s: %v", path, got[path])
		}
	}
	packages[0].Dir = filepath.Join(dir, "none")
	if _, err := concurrent(packages); err == nil || !strings.Contains(err.Error(), "still.go") {
		t.Errorf("without the files: %v", err)
	}
}
