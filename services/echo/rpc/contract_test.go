// Package rpc tests the programs of the echo over gRPC.
package rpc

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"dyno/services/echo/rpc/contract"
)

var (
	address = flag.String("address", "", "test the server at `HOST:PORT` and no program")
	build   = flag.Bool("build", false, "build the programs in other languages that are not built yet")
)

// atOnce is how many parallel tests run at once without the flag of go test. Those that wait
// for a program's calls to end are many, so that there are more of them than CPUs.
const atOnce = "3"

func TestMain(m *testing.M) {
	flag.Parse()
	isSet := false
	flag.Visit(func(f *flag.Flag) { isSet = isSet || f.Name == "test.parallel" })
	if !isSet {
		if err := flag.Set("test.parallel", atOnce); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built) // it is below the folder for what is temporary
	}
	os.Exit(code)
}

// built is the folder of the Go programs, once they are.
var built string

// buildGo builds the Go programs into a folder, unless it has. Tests that call it are not
// parallel.
func buildGo(t *testing.T) string {
	t.Helper()
	if built == "" {
		folder, err := os.MkdirTemp("", "echo")
		if err != nil {
			t.Fatal(err)
		}
		built = folder + string(filepath.Separator)
		args := []string{"build", "-ldflags=-s -w", "-o", built, "./go/..."}
		if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return built
}

func TestContract(t *testing.T) {
	if *address != "" {
		contract.Test(t, *address)
		return
	}
	folder := buildGo(t)
	for _, c := range []struct {
		name    string
		command []string
	}{
		{"plain", []string{"plain"}},
		{"plain with options", []string{"plain", "--middleware", "5", "--reuse-port", "3", "--gogc", "400", "--keepalive-time", "30s", "--keepalive-timeout", "5s"}},
		{"plain by reflection", []string{"plain", "--serialization", "reflection"}},
		{"connect", []string{"connect"}},
		{"connect with options", []string{"connect", "--middleware", "5", "--reuse-port", "2", "--keepalive-time", "30s", "--keepalive-timeout", "5s"}},
		{"tuned", []string{"tuned"}},
		{"tuned with options", []string{"tuned", "--middleware", "5", "--serialization", "generated", "--workers", "0", "--stream-window", "0"}},
	} {
		program := c.command[0]
		c.command[0] = folder + program
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && len(c.command) > 1 {
				t.Skip("-short: starts each program once")
			}
			t.Parallel()
			contract.TestProgram(t, c.command, quirks[program]...)
		})
	}
}

// quirks are those of programs, and of the libraries that they are written with; README.md names them.
var quirks = map[string][]contract.Quirk{
	"node": {contract.PlainAnswers, contract.ShortStrings},
	"rust": {contract.ReflectionEnds},
}

// TestLanguages tests the programs that are not in Go. Each language is a folder with build.sh. It takes a program's
// name, which begins with the folder's, and prints the command that runs it. It exits with 3 when something is
// missing.
func TestLanguages(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds or runs programs in other languages")
	}
	if *address != "" {
		t.Skip("an address was given")
	}
	cache := os.Getenv("DYNO_CACHE")
	if cache == "" {
		cache = "../../../bin"
	}
	scripts, err := filepath.Glob("*/build.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range scripts {
		language := filepath.Dir(script)
		names := []string{language}
		variants, err := filepath.Glob(filepath.Join(cache, "rpc", language+"-*", "stamp"))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range variants {
			names = append(names, filepath.Base(filepath.Dir(v)))
		}
		for _, name := range names {
			t.Run(name, func(t *testing.T) {
				if _, err := os.Stat(filepath.Join(cache, "rpc", name, "stamp")); err != nil && !*build {
					t.Skipf("not built; services/echo/rpc/%s %s builds it", script, name)
				}
				contract.TestProgram(t, languageCommand(t, script, name), quirks[name]...)
			})
		}
	}
}

// languageCommand returns the command that runs a program, which it builds if it is not up
// to date.
func languageCommand(t *testing.T, script, name string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", script, name)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == 3 {
		t.Skipf("%s: %s", script, strings.TrimSpace(stderr.String()))
	}
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", script, name, err, &stderr)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	command := strings.Fields(lines[len(lines)-1])
	if len(command) == 0 {
		t.Fatalf("%s %s printed no command", script, name)
	}
	return command
}

// TestLinks: what is measured links the library that it is about. dyno has codecs of its own: it links
// connect for reflection alone, before a load.
func TestLinks(t *testing.T) {
	for _, c := range []struct {
		program string
		never   []string
	}{
		{"dyno/cmd/dyno", []string{"dyno/services/echo/rpc", "google.golang.org/grpc"}},
		{"dyno/services/echo/rpc/go/connect", []string{"google.golang.org/grpc", "github.com/prometheus"}},
		{"dyno/services/echo/rpc/go/plain", []string{"connectrpc.com/", "github.com/prometheus"}},
	} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", c.program).Output()
		if err != nil {
			t.Fatal(err)
		}
		for dependency := range strings.Lines(string(out)) {
			for _, never := range c.never {
				if strings.HasPrefix(dependency, never) {
					t.Errorf("%s links %s", c.program, strings.TrimSpace(dependency))
				}
			}
		}
	}
}
