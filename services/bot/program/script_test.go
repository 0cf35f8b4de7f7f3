package program

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"dyno/internal/freeport"
	"dyno/internal/leak"
	"dyno/services/internal/command"
	"dyno/services/llm"
)

// TestMain lets the test binary be the programs of the scripts: the gateway, and a model
// server whose answers have four tokens.
func TestMain(m *testing.M) {
	// The race detector's run time sleeps a second before it exits: in every process.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	testscript.Main(leakChecked{m}, map[string]func(){
		Name:  func() { os.Exit(Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) },
		"llm": models,
	})
}

// leakChecked fails when a goroutine outlives the tests.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int { return leak.Checked(l.m) }

// models is a model server at the address that is the argument.
func models() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	c := llm.Defaults()
	c.Listen, c.Tokens, c.Logger = os.Args[1], 4, command.Logger(os.Stderr, false)
	s, err := llm.New(c)
	if err == nil {
		err = s.Serve(ctx)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// hangGuard bounds every wait of these tests. It is no expectation of speed.
const hangGuard = 30 * time.Second

// TestScript runs the program as users do. Beyond testscript's own commands there are
//
//	exits CODE program args…   run a program and compare its exit code
//	port NAME…                 put free ports into environment variables
//	await ADDRESS…             wait until somebody accepts
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
			"await": func(ts *testscript.TestScript, _ bool, args []string) {
				for _, address := range args {
					ts.Check(await(address))
				}
			},
		},
	})
}

// await asks until somebody accepts: another process says in no other way that it listens.
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
