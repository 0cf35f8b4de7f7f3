package kernel

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"dyno/internal/roles"
)

// TestMain lets the test binary be the processes that the tests observe.
func TestMain(m *testing.M) {
	roles.Main(m, map[string]func([]string) error{
		"supervisor": supervisor, "caller": caller, "server": server, "burner": burner, "unprivileged": unprivileged, "contained": contained,
	})
}

// supervisor starts a role below itself, and says the role's process id first.
func supervisor(args []string) error {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	fmt.Println(cmd.Process.Pid)
	return cmd.Wait()
}

// caller makes the system calls that it reads, line by line, and says when it has:
//
//	calls N        getppid, N times
//	readvs N       of nothing
//	threads K N    getppid, N times on each of K new threads
//	forks K N      getppid, N times in each of K new processes, one below the other
//	exec           this program again, by another thread than the first
func caller(args []string) error {
	if len(args) == 2 { // of forks
		depth, n := number(args[0]), number(args[1])
		getppid(n)
		if depth > 1 {
			return exec.Command("/proc/self/exe", "caller", strconv.Itoa(depth-1), args[1]).Run()
		}
		return nil
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		f := strings.Fields(in.Text())
		switch f[0] {
		case "calls":
			getppid(number(f[1]))
		case "readvs":
			for range number(f[1]) {
				_, _, _ = syscall.RawSyscall(syscall.SYS_READV, 0, 0, 0) // no buffers: reads nothing
			}
		case "threads":
			var all sync.WaitGroup
			for range number(f[1]) {
				all.Go(func() {
					runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
					getppid(number(f[2]))
				})
			}
			all.Wait()
		case "forks":
			if err := exec.Command("/proc/self/exe", "caller", f[1], f[2]).Run(); err != nil {
				return err
			}
		case "exec":
			failed := make(chan error)
			var other func()
			other = func() {
				runtime.LockOSThread()
				if unix.Gettid() == os.Getpid() {
					go other()
					select {} // the first thread is taken
				}
				failed <- syscall.Exec("/proc/self/exe", []string{"caller", "caller"}, os.Environ())
			}
			fmt.Println("done") // nothing can after the exec
			go other()
			return <-failed
		}
		fmt.Println("done")
	}
	return in.Err() // asked to end
}

// cpuTime returns the CPU time that has been used, in nanoseconds.
func cpuTime(clock int32) int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// getppid makes a system call that neither Go nor anybody else makes by itself.
func getppid(n int) {
	for range n {
		_, _, _ = syscall.RawSyscall(syscall.SYS_GETPPID, 0, 0, 0) // cannot fail
	}
}

// server serves HTTP on two ports, which it says. For every line it says how many
// connections it has been given.
func server([]string) error {
	var connections atomic.Int64
	s := http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/close" {
				w.Header().Set("Connection", "close")
			}
			fmt.Fprintln(w, "hello")
		}),
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				connections.Add(1)
			}
		},
		ReadHeaderTimeout: roles.HangGuard,
	}
	var ports []string
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		ports = append(ports, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
		go func() { _ = s.Serve(l) }() // until the process ends
	}
	fmt.Println(strings.Join(ports, " "))
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		fmt.Println(connections.Load())
	}
	return nil
}

// burner uses a given CPU for 200 ms and waits for the end of its input.
func burner(args []string) error {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(number(args[0]))
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return err
	}
	for cpuTime(unix.CLOCK_THREAD_CPUTIME_ID) < 200e6 {
	}
	fmt.Println("done")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil
}

// unprivileged says why an unprivileged user cannot observe process 1.
func unprivileged([]string) error {
	const unprivilegedID = 65534
	err := errors.Join(syscall.Setgroups(nil), syscall.Setresgid(unprivilegedID, unprivilegedID, unprivilegedID), syscall.Setresuid(unprivilegedID, unprivilegedID, unprivilegedID))
	if err != nil {
		return err
	}
	_, err = New(DefaultConfig("kernel", 1, 80))
	fmt.Printf("%T %v\n", err, err)
	_, err = newCounts(DefaultConfig("kernel", 1, 80))
	fmt.Printf("%T %v\n", err, err)
	return nil
}

// contained is process 1 of a container, and observes a caller.
func contained([]string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe", "caller")
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	o, err := New(DefaultConfig("kernel", os.Getpid(), 80))
	if err != nil {
		return err
	}
	fmt.Fprintln(in, "readvs 1000")
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return err
	}
	fmt.Println(o.Method(), o.Syscalls()["readv"], o.Missing())
	return errors.Join(o.Close(), in.Close(), cmd.Wait())
}

// startBelow starts a role below a supervisor, and returns the role's process id too.
func startBelow(t *testing.T, args ...string) (c *roles.Child, pid int) {
	t.Helper()
	c = roles.Start(t, roles.Command(append([]string{"supervisor"}, args...)...))
	return c, number(c.Line(t))
}

// do makes a caller do something.
func do(t *testing.T, c *roles.Child, command string) {
	t.Helper()
	if answer := c.Ask(t, "%s", command); answer != "done" {
		t.Fatalf("caller: %s", answer)
	}
}

// privileged skips a test where eBPF is not for us.
func privileged(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("loading eBPF programs needs root")
	}
}

// observing observes as New does, and closes in the end.
func observing(t *testing.T, cfg Config) *Observer {
	t.Helper()
	privileged(t)
	o, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
	if o.Method() != "ebpf" {
		t.Fatalf("method %s: %v", o.Method(), o.Missing())
	}
	return o
}

// look returns a reading by the names of columns.
func look(t *testing.T, o *Observer) map[string]float64 {
	t.Helper()
	columns := o.Columns()
	row := make([]float64, len(columns))
	if err := o.Observe(row); err != nil {
		t.Fatal(err)
	}
	all := make(map[string]float64)
	for i, c := range columns {
		all[c.Name] = row[i]
	}
	return all
}
