// Package errno asks errors of the system for their number, under the names that Unix has.
package errno

import (
	"errors"
	"syscall"

	"golang.org/x/sys/windows"
)

// Is reports whether an error is, or wraps, one with this number. Windows has numbers of its own.
func Is(err error, number syscall.Errno) bool {
	for _, n := range append(own[number], number) {
		if errors.Is(err, n) {
			return true
		}
	}
	return false
}

// own has Windows' numbers for errors that also have one in Unix.
var own = map[syscall.Errno][]syscall.Errno{
	syscall.EADDRINUSE:   {windows.WSAEADDRINUSE},
	syscall.ECONNREFUSED: {windows.WSAECONNREFUSED},
	syscall.ECONNRESET:   {windows.WSAECONNRESET, windows.WSAECONNABORTED},
	syscall.ENOSPC:       {windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL},
	syscall.EPIPE:        {windows.ERROR_BROKEN_PIPE, windows.ERROR_NO_DATA},
}
