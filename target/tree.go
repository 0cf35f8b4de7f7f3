package target

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// A process as /proc/PID/stat shows it.
type process struct {
	pid, parent, group, session int
	state                       byte   // R, S, D, Z …
	start                       uint64 // clock ticks after boot; with pid, unique
}

// processes returns every process of the machine. One that vanishes while its
// entry is read is left out.
func processes() ([]process, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	names, err := d.Readdirnames(-1)
	_ = d.Close() // nothing was written
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var all []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := readProcess(pid); err == nil {
			all = append(all, p)
		}
	}
	return all, nil
}

func readProcess(pid int) (process, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, err
	}
	return parseProcess(b)
}

// parseProcess reads the text of /proc/PID/stat (proc_pid_stat(5)). The name in
// parentheses may itself hold spaces and parentheses: the last one ends it.
func parseProcess(b []byte) (p process, err error) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || end < open {
		return p, errors.New("stat: no name in parentheses")
	}
	if p.pid, err = strconv.Atoi(string(bytes.TrimSpace(b[:open]))); err != nil {
		return p, fmt.Errorf("stat: pid: %w", err)
	}
	f := bytes.Fields(b[end+1:])
	const startField = 19 // field 22 of the page, counted from state
	if len(f) <= startField || len(f[0]) != 1 {
		return p, fmt.Errorf("stat: %d fields after the name; want at least %d", len(f), startField+1)
	}
	p.state = f[0][0]
	for i, to := range []*int{&p.parent, &p.group, &p.session} {
		if *to, err = strconv.Atoi(string(f[i+1])); err != nil {
			return p, fmt.Errorf("stat: field %d: %w", i+4, err)
		}
	}
	if p.start, err = strconv.ParseUint(string(f[startField]), 10, 64); err != nil {
		return p, fmt.Errorf("stat: start time: %w", err)
	}
	return p, nil
}

// below returns the descendants of root among all, parents before children.
func below(all []process, root int) []process {
	children := make(map[int][]process)
	for _, p := range all {
		if p.pid != root { // a golden text may be its own parent; no real one is
			children[p.parent] = append(children[p.parent], p)
		}
	}
	found := children[root]
	seen := map[int]bool{root: true}
	for i := 0; i < len(found); i++ {
		if pid := found[i].pid; !seen[pid] {
			seen[pid] = true
			found = append(found, children[pid]...)
		}
	}
	return found
}

// kill sends SIGKILL to the process that p describes, never to a later one with
// the same number: the number is pinned by a pidfd before it is checked.
func kill(p process) error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if errors.Is(err, unix.ENOSYS) { // before Linux 5.3
		if now, err := readProcess(p.pid); err != nil || now.start != p.start {
			return nil
		}
		return unix.Kill(p.pid, unix.SIGKILL)
	}
	if err != nil {
		return gone(err)
	}
	defer unix.Close(fd)
	if now, err := readProcess(p.pid); err != nil || now.start != p.start {
		return nil
	}
	return gone(unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0))
}

// gone turns "no such process" into success.
func gone(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}
