package oracle

import (
	"encoding/binary"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These never block. So they bypass the Go scheduler's entry and exit, which would cost as much as the
// calls themselves.

// poll returns the events that are ready now.
func poll(epoll int, events []unix.EpollEvent) (int, error) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll),
		uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), 0, 0, 0)
	if errno == unix.EINTR {
		return 0, nil
	}
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// read reads from a non-blocking descriptor.
func read(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return int(n), errno
}

// write writes to a non-blocking descriptor.
func write(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return int(n), errno
}

// nativeUint64 reads a number as this machine writes it.
func nativeUint64(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }

// bigEndian returns a number in the byte order of the network.
func bigEndian(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return binary.NativeEndian.Uint16(b[:])
}
