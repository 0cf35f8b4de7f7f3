package calibrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxOutput bounds how much of a program's output is kept. The rest is lost, and figures
// in it are then missing.
const maxOutput = 64 << 20

// A child is a program that runs to its end.
type child struct {
	args   []string
	cpus   []int             // where it may run; empty: anywhere
	accept []int             // exit codes besides 0 that mean it was done
	during func(*os.Process) // called once it runs; must return at once
}

// A finished child holds the results of one.
type finished struct {
	stdout []byte
	usage  time.Duration // its CPU time, and that of its children that it waited for
	wall   time.Duration
}

// run runs the child until it ends or the context does. Then it is asked to
// stop, and killed after 5 s. It is killed with this process.
func (c child) run(ctx context.Context) (finished, error) {
	type outcome struct {
		finished
		err error
	}
	// A child dies with the thread that started it, and has that thread's CPUs. It is
	// therefore started from a thread of its own, which ends with it.
	result := make(chan outcome, 1)
	go func() {
		runtime.LockOSThread()
		f, err := c.runHere(ctx)
		result <- outcome{f, err}
	}()
	o := <-result
	return o.finished, o.err
}

func (c child) runHere(ctx context.Context) (f finished, err error) {
	if err := place(c.cpus); err != nil {
		return f, err
	}
	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...) //nolint:gosec // the programs are dyno's own
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &bounded{&stdout, maxOutput}, &bounded{&stderr, 64 << 10}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return f, err
	}
	if c.during != nil {
		c.during(cmd.Process)
	}
	err = cmd.Wait()
	f = finished{stdout.Bytes(), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), time.Since(began)}
	var exit *exec.ExitError
	if errors.As(err, &exit) && slices.Contains(c.accept, exit.ExitCode()) {
		err = nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", filepath.Base(c.args[0]), err, lastLine(stderr.String()))
	}
	return f, err
}

// place puts the calling thread on CPUs.
func place(cpus []int) error {
	if len(cpus) == 0 {
		return nil
	}
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("place on CPUs %v: %w", cpus, err)
	}
	return nil
}

// bounded keeps the beginning of the text that is written to it.
type bounded struct {
	to   io.Writer
	room int
}

func (b *bounded) Write(p []byte) (int, error) {
	keep := p[:min(len(p), b.room)]
	b.room -= len(keep)
	if n, err := b.to.Write(keep); err != nil {
		return n, err
	}
	return len(p), nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// A group is a control group of our own with a quota on CPU time.
type group struct {
	dir   string
	quota string // the file that holds it
	text  func(share float64) string
}

// quotaPeriod is over which a quota is enforced, the kernel's default.
const quotaPeriod = 100 * time.Millisecond

// newGroup makes a group below this process's own. It fails where groups cannot
// be written, or have no quota.
func newGroup() (*group, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	var faults []error
	for _, h := range hierarchies(string(mounts), string(own)) {
		g := &group{dir: filepath.Join(h.dir, "dyno-calibrate-"+strconv.Itoa(os.Getpid()))}
		if h.unified {
			g.quota = filepath.Join(g.dir, "cpu.max")
			g.text = func(share float64) string {
				return fmt.Sprintf("%d %d", quotaMicroseconds(share), quotaPeriod.Microseconds())
			}
		} else {
			g.quota = filepath.Join(g.dir, "cpu.cfs_quota_us")
			g.text = func(share float64) string { return strconv.FormatInt(quotaMicroseconds(share), 10) }
		}
		if err := os.Mkdir(g.dir, 0o755); err != nil {
			faults = append(faults, err)
			continue
		}
		if err := g.limit(1); err != nil {
			faults = append(faults, errors.Join(err, g.remove()))
			continue
		}
		return g, nil
	}
	if len(faults) == 0 {
		return nil, errors.New("no control groups with a CPU controller are mounted")
	}
	return nil, errors.Join(faults...)
}

// quotaMicroseconds is the part of a period; the kernel takes no less than a
// millisecond.
func quotaMicroseconds(share float64) int64 {
	return max(1000, int64(share*float64(quotaPeriod.Microseconds())))
}

// limit sets the share of one CPU.
func (g *group) limit(share float64) error {
	return os.WriteFile(g.quota, []byte(g.text(share)), 0o644) //nolint:gosec // the kernel's file
}

// processes is the file that takes process ids.
func (g *group) processes() string { return filepath.Join(g.dir, "cgroup.procs") }

// above is the same of the group that this process is in.
func (g *group) above() string { return filepath.Join(filepath.Dir(g.dir), "cgroup.procs") }

// remove removes the group. Nothing may run in it any more. A process that has just ended
// may be counted for a moment.
func (g *group) remove() error {
	var err error
	for range 100 {
		if err = os.Remove(g.dir); err == nil || !errors.Is(err, unix.EBUSY) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// A hierarchy is a place of this process's control group.
type hierarchy struct {
	dir     string
	unified bool // version 2
}

// hierarchies finds those that may limit CPU time, from /proc/self/mounts and
// /proc/self/cgroup.
func hierarchies(mounts, own string) []hierarchy {
	paths := map[string]string{} // by controller; the unified one is the empty name
	for line := range strings.Lines(own) {
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 {
			for c := range strings.SplitSeq(f[1], ",") {
				paths[c] = f[2]
			}
		}
	}
	var found []hierarchy
	for line := range strings.Lines(mounts) {
		f := strings.Fields(line)
		if len(f) < 4 {
			continue
		}
		switch path, ok := paths["cpu"]; {
		case f[2] == "cgroup" && ok && slices.Contains(strings.Split(f[3], ","), "cpu"):
			found = append(found, hierarchy{filepath.Join(f[1], path), false})
		case f[2] == "cgroup2":
			if path, ok := paths[""]; ok {
				found = append(found, hierarchy{filepath.Join(f[1], path), true})
			}
		}
	}
	return found
}

// dutyCycle lets a process run for a share of the time, by SIGSTOP and SIGCONT,
// until the context ends. It leaves the process running.
func dutyCycle(ctx context.Context, process *os.Process, share float64) {
	const period = 50 * time.Millisecond
	on := time.Duration(share * float64(period))
	stopped := false
	timer := time.NewTimer(on)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			_ = process.Signal(unix.SIGCONT) // fails only if it has ended
			return
		case <-timer.C:
		}
		signal, next := unix.SIGSTOP, period-on
		if stopped {
			signal, next = unix.SIGCONT, on
		}
		if process.Signal(signal) != nil {
			return // it has ended
		}
		stopped = !stopped
		timer.Reset(next)
	}
}
