package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// Lock waits until no other process has the file locked, and locks it.
func Lock(f *os.File) error { return lock(f, windows.LOCKFILE_EXCLUSIVE_LOCK) }

// TryLock locks the file, or fails with ErrLocked.
func TryLock(f *os.File) error {
	return lock(f, windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY)
}

// TryShare locks the file such that others can do so by TryShare, too, or fails with ErrLocked.
func TryShare(f *os.File) error { return lock(f, windows.LOCKFILE_FAIL_IMMEDIATELY) }

// Release ends the lock.
func Release(f *os.File) error {
	return os.NewSyscallError("UnlockFileEx", windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, position()))
}

// position is the byte that is locked. It is far beyond the end of any file. Others cannot read locked
// bytes, and readers of a live file must.
func position() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: 1 << 30} }

func lock(f *os.File, flags uint32) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, position())
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return ErrLocked
	}
	return os.NewSyscallError("LockFileEx", err)
}
