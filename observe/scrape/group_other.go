//go:build !linux

package scrape

import "os/exec"

func grouped(cmd *exec.Cmd) (kill func() error) { return func() error { return cmd.Process.Kill() } }
