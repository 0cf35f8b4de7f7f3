// Package proc reads processes from /proc: the list of processes, the descendants of one, and threads.
// The processes may have changed by the time it returns.
package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
)

// A Process is the contents of /proc/PID/stat (proc_pid_stat(5)), or for a thread of
// /proc/PID/task/TID/stat.
type Process struct {
	PID, Parent, Group, Session int
	State                       byte   // R, S, D, Z …
	Flags                       uint64 // PF_… of the kernel's include/linux/sched.h
	Start                       uint64 // clock ticks after boot; unique together with PID
}

// exiting is PF_EXITING. The kernel sets it before the tracepoint of the exit.
const exiting = 0x4

// Exiting reports whether the process has begun to exit.
func (p Process) Exiting() bool { return p.Flags&exiting != 0 }

// PIDs returns the number of every process of the machine.
func PIDs() ([]int, error) {
	pids, err := numbers("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	return pids, nil
}

// All returns every process of the machine. It leaves out a process that vanishes while
// it is read.
func All() ([]Process, error) {
	pids, err := PIDs()
	if err != nil {
		return nil, err
	}
	all := make([]Process, 0, len(pids))
	for _, pid := range pids {
		if p, err := Read(pid); err == nil {
			all = append(all, p)
		}
	}
	return all, nil
}

// Read returns one process.
func Read(pid int) (Process, error) { return read("/proc/" + strconv.Itoa(pid) + "/stat") }

// ReadThread returns one thread of a process, with the thread's own parent, flags and
// state.
func ReadThread(pid, tid int) (Process, error) {
	return read("/proc/" + strconv.Itoa(pid) + "/task/" + strconv.Itoa(tid) + "/stat")
}

// Threads returns the threads of a process.
func Threads(pid int) ([]int, error) {
	tids, err := numbers("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		return nil, fmt.Errorf("list threads: %w", err)
	}
	return tids, nil
}

// Below returns the descendants of root among all, parents before children.
func Below(all []Process, root int) []Process {
	children := make(map[int][]Process)
	for _, p := range all {
		if p.PID != root { // an invalid text may name itself as its own parent; no real process does
			children[p.Parent] = append(children[p.Parent], p)
		}
	}
	found := children[root]
	seen := map[int]bool{root: true}
	for i := 0; i < len(found); i++ {
		if pid := found[i].PID; !seen[pid] {
			seen[pid] = true
			found = append(found, children[pid]...)
		}
	}
	return found
}

func read(file string) (Process, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return Process{}, err
	}
	return Parse(b)
}

// Parse reads the text of a stat file. The name in parentheses may itself contain spaces
// and parentheses, so the name ends at the last closing parenthesis.
func Parse(b []byte) (p Process, err error) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || end < open {
		return p, errors.New("stat: no name in parentheses")
	}
	if p.PID, err = strconv.Atoi(string(bytes.TrimSpace(b[:open]))); err != nil {
		return p, fmt.Errorf("stat: pid: %w", err)
	}
	f := bytes.Fields(b[end+1:])
	const flagsField, startField = 6, 19 // fields 9 and 22 of the page, counted from state
	if len(f) <= startField || len(f[0]) != 1 {
		return p, fmt.Errorf("stat: %d fields after the name; want at least %d", len(f), startField+1)
	}
	p.State = f[0][0]
	for i, to := range []*int{&p.Parent, &p.Group, &p.Session} {
		if *to, err = strconv.Atoi(string(f[i+1])); err != nil {
			return p, fmt.Errorf("stat: field %d: %w", i+4, err)
		}
	}
	if p.Flags, err = strconv.ParseUint(string(f[flagsField]), 10, 64); err != nil {
		return p, fmt.Errorf("stat: flags: %w", err)
	}
	if p.Start, err = strconv.ParseUint(string(f[startField]), 10, 64); err != nil {
		return p, fmt.Errorf("stat: start time: %w", err)
	}
	return p, nil
}

// numbers returns the entries of a folder that are numbers.
func numbers(dir string) (found []int, err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	names, err := d.Readdirnames(-1)
	_ = d.Close() // nothing was written
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			found = append(found, n)
		}
	}
	return found, err
}
