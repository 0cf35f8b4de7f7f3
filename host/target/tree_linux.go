package target

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"dyno/host/proc"
)

// kill sends SIGKILL to the process that p describes, never to a later one with the same
// number: a pidfd pins the process before its start time is checked.
func kill(p proc.Process) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ENOSYS) { // before Linux 5.3
		if now, err := proc.Read(p.PID); err != nil || now.Start != p.Start {
			return nil
		}
		return unix.Kill(p.PID, unix.SIGKILL)
	}
	if err != nil {
		return gone(err)
	}
	defer unix.Close(fd)
	if now, err := proc.Read(p.PID); err != nil || now.Start != p.Start {
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

// killGroups kills all processes in the groups, and in those that the target has made below them,
// and removes the groups. It does this for a supervisor that was killed itself.
func killGroups(folders []string) error {
	for range 100 { // the next pass finds what forks during this one
		left := false
		for _, f := range folders {
			// Version 2 since Linux 5.14 kills all below by itself. Elsewhere there is no such file.
			_ = write(filepath.Join(f, "cgroup.kill"), "1")
			left = killBelow(f) || left
		}
		if !left {
			break
		}
		time.Sleep(firstRetry)
	}
	return removeGroups(folders)
}

// killBelow kills the processes in a group and below it. It reports whether there were any.
func killBelow(folder string) (found bool) {
	pids, _ := words(filepath.Join(folder, "cgroup.procs")) // a group that has gone has none
	for _, s := range pids {
		pid, err := strconv.Atoi(s)
		if err != nil {
			continue
		}
		if p, err := proc.Read(pid); err == nil && p.State != 'Z' {
			found = true
			_ = kill(p)
		}
	}
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if e.IsDir() {
			found = killBelow(filepath.Join(folder, e.Name())) || found
		}
	}
	return found
}
