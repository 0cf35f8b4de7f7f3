package tcp

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"dyno/load/wire"
)

// MaxLineBytes is the highest limit for a line, sent or received: 16 MiB.
const MaxLineBytes = 16 << 20

// LineConfig asks for a line to be sent and a line to be answered.
type LineConfig struct {
	Text   string  // the line to send, without its end
	CRLF   bool    // lines end with CR LF rather than LF
	Expect *string // the answer, without its end; nil: any
	Limit  int     // bytes of an answer, its end included
}

// DefaultLine returns the configuration for a text: LF, any answer of up to 64
// KiB.
func DefaultLine(text string) LineConfig { return LineConfig{Text: text, Limit: 64 << 10} }

func (c LineConfig) end() string {
	if c.CRLF {
		return "\r\n"
	}
	return "\n"
}

// Validate reports everything that is wrong with the configuration.
func (c LineConfig) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if strings.Contains(c.Text, "\n") {
		fault("line text %q: want no line feed inside", c.Text)
	}
	if len(c.Text) > MaxLineBytes {
		fault("line text of %d bytes: want at most %d", len(c.Text), MaxLineBytes)
	}
	if c.Limit < len(c.end()) || c.Limit > MaxLineBytes {
		fault("line limit %d: want %d to %d bytes", c.Limit, len(c.end()), MaxLineBytes)
	}
	if c.Expect != nil {
		if strings.Contains(*c.Expect, "\n") {
			fault("expected line %q: want no line feed inside", *c.Expect)
		}
		if size := len(*c.Expect) + len(c.end()); size > c.Limit {
			fault("expected line of %d bytes with its end: want at most the limit, %d", size, c.Limit)
		}
	}
	return errors.Join(faults...)
}

// A LineTemplate holds what line clients share.
type LineTemplate struct {
	request []byte
	expect  []byte // with its end; nil: any answer will do
	limit   int64
}

// NewLine returns a template for line clients.
func NewLine(c LineConfig) (*LineTemplate, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("tcp: %w", err)
	}
	t := &LineTemplate{request: []byte(c.Text + c.end()), limit: int64(c.Limit)}
	if c.Expect != nil {
		t.expect = []byte(*c.Expect + c.end())
	}
	return t, nil
}

// Client returns a new client, ready for a connection.
func (t *LineTemplate) Client() *Line { return &Line{t: t} }

// A Line is one connection's side of an exchange of lines.
type Line struct {
	exchange
	t       *LineTemplate
	differs bool
}

var _ wire.Client = (*Line)(nil)

// Request starts the next exchange. All clients of a template return the same
// bytes.
func (c *Line) Request() []byte {
	c.begin()
	c.differs = false
	return c.t.request
}

// Response consumes bytes up to the first line feed; see wire.Client.
func (c *Line) Response(p []byte) (n int, done bool, err error) {
	if !c.pending {
		return c.idle(p)
	}
	n = bytes.IndexByte(p, '\n') + 1
	if done = n > 0; !done {
		n = len(p)
	}
	if room := c.t.limit - c.got; int64(n) > room {
		c.got += room
		return c.fail(int(room), ErrLineTooLong)
	}
	if c.t.expect != nil {
		// The only line feed expected is the last byte, so that an answer that is too
		// short differs by its own.
		rest := c.t.expect[min(c.got, int64(len(c.t.expect))):]
		if !bytes.HasPrefix(rest, p[:n]) {
			c.differs = true
		}
	}
	c.got += int64(n)
	switch {
	case !done:
		return n, false, nil
	case c.differs:
		return c.finish(n, len(p), ErrLine)
	default:
		return c.finish(n, len(p), nil)
	}
}
