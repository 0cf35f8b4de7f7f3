package llm

import (
	"bytes"
	"errors"
	"strconv"

	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/sse"
)

// Config is what all clients of one template have in common.
type Config struct {
	// Requests are what is asked: in turn, when nothing in them varies, or by Compose. Each
	// that is answered by a model asks for a stream.
	Requests []http1.Request

	// Expects says for each request what it is answered with. Nil: each by a model, and
	// nothing of the answers is kept.
	Expects []Expect

	// See Fields and Accept of http1.Config. With Accept, a response without success is no answer, and
	// the users of a scenario judge it.
	Fields []string
	Accept func(status int) bool

	// First is the request that is sent first, and Step how far it is from each to the
	// next: workers take turns by a step that is their number. A Step of 0 is 1.
	First, Step int

	MaxHeader int64 // bytes of a response's header; default wire.DefaultMaxHeader
}

// An Expect says what a request is answered with.
type Expect struct {
	Plain bool // any content, rather than an answer of a model
	Keep  int  // bytes of the content, or of what it makes of an answer, that Collected returns
}

// Template makes clients that take turns in the same requests: one template per worker. It
// and its clients are for one goroutine at a time.
type Template struct {
	one        *http1.Template
	expects    []Expect
	judged     bool // the caller judges statuses
	next, step int
	count      int
	refusals   wire.Refusals
}

// NewTemplate returns a template, or every fault of its configuration.
func NewTemplate(c Config) (*Template, error) {
	if len(c.Requests) == 0 {
		return nil, errors.New("llm: no requests: want at least one")
	}
	one, err := http1.NewTemplate(http1.Config{Requests: c.Requests, Fields: c.Fields, Accept: c.Accept, MaxHeader: c.MaxHeader})
	if err != nil {
		return nil, err
	}
	n := len(c.Requests)
	t := &Template{one: one, expects: c.Expects, judged: c.Accept != nil, next: c.First % n, step: max(1, c.Step) % n, count: n}
	if len(t.expects) == 0 {
		t.expects = make([]Expect, n)
	}
	return t, nil
}

// Client returns a new client, ready for a connection.
func (t *Template) Client() *Client {
	return &Client{t: t, below: t.one.Client(), parser: sse.NewParser()}
}

// Faults of a complete response. Each is returned as it is; what is wrong with its framing are the
// errors of the packages http1 and sse.
var (
	ErrNoStream = assertion("the answer is no stream of events")
	ErrChunk    = assertion("a piece of the answer is no JSON object")
	ErrServer   = assertion("the server reported an error within the answer")
	ErrCut      = assertion("the stream ended before the answer did")
	ErrEmpty    = assertion("the answer is empty")
)

func assertion(text string) *wire.Error { return &wire.Error{Kind: wire.Assertion, Text: text} }

// A Client is one connection's side. It is for one goroutine at a time, together with the
// other clients of its template.
type Client struct {
	t      *Template
	below  *http1.Client
	parser *sse.Parser

	decoder wire.Decoder
	began   bool // the decoder has begun

	expect    Expect // of the current request
	content   []byte // what is kept
	size      int64  // its beginning is in content
	number    []byte // is written here
	pieces    uint32 // that hold something of the answer
	usage     uint32 // tokens, as the server says; 0 while it has not
	reasoning uint32 // of these, the model's reasoning
	prompt    uint32 // tokens of the prompt, as the server says; 0 while it has not
	reasons   bool   // some piece holds text of that
	ended     bool
	failure   *wire.Error // the first

	undecodable *wire.Error // why the content cannot be decoded
}

var (
	_ wire.Collector    = (*Client)(nil)
	_ wire.StatusCoder  = (*Client)(nil)
	_ wire.TokenCounter = (*Client)(nil)
)

// Reset forgets everything about an earlier connection.
func (c *Client) Reset() {
	c.forget()
	c.below.Reset()
}

func (c *Client) forget() {
	c.parser.Reset()
	c.content, c.size = c.content[:0], 0
	c.pieces, c.usage, c.reasoning, c.prompt, c.reasons, c.ended, c.failure = 0, 0, 0, 0, false, false, nil
	c.decoder.Close()
	c.began, c.undecodable = false, nil
}

// Request prepares the next exchange.
func (c *Client) Request() []byte {
	n := c.t.next
	c.t.next = (n + c.t.step) % c.t.count
	return c.Compose(n, nil)
}

// Compose prepares an exchange of the request with that number; see wire.Composer.
func (c *Client) Compose(request int, parts [][]byte) []byte {
	c.forget()
	c.expect = c.t.expects[request]
	return c.below.Compose(request, parts)
}

// answers tells whether the content that arrives is to be an answer of a model.
func (c *Client) answers() bool {
	return !c.expect.Plain && (!c.t.judged || c.below.Status() < firstFailure)
}

// firstFailure is the first status that is no success.
const firstFailure = 300

// Response consumes the next bytes of the response; see wire.Client.
func (c *Client) Response(p []byte) (n int, done bool, err error) {
	for {
		used, size, done, err := c.below.Content(p[n:])
		n += used
		if size == 0 {
			if done && err == nil {
				err = c.conclude()
			}
			return n, done, err
		}
		if c.below.Failed() {
			used, done, err := c.below.Response(p[n:])
			return n + used, done, err
		}
		c.below.Take(size)
		if err := c.decode(p[n : n+size]); err != nil {
			return n + size, false, err
		}
		n += size
	}
}

// maxDecoded is how many bytes the content of a response may decode to.
const maxDecoded = 64 << 20

// decode takes a piece of the content as it was sent.
func (c *Client) decode(p []byte) error {
	if !c.began {
		c.began = true
		c.fail(c.decoder.Begin(c.below.Codings(), maxDecoded))
	}
	if !c.decoder.Decodes() {
		return c.look(p)
	}
	for len(p) > 0 && c.undecodable == nil {
		used, plain, fault := c.decoder.Piece(p)
		if err := c.look(plain); err != nil {
			return err
		}
		c.fail(fault)
		p = p[used:]
	}
	return nil
}

// fail notes why the content cannot be decoded. The rest of it is passed over.
func (c *Client) fail(fault *wire.Error) {
	if fault != nil {
		c.undecodable = fault
	}
}

// look looks into a piece of the content, as it was before it was encoded.
func (c *Client) look(p []byte) error {
	switch {
	case !c.answers():
		c.keep(p)
	case c.below.EventStream():
		return c.read(p)
	}
	return nil
}

// read reads a piece of the content.
func (c *Client) read(p []byte) error {
	for len(p) > 0 {
		n, message, found, err := c.parser.Next(p)
		if err != nil {
			return err
		}
		if p = p[n:]; found {
			c.take(message)
		}
	}
	return nil
}

// lastEvent is the data of the event after an answer.
const lastEvent = "[DONE]"

// take takes an event.
func (c *Client) take(m sse.Message) {
	switch data := bytes.TrimSpace(m.Data); {
	case len(data) == 0: // some servers keep connections alive by these
		return
	case string(data) == lastEvent:
		c.ended = true
		return
	}
	v, says, ok := scan(m.Data)
	switch {
	case c.failure != nil:
	case !ok:
		c.failure = ErrChunk
	case v.failed || string(m.Type) == "error":
		c.failure = c.t.refusals.Error(ErrServer, m.Data)
	}
	if v.holds {
		c.pieces++
	}
	if len(says) > 0 && c.expect.Keep > 0 {
		if c.size == 0 {
			c.keep([]byte(answerBegins))
		}
		c.keep(says)
	}
	c.usage, c.reasoning, c.prompt = max(c.usage, v.tokens), max(c.reasoning, v.reasoning), max(c.prompt, v.prompt)
	c.reasons = c.reasons || v.reasons
	c.ended = c.ended || v.ended
}

// The form in which Collected delivers an answer: {"text":"…","tokens":12}.
const (
	answerBegins = `{"text":"`
	answerMiddle = `","tokens":`
)

// keep keeps what there is room for.
func (c *Client) keep(b []byte) {
	room := max(0, c.expect.Keep-len(c.content))
	c.content = append(c.content, b[:min(len(b), room)]...)
	c.size += int64(len(b))
}

// conclude judges a response that is complete and whose status was accepted.
func (c *Client) conclude() error {
	if c.decoder.Decodes() && c.undecodable == nil {
		plain, fault := c.decoder.End()
		if err := c.look(plain); err != nil {
			return err
		}
		c.fail(fault)
		c.decoder.Close()
	}
	switch {
	case c.undecodable != nil:
		return c.undecodable
	case !c.answers():
		return nil
	}
	c.last()
	if err := c.fault(); err != nil {
		return err
	}
	if c.expect.Keep == 0 {
		return nil
	}
	if c.size == 0 { // all of it is tools' calls, or the like
		c.keep([]byte(answerBegins))
	}
	c.keep([]byte(answerMiddle))
	c.number = append(strconv.AppendUint(c.number[:0], uint64(c.Tokens()), 10), '}')
	c.keep(c.number)
	return nil
}

// emptyLine ends an event.
var emptyLine = []byte("\n\n")

// last takes an event at the end of the content that lacks its empty line. A field whose end is missing
// is none.
func (c *Client) last() {
	if !c.below.EventStream() {
		return
	}
	before := c.failure
	if err := c.read(emptyLine); err != nil || c.failure == ErrChunk {
		c.failure = before
	}
}

// fault says what is wrong with an answer.
func (c *Client) fault() error {
	switch {
	case !c.below.EventStream():
		return ErrNoStream
	case c.failure != nil:
		return c.failure
	case !c.ended:
		return ErrCut
	case c.pieces == 0:
		return ErrEmpty
	}
	return nil
}

// End tells that the peer closed its side while a response was awaited; see wire.Client.
func (c *Client) End() error {
	if err := c.below.End(); err != nil {
		return err
	}
	return c.conclude()
}

// Reusable tells whether the connection may carry another exchange.
func (c *Client) Reusable() bool { return c.below.Reusable() }

// Status returns the status of the last response.
func (c *Client) Status() int { return c.below.Status() }

// Deviations returns how the last response departs from the protocol; see wire.Deviant.
func (c *Client) Deviations() wire.Deviations { return c.below.Deviations() }

// Messages returns how many pieces of the current answer, or of the last one, hold something
// of it.
func (c *Client) Messages() uint32 { return c.pieces }

// Tokens returns the number of tokens of the last answer: as the server says, or as many as there were
// pieces.
func (c *Client) Tokens() uint32 {
	if c.usage > 0 {
		return c.usage
	}
	return c.pieces
}

// Prompt returns the number of tokens of the prompt, as the server says; 0 where it does not.
func (c *Client) Prompt() uint32 { return c.prompt }

// Shown returns the number of tokens in the pieces of the last answer: all, but for the model's
// reasoning where the server counts that and sends none of it. Some servers count it in addition to the
// answer rather than within, which shows where it is not less.
func (c *Client) Shown() uint32 {
	if c.reasons || c.reasoning >= c.usage {
		return c.Tokens()
	}
	return c.usage - c.reasoning
}

// Collected returns the content of the response that is complete, as far as it is kept: of an
// answer {"text": …, "tokens": …}, in JSON. See wire.Collector.
func (c *Client) Collected() (beginning []byte, size int64) { return c.content, c.size }

// Fields returns the fields that were asked for; see wire.Composer.
func (c *Client) Fields() []wire.MuxField { return c.below.Fields() }

// Content is Response: what is made of the content is delivered by Collected.
func (c *Client) Content(p []byte) (n, size int, done bool, err error) {
	n, done, err = c.Response(p)
	return n, 0, done, err
}

// Take does nothing, as Content announces nothing.
func (c *Client) Take(int) {}
