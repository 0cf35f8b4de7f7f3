package grpc

import (
	"dyno/load/wire"
	"dyno/load/wire/http1"
)

// A WebClient is one connection's side of gRPC-Web over HTTP/1.1. It is for one goroutine at a
// time, together with the other clients of its template.
type WebClient struct {
	t       *Template
	below   *http1.Client
	k       call
	piece   content
	outcome Code

	delivered []byte // forms of the response's messages by Translate, up to the call's Keep
	size      int64  // of all that was made of them
}

var (
	_ wire.Collector      = (*WebClient)(nil)
	_ wire.StatusCoder    = (*WebClient)(nil)
	_ wire.MessageCounter = (*WebClient)(nil)
)

// WebClient returns a new client, ready for a connection. It is for templates of
// NewWebTemplate.
func (t *Template) WebClient() *WebClient { return &WebClient{t: t, below: t.one.Client()} }

// Reset forgets everything about an earlier connection.
func (c *WebClient) Reset() {
	c.forget()
	c.below.Reset()
}

func (c *WebClient) forget() {
	c.k.forgetPart(c.t)
	c.k.restart(0)
	c.piece.drop()
	c.outcome, c.delivered, c.size = OK, c.delivered[:0], 0
}

// Request prepares the next exchange, the first of the calls.
func (c *WebClient) Request() []byte { return c.Compose(0, nil) }

// Compose prepares the next exchange; see wire.Composer.
func (c *WebClient) Compose(request int, parts [][]byte) []byte {
	c.forget()
	c.k.restart(request)
	return c.below.Compose(request, c.t.compose(&c.t.calls[request], parts))
}

// Response consumes the next bytes of the response; see wire.Client.
func (c *WebClient) Response(p []byte) (n int, done bool, err error) {
	for {
		used, size, done, err := c.below.Content(p[n:])
		n += used
		c.head()
		if size == 0 {
			return c.ended(n, done, err)
		}
		c.below.Take(size)
		c.piece.raw = p[n : n+size]
		n += size
		if f := c.messages(); f.Error != nil {
			return n, false, c.fail(f)
		}
	}
}

// head reads the header of the response once it has come.
func (c *WebClient) head() {
	if c.k.state&headed == 0 && c.below.HasHead() {
		c.k.status = int16(c.below.Status()) //nolint:gosec // three digits
		c.k.read(c.t, c.below.Fields(), false)
	}
}

// messages takes the messages of a piece of content.
func (c *WebClient) messages() (f failure) {
	for c.k.state&opaque == 0 {
		message, complete, f := c.piece.message(c.t, &c.k)
		if f.Error == nil && complete {
			f = c.take(message)
		}
		if f.Error != nil || !complete {
			return f
		}
	}
	c.piece.drop()
	return f
}

// take takes a message that is complete.
func (c *WebClient) take(message []byte) (f failure) {
	if f = c.t.take(&c.k, message); f.Error != nil || c.t.calls[c.k.request].Translate == nil {
		return f
	}
	said, f := c.t.translated(&c.k, message)
	c.keep(said)
	return f
}

// keep keeps a translated message, as far as there is room.
func (c *WebClient) keep(delivered []byte) {
	room := c.t.calls[c.k.request].Keep - len(c.delivered)
	c.delivered = append(c.delivered, delivered[:min(len(delivered), room)]...)
	c.size += int64(len(delivered))
}

// Collected returns the translated messages of the response; see wire.Collector.
func (c *WebClient) Collected() (beginning []byte, size int64) { return c.delivered, c.size }

// ended says what the protocol below says of the end, as gRPC does.
func (c *WebClient) ended(n int, done bool, err error) (int, bool, error) {
	switch {
	case err != nil:
		return n, false, c.translate(err)
	case !done:
		return n, false, nil
	}
	return n, true, c.conclude()
}

// conclude says how a complete response ended.
func (c *WebClient) conclude() error {
	f := c.t.conclude(&c.k)
	c.keep(c.t.rest(&c.k))
	c.outcome = f.code
	if f.Error == nil || f.Kind == wire.Status && c.t.judged {
		return nil
	}
	return f.Error
}

func (c *WebClient) fail(f failure) error {
	c.outcome = f.code
	return f.Error
}

func (c *WebClient) translate(err error) error {
	if e, ok := err.(*wire.Error); ok { //nolint:errorlint // codecs return these
		return c.fail(c.t.below(e))
	}
	return err
}

// End tells that the peer closed its side while a response was awaited; see wire.Client.
func (c *WebClient) End() error {
	err := c.below.End()
	if err != nil {
		return c.translate(err)
	}
	return c.conclude()
}

// Reusable tells whether the connection may carry another call.
func (c *WebClient) Reusable() bool { return c.below.Reusable() }

// Status returns the status of the last response.
func (c *WebClient) Status() int { return int(c.outcome) }

// Deviations returns how the last response departs from the protocol; see wire.Deviant.
func (c *WebClient) Deviations() wire.Deviations { return c.below.Deviations() }

// Messages returns how many messages of the response are complete.
func (c *WebClient) Messages() uint32 { return c.k.messages }

// Fields returns the fields that were asked for; see wire.Composer.
func (c *WebClient) Fields() []wire.MuxField {
	if c.k.state&trailed == 0 {
		return c.t.list(c.below.Fields(), only)
	}
	c.t.fields = append(c.t.list(c.below.Fields(), initial), c.k.trailing...)
	return c.t.fields
}

// Content is Response: Collected delivers translated messages.
func (c *WebClient) Content(p []byte) (n, size int, done bool, err error) {
	n, done, err = c.Response(p)
	return n, 0, done, err
}

// Take does nothing, as Content announces nothing.
func (c *WebClient) Take(int) {}
