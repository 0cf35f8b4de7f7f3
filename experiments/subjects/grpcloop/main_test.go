package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"dyno/internal/roles"
	"dyno/services/echo/rpc/contract"
)

func TestMain(m *testing.M) {
	roles.Main(m, map[string]func(args []string) error{"grpcloop": func(args []string) error {
		os.Args = append(os.Args[:1], args...)
		main()
		return nil
	}})
}

// TestProgram holds the program to what all programs of the echo over gRPC do.
func TestProgram(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, options := range map[string][]string{
		"plain":        nil,
		"with options": {"--middleware", "5", "--loops", "3", "--reuse-port", "2", "--keepalive-time", "30s"},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && options != nil {
				t.Skip("-short: starts the program once")
			}
			t.Parallel()
			contract.TestProgram(t, append([]string{own, "grpcloop"}, options...), contract.NoReflection)
		})
	}
}

// TestLinks: the program uses no library for calls or messages.
func TestLinks(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dependency := range strings.Lines(string(out)) {
		for _, never := range []string{"google.golang.org/", "connectrpc.com/", "net/http", "github.com/"} {
			if strings.HasPrefix(dependency, never) {
				t.Errorf("it links %s", strings.TrimSpace(dependency))
			}
		}
	}
}
