package target

import (
	"errors"

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
