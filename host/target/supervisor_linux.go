package target

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"dyno/host/cgroup"
	"dyno/host/child"
	"dyno/host/proc"
)

// Role is the role of the supervisor.
func Role() child.Role {
	return child.Role{Name: "__supervise", Main: func([]string) int { return runSupervisor(os.Stdin) }}
}

// dyno and the supervisor exchange lines of JSON: orders in one direction, reports in the
// other. The first order starts the target; the answer to it is Started or Failed. The
// last report is Gone. When the orders end, dyno is dead.
type order struct {
	Start *launch       `json:"start,omitempty"`
	Stop  bool          `json:"stop,omitempty"` // SIGTERM, and SIGKILL after Grace
	Grace time.Duration `json:"grace,omitempty"`
	Kill  bool          `json:"kill,omitempty"` // SIGKILL at once
}

// A launch holds the arguments of execve. Its strings are bytes, because JSON would
// change those that are not UTF-8.
type launch struct {
	Path []byte
	Args [][]byte
	Env  [][]byte
	Dir  []byte

	CPUs   []int
	Cgroup *cgroup.Limits
	Nice   *int
	NUMA   *int
}

type report struct {
	Cgroup    *cgroup.Folders `json:"cgroup,omitempty"`    // the folders, sent before the target is started
	Started   int             `json:"started,omitempty"`   // the target's process id
	Failed    string          `json:"failed,omitempty"`    // why it could not be started
	Placement bool            `json:"placement,omitempty"` // with Failed: the target could not be placed
	Errno     syscall.Errno   `json:"errno,omitempty"`     // with Failed: the error of execve
	Exited    *exit           `json:"exited,omitempty"`    // how the started process ended; its tree may still live
	Gone      *ending         `json:"gone,omitempty"`      // nothing of the tree is left
}

// An ending describes a tree that is gone.
type ending struct {
	Usage
	OOMKills  int    // in its control group
	Remaining string // why the control group could not be removed; empty if it could
}

// An exit is how the started process ended.
type exit struct {
	Code   int    // when Signal is empty
	Signal string // such as "killed"
}

func (e exit) failed() bool { return e.Code != 0 || e.Signal != "" }

func (e exit) String() string {
	if e.Signal != "" {
		return "signal: " + e.Signal
	}
	return "exit status " + strconv.Itoa(e.Code)
}

// maxOrder bounds a line. The largest holds arguments and environment (2 MiB in Linux's
// usual limits) in base64.
const maxOrder = 4 << 20

// The pauses between two passes of killing. The second pass finds what was forked during
// the first. The longest pause is for processes that cannot die yet (uninterruptible
// sleep).
const (
	firstRetry = 10 * time.Millisecond
	lastRetry  = 500 * time.Millisecond
)

// A supervisor is the state of the process between dyno and the target.
type supervisor struct {
	control    *os.File
	root       int           // the target's process id
	reaped     bool          // root was waited for, so another process may have its number now
	terminated map[int]bool  // children that SIGTERM was sent to
	group      *cgroup.Group // the target's control group; nil without one
}

// runSupervisor is the main function of the supervisor; control is its standard input. It
// returns the exit status when no process is left below it.
func runSupervisor(control *os.File) int {
	// These signals are caught and dropped rather than ignored, because the target would
	// inherit that they are ignored. dyno decides what to do on an interrupt.
	signal.Notify(make(chan os.Signal, 1), unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)

	s := &supervisor{control: control, terminated: make(map[int]bool)}
	orders := make(chan order)
	go readOrders(control, orders)

	first, ok := <-orders
	if !ok || first.Start == nil {
		return 0 // dyno died before the first order
	}
	tried := make(chan error)
	go func() {
		// The target inherits this thread's placement; the supervisor's other threads keep
		// their own. The parent-death signal is tied to the thread that forks, so this
		// thread never ends.
		runtime.LockOSThread()
		tried <- s.start(first.Start)
		select {}
	}()
	if err := <-tried; err != nil {
		r := report{Failed: err.Error(), Placement: errors.Is(err, ErrPlacement)}
		errors.As(err, &r.Errno)
		s.report(r)
		return 1
	}
	s.report(report{Started: s.root})
	s.run(orders)

	var end ending
	if s.group != nil {
		end.OOMKills = s.group.Folders.OOMKills()
		if err := s.group.Remove(); err != nil {
			end.Remaining = err.Error()
		}
	}
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &ru); err == nil {
		end.Usage = usage(ru)
		s.report(report{Gone: &end})
	}
	return 0
}

func readOrders(control *os.File, orders chan<- order) {
	defer close(orders)
	lines := bufio.NewScanner(control)
	lines.Buffer(nil, maxOrder)
	for lines.Scan() {
		var o order
		if json.Unmarshal(lines.Bytes(), &o) != nil {
			return // dyno does not write such a line; treat it as if dyno were dead
		}
		orders <- o
	}
}

// report sends dyno a report. If dyno is dead, sending fails; the end of the orders shows
// the same.
func (s *supervisor) report(r report) {
	b, err := json.Marshal(r)
	if err == nil {
		_, _ = s.control.Write(append(b, '\n'))
	}
}

// start starts the target from the calling thread, which is locked.
func (s *supervisor) start(l *launch) (err error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl: become subreaper", err)
	}
	if err := l.place(); err != nil {
		return fmt.Errorf("%w: %w", ErrPlacement, err)
	}
	// Descriptors that dyno itself was started with do not have the close-on-exec flag.
	if err := closeOnExec(3); err != nil {
		return err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer func() { _ = null.Close() }() // nothing was written
	attr := &syscall.ProcAttr{
		Dir:   string(l.Dir),
		Env:   texts(l.Env),
		Files: []uintptr{null.Fd(), 1, 2},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL},
	}
	if l.Cgroup == nil {
		s.root, err = syscall.ForkExec(string(l.Path), texts(l.Args), attr)
	} else {
		err = s.startInGroup(l, attr)
	}
	if err != nil && !errors.Is(err, ErrPlacement) {
		return &os.PathError{Op: "execute", Path: string(l.Path), Err: err}
	}
	return err
}

// startInGroup makes the control group and starts the target in it. Nothing of the target
// ever runs outside of the group, and nothing of the supervisor inside. On failure the
// group is removed.
func (s *supervisor) startInGroup(l *launch, attr *syscall.ProcAttr) (err error) {
	unplaced := func(err error) error { return fmt.Errorf("%w: %w", ErrPlacement, withRemedy(err)) }
	own, err := cgroup.ReadMembership("self")
	if err != nil {
		return unplaced(err)
	}
	self, err := proc.Read(os.Getpid())
	if err != nil {
		return unplaced(err)
	}
	name := fmt.Sprintf("dyno-%d-%d", self.PID, self.Start) // no other supervisor since boot has the same name
	g, err := cgroup.Make(*l.Cgroup, own, name)
	if err != nil {
		return unplaced(err)
	}
	// Report the folders before any process runs in them: if this supervisor is killed,
	// dyno cleans up.
	s.report(report{Cgroup: &g.Folders})
	if err := g.Enter(); err != nil {
		return unplaced(errors.Join(err, g.Leave(), g.Remove()))
	}
	attr.Sys.CgroupFD, attr.Sys.UseCgroupFD = g.FD()
	s.root, err = syscall.ForkExec(string(l.Path), texts(l.Args), attr)
	left := g.Leave()
	switch {
	case err != nil:
		if rest := errors.Join(left, g.Remove()); rest != nil {
			return unplaced(errors.Join(err, rest))
		}
		return err
	case left != nil:
		_ = unix.Kill(s.root, unix.SIGKILL) // it has not been waited for yet, so the number is its own
		_, _ = unix.Wait4(s.root, nil, 0, nil)
		return unplaced(left)
	}
	s.group = g
	return nil
}

// withRemedy adds a hint to an error of a control group.
func withRemedy(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("cgroup: %w (run as root or, with cgroup v2, as: systemd-run --user --scope dyno …)", err)
	case errors.Is(err, syscall.EBUSY):
		return fmt.Errorf("cgroup: %w (run as: systemd-run --scope dyno …)", err)
	}
	return fmt.Errorf("cgroup: %w (mount the controller, as version 1 or in cgroup v2, or remove the limit)", err)
}

// run returns when no descendant is left.
func (s *supervisor) run(orders <-chan order) {
	deaths, reaped := make(chan struct{}), make(chan struct{})
	go awaitDeaths(deaths, reaped)

	var grace, retry <-chan time.Time
	var stopping, killing bool
	pause := firstRetry
	for {
		wasKilling := killing
		select {
		case o, ok := <-orders:
			switch {
			case !ok:
				orders, killing = nil, true
			case o.Kill:
				killing = true
			case o.Stop && !stopping:
				stopping, grace = true, time.After(o.Grace)
			}
		case _, ok := <-deaths:
			if !ok {
				return
			}
			// If a started process exits with success while its children live, it has
			// daemonized. If it exits with failure, the target has failed.
			if s.reap() {
				killing = true
			}
			reaped <- struct{}{}
		case <-grace:
			killing = true
		case <-retry:
			if s.killAll() {
				pause = firstRetry
			}
			retry, pause = time.After(pause), min(2*pause, lastRetry)
		}
		switch {
		case killing && !wasKilling:
			s.killAll()
			retry = time.After(pause)
		case stopping && !killing:
			s.terminate()
		}
	}
}

// awaitDeaths sends a value whenever there is a dead child to reap, then waits until it
// is reaped. It closes deaths when there is no child. It only looks: the goroutine that
// sends signals by process id also reaps, so an id cannot become another process's in
// between.
func awaitDeaths(deaths chan<- struct{}, reaped <-chan struct{}) {
	for {
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			close(deaths)
			return
		default:
			deaths <- struct{}{}
			<-reaped
		}
	}
}

// reap waits for all dead children and reports whether the target failed.
func (s *supervisor) reap() (failed bool) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return failed
		}
		delete(s.terminated, pid)
		if pid == s.root && !s.reaped {
			s.reaped = true
			e := exit{Code: status.ExitStatus()}
			if status.Signaled() {
				e = exit{Signal: status.Signal().String()}
			}
			failed = e.failed()
			s.report(report{Exited: &e})
		}
	}
}

// terminate asks the target's process group, and each daemon whose parent has died, to
// end. It asks each only once.
func (s *supervisor) terminate() {
	if !s.reaped && !s.terminated[s.root] {
		s.terminated[s.root] = true
		_ = unix.Kill(-s.root, unix.SIGTERM)
	}
	all, err := proc.All()
	if err != nil {
		return // killAll ends the grace period
	}
	self := os.Getpid()
	for _, p := range all {
		if p.Parent == self && p.PID != s.root && !s.terminated[p.PID] {
			s.terminated[p.PID] = true
			_ = unix.Kill(p.PID, unix.SIGTERM)
		}
	}
}

// killAll kills the target's process group, which cannot fork meanwhile, and then every
// descendant. It kills parents first, so that none restarts a child. It reports whether
// any process was still alive.
func (s *supervisor) killAll() (found bool) {
	if !s.reaped {
		_ = unix.Kill(-s.root, unix.SIGKILL)
	}
	all, err := proc.All()
	if err != nil {
		return false
	}
	for _, p := range proc.Below(all, os.Getpid()) {
		if p.State != 'Z' && kill(p) == nil {
			found = true
		}
	}
	return found
}

// closeOnExec sets the flag on every descriptor from first on.
func closeOnExec(first int) error {
	err := unix.CloseRange(uint(first), ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	// Linux before 5.11 has neither the call nor the flag.
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, n := range names {
		if fd, err := strconv.Atoi(n.Name()); err == nil && fd >= first {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

func texts(bs [][]byte) []string {
	ss := make([]string, len(bs))
	for i, b := range bs {
		ss[i] = string(b)
	}
	return ss
}

func blobs(ss []string) [][]byte {
	bs := make([][]byte, len(ss))
	for i, s := range ss {
		bs[i] = []byte(s)
	}
	return bs
}

func usage(ru unix.Rusage) Usage {
	return Usage{
		User:                time.Duration(ru.Utime.Nano()),
		System:              time.Duration(ru.Stime.Nano()),
		MaxRSS:              ru.Maxrss << 10,
		MinorFaults:         ru.Minflt,
		MajorFaults:         ru.Majflt,
		VoluntarySwitches:   ru.Nvcsw,
		InvoluntarySwitches: ru.Nivcsw,
		BlockInputs:         ru.Inblock,
		BlockOutputs:        ru.Oublock,
	}
}
