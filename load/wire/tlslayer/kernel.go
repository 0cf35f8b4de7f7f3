package tlslayer

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// KernelTLS tells whether the kernel can do TLS's record layer (kTLS), and if not, why.
// It opens a socket, which it does not connect, and closes it. As root it may make the
// kernel load its module. This package does not use it; see the package's comment.
func KernelTLS() (available bool, reason string) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return false, fmt.Sprintf("no socket to ask with: %v", err)
	}
	defer unix.Close(fd)
	return kernelTLS(unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_ULP, "tls"))
}

// kernelTLS tells what the kernel's answer to a request for TLS on a socket without a
// connection means.
func kernelTLS(err error) (available bool, reason string) {
	switch {
	case err == nil || errors.Is(err, unix.ENOTCONN):
		return true, "" // it knows TLS, which begins on a connection only
	case errors.Is(err, unix.ENOENT):
		return false, "the kernel has no tls module, or has not loaded it (modprobe tls)"
	case errors.Is(err, unix.ENOPROTOOPT):
		return false, "the kernel is older than 4.13, which brought TLS"
	default:
		return false, fmt.Sprintf("the kernel refuses it: %v", err)
	}
}
