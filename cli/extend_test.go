package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A program with a main of its own adds a form of output. The page about it has the whole program.
func TestExtend(t *testing.T) {
	source, err := os.ReadFile("testdata/extend/main.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/development/extend.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```go\n"+string(source)+"```\n") {
		t.Error("docs/development/extend.md has another program than testdata/extend/main.go")
	}
	program := filepath.Join(t.TempDir(), "lean")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./testdata/extend")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	out, err := exec.CommandContext(t.Context(), program, "http", "-q", "-n", "20", "-c", "2", "--format", "lean", server.URL).Output()
	if want := regexp.MustCompile(`^default (0\.\d{6}|NaN) (true|false)\n$`); !want.Match(out) {
		t.Errorf("%v: %q, want %s", err, out, want)
	}
}
