package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A goPackage is what go list says about a package.
type goPackage struct {
	ImportPath, Doc                             string
	GoFiles, Imports, TestImports, XTestImports []string
	Standard                                    bool
	Module                                      *struct {
		Path, Version, Dir string
		Main               bool
		Replace            *struct{ Dir string }
	}
}

// goRun returns the output of a go command in a folder.
func goRun(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return out
}

// root returns the repository's root.
func root(t *testing.T) string {
	t.Helper()
	return filepath.Dir(strings.TrimSpace(string(goRun(t, "", "env", "GOMOD"))))
}

// module returns the main module's path. That of the other one begins with it.
func module(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(string(goRun(t, root(t), "list", "-f={{.Module.Path}}", "./internal/rules")))
}

// decode reads go list's JSON: values one after another.
func decode(t *testing.T, out []byte) (packages []goPackage) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(out))
	for {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

// listPackages returns the repository's packages.
func listPackages(t *testing.T) []goPackage {
	t.Helper()
	return decode(t, goRun(t, root(t), "list", "-e", "-json=ImportPath,Doc,GoFiles,Imports,TestImports,XTestImports", "work"))
}

// listModules returns the modules whose code is part of go list's arguments, by their folder in the
// module cache.
func listModules(t *testing.T, folder string, args ...string) map[string]string {
	t.Helper()
	modules := map[string]string{}
	for _, p := range decode(t, goRun(t, folder, append([]string{"list", "-deps", "-json=ImportPath,Standard,Module"}, args...)...)) {
		switch {
		case p.Standard || p.Module == nil || p.Module.Main:
		case p.Module.Replace != nil:
			modules[p.Module.Replace.Dir] = p.Module.Path
		default:
			modules[p.Module.Dir] = p.Module.Path + "@" + p.Module.Version
		}
	}
	return modules
}
