package websocket

import (
	"cmp"
	cryptorand "crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"unicode/utf8"

	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/http2"
)

// MaxMessage is the largest message that is sent or, if nothing else is configured, received: 16 MiB.
const MaxMessage = 16 << 20

// A Dial says how connections are opened.
type Dial struct {
	// Request is the handshake's: its target, host and header. The RFC's own fields are added.
	Request      http1.Request
	HTTP2        bool     // over a stream of HTTP/2 (RFC 8441), of a connection of its own
	Scheme       string   // of HTTP/2: http (default) or https
	Subprotocols []string // offered, in this order
	Compress     bool     // offers compression
	Greetings    int      // messages that the server sends first, and that answer nothing

	// First are messages that are sent before the connection is used: the first of them after the Greetings, and each
	// other one once the server has sent a message after the one before. They have no marks.
	First []Message

	MaxMessage int64 // bytes of a message of the server; default MaxMessage
	MaxHeader  int64 // bytes of the handshake's response; default wire.DefaultMaxHeader
}

// validate reports everything that is wrong with it.
func (d Dial) validate() error {
	faults := []error{d.request(d.Request).Validate()}
	for i, m := range d.First {
		if err := m.validate(); err != nil {
			faults = append(faults, fmt.Errorf("first message %d: %w", i+1, err))
		}
	}
	return errors.Join(faults...)
}

// shared is what the connections of a worker share.
type shared struct {
	dial       Dial
	whole      bool // messages are delivered in one piece
	handshakes *http1.Template
	over2      *http2.Template // nil over HTTP/1.1
	idle       []*http1.Client // of handshakes, while no connection needs them
	random     *rand.ChaCha8   // of masks and keys
	deflater   deflater
	closings   map[uint16]*wire.Error
	refusals   map[error]*wire.Error // of handshakes
	reasons    wire.Refusals
	spare      wire.Buffers
	lent       []byte // the buffer of the message that was delivered last
	parts      [][]byte
}

// newShared prepares the handshake of d, and those of steps of users that open connections.
func newShared(d Dial, whole bool, others ...http1.Request) (*shared, error) {
	d.MaxMessage = cmp.Or(d.MaxMessage, MaxMessage)
	var seed [32]byte
	_, _ = cryptorand.Read(seed[:]) // never fails
	s := &shared{dial: d, whole: whole, random: rand.NewChaCha8(seed), closings: map[uint16]*wire.Error{}, refusals: map[error]*wire.Error{}}
	var err error
	if d.HTTP2 {
		if s.over2, err = newOver2(d, append([]http1.Request{d.Request}, others...)); err != nil {
			return nil, fmt.Errorf("websocket: %w", err)
		}
		return s, nil
	}
	requests := []http1.Request{d.request(d.Request)}
	for _, r := range others {
		requests = append(requests, d.request(r))
	}
	s.handshakes, err = http1.NewTemplate(http1.Config{
		Requests: requests, Fields: fieldNames, MaxHeader: d.MaxHeader,
		Accept: func(int) bool { return false },
	})
	if err != nil {
		return nil, fmt.Errorf("websocket: %w", err)
	}
	return s, nil
}

// A conn is one connection's side of WebSocket, without what is made of its messages. Idle, it takes some 250 bytes.
type conn struct {
	s         *shared
	handshake *http1.Client // while that is under way
	over2     *over2        // nil over HTTP/1.1
	status    int           // of the handshake's response
	key       [keySize]byte
	in        reader
	out       []byte // to be written
	written   int    // how much of it was
	message   []byte // the beginning of a message that is delivered in one piece
	window    []byte // of the server's compression, if that goes on from message to message
	pings     int    // unanswered
	pongs     int    // bytes of answers to pings, since nothing was to be written
	code      uint16 // of the server's close
	open      bool
	takeover  bool
	closed    bool // a close frame was sent
	asked     bool // the next pong is to be delivered
	awaited   int  // messages of the server that are not delivered: greetings, and answers to what is sent first
}

// reset forgets everything about an earlier connection.
func (c *conn) reset() {
	s := c.s
	c.in.reset(&s.spare)
	s.spare.GiveBack(c.out)
	s.spare.GiveBack(c.message)
	*c = conn{s: s, handshake: c.handshake, over2: c.over2, window: c.window[:0]}
	if s.over2 == nil {
		return
	}
	if c.over2 == nil {
		c.over2 = &over2{Client: s.over2.Client()}
	}
	c.over2.Reset()
	*c.over2 = over2{Client: c.over2.Client, request: -1}
}

// dial begins the handshake with one of the prepared requests, and its varying parts.
func (c *conn) dial(request int, parts [][]byte) {
	s := c.s
	if c.over2 != nil {
		c.over2.request, c.over2.parts = request, parts
		c.over2.start()
		return
	}
	if n := len(s.idle); c.handshake == nil && n > 0 {
		c.handshake, s.idle = s.idle[n-1], s.idle[:n-1]
	} else if c.handshake == nil {
		c.handshake = s.handshakes.Client()
	}
	c.handshake.Reset()
	var nonce [16]byte
	_, _ = s.random.Read(nonce[:])
	base64.StdEncoding.Encode(c.key[:], nonce[:])
	s.parts = append(append(s.parts[:0], parts...), c.key[:])
	c.out = append(s.spare.Borrow(), c.handshake.Compose(request, s.parts)...)
}

// Output returns what is to be written.
func (c *conn) Output() []byte {
	if c.over2 == nil {
		return c.out[c.written:]
	}
	c.took(c.over2.put(c.out[c.written:]))
	return c.over2.Output()
}

// Wrote tells that the first n bytes of Output were written.
func (c *conn) Wrote(n int) {
	if c.over2 != nil {
		c.over2.Wrote(n)
		return
	}
	c.took(n)
}

// took tells that the first n bytes of what is to be written are on their way.
func (c *conn) took(n int) {
	if c.written += n; c.written == len(c.out) && c.out != nil {
		c.s.spare.GiveBack(c.out)
		c.out, c.written, c.pongs = nil, 0, 0
	}
}

// say sends a text as a message of a kind.
func (c *conn) say(text []byte, binary bool) {
	op := opText
	if binary {
		op = opBinary
	}
	c.send(op, text)
}

// send puts a frame into the output.
func (c *conn) send(op opcode, payload []byte) {
	s := c.s
	compressed := c.in.deflates && !op.control()
	if compressed {
		payload = s.deflater.compress(payload)
	}
	if c.out == nil {
		c.out = s.spare.Borrow()
	}
	key := uint32(s.random.Uint64()) //nolint:gosec // its lower half
	c.out = appendHead(c.out, op, compressed, len(payload), key)
	begin := len(c.out)
	c.out = append(c.out, payload...)
	mask(c.out[begin:], key)
}

// next consumes bytes up to a piece of a message. The rest it deals with: the handshake, greetings, pings, and the
// server's close, which is an error. Without a piece and an error, all of p is consumed.
func (c *conn) next(p []byte) (n int, got piece, found bool, err error) {
	for {
		used, got, found, err := c.piece(p[n:])
		n += used
		if err != nil || !found || got.op == opPong || c.awaited == 0 {
			return n, got, found, err
		}
		c.greeted(got)
	}
}

// isReady tells whether the connection can be used.
func (c *conn) isReady() bool { return c.open && (c.awaited == 0 || len(c.s.dial.First) == 0) }

// greeted takes a piece of a message that is awaited before the connection is used.
func (c *conn) greeted(got piece) {
	if got.final {
		c.awaited--
		c.sendFirst()
	}
}

// sendFirst sends that of the first messages whose turn it is.
func (c *conn) sendFirst() {
	if first := c.s.dial.First; c.awaited > 0 && c.awaited <= len(first) {
		m := &first[len(first)-c.awaited]
		c.say(m.Text, m.Binary)
	}
}

// piece is next before it is known what a piece belongs to.
func (c *conn) piece(p []byte) (n int, got piece, found bool, err error) {
	if !c.open {
		if n, err = c.shake(p); err != nil || !c.open {
			return n, piece{}, false, err
		}
	}
	if c.over2 == nil {
		used, got, found, err := c.take(p[n:])
		return n + used, got, found, err
	}
	for {
		used, err := c.over2.receive(p[n:])
		if n += used; err != nil || len(c.over2.rest) == 0 {
			return n, piece{}, false, err
		}
		used, got, found, err = c.take(c.over2.rest)
		if c.over2.rest = c.over2.rest[used:]; found || err != nil {
			return n, got, found, err
		}
	}
}

// take is next of bytes of WebSocket after the handshake.
func (c *conn) take(p []byte) (n int, got piece, found bool, err error) {
	s := c.s
	s.spare.GiveBack(s.lent)
	s.lent = nil
	for {
		used, got, found, fault := c.in.next(p[n:], s.dial.MaxMessage, &s.spare)
		n += used
		if fault == nil && found {
			switch got.op {
			case opPing:
				fault = c.answerPing(got.data)
			case opPong:
				if c.pings = 0; c.asked {
					c.asked = false
					return n, piece{op: opPong, final: true}, true, nil
				}
			case opClose:
				fault = c.takeClose(got.data)
			default:
				if got, found, fault = c.join(got); found && fault == nil {
					return n, got, true, nil
				}
				found = true
			}
			c.in.giveBack(&s.spare)
		}
		if fault != nil {
			c.sayWhy(fault)
			return n, piece{}, false, fault
		}
		if !found {
			return n, piece{}, false, nil
		}
	}
}

// join puts a message together if it is to be delivered in one piece, and decompresses it.
func (c *conn) join(got piece) (whole piece, found bool, err *wire.Error) {
	s := c.s
	if !s.whole && !got.deflated {
		return got, true, nil
	}
	if !got.final && c.message == nil {
		c.message = s.spare.Borrow()
	}
	if c.message != nil {
		c.message = append(c.message, got.data...)
		got.data = c.message
	}
	if !got.final {
		return piece{}, false, nil
	}
	s.lent, c.message = c.message, nil
	if got.deflated {
		got.data, err = c.inflate(got.data, got.op)
	}
	return got, true, err
}

// inflate decompresses a message.
func (c *conn) inflate(data []byte, op opcode) ([]byte, *wire.Error) {
	plain, err := c.s.deflater.decompress(data, c.window, c.s.dial.MaxMessage)
	if err != nil {
		return nil, err
	}
	if op == opText && !utf8.Valid(plain) {
		return nil, ErrUTF8
	}
	if c.takeover {
		c.window = slide(c.window, plain)
	}
	return plain, nil
}

// shake takes the answer to the handshake.
func (c *conn) shake(p []byte) (n int, err error) {
	if c.over2 != nil {
		return c.shake2(p)
	}
	if c.key[0] == 0 {
		return 0, ErrUnasked
	}
	n, done, err := c.handshake.Response(p)
	switch c.status = c.handshake.Status(); {
	case err != nil && done:
		return n, c.s.refusal(err)
	case err != nil || !done:
		return n, err
	}
	agreed, fault := c.s.dial.check(c.handshake.Fields(), c.key[:])
	if fault != nil {
		return n, fault
	}
	c.s.idle = append(c.s.idle, c.handshake)
	c.handshake = nil
	c.opened(agreed)
	return n, nil
}

// shake2 is shake over HTTP/2.
func (c *conn) shake2(p []byte) (n int, err error) {
	n, c.status, err = c.over2.open(p)
	switch {
	case wire.KindOf(err) == wire.Status:
		return n, c.s.refusal(err)
	case err != nil || c.status == 0:
		return n, err
	}
	agreed, fault := c.s.dial.check(c.over2.Fields(), nil)
	if fault != nil {
		return n, fault
	}
	c.opened(agreed)
	return n, nil
}

// opened tells that the handshake has succeeded.
func (c *conn) opened(a agreed) {
	c.open, c.in.deflates, c.takeover = true, a.deflates, a.takeover
	c.awaited = c.s.dial.Greetings + len(c.s.dial.First)
	c.sendFirst()
}

// refusal returns the error of a handshake that was answered by another status.
func (s *shared) refusal(reason error) *wire.Error {
	e := s.refusals[reason]
	if e == nil {
		_, text, _ := strings.Cut(reason.Error(), ": ")
		e = &wire.Error{Kind: wire.Status, Text: "the server answered the handshake by " + text}
		s.refusals[reason] = e // http1 bounds their number
	}
	return e
}

// maxPending bounds what may wait to be written in answers to pings, in bytes.
const maxPending = 64 << 10

// answerPing answers a ping by its own payload (RFC 6455, section 5.5.3).
func (c *conn) answerPing(payload []byte) *wire.Error {
	if c.pongs > maxPending {
		return ErrFlood
	}
	c.pongs += maxClientHead + len(payload)
	c.send(opPong, payload)
	return nil
}

// maxPings is how many pings may be unanswered.
const maxPings = 8

// Ping sends a ping.
func (c *conn) Ping() bool {
	if !c.open || c.closed || c.pings == maxPings {
		return false
	}
	c.pings++
	c.send(opPing, nil)
	return true
}

// Close tells the server that the connection is no longer needed.
func (c *conn) Close() { c.close(closeNormal) }

// close sends a close frame.
func (c *conn) close(code uint16) {
	if c.open && !c.closed {
		c.closed = true
		c.send(opClose, binary.BigEndian.AppendUint16(nil, code))
	}
}

// Codes of close frames (section 7.4.1).
const (
	closeNormal    = 1000
	closeProtocol  = 1002
	closeNoCode    = 1005 // is never sent
	closeInvalid   = 1007
	closeTooLarge  = 1009
	closeFirstLib  = 3000
	closeLastApp   = 4999
	closeLastKnown = 1014
)

var closeNames = map[uint16]string{
	closeNormal: "normal", 1001: "going away", closeProtocol: "protocol error", 1003: "unsupported data", closeNoCode: "without a code",
	closeInvalid: "invalid data", 1008: "policy violation", closeTooLarge: "message too big", 1010: "an extension is missing",
	1011: "internal error", 1012: "service restart", 1013: "try again later", 1014: "bad gateway",
}

// takeClose takes the server's close frame, answers it, and returns why it closes.
func (c *conn) takeClose(payload []byte) *wire.Error {
	code, reason := uint16(closeNoCode), []byte(nil)
	switch {
	case len(payload) == 1:
		return ErrCloseSize
	case len(payload) > 1:
		code, reason = binary.BigEndian.Uint16(payload), payload[2:]
		if known := code >= closeNormal && code <= closeLastKnown && code != 1004 && code != closeNoCode && code != 1006; !known && (code < closeFirstLib || code > closeLastApp) {
			return ErrCloseCode
		}
		if !utf8.Valid(reason) {
			return ErrCloseReason
		}
		payload = payload[:2]
	}
	c.code = code
	if !c.closed {
		c.send(opClose, payload)
		c.closed = true
	}
	plain := c.s.closings[code]
	if plain == nil {
		name := closeNames[code]
		if name != "" {
			name = " (" + name + ")"
		}
		plain = &wire.Error{Kind: wire.Reset, Text: "the server closed the connection by code " + strconv.Itoa(int(code)) + name}
		if code == closeNoCode {
			plain.Text = "the server closed the connection without a code"
		}
		c.s.closings[code] = plain
	}
	return c.s.reasons.Error(plain, reason)
}

// sayWhy tells the server why the connection ends (section 7.1.7).
func (c *conn) sayWhy(err *wire.Error) {
	code := uint16(closeProtocol)
	switch err { //nolint:errorlint // these are values
	case ErrUTF8, ErrCloseReason, ErrDeflate:
		code = closeInvalid
	case ErrTooLarge:
		code = closeTooLarge
	}
	c.close(code)
}
