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
	"syscall"
	"testing"
	"time"

	"dyno/internal/roles"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestMain lets the test binary be the processes that the tests observe.
func TestMain(m *testing.M) {
	roles.Main(m, map[string]func([]string) error{"burn": burn, "careless": careless, "threads": threads, "denied": denied})
}

// burn uses CPU time in both modes. It says how much the kernel counted and in which thread, and waits
// until standard input ends.
func burn([]string) error {
	runtime.LockOSThread()
	var ru syscall.Rusage
	for {
		for i := range 100_000 {
			if i%1000 == 0 {
				_, _ = os.Stat("/proc/self/status")
			}
		}
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru); err != nil {
			return err
		}
		if time.Duration(ru.Utime.Nano()+ru.Stime.Nano()) > 300*time.Millisecond {
			break
		}
	}
	fmt.Println(ru.Utime.Nano(), ru.Stime.Nano(), syscall.Gettid())
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// careless starts a burn, never waits for it, and lets the kernel reap it.
func careless([]string) error {
	signal.Ignore(syscall.SIGCHLD)
	cmd := exec.Command("/proc/self/exe", "burn")
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout = r, os.Stdout
	if err := cmd.Start(); err != nil {
		return err
	}
	// The first line on standard input ends the child, the end ends us.
	in := bufio.NewReader(os.Stdin)
	_, _ = in.ReadString('\n')
	_ = r.Close()
	_ = w.Close()
	_, err = io.Copy(io.Discard, in)
	return err
}

// threads runs a thread that switches a lot, and ends it when asked to.
func threads([]string) error {
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
	_, err := io.Copy(io.Discard, in)
	return err
}

// denied observes process 1 and prints the row.
func denied([]string) error {
	t, err := NewTree("init", 1)
	if err != nil {
		return err
	}
	t.scope = rootAlone // all of a machine below process 1 may be a lot
	row := make([]float64, treeColumns)
	fmt.Println(t.Observe(row), row[0] > 0, row[6])
	return nil
}

// asleep waits until every thread of a process waits for something, so that its
// numbers stand still.
func asleep(t *testing.T, pid int) {
	t.Helper()
	last := ""
	roles.Until(t, "the process sleeps", func() bool {
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
