package tcp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"dyno/load/wire"
)

// A Framing says where a response ends, and what a message has around it.
type Framing uint8

// The framings.
const (
	Same   Framing = iota // as many bytes back as were sent, and the same ones
	Lines                 // a line feed after each message, which has none inside
	Length                // four bytes before each message, big-endian, which do not count themselves
)

// MaxPayload is the largest message to send, and the largest answer: 16 MiB.
const MaxPayload = 16 << 20

// A Message is sent as it is.
type Message struct {
	Text   []byte // without what the framing adds; not copied; none if it varies
	Varies bool   // it is a part that is given each time
}

// MessagesConfig asks for different messages to be sent, and for what is answered to be delivered.
type MessagesConfig struct {
	Framing  Framing
	Messages []Message // Compose takes them by their place here
}

// Validate reports everything that is wrong with the configuration.
func (c MessagesConfig) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if len(c.Messages) == 0 {
		fault("no message: want at least one")
	}
	for i, m := range c.Messages {
		switch err := c.Framing.Check(m.Text); {
		case m.Varies && len(m.Text) > 0:
			fault("message %d: want no text, as it varies", i+1)
		case !m.Varies && err != nil:
			fault("message %d: %w", i+1, err)
		}
	}
	return errors.Join(faults...)
}

// Faults of messages.
var (
	errEmpty    = errors.New("it is empty: want at least one byte, as many are awaited as were sent")
	errLineFeed = errors.New("it has a line feed inside: want none, as one ends the message")
	errLarge    = fmt.Errorf("it is too large: want at most %d bytes", MaxPayload)
)

// Check tells what keeps a message from being sent in the framing. Its errors are the same
// values each time.
func (f Framing) Check(message []byte) error {
	switch {
	case len(message) > MaxPayload:
		return errLarge
	case f == Same && len(message) == 0:
		return errEmpty
	case f == Lines && bytes.IndexByte(message, '\n') >= 0:
		return errLineFeed
	}
	return nil
}

// frame appends a message with what the framing adds.
func (f Framing) frame(b, message []byte) []byte {
	switch f {
	case Lines:
		return append(append(b, message...), '\n')
	case Length:
		b = binary.BigEndian.AppendUint32(b, uint32(len(message))) //nolint:gosec // bounded by MaxPayload
	}
	return append(b, message...)
}

// A MessagesTemplate holds what clients of different messages share.
type MessagesTemplate struct {
	framing Framing
	framed  [][]byte // nil: it varies
}

// NewMessages returns a template for clients of different messages.
func NewMessages(c MessagesConfig) (*MessagesTemplate, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("tcp: %w", err)
	}
	t := &MessagesTemplate{framing: c.Framing}
	for _, m := range c.Messages {
		var framed []byte
		if !m.Varies {
			framed = c.Framing.frame([]byte{}, m.Text)
		}
		t.framed = append(t.framed, framed)
	}
	return t, nil
}

// Client returns a new client, ready for a connection.
func (t *MessagesTemplate) Client() *Messages { return &Messages{t: t} }

// Messages is one connection's side of an exchange of different messages, whose answers are delivered:
// of Lines without the line feed, of Length without what stands before them. Varying parts must pass
// Framing.Check.
type Messages struct {
	exchange
	t       *MessagesTemplate
	varying []byte // the message under way, if it varies
	message []byte // the message under way
	prefix  int    // bytes of the length that have arrived
	length  int64  // of the answer, as far as its prefix has arrived
	differs bool
}

var _ wire.Composer = (*Messages)(nil)

// Request starts the next exchange, with the first of the messages.
func (c *Messages) Request() []byte { return c.Compose(0, nil) }

// Compose starts the next exchange; see wire.Composer.
func (c *Messages) Compose(request int, parts [][]byte) []byte {
	c.begin()
	c.prefix, c.length, c.differs = 0, 0, false
	if c.message = c.t.framed[request]; c.message == nil {
		c.varying = c.t.framing.frame(c.varying[:0], parts[0])
		c.message = c.varying
	}
	return c.message
}

// Response consumes bytes that arrived; see wire.Client.
func (c *Messages) Response(p []byte) (n int, done bool, err error) {
	for {
		used, size, done, err := c.Content(p[n:])
		n += used + size
		if size == 0 {
			return n, done, err
		}
		c.Take(size)
	}
}

// Content consumes bytes up to the next stretch of the answer; see wire.Composer.
func (c *Messages) Content(p []byte) (n, size int, done bool, err error) {
	if !c.pending {
		n, done, err = c.idle(p)
		return n, 0, done, err
	}
	switch c.t.framing {
	case Lines:
		return c.line(p)
	case Length:
		return c.prefixed(p)
	}
	return c.same(p)
}

// Take uses up content; see wire.Composer.
func (c *Messages) Take(n int) { c.got += int64(n) }

// Fields returns none: there is no header.
func (c *Messages) Fields() []wire.MuxField { return nil }

// over ends the exchange after n bytes that are no content.
func (c *Messages) over(p []byte, n int, failure *wire.Error) (int, int, bool, error) {
	n, done, err := c.finish(n, len(p), failure)
	return n, 0, done, err
}

// lost ends the exchange with the connection.
func (c *Messages) lost(n int, failure *wire.Error) (int, int, bool, error) {
	n, done, err := c.fail(n, failure)
	return n, 0, done, err
}

func (c *Messages) same(p []byte) (n, size int, done bool, err error) {
	rest := c.message[c.got:]
	switch size = min(len(p), len(rest)); {
	case len(rest) == 0 && c.differs:
		return c.over(p, 0, ErrEcho)
	case len(rest) == 0:
		return c.over(p, 0, nil)
	}
	c.differs = c.differs || !bytes.Equal(p[:size], rest[:size])
	return 0, size, false, nil
}

func (c *Messages) line(p []byte) (n, size int, done bool, err error) {
	if size = bytes.IndexByte(p, '\n'); size == 0 {
		return c.over(p, 1, nil)
	}
	if size < 0 {
		size = len(p)
	}
	if int64(size) > MaxPayload-c.got {
		return c.lost(0, ErrLineTooLong)
	}
	return 0, size, false, nil
}

func (c *Messages) prefixed(p []byte) (n, size int, done bool, err error) {
	for ; c.prefix < 4; n++ {
		if n == len(p) {
			return n, 0, false, nil
		}
		c.length = c.length<<8 | int64(p[n])
		c.prefix++
	}
	left := c.length - c.got
	switch {
	case c.length > MaxPayload:
		return c.lost(n, ErrTooLong)
	case left == 0:
		return c.over(p, n, nil)
	}
	return n, int(min(int64(len(p)-n), left)), false, nil
}

// End tells that the peer has closed its side, which never completes an answer.
func (c *Messages) End() error {
	if c.prefix > 0 {
		c.got = max(c.got, 1) // its beginning has come
	}
	return c.exchange.End()
}

// Reset forgets everything about an earlier connection.
func (c *Messages) Reset() {
	c.exchange.Reset()
	c.message, c.prefix = nil, 0
}
