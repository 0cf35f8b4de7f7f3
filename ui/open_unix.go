//go:build unix

package ui

import (
	"os"
	"syscall"
)

// readOnly opens a file that another user may have put there: it does not wait for the writer of a pipe, and follows no
// link.
const readOnly = os.O_RDONLY | syscall.O_NONBLOCK | syscall.O_NOFOLLOW
