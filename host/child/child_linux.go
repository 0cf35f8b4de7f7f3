package child

import (
	"os/exec"
	"syscall"
)

// program is not the path that the program was started by: a rebuilt binary may have replaced that file.
func program() string { return "/proc/self/exe" }

// SetUser gives a command that was not started yet the rights of a user; nil changes nothing.
func SetUser(cmd *exec.Cmd, u *User) {
	if u != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: u.ID, Gid: u.Group, Groups: u.Groups}}
	}
}
