// Package tcp is request and response over a bare byte stream. It knows the three common ways to find a
// message's end: it is as long as the request, it ends with a line feed, or its length stands before
// it. Messages speaks all of them. An Echo makes up messages of a size that can be distinguished. The
// clients do no I/O; the engine carries the bytes.
//
// Both have a configuration, and a template made from it that clients of one worker share. Each
// connection has one client. A template and its clients are for one goroutine at a time.
package tcp

import "dyno/load/wire"

// An exchange is where a client stands in its connection. It is the common part of the protocols: none
// has a way to announce that a connection ends.
type exchange struct {
	got     int64 // bytes of the response so far
	pending bool  // a response is awaited
	usable  bool  // the last exchange left the connection in order
}

func (e *exchange) begin() { *e = exchange{pending: true} }

// idle answers bytes that arrive while no response is awaited.
func (e *exchange) idle(p []byte) (int, bool, error) {
	if len(p) == 0 {
		return 0, false, nil
	}
	return e.fail(0, ErrUnsolicited)
}

// finish ends a response that is complete after n of size bytes. failure, which
// may be nil, is what was not as expected.
func (e *exchange) finish(n, size int, failure *wire.Error) (int, bool, error) {
	e.pending = false
	e.usable = n == size
	if failure != nil {
		return n, true, failure
	}
	return n, true, nil
}

// fail ends the exchange and, as the place in the stream is lost, the connection.
func (e *exchange) fail(n int, err *wire.Error) (int, bool, error) {
	e.pending = false
	e.usable = false
	return n, false, err
}

// Reset forgets everything about an earlier connection.
func (e *exchange) Reset() { *e = exchange{} }

// End tells that the peer has closed its side, which never completes a response.
func (e *exchange) End() error {
	e.pending = false
	e.usable = false
	if e.got == 0 {
		return ErrClosedEarly
	}
	return ErrClosed
}

// Reusable tells whether the connection may carry another request: the last
// response is complete and nothing follows it.
func (e *exchange) Reusable() bool { return e.usable }
