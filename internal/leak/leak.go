// Package leak lets a package's tests fail when one of their goroutines outlives them.
//
// It is goleak with more patience. goleak waits some 430 ms for what is about to end, and
// net/http's server takes 500 ms to end a connection whose request it did not read to the
// end (closeWriteAndWait): a test that is last to leave one would fail, or not, by the
// order that tests run in. Nothing is ignored: what does not end is found.
package leak

import (
	"fmt"
	"os"
	"time"

	"go.uber.org/goleak"
)

// patience bounds the wait for goroutines to end. Only a leak takes that long.
const patience = 10 * time.Second

// A runner is what a *testing.M is to a TestMain.
type runner interface{ Run() int }

// Main runs the tests of a package and exits: with their code, or with 1 when they pass and
// leave a goroutine behind. It is all of a TestMain.
func Main(m runner) { os.Exit(Checked(m)) }

// Checked is Main without the exit: it returns the code.
func Checked(m runner) int {
	code := m.Run()
	if code != 0 {
		return code
	}
	if err := find(patience); err != nil {
		fmt.Fprintf(os.Stderr, "the tests pass and leave goroutines behind: %v\n", err)
		return 1
	}
	return 0
}

// find waits until no goroutine of the tests is left, or for so long.
func find(patience time.Duration) error {
	for deadline := time.Now().Add(patience); ; {
		err := goleak.Find() // which waits between its looks
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
