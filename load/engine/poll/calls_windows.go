package poll

import (
	"errors"
	"math"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// A descriptor is WSAPOLLFD.
type descriptor struct {
	Fd              handle
	Events, Revents int16
}

type handle = uintptr

// Events of a socket: see winsock2.h.
const (
	In      = 0x300 // POLLRDNORM and POLLRDBAND
	Out     = 0x10  // POLLWRNORM
	HangUp  = 0x2
	Failure = 0x1
)

// late is by how much a wait may be late, when the system's timer has ticks of a millisecond:
// see thread.Place.
const late = time.Millisecond

var (
	winsock  = windows.NewLazySystemDLL("ws2_32.dll")
	procPoll = winsock.NewProc("WSAPoll")
	procRecv = winsock.NewProc("recv")
	procSend = winsock.NewProc("send")
)

// newWake returns a socket that sends to itself: Windows polls nothing but sockets.
func newWake() (wakeable, wake int32, err error) {
	// The package net does so too, when it is first used. Each call counts for itself.
	if err := windows.WSAStartup(0x202, new(windows.WSAData)); err != nil {
		return 0, 0, err
	}
	s, err := windows.WSASocket(windows.AF_INET, windows.SOCK_DGRAM, 0, nil, 0, windows.WSA_FLAG_OVERLAPPED|windows.WSA_FLAG_NO_HANDLE_INHERIT)
	if err != nil {
		return 0, 0, Common(err)
	}
	var self windows.Sockaddr = &windows.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	if err = windows.Bind(s, self); err == nil {
		self, err = windows.Getsockname(s)
	}
	if err == nil {
		err = windows.Connect(s, self)
	}
	if err != nil {
		_ = windows.Closesocket(s) // the error says more
		return 0, 0, Common(err)
	}
	return int32(s), int32(s), nil //nolint:gosec // handles are small
}

func closeWake(s, _ int32) { _ = windows.Closesocket(windows.Handle(s)) } // nothing was kept in it

// await returns how many descriptors have events.
func await(fds []descriptor, ms time.Duration) int {
	n, _, _ := syscall.SyscallN(procPoll.Addr(), uintptr(unsafe.Pointer(unsafe.SliceData(fds))), uintptr(len(fds)), uintptr(min(ms, math.MaxInt32)))
	return int(int32(n)) //nolint:gosec // an int of C
}

// Read reads what has arrived on a socket.
func Read(fd int32, p []byte) (int, syscall.Errno) { return transfer(procRecv, fd, p) }

// Write writes as much as the socket takes at once.
func Write(fd int32, p []byte) (int, syscall.Errno) { return transfer(procSend, fd, p) }

func transfer(proc *windows.LazyProc, fd int32, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.SyscallN(proc.Addr(), uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), 0)
	if int32(n) < 0 { //nolint:gosec // an int of C
		return -1, common(errno)
	}
	return int(n), 0 //nolint:gosec // not more than there are bytes
}

// ConnectResult returns how the connecting of a socket ended: nil if well.
func ConnectResult(fd int32) error {
	errno, err := windows.GetsockoptInt(windows.Handle(fd), windows.SOL_SOCKET, soError)
	if err == nil && errno != 0 {
		err = syscall.Errno(errno)
	}
	return Common(err)
}

const soError = 0x1007 // SO_ERROR

// Common returns an error of Windows' sockets by the name that other systems use, if they have it.
func Common(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return common(errno)
	}
	return err
}

func common(errno syscall.Errno) syscall.Errno {
	if found := commonErrnos[errno]; found != 0 {
		return found
	}
	return errno
}

// commonErrnos has the errors that sockets return.
var commonErrnos = map[syscall.Errno]syscall.Errno{
	windows.WSAEINTR:         syscall.EINTR,
	windows.WSAEACCES:        syscall.EACCES,
	windows.WSAEINVAL:        syscall.EINVAL,
	windows.WSAEMFILE:        syscall.EMFILE,
	windows.WSAEWOULDBLOCK:   syscall.EAGAIN,
	windows.WSAEAFNOSUPPORT:  syscall.EAFNOSUPPORT,
	windows.WSAEADDRINUSE:    syscall.EADDRINUSE,
	windows.WSAEADDRNOTAVAIL: syscall.EADDRNOTAVAIL,
	windows.WSAENETDOWN:      syscall.ENETDOWN,
	windows.WSAENETUNREACH:   syscall.ENETUNREACH,
	windows.WSAENETRESET:     syscall.ENETRESET,
	windows.WSAECONNABORTED:  syscall.ECONNABORTED,
	windows.WSAECONNRESET:    syscall.ECONNRESET,
	windows.WSAENOBUFS:       syscall.ENOBUFS,
	windows.WSAENOTCONN:      syscall.ENOTCONN,
	windows.WSAESHUTDOWN:     syscall.EPIPE,
	windows.WSAETIMEDOUT:     syscall.ETIMEDOUT,
	windows.WSAECONNREFUSED:  syscall.ECONNREFUSED,
	windows.WSAEHOSTUNREACH:  syscall.EHOSTUNREACH,
}
