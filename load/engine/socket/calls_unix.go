//go:build unix

package socket

import "syscall"

func connect(fd int, to syscall.Sockaddr) error { return syscall.Connect(fd, to) }

func setOption(fd, level, name, value int) error {
	return syscall.SetsockoptInt(fd, level, name, value)
}

func closeSocket(fd int) { _ = syscall.Close(fd) } // nothing is left to be written
