package kubernetes

import (
	"os/exec"
	"syscall"
)

// separate gives a command a process group of its own, and has the kernel end it with the thread that starts it.
func separate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
