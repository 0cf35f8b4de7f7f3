package tlslayer

import (
	"net"
	"time"
)

// recordHeader is the size of a record's header: type, version, length (RFC 8446,
// section 5.1). It is never encrypted.
const recordHeader = 5

// A transport is the net.Conn below a tls.Conn, with memory in place of a socket. It
// never blocks: in a handshake it suspends the coroutine that the handshake runs in, and
// later it returns errEmpty.
type transport struct {
	in      []byte // what crypto/tls has not taken of the caller's bytes
	out     []byte // what crypto/tls wrote and the caller has not taken
	records framing

	// suspend gives control back until there are more bytes; false: there will be none.
	// It is nil outside a handshake.
	suspend func(struct{}) bool

	received, sent int64 // bytes, in a handshake
}

var _ net.Conn = (*transport)(nil)

// Read hands out what there is. In a handshake it stops at the end of a record. So at its end
// crypto/tls has taken nothing that comes after it.
func (t *transport) Read(p []byte) (int, error) {
	if t.suspend == nil {
		if len(t.in) == 0 {
			return 0, errEmpty
		}
		n := copy(p, t.in)
		t.in = t.in[n:]
		return n, nil
	}
	for len(t.in) == 0 {
		if !t.suspend(struct{}{}) {
			return 0, errAbandoned
		}
	}
	n := copy(p, t.in[:t.records.rest(t.in)])
	t.records.advance(t.in[:n])
	t.received += int64(n)
	t.in = t.in[n:]
	return n, nil
}

// Write keeps the bytes for the caller.
func (t *transport) Write(p []byte) (int, error) {
	t.out = append(t.out, p...)
	if t.suspend != nil {
		t.sent += int64(len(p))
	}
	return len(p), nil
}

// Close does nothing: who has the socket closes it.
func (t *transport) Close() error { return nil }

// LocalAddr says that there is no socket.
func (t *transport) LocalAddr() net.Addr { return address{} }

// RemoteAddr says that there is no socket.
func (t *transport) RemoteAddr() net.Addr { return address{} }

// SetDeadline does nothing, as nothing here waits.
func (t *transport) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing, as nothing here waits.
func (t *transport) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing, as nothing here waits.
func (t *transport) SetWriteDeadline(time.Time) error { return nil }

// An address stands for the addresses that a transport does not have.
type address struct{}

func (address) Network() string { return "memory" }
func (address) String() string  { return "memory" }

// errEmpty is what a Read returns that would have to wait. crypto/tls passes it on and
// keeps its state, because it is a net.Error that is temporary.
var errEmpty net.Error = empty{}

type empty struct{}

func (empty) Error() string   { return "no bytes at hand" }
func (empty) Timeout() bool   { return true }
func (empty) Temporary() bool { return true }

// errAbandoned ends a handshake that was given up.
var errAbandoned net.Error = abandoned{}

type abandoned struct{}

func (abandoned) Error() string   { return "the handshake was abandoned" }
func (abandoned) Timeout() bool   { return false }
func (abandoned) Temporary() bool { return false }

// A framing follows the records in a stream of bytes by their headers.
type framing struct {
	header [recordHeader]byte
	got    int // bytes of the current header
	left   int // bytes missing of the payload, once the header is complete
}

// advance passes over p and returns how many records end in it.
func (f *framing) advance(p []byte) (ended int) {
	for len(p) > 0 {
		if f.got < recordHeader {
			n := copy(f.header[f.got:], p)
			f.got += n
			p = p[n:]
			if f.got < recordHeader {
				return ended
			}
			f.left = payload(f.header[:])
		}
		n := min(f.left, len(p))
		f.left -= n
		p = p[n:]
		if f.left == 0 {
			f.got = 0
			ended++
		}
	}
	return ended
}

// rest returns how many of the bytes at the start of p belong to the current record.
func (f *framing) rest(p []byte) int {
	if f.got == recordHeader {
		return min(f.left, len(p))
	}
	missing := recordHeader - f.got
	if len(p) < missing {
		return len(p)
	}
	header := f.header
	copy(header[f.got:], p)
	return min(missing+payload(header[:]), len(p))
}

// inside tells whether the last record is incomplete.
func (f *framing) inside() bool { return f.got > 0 }

// payload is the length in a record's header.
func payload(header []byte) int { return int(header[3])<<8 | int(header[4]) }
