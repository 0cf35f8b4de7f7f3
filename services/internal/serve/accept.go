package serve

import (
	"errors"
	"net"
	"syscall"
)

// Scarce reports whether accepting or connecting failed because descriptors or memory
// have run out. Others give these back in time.
func Scarce(err error) bool {
	return isOne(err, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM)
}

// Passing reports whether accepting failed only for a while: because something has run
// out (Scarce), or because a filter of system calls or a security module forbids it
// (EPERM). The connection then stays in the queue. A caller that accepted again at once
// would do nothing else, so it pauses.
func Passing(err error) bool { return Scarce(err) || isOne(err, syscall.EPERM) }

// OfConnection reports whether accepting failed because the next connection in the queue
// had already failed. The listener still works, and the caller accepts again (accept(2),
// "Error handling").
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

// patient is a listener for callers that give up at the first error.
type patient struct{ net.Listener }

// Patient returns a listener whose Accept continues after the failure of a single
// connection. If an error is Passing, it marks the error as temporary; http.Server then
// waits and tries again.
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

// passing is a temporary error.
type passing struct{ error }

func (passing) Timeout() bool   { return false }
func (passing) Temporary() bool { return true }
func (p passing) Unwrap() error { return p.error }
