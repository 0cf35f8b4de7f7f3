package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
)

// Bounds of looking for what runs below the root.
const (
	mostWalks = 100 // through /proc, until one finds nothing new
)

// A process as /proc/PID/stat shows it. Of a thread, parent and flags are its own too.
type process struct {
	pid, parent int
	exiting     bool
}

// exitingFlag is PF_EXITING of the kernel's include/linux/sched.h. It is set
// before the tracepoint of the exit.
const exitingFlag = 0x4

// parseStat reads the text of /proc/PID/stat (proc_pid_stat(5)). The name in
// parentheses may itself hold spaces and parentheses: the last one ends it.
func parseStat(b []byte) (p process, err error) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || end < open {
		return p, errors.New("stat: no name in parentheses")
	}
	if p.pid, err = strconv.Atoi(string(bytes.TrimSpace(b[:open]))); err != nil {
		return p, fmt.Errorf("stat: pid: %w", err)
	}
	f := bytes.Fields(b[end+1:])
	const parentField, flagsField = 1, 6 // fields 4 and 9 of the page, counted from state
	if len(f) <= flagsField {
		return p, fmt.Errorf("stat: %d fields after the name; want at least %d", len(f), flagsField+1)
	}
	if p.parent, err = strconv.Atoi(string(f[parentField])); err != nil {
		return p, fmt.Errorf("stat: parent: %w", err)
	}
	flags, err := strconv.ParseUint(string(f[flagsField]), 10, 64)
	if err != nil {
		return p, fmt.Errorf("stat: flags: %w", err)
	}
	p.exiting = flags&exitingFlag != 0
	return p, nil
}

// below returns the processes of all that descend from root or from those already
// known. It is unsettled when a parent is not among all: then a parent has died
// meanwhile, and its children have another by now.
func below(all []process, root int, known map[int]bool) (found []int, settled bool) {
	children, listed := make(map[int][]int), make(map[int]bool)
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p.pid)
		listed[p.pid] = true
	}
	settled = true
	for _, p := range all {
		if p.parent != 0 && !listed[p.parent] && !known[p.parent] {
			settled = false
		}
	}
	seen := map[int]bool{root: true}
	queue := []int{root}
	for pid := range known {
		queue = append(queue, pid)
	}
	for len(queue) > 0 {
		parent := queue[0]
		queue = queue[1:]
		for _, pid := range children[parent] {
			if !seen[pid] {
				seen[pid] = true
				found = append(found, pid)
				queue = append(queue, pid)
			}
		}
	}
	// What was known and has another parent now is still below.
	for pid := range known {
		if listed[pid] && !seen[pid] {
			found = append(found, pid)
		}
	}
	return found, settled
}

// eachThread calls add once for every thread below root, itself not included. It
// looks again until it finds nothing new. So no thread is missed if from add on
// its caller learns of a thread's children in another way.
func eachThread(root int, add func(pid, tid int) error) error {
	if _, err := readStat(strconv.Itoa(root)); err != nil {
		return fmt.Errorf("process %d: %w", root, err)
	}
	known, added := make(map[int]bool), make(map[int]bool)
	for range mostWalks {
		all, err := processes()
		if err != nil {
			return err
		}
		found, settled := below(all, root, known)
		for _, pid := range found {
			known[pid] = true
			for {
				tids, err := numbers("/proc/" + strconv.Itoa(pid) + "/task")
				if err != nil {
					break // it is gone
				}
				fresh := false
				for _, tid := range tids {
					if added[tid] {
						continue
					}
					added[tid], fresh, settled = true, true, false
					if err := add(pid, tid); err != nil {
						return err
					}
				}
				if !fresh {
					break
				}
			}
		}
		if settled {
			return nil
		}
	}
	return fmt.Errorf("processes below %d come and go faster than they can be listed (%d attempts)", root, mostWalks)
}

// processes returns every process of the machine. One that vanishes while it is
// read is left out.
func processes() ([]process, error) {
	pids, err := numbers("/proc")
	if err != nil {
		return nil, err
	}
	all := make([]process, 0, len(pids))
	for _, pid := range pids {
		if p, err := readStat(strconv.Itoa(pid)); err == nil {
			all = append(all, p)
		}
	}
	return all, nil
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

// readStat reads the stat file in a folder of /proc, such as "17" or "17/task/18".
func readStat(folder string) (process, error) {
	b, err := os.ReadFile("/proc/" + folder + "/stat")
	if err != nil {
		return process{}, err
	}
	return parseStat(b)
}

// alive tells whether a thread is still there and has not begun to exit.
func alive(pid, tid int) bool {
	p, err := readStat(strconv.Itoa(pid) + "/task/" + strconv.Itoa(tid))
	return err == nil && !p.exiting
}
