package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"dyno/internal/freeport"
	"dyno/internal/leak"
	"dyno/services/control/ctl"
)

// TestMain lets the test binary be the program.
func TestMain(m *testing.M) {
	// The race detector's run time sleeps a second before it exits: in every process.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	testscript.Main(leakChecked{m}, map[string]func(){
		Name:   func() { os.Exit(Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) },
		"dyno": func() { os.Exit(dyno()) },
	})
}

// dyno is as much of dyno as the control plane's users need, without what measures.
func dyno() (code int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root := &cobra.Command{Use: "dyno", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(ctl.Command())
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "dyno: %v\n", err)
	var f *ctl.Failure
	if !errors.As(err, &f) {
		return 1
	}
	if f.Hint != "" {
		fmt.Fprintf(os.Stderr, "hint: %s\n", f.Hint)
	}
	return f.Code
}

// leakChecked fails when a goroutine outlives the tests.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int { return leak.Checked(l.m) }

// hangGuard bounds every wait of these tests. It is no expectation of speed.
const hangGuard = 30 * time.Second

// TestScript runs the program as users do. Beyond testscript's own commands there are
//
//	exits CODE program args…   run a program and compare its exit code
//	port NAME…                 put free ports into environment variables
//	await ADDRESS…             wait until somebody accepts
//	answers URL PATTERN        ask until the answer matches
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("GORACE", os.Getenv("GORACE"))
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) < 2 {
					ts.Fatalf("usage: exits CODE program args…")
				}
				err, got := ts.Exec(args[1], args[2:]...), 0
				var exit *exec.ExitError
				if errors.As(err, &exit) {
					got = exit.ExitCode()
				} else {
					ts.Check(err)
				}
				if strconv.Itoa(got) != args[0] {
					ts.Fatalf("exit code %d, want %s", got, args[0])
				}
			},
			"port": func(ts *testscript.TestScript, _ bool, args []string) {
				for _, name := range args {
					ts.Setenv(name, freeport.Port(ts))
				}
			},
			"answers": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) != 2 {
					ts.Fatalf("usage: answers URL PATTERN")
				}
				ts.Check(answers(args[0], regexp.MustCompile(args[1])))
			},
			"await": func(ts *testscript.TestScript, _ bool, args []string) {
				for _, address := range args {
					ts.Check(await(address))
				}
			},
		},
	})
}

// await asks until somebody accepts: another process says in no other way that it
// listens.
func await(address string) error {
	for end := time.Now().Add(hangGuard); ; time.Sleep(5 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err == nil {
			return c.Close()
		}
		if time.Now().After(end) {
			return fmt.Errorf("nobody listens: %w", err)
		}
	}
}

// answers asks until the answer matches: other processes do what it is about.
func answers(address string, pattern *regexp.Regexp) error {
	web := http.Client{Timeout: hangGuard, Transport: &http.Transport{DisableKeepAlives: true}}
	for end := time.Now().Add(hangGuard); ; time.Sleep(5 * time.Millisecond) {
		answer, err := web.Get(address)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(answer.Body)
		if err := errors.Join(err, answer.Body.Close()); err != nil {
			return err
		}
		if pattern.Match(body) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s: no answer like %s; the last one was %s", address, pattern, body)
		}
	}
}
