// Package roles lets a test binary be the processes that its tests start, and talks to them.
package roles

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"dyno/internal/leak"
)

// HangGuard bounds every wait of a test. It is no expectation of speed.
const HangGuard = time.Minute

// A runner is the *testing.M of a TestMain.
type runner interface{ Run() int }

// Main runs the role that the first argument names, with the other arguments. Without one it runs
// a package's tests. They fail when a goroutine outlives them.
func Main(m runner, roles map[string]func(args []string) error) {
	if len(os.Args) > 1 {
		if role, ok := roles[os.Args[1]]; ok {
			if err := role(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, os.Args[1:], err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	// The race detector's run time sleeps a second before it exits: in every process.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	leak.Main(m)
}

// Command is this test binary in a role.
func Command(args ...string) *exec.Cmd { return exec.Command("/proc/self/exe", args...) }

// A Child is a process of a test. One that hangs is killed.
type Child struct {
	*exec.Cmd
	Stdin io.WriteCloser
	Out   *bufio.Reader
	guard *time.Timer
}

// Start starts a command, which ends with the test.
func Start(t testing.TB, cmd *exec.Cmd) *Child {
	t.Helper()
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &Child{Cmd: cmd, Stdin: in, Out: bufio.NewReader(out)}
	c.guard = time.AfterFunc(HangGuard, func() { _ = c.Process.Kill() })
	t.Cleanup(func() {
		_ = c.Stdin.Close()
		_ = c.Process.Kill()
		_ = c.Wait()
		c.guard.Stop()
	})
	return c
}

// Line returns the next line of the child's output.
func (c *Child) Line(t testing.TB) string {
	t.Helper()
	c.guard.Reset(HangGuard)
	s, err := c.Out.ReadString('\n')
	if err != nil {
		t.Fatalf("child: %v", err)
	}
	return strings.TrimSpace(s)
}

// Ask sends a line and returns the answer.
func (c *Child) Ask(t testing.TB, format string, args ...any) string {
	t.Helper()
	if _, err := fmt.Fprintf(c.Stdin, format+"\n", args...); err != nil {
		t.Fatal(err)
	}
	return c.Line(t)
}

// Until polls.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(HangGuard); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never came true: %s", what)
		}
	}
}
