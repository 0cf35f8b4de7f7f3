// Package offcpu tells what a program waits for: the time its threads are blocked, by the
// stack of functions that they are blocked in, as a pprof profile. An on-CPU profile
// cannot show this: locks, disks, other services.
//
// eBPF programs at the scheduler's tracepoints add it up in the kernel. A wait counts
// from when a thread leaves its CPU because it has to wait, until it runs again. So the
// wait for a free CPU after the wake-up is part of it. A thread that is preempted is not
// blocked. Waits that began before the profiler did are not seen. Waits that last to its
// end count with the time so far.
//
// Threads that idle are blocked too: a pool of idle workers shows as much time in futex
// or epoll_wait, which belongs to no request.
//
// On two EPYC vCPUs, Linux 6.18, a switch from a thread that has to wait costs 2.3 µs, by
// the kernel's own account of eBPF programs, and one between other processes 0.4 µs. A
// server that waits 50,000 times a second loses a tenth of a CPU: take the profile in a
// trial of its own.
package offcpu

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/internal/texts"
	"dyno/observe/profile"
	"dyno/observe/profile/stack"
	"dyno/observe/profile/symbol"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	pprof "github.com/google/pprof/profile"
	"golang.org/x/sys/unix"
)

// Bounds of the kernel's tables. Waits that do not fit are counted in Result.Lost.
const (
	maxProcesses = 1 << 14
	maxBlocked   = 1 << 15 // threads blocked at once
	maxTotals    = 1 << 14 // pairs of stacks
	maxStacks    = 1 << 13
	maxDepth     = 127 // kernel.perf_event_max_stack, unless it was changed
)

// A Result holds the profile and its losses.
type Result struct {
	Profile *pprof.Profile // waits/count and off_cpu/nanoseconds
	Lost    uint64         // waits that found no room
	Unknown uint64         // waits whose stack found no room: they count, without functions
}

// A Profiler adds up waits until it is stopped.
type Profiler struct {
	root      int
	symbols   *symbol.Cache
	maps      maps
	programs  []*ebpf.Program
	links     []link.Link
	processes map[int]*stack.Process // as they were at the start
	began     time.Time
}

// Start begins to watch the processes below root, now and later, but not root
// itself. Where that is not possible the error is a *profile.Unavailable.
// Symbols may be nil.
func Start(root int, symbols *symbol.Cache) (*Profiler, error) {
	p := &Profiler{root: root, symbols: symbols, processes: map[int]*stack.Process{}}
	if err := p.start(); err != nil {
		return nil, errors.Join(unavailable(err), p.release())
	}
	return p, nil
}

func unavailable(err error) error {
	u := &profile.Unavailable{Profile: "off-CPU", Reason: texts.Together(texts.Reasons(err)...), Err: err}
	switch {
	case errors.Is(err, os.ErrPermission):
		u.Remedy = texts.New("help.offcpu")
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
	formats := map[string]format{}
	for event, fields := range map[string][]string{
		"sched_switch":       {"prev_state", "next_pid"},
		"sched_process_fork": {"child_pid"},
		"sched_process_free": {"pid"},
	} {
		f, err := readFormat(event, fields...)
		if err != nil {
			return err
		}
		formats[event] = f
	}
	_ = rlimit.RemoveMemlock() // needed before Linux 5.11 only; if it fails there, so does the next step
	if err := p.maps.open(); err != nil {
		return err
	}
	// Forks are followed before processes are searched, so that none is missed. Waits
	// come last.
	if err := p.attach("sched_process_fork", p.maps.onFork(formats["sched_process_fork"])); err != nil {
		return err
	}
	if err := p.attach("sched_process_free", p.maps.onFree(formats["sched_process_free"])); err != nil {
		return err
	}
	if err := p.enlist(); err != nil {
		return err
	}
	p.began = time.Now()
	return p.attach("sched_switch", p.maps.onSwitch(formats["sched_switch"]))
}

// enlist puts the root, and all processes below it, on the list. A child that was forked
// before its parent was on the list is found by another look.
func (p *Profiler) enlist() error {
	if err := p.maps.processes.Put(uint32(p.root), uint32(followed)); err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	for fresh := true; fresh; {
		fresh = false
		for _, pid := range stack.Below(p.root) {
			if p.processes[pid] != nil {
				continue
			}
			if err := p.maps.processes.Put(uint32(pid), uint32(watched)); err != nil {
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

// attach loads a program and lets it run at a tracepoint of the scheduler.
func (p *Profiler) attach(event string, spec *ebpf.ProgramSpec) error {
	program, err := ebpf.NewProgram(spec)
	if err != nil {
		return fmt.Errorf("%s: %w", event, err)
	}
	p.programs = append(p.programs, program)
	l, err := link.Tracepoint("sched", event, program, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", event, err)
	}
	p.links = append(p.links, l)
	return nil
}

// release closes everything held in the kernel.
func (p *Profiler) release() error {
	err := p.detach()
	for _, program := range p.programs {
		err = errors.Join(err, program.Close())
	}
	p.programs = nil
	return errors.Join(err, p.maps.close())
}

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
	totals := map[place]total{}
	var k place
	var t total
	entries := p.maps.totals.Iterate()
	for entries.Next(&k, &t) {
		totals[k] = t
	}
	if err := entries.Err(); err != nil {
		return nil, fmt.Errorf("read totals: %w", err)
	}
	var tid uint32
	var w wait
	entries = p.maps.blocked.Iterate()
	for entries.Next(&tid, &w) {
		if now > w.Since {
			t := totals[w.Place]
			totals[w.Place] = total{t.Nanoseconds + now - w.Since, t.Waits + 1}
		}
	}
	if err := entries.Err(); err != nil {
		return nil, fmt.Errorf("read threads that wait: %w", err)
	}
	r := &Result{}
	var lost uint64
	if err := p.maps.lost.Lookup(uint32(0), &lost); err != nil {
		return nil, fmt.Errorf("read what was lost: %w", err)
	}
	r.Lost = lost
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
		kernel, user := p.maps.stack(k.Kernel), p.maps.stack(k.User)
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

// A format tells where a tracepoint's fields are.
type format map[string]field

type field struct{ offset, size int }

// readFormat reads the description of one of the scheduler's tracepoints.
func readFormat(event string, fields ...string) (format, error) {
	text, err := os.ReadFile("/sys/kernel/tracing/events/sched/" + event + "/format")
	if errors.Is(err, os.ErrNotExist) { // before Linux 4.1, or mounted as it was then
		text, err = os.ReadFile("/sys/kernel/debug/tracing/events/sched/" + event + "/format")
	}
	if err != nil {
		return nil, err
	}
	f := parseFormat(text)
	for _, name := range fields {
		if at, ok := f[name]; !ok || at.size != 4 && at.size != 8 {
			return nil, fmt.Errorf("tracepoint %s has no field %s of 4 or 8 bytes", event, name)
		}
	}
	return f, nil
}

// parseFormat reads lines such as "field:pid_t next_pid;	offset:56;	size:4;	signed:1;".
func parseFormat(text []byte) format {
	f := format{}
	for line := range bytes.Lines(text) {
		parts := strings.Split(strings.TrimSpace(string(line)), ";")
		declared, ok := strings.CutPrefix(parts[0], "field:")
		if !ok || len(parts) < 3 {
			continue
		}
		name := declared[strings.LastIndexByte(declared, ' ')+1:]
		offset, err1 := strconv.Atoi(strings.TrimPrefix(strings.TrimSpace(parts[1]), "offset:"))
		size, err2 := strconv.Atoi(strings.TrimPrefix(strings.TrimSpace(parts[2]), "size:"))
		if err1 == nil && err2 == nil && offset >= 0 && offset < 1<<12 && size > 0 {
			f[name] = field{offset, size}
		}
	}
	return f
}

// addresses returns the stack in a value of the map of stacks.
func addresses(b []byte) []uint64 {
	var s []uint64
	for ; len(b) >= 8; b = b[8:] {
		a := binary.NativeEndian.Uint64(b)
		if a == 0 {
			break
		}
		s = append(s, a)
	}
	return s
}
