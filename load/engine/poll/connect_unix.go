//go:build unix

package poll

import "golang.org/x/sys/unix"

// ConnectResult returns how the connecting of a socket ended: nil if well.
func ConnectResult(fd int32) error {
	errno, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && errno != 0 {
		err = unix.Errno(errno)
	}
	return err
}
