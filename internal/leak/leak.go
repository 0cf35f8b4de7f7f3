// Package leak makes a package's tests fail if one of their goroutines outlives them.
//
// It is goleak with a longer timeout. goleak waits some 430 ms for goroutines that are about
// to end. net/http's server takes 500 ms to end a connection whose request it did not
// read to the end (closeWriteAndWait). If a test leaves such a connection and happens to
// run last, goleak fails; in another order of tests it does not. This package waits
// longer instead of ignoring any goroutine: it finds every one that does not end.
package leak

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.uber.org/goleak"
)

// timeout bounds the wait for goroutines to end. Only a leak takes that long.
const timeout = 10 * time.Second

// A runner is the *testing.M of a TestMain.
type runner interface{ Run() int }

// Main runs the tests of a package and exits with their code. The code is 1 if they pass but leave
// goroutines running. A TestMain needs nothing else.
func Main(m runner) { os.Exit(Checked(m)) }

// Checked is Main without the exit: it returns the code. Processes that the tests start do not inherit that SIGHUP is
// ignored, as under nohup: it is caught instead.
func Checked(m runner) int {
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	code := m.Run()
	if code != 0 {
		return code
	}
	if err := find(timeout); err != nil {
		fmt.Fprintf(os.Stderr, "the tests pass and leave goroutines running: %v\n", err)
		return 1
	}
	return 0
}

// find waits until no goroutine of the tests is left, or for the given time.
func find(timeout time.Duration) error {
	for deadline := time.Now().Add(timeout); ; {
		err := goleak.Find() // it waits between its attempts
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
