//go:build unix && !linux

package socket

import "syscall"

// open returns a socket that does not block.
func open(family int) (int, error) {
	syscall.ForkLock.RLock() // a program that is started now is not to inherit it
	defer syscall.ForkLock.RUnlock()
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM, 0)
	if err != nil {
		return -1, err
	}
	syscall.CloseOnExec(fd)
	if err := syscall.SetNonblock(fd, true); err != nil {
		closeSocket(fd)
		return -1, err
	}
	return fd, nil
}
