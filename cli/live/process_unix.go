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

// bequeath gives a command its end of a feed, and returns what interrupts it as a terminal does. The run has a process
// group of its own: a signal from the terminal is for the pages, which end the run themselves.
func bequeath(cmd *exec.Cmd, feed *os.File) (interrupt func() error, err error) {
	cmd.ExtraFiles = []*os.File{feed}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return func() error { return cmd.Process.Signal(os.Interrupt) }, nil
}

// inheritedFeed returns the end of the feed that this process was given.
func inheritedFeed() *os.File {
	syscall.CloseOnExec(feedDescriptor) // commands that the run starts would keep it open
	return os.NewFile(feedDescriptor, "feed")
}

// OnInterrupt has nothing to do: dyno ui sends a signal.
func OnInterrupt(func()) {}
