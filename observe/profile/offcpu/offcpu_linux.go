package offcpu

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"dyno/internal/texts"
	"dyno/observe"
	"dyno/observe/profile/stack"
	"dyno/observe/profile/symbol"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	pprof "github.com/google/pprof/profile"
	"golang.org/x/sys/unix"
)

//go:generate bash ../../../scripts/ebpf.sh offcpu offcpu.c

// Actions for a process on the list. Its children are watched.
const (
	followed = uint32(iota)
	watched
)

// A Profiler adds up waits until it is stopped.
type Profiler struct {
	root      int
	symbols   *symbol.Cache
	kernel    offcpuObjects
	links     []link.Link
	processes map[int]*stack.Process // as they were at the start
	began     time.Time
}

// Start begins to watch the processes below root, now and later, but not root
// itself. Where that is not possible the error is a *observe.Unavailable.
// Symbols may be nil.
func Start(root int, symbols *symbol.Cache) (*Profiler, error) {
	p := &Profiler{root: root, symbols: symbols, processes: map[int]*stack.Process{}}
	if err := p.start(); err != nil {
		return nil, errors.Join(unavailable(err), p.release())
	}
	return p, nil
}

func unavailable(err error) error {
	u := &observe.Unavailable{Profile: true, Observer: "off-CPU", Reason: texts.Together(texts.Reasons(err)...), Err: err}
	switch {
	case errors.Is(err, os.ErrPermission):
		u.Remedy = texts.New("help.offcpu")
	case errors.Is(err, ebpf.ErrNotSupported):
		u.Remedy = texts.New("help.btf")
	case errors.Is(err, os.ErrNotExist):
		u.Remedy = texts.New("help.mount")
	}
	return u
}

// initialNamespace is the inode of the first pid namespace (PROC_PID_INIT_INO of
// the kernel). Only there do eBPF programs and we give processes the same numbers.
const initialNamespace = "pid:[4026531836]"

func (p *Profiler) start() error {
	if ns, err := os.Readlink("/proc/self/ns/pid"); err != nil || ns != initialNamespace {
		return texts.NewError("unavailable.namespace", "namespace", ns)
	}
	_ = rlimit.RemoveMemlock() // needed before Linux 5.11 only; if it fails there, so does the next step
	if err := loadOffcpuObjects(&p.kernel, nil); err != nil {
		return err
	}
	// Forks are followed before processes are searched, so that none is missed. Waits
	// come last.
	if err := p.attach("sched_process_fork", p.kernel.DynoFork); err != nil {
		return err
	}
	if err := p.attach("sched_process_free", p.kernel.DynoFree); err != nil {
		return err
	}
	if err := p.enlist(); err != nil {
		return err
	}
	p.began = time.Now()
	return p.attach("sched_switch", p.kernel.DynoSwitch)
}

// enlist puts the root, and all processes below it, on the list. A child that was forked
// before its parent was on the list is found by another look.
func (p *Profiler) enlist() error {
	if err := p.kernel.Processes.Put(uint32(p.root), followed); err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	for fresh := true; fresh; {
		fresh = false
		for _, pid := range stack.Below(p.root) {
			if p.processes[pid] != nil {
				continue
			}
			if err := p.kernel.Processes.Put(uint32(pid), watched); err != nil {
				return fmt.Errorf("list processes: %w", err)
			}
			fresh = true
			p.processes[pid] = readProcess(pid)
		}
	}
	return nil
}

// readProcess returns a process without mappings where they cannot be read.
func readProcess(pid int) *stack.Process {
	if p, err := stack.ReadProcess(pid); err == nil {
		return p
	}
	return stack.NewProcess(pid)
}

// attach lets a program run at a tracepoint of the scheduler.
func (p *Profiler) attach(event string, program *ebpf.Program) error {
	l, err := link.Tracepoint("sched", event, program, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", event, err)
	}
	p.links = append(p.links, l)
	return nil
}

// release closes everything held in the kernel.
func (p *Profiler) release() error { return errors.Join(p.detach(), p.kernel.Close()) }

func (p *Profiler) detach() (err error) {
	for _, l := range slices.Backward(p.links) {
		err = errors.Join(err, l.Close())
	}
	p.links = nil
	return err
}

// Stop ends the profiling, once, and makes the profile. The processes should still exist,
// because their mappings are read now.
func (p *Profiler) Stop() (*Result, error) {
	now := stack.Now()
	duration := time.Since(p.began)
	detached := p.detach()
	r, err := p.result(now, duration)
	if err := errors.Join(err, detached, p.release()); err != nil {
		return nil, fmt.Errorf("off-CPU: %w", err)
	}
	return r, nil
}

func (p *Profiler) result(now uint64, duration time.Duration) (*Result, error) {
	totals := map[offcpuPlace]offcpuTotal{}
	var k offcpuPlace
	var t offcpuTotal
	entries := p.kernel.Totals.Iterate()
	for entries.Next(&k, &t) {
		totals[k] = t
	}
	if err := entries.Err(); err != nil {
		return nil, fmt.Errorf("read totals: %w", err)
	}
	var tid uint32
	var w offcpuWait
	entries = p.kernel.Blocked.Iterate()
	for entries.Next(&tid, &w) {
		if now > w.Since {
			t := totals[w.Place]
			t.Nanoseconds += now - w.Since
			t.Waits++
			totals[w.Place] = t
		}
	}
	if err := entries.Err(); err != nil {
		return nil, fmt.Errorf("read threads that wait: %w", err)
	}
	r := &Result{}
	if err := p.kernel.Lost.Get(&r.Lost); err != nil {
		return nil, fmt.Errorf("read what was lost: %w", err)
	}
	c := stack.New(2, p.symbols)
	later := map[int]*stack.Process{}
	for k, t := range totals {
		pid := int(k.Process)
		process := later[pid]
		if process == nil {
			var err error
			if process, err = stack.ReadProcess(pid); err != nil { // it has gone
				process = p.processes[pid]
			}
			if process == nil {
				process = stack.NewProcess(pid)
			}
			later[pid] = process
		}
		kernel, user := p.stack(k.Kernel), p.stack(k.User)
		if full(k.Kernel) || full(k.User) {
			r.Unknown += t.Waits
		}
		c.Add(process, kernel, user, int64(t.Waits), int64(t.Nanoseconds))
	}
	var err error
	r.Profile, err = c.Profile([]*pprof.ValueType{{Type: "waits", Unit: "count"}, {Type: "off_cpu", Unit: "nanoseconds"}}, 1, p.began, duration)
	if err == nil && r.Lost+r.Unknown > 0 {
		r.Profile.Comments = []string{fmt.Sprintf("%d waits were lost and %d have no stack: more than the kernel keeps for us", r.Lost, r.Unknown)}
	}
	return r, errors.Join(err, c.Close())
}

// full tells that a stack is missing because there was no room, not because the
// thread has none.
func full(id int32) bool { return id < 0 && unix.Errno(-id) != unix.EFAULT }

// stack returns the addresses of a stack, none if there is none.
func (p *Profiler) stack(id int32) []uint64 {
	addresses := make([]uint64, p.kernel.Stacks.ValueSize()/8)
	if id < 0 || p.kernel.Stacks.Lookup(uint32(id), addresses) != nil {
		return nil
	}
	if end := slices.Index(addresses, 0); end >= 0 {
		addresses = addresses[:end]
	}
	return addresses
}
