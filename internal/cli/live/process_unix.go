//go:build unix

package live

import (
	"os"
	"os/exec"
	"syscall"
)

// feedDescriptor is where a run that dyno ui has started writes. It is the first descriptor that os/exec
// passes on.
const feedDescriptor = 3

// bequeath gives a command its end of a feed. The run has a process group of its own: a signal from the
// terminal is for the pages, which end the run themselves.
func bequeath(cmd *exec.Cmd, feed *os.File) error {
	cmd.ExtraFiles = []*os.File{feed}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return nil
}

// inheritedFeed returns the end of the feed that this process was given.
func inheritedFeed() *os.File {
	syscall.CloseOnExec(feedDescriptor) // commands that the run starts would keep it open
	return os.NewFile(feedDescriptor, "feed")
}

// interrupt asks a run to end, as Ctrl-C in a terminal does.
func interrupt(p *os.Process) error { return p.Signal(os.Interrupt) }
