package scrape

import (
	"os/exec"
	"syscall"
)

// grouped gives a command a process group of its own, and returns what kills that.
func grouped(cmd *exec.Cmd) (kill func() error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
