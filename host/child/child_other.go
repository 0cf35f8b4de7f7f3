//go:build !linux

package child

import (
	"os"
	"os/exec"
)

func program() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// SetUser changes nothing: agents, which alone name a user, run on Linux only.
func SetUser(*exec.Cmd, *User) {}

// bound sets no limits: see Ask.
func bound(int, Limits) error { return nil }
