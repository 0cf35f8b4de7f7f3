//go:build unix

package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Lock waits until no other process has the file locked, and locks it.
func Lock(f *os.File) error { return flock(f, unix.LOCK_EX) }

// TryLock locks the file, or fails with ErrLocked.
func TryLock(f *os.File) error { return flock(f, unix.LOCK_EX|unix.LOCK_NB) }

// TryShare locks the file such that others can do so by TryShare, too, or fails with ErrLocked.
func TryShare(f *os.File) error { return flock(f, unix.LOCK_SH|unix.LOCK_NB) }

// Release ends the lock.
func Release(f *os.File) error { return flock(f, unix.LOCK_UN) }

func flock(f *os.File, how int) error {
	err := unix.Flock(int(f.Fd()), how) //nolint:gosec // a descriptor is small
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return os.NewSyscallError("flock", err)
}
