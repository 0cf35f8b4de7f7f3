// Package script runs programs as their users do, in the files of testscript. Beyond testscript's
// own commands there are
//
//	exits CODE program args…   run a program and compare its exit code
//	port NAME…                 put free ports into environment variables
//	await ADDRESS…             wait until a process accepts: host:port or a path
package script

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"dyno/internal/freeport"
	"dyno/internal/leak"
)

// HangGuard bounds every wait of a script. It is no expectation of speed.
const HangGuard = 30 * time.Second

// A runner is the *testing.M of a TestMain.
type runner interface{ Run() int }

// Main lets the test binary be programs, by their names, and runs a package's tests. They fail
// when a goroutine outlives them.
func Main(m runner, programs map[string]func()) {
	// The race detector's run time sleeps a second before it exits: in every process.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	// Tests run next to each other: no run waits for a quiet machine.
	if err := os.Setenv("DYNO_QUIET_WAIT", "0"); err != nil {
		panic(err)
	}
	testscript.Main(leakChecked{m}, programs)
}

type leakChecked struct{ m runner }

func (l leakChecked) Run() int { return leak.Checked(l.m) }

// Params are the parameters of testscript.Run for the scripts in testdata/script.
func Params() testscript.Params {
	return testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("GORACE", os.Getenv("GORACE"))
			e.Setenv("DYNO_QUIET_WAIT", os.Getenv("DYNO_QUIET_WAIT"))
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) < 2 {
					ts.Fatalf("usage: exits CODE program args…")
				}
				if got := Status(ts, ts.Exec(args[1], args[2:]...)); strconv.Itoa(got) != args[0] {
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
					await(ts, address)
				}
			},
		},
	}
}

// Status returns the exit code that err, which ts.Exec returned, stands for.
func Status(ts *testscript.TestScript, err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	ts.Check(err)
	return 0
}

// await connects until a process accepts: that is the only sign that another process listens.
func await(ts *testscript.TestScript, address string) {
	network := "tcp"
	if strings.Contains(address, "/") {
		network = "unix"
	}
	for end := time.Now().Add(HangGuard); ; time.Sleep(5 * time.Millisecond) {
		c, err := net.Dial(network, address)
		if err == nil {
			ts.Check(c.Close())
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("nothing listens: %v", err)
		}
	}
}
