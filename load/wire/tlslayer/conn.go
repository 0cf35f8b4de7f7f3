package tlslayer

import (
	"crypto/tls"
	"errors"
	"io"
	"iter"
	"slices"

	"dyno/load/wire"
)

const (
	// maxPlaintext is the most that one record holds (RFC 8446, section 5.1).
	maxPlaintext = 16 << 10

	// maxUnasked bounds what an established connection has to send of its own accord:
	// answers to key updates, of 30 to 60 bytes each. A peer that asks for more before
	// it takes any is refused.
	maxUnasked = 4 << 10
)

// A State is where a Conn stands.
type State uint8

// The states, in the order in which a connection goes through them.
const (
	Idle        State = iota // no connection
	Handshaking              // the handshake is under way
	Established              // Seal and Open carry data
	Ended                    // the peer has sent close_notify: no more data will come
	Failed                   // it cannot go on, and must be closed
)

// A Conn is one connection's TLS, client's side. It is for one goroutine at a time, together with the
// other connections of its Context. Between Start and the end of Handshaking, only one goroutine may
// use it, also for a Reset. That goroutine must not lock or unlock its thread meanwhile
// (runtime.LockOSThread).
type Conn struct {
	context   *Context
	transport transport
	tls       *tls.Conn
	info      Info
	err       *wire.Error // why it failed

	// The handshake's coroutine: next goes on with it until it needs bytes (true) or has
	// ended (false), stop ends it.
	next   func() (struct{}, bool)
	stop   func()
	result error // of the handshake

	state  State
	closed bool // close_notify was appended: nothing can follow it
}

// Info says what a handshake agreed on and what it took.
type Info struct {
	Version     string // such as "TLS 1.3"
	CipherSuite string // IANA's name, such as "TLS_AES_128_GCM_SHA256"
	Group       string // of the key exchange, such as "X25519"; "" if it was RSA's
	ALPN        string // the protocol that the server chose; "" if it chose none
	Resumed     bool   // a session was resumed, so that no certificate was sent
	Retried     bool   // the server asked for another group first, which takes a round trip

	// Bytes of the handshake, as far as it has come, record headers included. The
	// session tickets that a TLS 1.3 server sends after it are not part of it.
	Received, Sent int64
}

// State tells where the connection stands.
func (c *Conn) State() State { return c.state }

// Info tells about the connection's handshake. While that is under way, or if it
// failed, only Received and Sent are set.
func (c *Conn) Info() Info {
	i := c.info
	i.Received, i.Sent = c.transport.received, c.transport.sent
	return i
}

// Start begins the handshake of a new connection, forgetting an earlier one, and appends
// the bytes to send to dst. It uses the CPU for the key exchange's first half.
func (c *Conn) Start(dst []byte) ([]byte, error) {
	c.Reset()
	c.begin(tls.Client(&c.transport, c.context.config))
	err := c.shake()
	return c.Flush(dst), err
}

// begin prepares the coroutine of a handshake.
func (c *Conn) begin(tc *tls.Conn) {
	c.tls = tc
	c.state = Handshaking
	c.next, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		c.transport.suspend = yield
		c.result = tc.Handshake()
		c.transport.suspend = nil
	})
}

// shake lets the handshake go on until it needs more bytes, or has ended.
func (c *Conn) shake() error {
	if _, waits := c.next(); waits {
		return nil
	}
	c.next, c.stop = nil, nil
	if err := c.result; err != nil {
		c.result = nil
		return c.fail(c.explain(err))
	}
	c.state = Established
	s := c.tls.ConnectionState()
	c.info = Info{
		Version: tls.VersionName(s.Version), CipherSuite: tls.CipherSuiteName(s.CipherSuite), Group: groupName(s.CurveID),
		ALPN: s.NegotiatedProtocol, Resumed: s.DidResume, Retried: s.HelloRetryRequest,
	}
	return nil
}

// Open takes bytes that arrived and returns the data in the records that are complete with them. Cut at
// any place, the same bytes give the same data. The data is valid until the next call of any of the
// context's connections; nothing of ciphertext is kept or changed. An error comes with the data that
// precedes it, and means that the connection must be closed. Errors have type *wire.Error.
//
// In a handshake Open goes on with that, and the state afterwards tells whether it is
// complete. Either way there may be bytes to send: see Pending.
func (c *Conn) Open(ciphertext []byte) (plaintext []byte, err error) {
	switch c.state {
	case Handshaking:
		c.transport.in = ciphertext
		if err := c.shake(); err != nil {
			return nil, err
		}
		ciphertext = c.transport.in
		c.transport.in = nil
		if c.state == Handshaking {
			return nil, nil
		}
	case Established:
	case Ended:
		return nil, nil // RFC 8446, section 6.1: what follows close_notify is ignored
	case Failed:
		return nil, c.err
	default:
		return nil, ErrIdle
	}
	return c.decrypt(ciphertext)
}

// decrypt hands ciphertext to crypto/tls, and returns the data. crypto/tls returns the data of one
// record at a time, so it asks once for each record that ends there. It asks once more when bytes are
// left over, so that crypto/tls takes and keeps them. Records without data make it ask in vain, which
// does no harm.
func (c *Conn) decrypt(ciphertext []byte) ([]byte, error) {
	t := &c.transport
	t.in = ciphertext
	records := t.records.advance(ciphertext)
	data := c.context.data[:0]
	var err error
	for err == nil && len(t.out) <= maxUnasked && (records > 0 || len(t.in) > 0) {
		data = slices.Grow(data, maxPlaintext)
		var n int
		n, err = c.tls.Read(data[len(data) : len(data)+maxPlaintext])
		data = data[:len(data)+n]
		records--
	}
	c.context.data = data
	t.in = nil
	switch {
	case errors.Is(err, io.EOF): // the transport has none: it is close_notify
		c.state = Ended
		return data, nil
	case err != nil && err != errEmpty: //nolint:errorlint // crypto/tls returns it as it is
		return data, c.fail(c.explain(err))
	case len(t.out) > maxUnasked:
		return data, c.fail(ErrKeyUpdates)
	}
	return data, nil
}

// Seal encrypts data and appends the records to dst, after pending bytes. So records keep the order of
// their sequence numbers.
func (c *Conn) Seal(dst, plaintext []byte) ([]byte, error) {
	switch {
	case c.state == Failed:
		return dst, c.err
	case c.closed || c.state == Ended:
		return dst, ErrClosed
	case c.state != Established:
		return dst, ErrIdle
	}
	t := &c.transport
	own := t.out
	t.out = append(dst, own...)
	_, err := c.tls.Write(plaintext)
	dst, t.out = t.out, own[:0]
	if err != nil {
		return dst, c.fail(c.explain(err))
	}
	return dst, nil
}

// Pending tells whether there are bytes to send that Seal did not make: of the handshake, of an alert
// that says why it failed, of the answer to a key update.
func (c *Conn) Pending() bool { return len(c.transport.out) > 0 }

// Flush appends the pending bytes to dst, after which none are pending.
func (c *Conn) Flush(dst []byte) []byte {
	dst = append(dst, c.transport.out...)
	c.transport.out = nil // there are none for most of a connection's life
	return dst
}

// CloseNotify appends pending bytes and the orderly end of this side to dst. Afterwards Seal fails.
// There is nothing to append unless the handshake was completed.
func (c *Conn) CloseNotify(dst []byte) []byte {
	if c.state == Established || c.state == Ended {
		_ = c.tls.CloseWrite() // fails only where nothing can be sent
		c.closed = true
	}
	return c.Flush(dst)
}

// Partial tells whether a part has come of a record whose end has not. With the bytes that
// brought it, there was more than the data that Open returned.
func (c *Conn) Partial() bool { return c.transport.records.inside() }

// End tells that the peer has closed its side of the connection below. It returns nil if
// the peer ended the data by close_notify before, and else an error: of kind TLS in a
// handshake, of kind Reset later. A codec that knows by itself that its message is
// complete need not mind the latter: many servers close without close_notify. One whose
// message ends with the connection must (RFC 9112, section 9.8).
func (c *Conn) End() error {
	switch c.state {
	case Handshaking:
		return c.fail(c.cutHandshake())
	case Established:
		if c.transport.records.inside() {
			return c.fail(ErrCutRecord)
		}
		return c.fail(ErrNoCloseNotify)
	case Failed:
		return c.err
	}
	return nil
}

// Reset forgets the connection, so that its memory is free, and ends its handshake if
// that is under way.
func (c *Conn) Reset() {
	if c.stop != nil {
		c.stop()
	}
	*c = Conn{context: c.context}
}

// fail ends the connection for a reason.
func (c *Conn) fail(err *wire.Error) error {
	if c.stop != nil {
		c.stop()
		c.next, c.stop = nil, nil
	}
	if c.state == Handshaking {
		c.context.failed++
	}
	c.state = Failed
	c.err = err
	return err
}
