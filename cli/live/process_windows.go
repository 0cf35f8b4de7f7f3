package live

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/windows"
)

// feedVariable has the handle that a run which dyno ui has started writes to.
const feedVariable = "DYNO_FEED"

// bequeath gives a command its end of a feed, and returns what interrupts it. Windows has no signals between processes
// without a console: the run ends when its standard input does, and by force when it is interrupted again.
func bequeath(cmd *exec.Cmd, feed *os.File) (interrupt func() error, err error) {
	handle := feed.Fd()
	if err := windows.SetHandleInformation(windows.Handle(handle), windows.HANDLE_FLAG_INHERIT, windows.HANDLE_FLAG_INHERIT); err != nil {
		return nil, fmt.Errorf("pass the feed on: %w", err)
	}
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", feedVariable, handle))
	cmd.SysProcAttr = &syscall.SysProcAttr{AdditionalInheritedHandles: []syscall.Handle{syscall.Handle(handle)}, CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
	input, err := cmd.StdinPipe()
	var again atomic.Bool
	return func() error {
		if again.Swap(true) {
			return cmd.Process.Kill()
		}
		return input.Close()
	}, err
}

// inheritedFeed returns the end of the feed that this process was given.
func inheritedFeed() *os.File {
	handle, err := strconv.ParseUint(os.Getenv(feedVariable), 10, 64)
	if err != nil {
		handle = uint64(windows.InvalidHandle)
	}
	return os.NewFile(uintptr(handle), "feed")
}

// OnInterrupt calls a function when dyno ui, which has started this process, ends it.
func OnInterrupt(f func()) {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // with or without an error: dyno ui no longer holds the other end
		f()
	}()
}
