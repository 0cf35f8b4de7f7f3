// Package pipes connects clients with a server by pipes in memory, for tests in synctest bubbles:
// these wait for a pipe, and not for a socket. A pipe has no buffer, so bytes that one side does
// not read are not written by the other. A Wire connects them by sockets, and can be cut.
package pipes

import (
	"net"
	"sync"
)

// A Listener accepts the other ends of the pipes that Dial returns.
type Listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// Listen returns a listener. In a bubble, it must be made there.
func Listen() *Listener {
	return &Listener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial waits until Accept takes the connection, or the listener is closed.
func (l *Listener) Dial() (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *Listener) Close() error { l.once.Do(func() { close(l.closed) }); return nil }

// Addr implements net.Listener. It is an unused address of this machine.
func (l *Listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
