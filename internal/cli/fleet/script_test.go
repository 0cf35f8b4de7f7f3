package fleet

import (
	"context"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"dyno/internal/cli"
	"dyno/internal/script"
	"dyno/services/control/program"
)

// TestMain lets the test binary be both programs.
func TestMain(m *testing.M) {
	script.Main(m, map[string]func(){
		"dyno": func() {
			os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		},
		program.Name: func() { os.Exit(program.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) },
	})
}

// TestScript runs dyno as users do. Beyond the commands of package script there is
//
//	lists PATTERN        ask for the fleet until its list matches; !: until it does not match
func TestScript(t *testing.T) {
	p := script.Params()
	p.Cmds["lists"] = func(ts *testscript.TestScript, neg bool, args []string) {
		if len(args) != 1 {
			ts.Fatalf("usage: lists PATTERN")
		}
		pattern := regexp.MustCompile("(?m)" + args[0])
		for end := time.Now().Add(script.HangGuard); ; time.Sleep(100 * time.Millisecond) { // other processes do what it is about
			err := ts.Exec("dyno", "fleet", "list")
			got := ts.ReadFile("stdout")
			if err == nil && pattern.MatchString(got) != neg {
				return
			}
			if time.Now().After(end) {
				ts.Fatalf("the last list: %v\n%s", err, got)
			}
		}
	}
	testscript.Run(t, p)
}
