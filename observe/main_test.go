package observe

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"dyno/internal/leak"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// hangGuard bounds every wait of these tests. It is no expectation of speed.
const hangGuard = time.Minute

// TestMain lets the test binary be the processes that the tests observe.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		roles := map[string]func(){
			"burn":     burn,
			"careless": careless,
			"threads":  threads,
			"denied":   denied,
		}
		if role, ok := roles[os.Args[1]]; ok {
			role()
			return
		}
	}
	// The race detector's run time sleeps a second before it exits.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	leak.Main(m)
}

// burn uses CPU time in both modes, says how much the kernel counted and in which thread,
// and waits until standard input ends.
func burn() {
	runtime.LockOSThread()
	var ru syscall.Rusage
	for {
		for i := range 100_000 {
			if i%1000 == 0 {
				_, _ = os.Stat("/proc/self/status")
			}
		}
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru); err != nil {
			panic(err)
		}
		if time.Duration(ru.Utime.Nano()+ru.Stime.Nano()) > 300*time.Millisecond {
			break
		}
	}
	fmt.Println(ru.Utime.Nano(), ru.Stime.Nano(), syscall.Gettid())
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// careless starts a burn, never waits for it, and lets the kernel reap it.
func careless() {
	signal.Ignore(syscall.SIGCHLD)
	cmd := exec.Command("/proc/self/exe", "burn")
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	cmd.Stdin, cmd.Stdout = r, os.Stdout
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	// The first line on standard input ends the child, the end ends us.
	in := bufio.NewReader(os.Stdin)
	_, _ = in.ReadString('\n')
	_ = r.Close()
	_ = w.Close()
	_, _ = io.Copy(io.Discard, in)
}

// threads runs a thread that switches a lot, and ends it when asked to.
func threads() {
	end, ended := make(chan struct{}), make(chan struct{})
	ready := make(chan struct{})
	var busy func()
	busy = func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if syscall.Gettid() == os.Getpid() {
			go busy()
			select {} // except for the main thread, which never ends
		}
		ts := syscall.NsecToTimespec(1000)
		for range 500 {
			_ = syscall.Nanosleep(&ts, nil)
		}
		fmt.Println(syscall.Gettid())
		close(ready)
		<-end
		close(ended)
	}
	go busy()
	<-ready
	in := bufio.NewReader(os.Stdin)
	_, _ = in.ReadString('\n')
	close(end)
	<-ended
	_, _ = io.Copy(io.Discard, in)
}

// denied observes process 1 and prints the row.
func denied() {
	t, err := NewTree("init", 1)
	if err != nil {
		fmt.Println("unavailable:", err)
		return
	}
	t.scope = rootAlone // all of a machine below process 1 may be a lot
	row := make([]float64, treeColumns)
	fmt.Println(t.Observe(row), row[0] > 0, row[6])
}

// A child is a process of a test.
type child struct {
	*exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Reader
}

func startChild(t *testing.T, name string, args ...string) *child {
	t.Helper()
	c := &child{Cmd: exec.Command(name, args...)}
	c.Stderr = os.Stderr
	var err error
	if c.stdin, err = c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewReader(out)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.stdin.Close()
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	return c
}

// role starts this test binary in one of its roles.
func role(t *testing.T, name string) *child { return startChild(t, "/proc/self/exe", name) }

func (c *child) line(t *testing.T) string {
	t.Helper()
	s, err := c.out.ReadString('\n')
	if err != nil {
		t.Fatalf("child: %v", err)
	}
	return strings.TrimSpace(s)
}

// until polls.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(hangGuard); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never came true: %s", what)
		}
	}
}

// asleep waits until every thread of a process waits for something, so that its
// numbers stand still.
func asleep(t *testing.T, pid int) {
	t.Helper()
	last := ""
	until(t, "the process sleeps", func() bool {
		now := ""
		tids, err := os.ReadDir(procPath(pid, "task"))
		if err != nil {
			t.Fatal(err)
		}
		for _, tid := range tids {
			now += readLine(procPath(pid, "task/"+tid.Name()+"/schedstat")) + "\n"
		}
		still := now == last
		last = now
		return still
	})
}
