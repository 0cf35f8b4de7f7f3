package target

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"dyno/host/cgroup"
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

// killGroups kills all processes in the groups, and in groups that the target has made below them. Then
// it removes the groups. It does this for a supervisor that was killed itself.
func killGroups(folders []string) error {
	for range 100 { // the next pass finds what forks during this one
		left := false
		for _, f := range folders {
			cgroup.Kill(f)
			for _, pid := range cgroup.PIDs(f) {
				if p, err := proc.Read(pid); err == nil && p.State != 'Z' {
					left = true
					_ = kill(p)
				}
			}
		}
		if !left {
			break
		}
		time.Sleep(firstRetry)
	}
	return cgroup.Remove(folders)
}
