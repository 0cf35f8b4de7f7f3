package target

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"dyno/host/cgroup"
	"dyno/host/proc"
)

const (
	// killWait bounds how long Start and Stop wait for processes that were killed.
	killWait = 10 * time.Second
	// supervisorWait bounds how long the supervisor may take to start the process. The
	// ready timeout begins after that.
	supervisorWait = 30 * time.Second
	// drainWait bounds how long dyno waits for the output of a process that has survived
	// its supervisor.
	drainWait = time.Second
)

// A Process is a started target, with all processes that it has started. Its methods may
// be called by any number of goroutines.
type Process struct {
	spec       Spec
	pid        int
	supervisor *exec.Cmd
	control    *os.File // dyno's end of the socket pair
	out        *output
	cgroup     cgroup.Folders // empty without a control group
	done       chan struct{}

	mu       sync.Mutex // guards writing to control and the fields below
	stopping bool       // Stop was called before the process had ended
	exited   *exit      // how the started process ended
	ending   *ending    // how the tree ended, once it is gone
	err      error      // valid once done is closed
}

// Start starts a process and returns when it is ready. Otherwise it stops what it has
// started and returns a *Failure, or ctx's error. ctx bounds the start only; Stop ends a
// running process.
func Start(ctx context.Context, spec Spec) (*Process, error) {
	spec = spec.withDefaults()
	if err := spec.Validate(); err != nil {
		return nil, fmt.Errorf("target %s: %w", spec.Name, err)
	}
	env := append(os.Environ(), spec.Env...)
	path, detail, err := lookup(spec.Args[0], spec.Dir, env)
	if err != nil {
		return nil, &Failure{Target: spec.Name, Reason: err, Detail: detail}
	}
	if err := checkFree(ctx, spec); err != nil {
		return nil, err
	}
	p, err := start(spec, path, env)
	if err != nil {
		return nil, err
	}
	if spec.Ready == (Probe{}) {
		return p, nil // even if it has ended already: see Wait
	}
	if err := p.await(ctx); err != nil {
		p.mu.Lock()
		p.stopping = true
		p.mu.Unlock()
		_ = p.send(order{Kill: true})
		return nil, p.ended(err, killWait)
	}
	return p, nil
}

// ended waits until a target that was killed because of err is gone, but no longer than the time given:
// dyno may not kill another user's processes, and some processes are held by the kernel. It returns
// err, and which processes are left.
func (p *Process) ended(err error, wait time.Duration) error {
	select {
	case <-p.done:
		return err
	case <-time.After(wait):
		return errors.Join(err, p.survivors())
	}
}

// checkFree refuses an address on which another process already answers. The probe would
// take that process for the target, and the load would measure it.
func checkFree(ctx context.Context, spec Spec) error {
	network, addr := spec.Ready.address()
	if network == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	if connect(ctx, network, addr) != nil {
		return nil
	}
	detail, address := addr, addr
	if network == "unix" {
		address = "unix:" + addr
	}
	if who, ok := ListenerAt(address); ok && !spec.HidesOthers {
		detail += " by " + who.String()
	}
	return &Failure{Target: spec.Name, Reason: ErrPortInUse, Detail: detail}
}

// start starts the supervisor, which starts the process. They are connected by a socket
// and a pipe. The kernel has at once what they write to these, so closing them loses
// nothing.
func start(spec Spec, path string, env []string) (_ *Process, err error) {
	fail := func(err error) error { return &Failure{Target: spec.Name, Reason: err} }
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fail(os.NewSyscallError("socketpair", err))
	}
	theirs := os.NewFile(uintptr(fds[1]), "supervisor's orders")
	// The descriptor is non-blocking, so that closing it ends a read.
	if err := unix.SetNonblock(fds[0], true); err != nil {
		unix.Close(fds[0])
		_ = theirs.Close()
		return nil, fail(os.NewSyscallError("set nonblock", err))
	}
	control := os.NewFile(uintptr(fds[0]), "supervisor")
	r, w, err := os.Pipe()
	if err != nil {
		_ = control.Close()
		_ = theirs.Close()
		return nil, fail(err)
	}

	supervisor := Role().Command([]string{"GOMAXPROCS=1", "GOGC=off"})
	supervisor.Stdin, supervisor.Stdout, supervisor.Stderr = theirs, w, w
	// The supervisor has a session of its own. It gets no signal from dyno's terminal,
	// and what outlives it can be found by its session.
	supervisor.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = supervisor.Start()
	// Only the supervisor keeps its ends: the readers of the other ends must notice when
	// it dies.
	_, _ = theirs.Close(), w.Close()
	if err != nil {
		_ = control.Close()
		_ = r.Close()
		return nil, fail(fmt.Errorf("start supervisor: %w", err))
	}

	p := &Process{
		spec:       spec,
		supervisor: supervisor,
		control:    control,
		out:        newOutput(spec.Output, spec.Ready.pattern()),
		done:       make(chan struct{}),
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		p.out.drain(r)
	}()
	lines := bufio.NewScanner(control)
	first, err := p.launch(lines, launch{
		Path: []byte(path),
		Args: blobs(spec.Args),
		Env:  blobs(env),
		Dir:  []byte(spec.Dir),

		CPUs:   spec.CPUs,
		Cgroup: spec.Cgroup,
		Nice:   spec.Nice,
		NUMA:   spec.NUMA,
	})
	p.pid = first.Started
	go p.follow(lines, r, drained)
	if err != nil {
		_ = p.control.Close() // tells the supervisor to clean up
		err = p.ended(err, killWait)
		return nil, &Failure{Target: spec.Name, Reason: err, Tail: p.out.lines()}
	}
	return p, nil
}

// launch sends the first order and returns its answer.
func (p *Process) launch(lines *bufio.Scanner, l launch) (first report, err error) {
	if err := p.control.SetDeadline(time.Now().Add(supervisorWait)); err != nil {
		return first, err
	}
	if err := p.send(order{Start: &l}); err != nil {
		return first, fmt.Errorf("supervisor: %w", err)
	}
	for first.Started == 0 && first.Failed == "" {
		if !lines.Scan() {
			if err := lines.Err(); err != nil {
				return first, fmt.Errorf("supervisor: %w", err)
			}
			return first, errors.New("the supervisor ended at once: does this binary's main hand over to its roles (package child)?")
		}
		first = report{}
		if err := json.Unmarshal(lines.Bytes(), &first); err != nil {
			return first, fmt.Errorf("supervisor: %w", err)
		}
		if first.Cgroup == nil {
			break
		}
		p.cgroup = *first.Cgroup
	}
	if err := p.control.SetDeadline(time.Time{}); err != nil {
		return first, err
	}
	switch {
	case first.Placement:
		return first, fmt.Errorf("%w: %s", ErrPlacement, strings.TrimPrefix(first.Failed, ErrPlacement.Error()+": "))
	case first.Errno != 0 && errors.Is(first.Errno, fs.ErrNotExist):
		// The file exists, but not the interpreter that its first line names.
		return first, fmt.Errorf("%w: %s", ErrNotFound, first.Failed)
	case first.Failed != "":
		return first, errors.New(first.Failed)
	case first.Started == 0:
		return first, errors.New("supervisor: no process id")
	}
	return first, nil
}

// send gives the supervisor an order. It fails only if the supervisor is dead; follow
// handles that case.
func (p *Process) send(o order) error {
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err = p.control.Write(append(b, '\n'))
	return err
}

// follow reads the supervisor's reports to their end, and closes done.
func (p *Process) follow(lines *bufio.Scanner, r *os.File, drained <-chan struct{}) {
	died := false // by itself, before Stop was called
	for lines.Scan() {
		var rep report
		if json.Unmarshal(lines.Bytes(), &rep) != nil {
			continue
		}
		p.mu.Lock()
		if rep.Exited != nil {
			p.exited = rep.Exited
			died = died || rep.Exited.failed() && !p.stopping
		}
		if rep.Gone != nil {
			p.ending = rep.Gone
			died = died || !p.stopping
		}
		p.mu.Unlock()
	}
	p.mu.Lock()
	unsupervised := p.ending == nil
	orphaned := unsupervised && p.pid != 0
	p.mu.Unlock()
	if orphaned {
		killSession(p.supervisor.Process.Pid) // it has not been waited for yet, so the id is still its own
	}
	remaining := ""
	if unsupervised {
		if err := killGroups(p.cgroup.All()); err != nil {
			remaining = err.Error()
		}
	}
	_ = p.supervisor.Wait() // its reports already say all that its exit status does
	select {
	case <-drained:
	case <-time.After(drainWait):
	}
	_ = r.Close() // ends the drain, if it is still running
	<-drained
	_ = p.control.Close()

	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ending != nil {
		remaining = p.ending.Remaining
	}
	switch {
	case orphaned:
		p.err = p.failure(ErrExited, "its supervisor was killed")
	case died && p.exited != nil:
		f := p.failure(ErrExited, p.exited.String()+p.outOfMemory())
		f.Code = p.exited.Code
		p.err = f
	case died:
		p.err = p.failure(ErrExited, "")
	case remaining != "":
		p.err = p.leftBehind(remaining)
	}
	close(p.done)
}

func (p *Process) leftBehind(why string) error {
	return fmt.Errorf("target %s: its control group could not be removed: %s", p.spec.Name, why)
}

// outOfMemory says that the kernel has killed processes of the target because memory ran out; "" if it
// has not.
func (p *Process) outOfMemory() string {
	if p.ending == nil || p.ending.OOMKills == 0 {
		return ""
	}
	limit := "which has no memory_max of its own"
	if m := p.spec.Cgroup.MemoryMax; m > 0 {
		limit = fmt.Sprintf("whose memory_max is %d bytes", m)
	}
	return fmt.Sprintf("; out of memory: the kernel killed %d of the processes of its control group (oom_kill), %s", p.ending.OOMKills, limit)
}

func (p *Process) failure(reason error, detail string) *Failure {
	return &Failure{Target: p.spec.Name, Reason: reason, Detail: detail, Tail: p.out.lines()}
}

// killSession kills the remaining processes of the session that the supervisor led. A
// process may fork meanwhile; the next pass finds its child. The number of passes is
// bounded.
func killSession(session int) {
	for range 100 {
		all, err := proc.All()
		if err != nil {
			return
		}
		left := false
		for _, q := range all {
			if q.Session == session && q.PID != session && q.State != 'Z' {
				left = true
				_ = kill(q)
			}
		}
		if !left {
			return
		}
		time.Sleep(firstRetry)
	}
}

// await returns when the process is ready.
func (p *Process) await(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, p.spec.ReadyTimeout)
	defer cancel()
	// An attempt also ends when the process does.
	limit, interrupt := context.WithCancel(limit)
	defer interrupt()
	go func() {
		select {
		case <-p.done:
			interrupt()
		case <-limit.Done():
		}
	}()

	var last error
	start := time.Now()
	for {
		err := p.spec.Ready.attempt(limit, p.out)
		switch {
		case isClosed(p.done):
			return p.Err()
		case err == nil:
			return nil
		case limit.Err() == nil || last == nil:
			last = err // an attempt that was cut short has no news
		}
		select {
		case <-p.done:
			return p.Err()
		case <-limit.Done():
			if isClosed(p.done) {
				return p.Err()
			}
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("target %s: starting: %w", p.spec.Name, err)
			}
			return p.failure(ErrNotReady, fmt.Sprintf("%v: %v", p.spec.ReadyTimeout, last))
		case <-time.After(max(leastPause, min(time.Since(start)/8, mostPause))): // late by an eighth of the start at most
		}
	}
}

// The bounds of the pause between two attempts of a probe. An attempt takes less than a tenth of a millisecond.
const (
	leastPause = time.Millisecond
	mostPause  = 50 * time.Millisecond
)

// PID returns the started process's id. If the program is a daemon, that process exits
// early.
func (p *Process) PID() int { return p.pid }

// Supervisor returns the id of the supervisor. It is the ancestor of all that the target
// starts, and reaps processes that lost their parent. It is not part of the target, and
// uses no CPU while nothing happens.
func (p *Process) Supervisor() int { return p.supervisor.Process.Pid }

// Cgroup returns the folders of the target's own control groups. If the target has
// limits, these are the groups made for them, which are removed when the target is gone.
// Otherwise they are the groups that the target is in but dyno is not, except for the
// roots of hierarchies.
func (p *Process) Cgroup() cgroup.Folders {
	target, err := cgroup.ReadMembership(strconv.Itoa(p.pid))
	if err != nil {
		return p.cgroup // a daemon's first process is gone
	}
	own, err := cgroup.ReadMembership("self")
	if err != nil {
		return p.cgroup
	}
	return p.cgroup.Or(target.ApartFrom(own))
}

// PIDs returns the live processes of the target, parents before children.
func (p *Process) PIDs() ([]int, error) {
	if isClosed(p.done) {
		return nil, nil
	}
	all, err := proc.All()
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, q := range proc.Below(all, p.Supervisor()) {
		if q.State != 'Z' {
			pids = append(pids, q.PID)
		}
	}
	return pids, nil
}

// Done is closed when nothing of the target is left: after Stop, after the started
// process failed (the rest is then killed), or when its last process has exited. If a
// started process exits with success while others live, it has daemonized, and the target
// is not done.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says, once Done is closed, why the target ended: a *Failure that wraps ErrExited,
// or nil if Stop ended it. If all else went well but the target's control group could not
// be removed, it is that error.
func (p *Process) Err() error {
	if !isClosed(p.done) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Wait waits for a process that is expected to end by itself, and for all that it has started. It
// returns nil if the process exited with status 0 and all its output was written. It returns a *Failure
// if the process failed. If ctx ends first, Wait returns its cause, and the process goes on running.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	p.mu.Lock()
	succeeded := p.exited != nil && !p.exited.failed() && p.ending != nil
	remaining := succeeded && p.ending.Remaining != ""
	p.mu.Unlock()
	switch {
	case !succeeded:
		return p.Err()
	case remaining:
		return p.leftBehind(p.ending.Remaining)
	}
	if err := p.out.lostErr(); err != nil {
		return fmt.Errorf("target %s: output lost: %w", p.spec.Name, err)
	}
	return nil
}

// Usage returns what the whole tree has used. It is known once Done is closed, unless the
// supervisor was killed.
func (p *Process) Usage() (u Usage, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ending == nil {
		return Usage{}, false
	}
	return p.ending.Usage, true
}

// Stop ends the target. It sends SIGTERM to its process group. After the spec's StopTimeout, or when
// ctx ends, it sends SIGKILL to every remaining process. It returns when none is left. It returns an
// error if the target had ended before, or its output could not be written. Processes that survive
// SIGKILL for 10 s are an error too. Calling it again is harmless.
func (p *Process) Stop(ctx context.Context) error {
	p.mu.Lock()
	p.stopping = true
	p.mu.Unlock()
	// Sending fails only if the supervisor is dead, and done is closed in that case.
	_ = p.send(order{Stop: true, Grace: p.spec.StopTimeout})
	term := time.NewTimer(p.spec.StopTimeout + killWait)
	defer term.Stop()
	select {
	case <-p.done:
	case <-ctx.Done():
		_ = p.send(order{Kill: true})
		term.Reset(killWait)
		select {
		case <-p.done:
		case <-term.C:
			return p.survivors()
		}
	case <-term.C:
		return p.survivors()
	}
	if err := p.Err(); err != nil {
		return err
	}
	if err := p.out.lostErr(); err != nil {
		return fmt.Errorf("target %s: output lost: %w", p.spec.Name, err)
	}
	return nil
}

func (p *Process) survivors() error {
	pids, err := p.PIDs()
	return errors.Join(fmt.Errorf("target %s: processes %v are still alive after SIGKILL", p.spec.Name, pids), err)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
