// Package awake keeps CPUs from halting while something is measured.
//
// A CPU without work halts until an interrupt wakes it. In a virtual machine that
// hands it back to the host, and it comes back when the host's scheduler sees fit: a
// client and a server that wait for each other measure the host then, and what it
// takes shows up as stolen time. A thread of the lowest priority on each CPU
// prevents that, as idle=poll on the kernel's command line would. All other work
// displaces it at once, at the price of a context switch where an idle CPU would
// have woken, so that a busy server loses some of its throughput.
//
// The host's CPUs are busy all the time, too: this is not for machines that are
// billed, or throttled, by the CPU time they use.
//
// The threads are those of a process of their own, which Start makes from this
// executable: in the measuring process, Go's runtime would wait for them, and they
// for a CPU. It stays in the caller's session, because Linux shares CPUs among
// sessions first (sched_autogroup), whatever the priority of a session's threads:
// in one of its own it would take a third of them.
package awake

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	argument = "__keep-awake" // then the CPUs
	started  = "awake"        // the line that says that all threads run
	patience = 10 * time.Second
	// schedIdle is Linux's SCHED_IDLE, below every nice value: sched(7).
	schedIdle = 5
)

// IsChild tells whether a program that was started with these arguments, its own
// name left out, must hand over to Main.
func IsChild(args []string) bool { return len(args) > 0 && args[0] == argument }

// A Process keeps CPUs awake until it is stopped, or whoever started it dies. Its
// methods are for one goroutine.
type Process struct {
	cmd *exec.Cmd
	in  io.Closer
}

// Start keeps the CPUs awake. The program's main must hand over to Main when
// IsChild says so. A CPU that this process may not use is an error.
func Start(cpus ...int) (*Process, error) {
	args := []string{argument}
	for _, c := range cpus {
		args = append(args, strconv.Itoa(c))
	}
	cmd := exec.Command("/proc/self/exe", args...) //nolint:gosec // this very program
	// Nothing is allocated, and no thread needs another's attention.
	cmd.Env = []string{"GOGC=off", "GODEBUG=asyncpreemptoff=1", "GOMAXPROCS=" + strconv.Itoa(len(cpus)+1), "GORACE=atexit_sleep_ms=0"}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("awake: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("awake: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("awake: %w", err)
	}
	p := &Process{cmd, in}
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() }) // which ends the reading
	line, err := bufio.NewReader(io.LimitReader(out, 4096)).ReadString('\n')
	if late.Stop(); line == started+"\n" {
		return p, nil
	}
	if line = strings.TrimSpace(line); line == "" {
		line = fmt.Sprintf("its process did not start: %v", err)
	}
	_ = p.Stop() // it says the same
	return nil, fmt.Errorf("awake: %s", line)
}

// Pid is the process's id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Stop lets the CPUs halt again.
func (p *Process) Stop() error {
	_ = p.in.Close() // which is its sign to end
	late := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("awake: %w", err)
	}
	return nil
}

// Main is the process that Start makes. It returns when its standard input ends, with
// the exit code.
func Main(args []string) int {
	if err := keep(args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func keep(cpus []string, in io.Reader, out io.Writer) error {
	// A terminal interrupts the whole session. Whoever started this process decides.
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	if err := lower(); err != nil {
		return fmt.Errorf("the lowest priority (SCHED_IDLE): %w", err)
	}
	var (
		over   atomic.Bool
		group  sync.WaitGroup
		placed = make(chan error, len(cpus))
	)
	defer group.Wait()
	defer over.Store(true)
	for _, name := range cpus {
		cpu, err := strconv.Atoi(name)
		if err != nil {
			return err
		}
		group.Go(func() {
			// Never unlocked: the thread, with its placement, ends with the goroutine.
			runtime.LockOSThread()
			var set unix.CPUSet
			set.Set(cpu)
			if err := unix.SchedSetaffinity(0, &set); err != nil {
				placed <- fmt.Errorf("CPU %d: %w", cpu, err)
				return
			}
			placed <- nil
			spin(&over)
		})
	}
	for range cpus {
		if err := <-placed; err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintln(out, started); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, in)
	return err
}

// spin divides until it is over. Each division waits for the one before and leaves
// most of the core to its other hardware thread.
func spin(over *atomic.Bool) {
	x := uint64(1)
	for !over.Load() {
		for range 1000 {
			x = ^uint64(0) / (x | 1)
		}
	}
	sink.Store(x)
}

var sink atomic.Uint64 // so that no compiler leaves the divisions out

// lower gives all threads of this process the lowest priority. Those to come
// inherit it, so that it is done when a look at all finds nothing to do.
func lower() error {
	for again := true; again; {
		again = false
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, t := range threads {
			id, err := strconv.Atoi(t.Name())
			if err != nil {
				return err
			}
			attr, err := unix.SchedGetAttr(id, 0)
			if err == nil && attr.Policy != schedIdle {
				again = true
				err = unix.SchedSetAttr(id, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: schedIdle}, 0)
			}
			if err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return nil
}
