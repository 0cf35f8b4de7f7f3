package target

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"dyno/host/child"
	"dyno/host/proc"
)

// Role is the supervisor's.
func Role() child.Role {
	return child.Role{Name: "__supervise", Main: func([]string) int { return runSupervisor(os.Stdin) }}
}

// dyno and the supervisor exchange lines of JSON: orders one way, reports the other.
// The first order starts the target; it is answered by started or failed. The
// last report is gone. The end of the orders means that dyno is dead.
type order struct {
	Start *launch       `json:"start,omitempty"`
	Stop  bool          `json:"stop,omitempty"` // SIGTERM, and after Grace SIGKILL
	Grace time.Duration `json:"grace,omitempty"`
	Kill  bool          `json:"kill,omitempty"` // SIGKILL at once
}

// A launch is what execve needs. Its strings are bytes, because JSON would change
// those that are not UTF-8.
type launch struct {
	Path []byte
	Args [][]byte
	Env  [][]byte
	Dir  []byte

	CPUs   []int
	Cgroup *Cgroup
	Nice   *int
	NUMA   *int
}

type report struct {
	Cgroup    *CgroupFolders `json:"cgroup,omitempty"`    // made; before the target is started
	Started   int            `json:"started,omitempty"`   // the target's process id
	Failed    string         `json:"failed,omitempty"`    // why it could not be started
	Placement bool           `json:"placement,omitempty"` // with Failed: it could not be placed
	Errno     syscall.Errno  `json:"errno,omitempty"`     // of execve, with Failed
	Exited    *exit          `json:"exited,omitempty"`    // the started process, not yet its tree
	Gone      *ending        `json:"gone,omitempty"`      // nothing of the tree is left
}

// An ending is what is known of a tree once it is gone.
type ending struct {
	Usage
	OOMKills  int    // of its control group
	Remaining string // why the control group could not be removed; empty: it was
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

// maxOrder bounds a line: arguments and environment (2 MiB in Linux's usual
// limits) in base64.
const maxOrder = 4 << 20

// Between two passes of killing. The second pass finds what was forked during the
// first; the longest pause is for what cannot die yet (uninterruptible sleep).
const (
	firstRetry = 10 * time.Millisecond
	lastRetry  = 500 * time.Millisecond
)

// A supervisor is the state of the process between dyno and the target.
type supervisor struct {
	control    *os.File
	root       int          // the target's process id
	reaped     bool         // root is waited for, so that its number may be another's
	terminated map[int]bool // children that were sent SIGTERM
	group      *group       // the target's control group; nil without
}

// runSupervisor is the main function of the supervisor; control is its standard input. It
// returns the exit status when nothing is left below it.
func runSupervisor(control *os.File) int {
	// Caught and dropped rather than ignored, because what is ignored stays
	// ignored in the target. What to do on an interrupt is dyno's to decide.
	signal.Notify(make(chan os.Signal, 1), unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)

	s := &supervisor{control: control, terminated: make(map[int]bool)}
	orders := make(chan order)
	go readOrders(control, orders)

	first, ok := <-orders
	if !ok || first.Start == nil {
		return 0 // dyno died before it asked for anything
	}
	tried := make(chan error)
	go func() {
		// The target inherits this thread's placement, which is not the supervisor's.
		// The parent-death signal is tied to the thread that forks: it stays.
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
		end.OOMKills = s.group.folders.oomKills()
		if err := s.group.remove(); err != nil {
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
			return // not dyno's words: as if dyno were dead
		}
		orders <- o
	}
}

// report tells dyno. A dead dyno cannot listen; the end of the orders says so.
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
	// Descriptors that dyno itself was started with have no close-on-exec flag.
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

// startInGroup makes the control group and starts the target in it: nothing of the
// target ever runs outside, nothing of the supervisor inside. On failure the group is
// removed.
func (s *supervisor) startInGroup(l *launch, attr *syscall.ProcAttr) (err error) {
	unplaced := func(err error) error { return fmt.Errorf("%w: %w", ErrPlacement, withRemedy(err)) }
	own, err := readMembership("self")
	if err != nil {
		return unplaced(err)
	}
	self, err := proc.Read(os.Getpid())
	if err != nil {
		return unplaced(err)
	}
	name := fmt.Sprintf("dyno-%d-%d", self.PID, self.Start) // of no other supervisor since boot
	g, err := makeGroup(*l.Cgroup, own, name, func(folder string) error { return os.Mkdir(folder, 0o755) })
	if err != nil {
		return unplaced(err)
	}
	// Before anything runs in it: if this supervisor is killed, dyno cleans up.
	s.report(report{Cgroup: &g.folders})
	if err := g.enter(); err != nil {
		return unplaced(errors.Join(err, g.leave(), g.remove()))
	}
	if g.v2 != nil {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(g.v2.Fd())
	}
	s.root, err = syscall.ForkExec(string(l.Path), texts(l.Args), attr)
	left := g.leave()
	switch {
	case err != nil:
		if rest := errors.Join(left, g.remove()); rest != nil {
			return unplaced(errors.Join(err, rest))
		}
		return err
	case left != nil:
		_ = unix.Kill(s.root, unix.SIGKILL) // not waited for yet: the number is its own
		_, _ = unix.Wait4(s.root, nil, 0, nil)
		return unplaced(left)
	}
	s.group = g
	return nil
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
			// A started process that exits with success while its children
			// live has daemonized; one that fails has died.
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

// awaitDeaths sends whenever there is a dead child to reap, then waits until that
// is done; it closes deaths when there is no child. Only looking, it leaves
// reaping to the one goroutine that also sends signals by process id: until then
// an id cannot be another's.
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

// terminate asks the target's group, and each daemon whose parent has died, to
// end: once each.
func (s *supervisor) terminate() {
	if !s.reaped && !s.terminated[s.root] {
		s.terminated[s.root] = true
		_ = unix.Kill(-s.root, unix.SIGTERM)
	}
	all, err := proc.All()
	if err != nil {
		return // the grace period ends in killAll
	}
	self := os.Getpid()
	for _, p := range all {
		if p.Parent == self && p.PID != s.root && !s.terminated[p.PID] {
			s.terminated[p.PID] = true
			_ = unix.Kill(p.PID, unix.SIGTERM)
		}
	}
}

// killAll kills the target's group, which forks nothing in between, and then every
// descendant, parents first so that none restarts a child. It reports whether
// any was still alive.
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

// closeOnExec marks every descriptor from first on.
func closeOnExec(first int) error {
	err := unix.CloseRange(uint(first), ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	// Linux before 5.11 knows neither the call nor the flag.
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

// Usage is what all processes of a tree have used together, from start to end
// (getrusage(2), RUSAGE_CHILDREN). A process whose parent refused to wait for it
// (SIGCHLD ignored) is missing. MaxRSS is at least the supervisor's own few MiB, whose
// memory the process shares until it executes its program.
type Usage struct {
	User, System              time.Duration // CPU time
	MaxRSS                    int64         // bytes, of the largest single process
	MinorFaults, MajorFaults  int64
	VoluntarySwitches         int64
	InvoluntarySwitches       int64
	BlockInputs, BlockOutputs int64
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
