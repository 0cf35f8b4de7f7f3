package kubernetes

import (
	"os/exec"
	"syscall"
)

// separate gives a command a process group of its own. If dyno is killed, kubectl ends with the pod.
func separate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
