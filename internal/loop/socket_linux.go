package loop

import (
	"net"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Recv reads the available bytes without waiting. b must not be empty. (0, 0) is the end
// of the stream. EAGAIN means that nothing is available yet.
func Recv(fd int, b []byte) (int, unix.Errno) {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd),
			uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_DONTWAIT, 0, 0)
		if errno == 0 {
			return int(n), 0
		}
		if errno != unix.EINTR {
			return 0, errno
		}
	}
}

// Send writes as many bytes as fit without waiting. b must not be empty. EAGAIN means
// that nothing fits. If the peer is gone, Send returns EPIPE and raises no signal.
func Send(fd int, b []byte) (int, unix.Errno) {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd),
			uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		if errno == 0 {
			return int(n), 0
		}
		if errno != unix.EINTR {
			return 0, errno
		}
	}
}

// Shutdown ends the sending direction.
func Shutdown(fd int) { _ = unix.Shutdown(fd, unix.SHUT_WR) }

// Close closes fd in order: the kernel still delivers what was written.
func Close(fd int) { _ = unix.Close(fd) }

// Reset closes fd with a reset for a TCP peer, which could take a plain end for a complete stream. Unix
// sockets have no reset and are closed.
func Reset(fd int) {
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	_ = unix.Close(fd)
}

// SocketError takes a socket's pending error, such as a failed connect's.
func SocketError(fd int) unix.Errno {
	v, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return unix.EINVAL
	}
	return unix.Errno(v)
}

// Addrs returns both addresses of a connected socket. An address that cannot be found is
// nil.
func Addrs(fd int) (local, peer net.Addr) {
	if sa, err := unix.Getsockname(fd); err == nil {
		local = netAddr(sa)
	}
	if sa, err := unix.Getpeername(fd); err == nil {
		peer = netAddr(sa)
	}
	return local, peer
}

func netAddr(sa unix.Sockaddr) net.Addr {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return &net.TCPAddr{IP: sa.Addr[:], Port: sa.Port}
	case *unix.SockaddrInet6:
		return &net.TCPAddr{IP: sa.Addr[:], Port: sa.Port}
	case *unix.SockaddrUnix:
		return &net.UnixAddr{Name: sa.Name, Net: "unix"}
	}
	return nil
}
