package cli

import (
	"bytes"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestExtend builds the program that extend.md shows, as a module of its own, and runs the script with it.
func TestExtend(t *testing.T) {
	page, err := os.ReadFile("../docs/development/extend.md")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(page, -1)
	if len(blocks) != 2 {
		t.Fatalf("the page has %d files of Go", len(blocks))
	}
	files := map[string][]byte{
		"main.go": blocks[0][1], "redis.go": blocks[1][1],
		"go.mod":  []byte("module example.com/lean\n\ngo 1.26.0\n"),
		"go.work": []byte("go 1.26.0\n\nuse (\n\t.\n\t\"" + filepath.ToSlash(root) + "\"\n)\n"), // what dyno needs is known there
	}
	dir, bin := t.TempDir(), t.TempDir()
	for name, text := range files {
		if formatted, err := format.Source(text); filepath.Ext(name) == ".go" && (err != nil || !bytes.Equal(formatted, text) || bytes.Count(text, []byte("\n")) > 100) {
			t.Errorf("%s: want it formatted, and 100 lines at most; %v", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK="+filepath.Join(dir, "go.work"), "GONOSUMDB=*")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p := scriptParams()
	setup := p.Setup
	p.Dir = "testdata/extend"
	p.Setup = func(e *testscript.Env) error {
		e.Setenv("PATH", bin+string(filepath.ListSeparator)+e.Getenv("PATH"))
		return setup(e)
	}
	testscript.Run(t, p)
}
