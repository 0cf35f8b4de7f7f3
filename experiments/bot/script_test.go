// Package bot tests that scripts of other tools, as people print them, get answers from the gateway of its experiments.
package bot

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"dyno/cli"
	"dyno/internal/script"
	"dyno/services/bot/program"
)

// TestMain lets the test binary be dyno and the gateway.
func TestMain(m *testing.M) {
	script.Main(m, map[string]func(){
		"dyno":     func() { os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
		"dyno-bot": func() { os.Exit(program.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) },
	})
}

func TestScript(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil { // which imports of locustfiles need
		t.Skip("python3 is not installed: scripts/setup.sh installs it")
	}
	testscript.Run(t, script.Params())
}
