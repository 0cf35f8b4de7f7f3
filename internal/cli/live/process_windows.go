package live

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/windows"
)

// feedVariable has the handle that a run which dyno ui has started writes to.
const feedVariable = "DYNO_FEED"

// bequeath gives a command its end of a feed. The run has a process group of its own, so that it can be interrupted
// alone.
func bequeath(cmd *exec.Cmd, feed *os.File) error {
	handle := feed.Fd()
	if err := windows.SetHandleInformation(windows.Handle(handle), windows.HANDLE_FLAG_INHERIT, windows.HANDLE_FLAG_INHERIT); err != nil {
		return fmt.Errorf("pass the feed on: %w", err)
	}
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", feedVariable, handle))
	cmd.SysProcAttr = &syscall.SysProcAttr{AdditionalInheritedHandles: []syscall.Handle{syscall.Handle(handle)}, CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
	return nil
}

// inheritedFeed returns the end of the feed that this process was given.
func inheritedFeed() *os.File {
	handle, err := strconv.ParseUint(os.Getenv(feedVariable), 10, 64)
	if err != nil {
		handle = uint64(windows.InvalidHandle)
	}
	return os.NewFile(uintptr(handle), "feed")
}

// interrupt asks a run to end, as Ctrl-Break in a console does.
func interrupt(p *os.Process) error {
	return windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(p.Pid)) //nolint:gosec // a process's number
}
