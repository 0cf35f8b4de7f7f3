package serve

import (
	"errors"
	"net"
	"syscall"
)

// Scarce tells whether accepting or connecting failed for want of what others give back
// in time: descriptors or memory.
func Scarce(err error) bool {
	return isOne(err, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM)
}

// Passing tells whether accepting failed for a while: for want of something (Scarce), or
// because a filter of system calls or a security module forbids it (EPERM). That leaves the
// connection in the queue, so that whoever accepts again at once does nothing else: the
// caller pauses.
func Passing(err error) bool { return Scarce(err) || isOne(err, syscall.EPERM) }

// OfConnection tells whether accepting failed because of the connection that was next in the
// queue, which had failed already. The listener is as good as before: the caller accepts
// again (accept(2), "Error handling").
func OfConnection(err error) bool {
	return isOne(err, syscall.EINTR, syscall.ECONNABORTED, syscall.EPROTO, syscall.ENOPROTOOPT, syscall.ENETDOWN,
		syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.EHOSTUNREACH, syscall.ENONET, syscall.ETIMEDOUT)
}

func isOne(err error, list ...syscall.Errno) bool {
	for _, e := range list {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// patient is a listener for those who give up at the first error.
type patient struct{ net.Listener }

// Patient returns a listener whose Accept goes on after the failure of a single connection,
// and says of what is Passing that it will pass, for http.Server, which waits then.
func Patient(l net.Listener) net.Listener { return patient{l} }

func (p patient) Accept() (net.Conn, error) {
	for {
		c, err := p.Listener.Accept()
		switch {
		case err == nil:
			return c, nil
		case OfConnection(err):
			continue
		case Passing(err):
			err = passing{err}
		}
		return nil, err
	}
}

// passing is an error that will pass.
type passing struct{ error }

func (passing) Timeout() bool   { return false }
func (passing) Temporary() bool { return true }
func (p passing) Unwrap() error { return p.error }
