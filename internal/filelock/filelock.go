// Package filelock locks open files against other processes. A lock ends with [Release], when the file is closed, and
// with the process.
package filelock

import "errors"

// ErrLocked says that another process has the lock.
var ErrLocked = errors.New("the file is locked")
