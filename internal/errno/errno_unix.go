//go:build unix

// Package errno asks errors of the system for their number, under the names that Unix has.
package errno

import (
	"errors"
	"syscall"
)

// Is reports whether an error is, or wraps, one with this number.
func Is(err error, number syscall.Errno) bool { return errors.Is(err, number) }
