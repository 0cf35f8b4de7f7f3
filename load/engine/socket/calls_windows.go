package socket

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"

	"dyno/load/engine/poll"
)

var procIoctlsocket = windows.NewLazySystemDLL("ws2_32.dll").NewProc("ioctlsocket")

// nonBlocking is FIONBIO.
const nonBlocking = 0x8004667e

// open returns a socket that does not block.
func open(family int) (int, error) {
	handle, err := windows.WSASocket(int32(family), windows.SOCK_STREAM, 0, nil, 0, //nolint:gosec // a small number
		windows.WSA_FLAG_OVERLAPPED|windows.WSA_FLAG_NO_HANDLE_INHERIT)
	if err != nil {
		return -1, poll.Common(err)
	}
	on := uint32(1)
	if n, _, errno := syscall.SyscallN(procIoctlsocket.Addr(), uintptr(handle), nonBlocking, uintptr(unsafe.Pointer(&on))); n != 0 {
		closeSocket(int(handle))
		return -1, poll.Common(errno)
	}
	return int(handle), nil
}

// connect returns EINPROGRESS as other systems do, for what Windows calls WSAEWOULDBLOCK.
func connect(fd int, to syscall.Sockaddr) error {
	err := poll.Common(syscall.Connect(syscall.Handle(fd), to))
	if err == syscall.EAGAIN { //nolint:errorlint // Common returns it as it is
		return syscall.EINPROGRESS
	}
	return err
}

func setOption(fd, level, name, value int) error {
	return poll.Common(syscall.SetsockoptInt(syscall.Handle(fd), level, name, value))
}

func closeSocket(fd int) { _ = windows.Closesocket(windows.Handle(fd)) } // nothing is left to be written
