// Package http1 is the client's side of HTTP/1.1 (RFC 9112, RFC 9110) without
// I/O: it makes the bytes of a request and understands the bytes of the
// responses, however they are cut into pieces. The engine carries the bytes.
//
// A Request is encoded once; a Template holds the encoded request and what the connections of one
// worker share; each connection has a Client. A client reads responses to find where they end, and
// whether they are sound. It also learns whether their status says success, and whether the connection
// may be used again. It keeps and decodes only the beginning of bodies that may explain a failure; it
// delivers the fields that were asked for by name, and stops before content for those who want that.
//
// It is strict. A load generator that guesses the meaning of a malformed response can lose its place in
// the stream. From then on it measures nonsense; so every doubt is a protocol error of its own, and the
// connection is closed. Where there is no doubt, deviations are read as other clients read them, and
// Deviations reports them.
package http1

import (
	"bytes"
	"math"

	"dyno/load/wire"
)

// A Client is one connection's side of HTTP/1.1, without pipelining. It is for
// one goroutine at a time, together with the other clients of its template. It
// takes about a hundred bytes, and a buffer only while a line is in two pieces.
type Client struct {
	t    *Template
	part []byte // the start of a line whose end has not arrived
	head head
	left int64 // bytes missing of the body, the chunk or the chunk's CR LF; without end, the most there can be
	room int64 // bytes that the current block of lines may still take
	body int64 // bytes of content so far

	own *own // of those that compose requests or deliver fields; else nil

	informational int // 1xx responses so far
	state         state
	departs       wire.Deviations // of informational responses
	tainted       bool            // bytes of no request have arrived, or framing is lost
	closes        bool            // the request says Connection: close
	headOnly      bool            // its response has no body
}

var (
	_ wire.Composer    = (*Client)(nil)
	_ wire.StatusCoder = (*Client)(nil)
	_ wire.Deviant     = (*Client)(nil)
)

// An own is what only some clients have.
type own struct {
	request []byte
	fields  fields
}

// A state is what the next byte belongs to.
type state uint8

const (
	idle        state = iota // no request
	awaiting                 // a header block before its first byte
	inStatus                 // the status line
	inHeader                 // a field line
	inBody                   // a body of known length
	inStream                 // a body that the end of the connection ends
	inChunkSize              // a chunk's size, extensions and CR LF
	inChunk                  // a chunk's data
	afterChunk               // the CR LF after them
	inTrailer                // a field line after the last chunk
)

// maxChunkLine bounds a chunk's size and extensions, CR LF included.
const maxChunkLine = 4 << 10

// Reset forgets everything about an earlier connection.
func (c *Client) Reset() {
	c.forgetPart()
	c.forgetRefusal()
	*c = Client{t: c.t, own: c.own, closes: c.t.closes, headOnly: c.t.headOnly}
	c.forgetFields()
}

// Request starts the next exchange. All clients of a template return the same
// bytes; they never change. It is for templates with Config.Request.
func (c *Client) Request() []byte {
	c.expect()
	return c.t.request
}

// expect begins to await a response.
func (c *Client) expect() {
	c.forgetPart()
	c.forgetFields()
	c.state = awaiting
	c.head = head{}
	c.body = 0
	c.informational, c.departs = 0, 0
}

// Compose starts the next exchange with one of Config.Requests; see wire.Composer. The
// bytes stay as they are until it is called again.
func (c *Client) Compose(request int, parts [][]byte) []byte {
	c.expect()
	p := &c.t.prepared[request]
	c.closes, c.headOnly = p.closes, p.headOnly
	c.own.request = p.append(c.own.request[:0], parts)
	return c.own.request
}

// Reusable tells whether the connection may carry another request: both sides
// were willing, the last response is complete and nothing follows it.
func (c *Client) Reusable() bool {
	return c.state == idle && !c.tainted && !c.closes && c.head.status != 0 && c.head.persistent()
}

// Status returns the status of the current response, or of the last one: 0 until
// its status line has arrived.
func (c *Client) Status() int { return int(c.head.status) }

// Deviations returns how the current response, or the last one, departs from the protocol.
func (c *Client) Deviations() wire.Deviations { return c.departs | c.head.departs }

// BodyBytes returns how many bytes of content the current response has brought,
// or the last one did: without chunk framing, without decoding.
func (c *Client) BodyBytes() int64 { return c.body }

// End tells that the peer has closed its side. It returns nil if that completes a response with an
// accepted status, and the status error for another status. It returns an error of kind Reset if that
// cuts a response short.
func (c *Client) End() error {
	state := c.state
	c.forgetPart()
	defer c.forgetRefusal()
	c.state = idle
	c.tainted = true
	switch state {
	case idle, awaiting:
		if c.informational > 0 {
			return ErrClosedHeader
		}
		return ErrClosedEarly
	case inStatus, inHeader:
		return ErrClosedHeader
	case inTrailer:
		return ErrClosedTrailer
	case inStream:
		if failure := c.failure(); failure != nil {
			return failure
		}
		return nil
	default:
		return ErrClosedBody
	}
}

// Response consumes the next bytes of the current response; see wire.Client. Cut
// at any place, the same bytes give the same outcome. Bytes that arrive while no
// request is under way are refused with ErrUnsolicited.
func (c *Client) Response(p []byte) (n int, done bool, err error) {
	return c.advance(p, false)
}

// Content is Response for those who want the content: it stops before each stretch of it. The first
// size bytes of p[n:] are content. The caller uses them up by Take, in one go or several, before the
// next Content. Without content in p, size is 0 and n, done and err are as of Response.
func (c *Client) Content(p []byte) (n, size int, done bool, err error) {
	n, done, err = c.advance(p, true)
	if !done && err == nil && n < len(p) {
		size = int(min(int64(len(p)-n), c.left))
	}
	return n, size, done, err
}

// Take uses up n bytes of content that Content announced.
func (c *Client) Take(n int) {
	c.left -= int64(n)
	c.body += int64(n)
}

// HasHead tells whether the final response's header is complete, so that Status and
// EventStream speak of it.
func (c *Client) HasHead() bool {
	return c.head.status >= 200 && c.state != inStatus && c.state != inHeader && c.head.seen&sawFault == 0
}

// EventStream tells whether the response's media type is text/event-stream.
func (c *Client) EventStream() bool { return c.head.seen&sawEvents != 0 }

// Codings returns how the content is encoded, once HasHead.
func (c *Client) Codings() wire.Codings { return c.head.codings }

// advance consumes the next bytes of the response, up to the next stretch of content
// if asked to stop there.
func (c *Client) advance(p []byte, stop bool) (n int, done bool, err error) {
	begin := -1 // where in p the current header block began; -1: earlier
	for {
		ready, fault := true, (*wire.Error)(nil)
		switch c.state {
		case idle:
			if n == len(p) {
				return n, false, nil
			}
			return c.fail(n, ErrUnsolicited)

		case awaiting:
			if n == len(p) {
				return n, false, nil
			}
			if used := c.recall(p[n:]); used > 0 {
				n += used
				break
			}
			begin = n
			c.room = c.t.maxHeader
			c.state = inStatus

		case inStatus:
			n, ready, fault = c.readStatusLine(p, n)
		case inHeader:
			n, ready, fault = c.readFields(p, n, begin)

		case inBody, inStream, inChunk:
			if stop && c.left > 0 && n < len(p) {
				return n, false, nil
			}
			n += c.take(p[n:])
			switch {
			case c.left > 0:
				return n, false, nil
			case c.state == inBody:
				return c.finish(n, len(p))
			}
			c.left = int64(len("\r\n"))
			c.state = afterChunk

		case inChunkSize:
			n, ready, fault = c.readChunkSize(p, n)
		case afterChunk:
			n, ready, fault = c.readChunkEnd(p, n)

		case inTrailer:
			var last bool
			if n, ready, last, fault = c.readTrailer(p, n); last {
				return c.finish(n, len(p))
			}
		}
		if fault != nil {
			return c.fail(n, fault)
		}
		if !ready {
			return n, false, nil
		}
	}
}

// recall takes a header block off p that is as the last one, and enters the body after it. It returns 0
// if p begins with another one.
func (c *Client) recall(p []byte) (used int) {
	if used = c.t.memo.recall(p, c.headOnly); used > 0 {
		c.head = c.t.memo.head
		if c.own != nil {
			c.own.fields.copy(&c.t.memo.fields)
		}
		c.enterBody()
	}
	return used
}

// Methods that read a part of a response from p[n:] return where they stopped. They are ready if the
// part was complete, and else need the bytes that follow p.

// readStatusLine reads the status line.
func (c *Client) readStatusLine(p []byte, n int) (next int, ready bool, err *wire.Error) {
	if fit, err := matchStatusPrefix(p[n:], len(c.part)); err != nil {
		return n + fit + 1, false, err
	}
	line, used, err := c.line(p[n:])
	if n += used; err != nil || line == nil {
		return n, false, err
	}
	if err := c.head.statusLine(line); err != nil {
		return n, false, err
	}
	c.forgetPart()
	c.state = inHeader
	return n, true, nil
}

// readFields reads field lines up to one that is cut or folded, or to the end of the header block. The
// block began at p[begin], or earlier if begin is negative.
func (c *Client) readFields(p []byte, n, begin int) (next int, ready bool, err *wire.Error) {
	if c.part == nil {
		used, err := c.head.fields(p[n:min(int64(len(p)), int64(n)+c.room)])
		if len(c.t.wanted) > 0 {
			c.keepLines(p[n : n+used])
		}
		n += used
		c.room -= int64(used)
		if err != nil {
			return n, false, err
		}
	}
	line, used, err := c.fieldLine(p[n:])
	if n += used; err != nil || line == nil {
		return n, false, err
	}
	if len(line) > 0 {
		if err := c.head.field(line); err != nil {
			return n, false, err
		}
		if len(c.t.wanted) > 0 {
			c.keepLine(line)
		}
		c.forgetPart()
		return n, true, nil
	}
	c.forgetPart()
	if err := c.head.complete(c.t, c.headOnly); err != nil {
		return n, false, err
	}
	if c.head.status < 200 && (c.head.status != 101 || !c.t.switches) {
		c.informational++
		return n, true, c.skip()
	}
	if begin >= 0 {
		c.t.memo.store(p[begin:n], c)
	}
	c.enterBody()
	return n, true, nil
}

// readChunkSize reads the line before a chunk's data.
func (c *Client) readChunkSize(p []byte, n int) (next int, ready bool, err *wire.Error) {
	line, used, err := c.line(p[n:])
	if n += used; err != nil || line == nil {
		return n, false, err
	}
	size, spaces, err := chunkSize(line)
	if err != nil {
		return n, false, err
	}
	if spaces {
		c.head.departs |= wire.SpacesAtSizes
	}
	c.forgetPart()
	if size > 0 {
		c.left = size
		c.state = inChunk
	} else {
		c.room = c.t.maxHeader
		c.state = inTrailer
	}
	return n, true, nil
}

// readChunkEnd reads the end of the line after a chunk's data.
func (c *Client) readChunkEnd(p []byte, n int) (next int, ready bool, err *wire.Error) {
	for ; c.left > 0; c.left-- {
		if n == len(p) {
			return n, false, nil
		}
		n++
		switch p[n-1] {
		case "\n\r"[c.left-1]:
		case '\n':
			c.head.departs |= wire.BareLF
			c.left = 1 // which this loop's step makes 0
		default:
			return n, false, ErrChunkEnd
		}
	}
	c.room = maxChunkLine
	c.state = inChunkSize
	return n, true, nil
}

// readTrailer reads a field line after the last chunk, or the empty line that is the last one.
func (c *Client) readTrailer(p []byte, n int) (next int, ready, last bool, err *wire.Error) {
	line, used, err := c.fieldLine(p[n:])
	if n += used; err != nil || line == nil {
		return n, false, false, err
	}
	if len(line) > 0 {
		if _, _, err := splitField(line); err != nil {
			return n, false, false, err
		}
	}
	last = len(line) == 0
	c.forgetPart()
	return n, true, last, nil
}

// skip passes over an informational response, to wait for the final one.
func (c *Client) skip() *wire.Error {
	switch {
	case c.head.status == 101:
		return ErrSwitching
	case c.informational > wire.MaxInformational:
		return ErrInformational
	}
	c.departs |= c.head.departs
	c.head = head{}
	c.forgetFields()
	c.state = awaiting
	return nil
}

// enterBody goes on to what follows the header block.
func (c *Client) enterBody() {
	switch c.head.framing {
	case noBody:
		c.left = 0
		c.state = inBody
	case byLength:
		c.left = c.head.length
		c.state = inBody
	case byClose:
		c.left = math.MaxInt64
		c.state = inStream
	case byChunks:
		c.room = maxChunkLine
		c.state = inChunkSize
	}
}

// take counts the bytes of p that belong to the body, up to c.left.
func (c *Client) take(p []byte) int {
	used := min(int64(len(p)), c.left)
	c.left -= used
	c.body += used
	if c.head.failure != nil && used > 0 {
		c.hear(p[:used])
	}
	return int(used)
}

// hear keeps the beginning of the content of a response whose status was not accepted: it may say
// why. There are few such responses at once, so that clients need no place for it.
func (c *Client) hear(content []byte) {
	said := c.t.contents[c]
	if said == nil {
		said = c.t.spare.Borrow()
	}
	c.t.contents[c] = append(said, content[:min(len(content), wire.MaxRefusal-len(said))]...)
}

// Failed tells whether the response's status was not accepted, once HasHead. Its content is then
// best left to Response, which looks at what it says.
func (c *Client) Failed() bool { return c.head.failure != nil }

// failure returns the error of a complete response whose status was not accepted; else nil.
func (c *Client) failure() *wire.Error {
	if c.head.failure == nil || len(c.t.contents[c]) == 0 {
		return c.head.failure
	}
	return c.t.refusals.Decoded(c.head.failure, c.t.contents[c], c.head.codings)
}

func (c *Client) forgetRefusal() {
	if said := c.t.contents[c]; said != nil {
		c.t.spare.GiveBack(said)
		delete(c.t.contents, c)
	}
}

// finish ends a complete response after n of size bytes.
func (c *Client) finish(n, size int) (int, bool, error) {
	c.state = idle
	if n < size {
		c.tainted = true
	}
	if failure := c.failure(); failure != nil {
		c.forgetRefusal()
		return n, true, failure
	}
	return n, true, nil
}

// fail ends the exchange and, as the place in the stream is lost, the connection.
func (c *Client) fail(n int, err *wire.Error) (int, bool, error) {
	c.forgetPart()
	c.forgetRefusal()
	if c.state == inStatus || c.state == inHeader {
		c.head.seen |= sawFault
	}
	c.state = idle
	c.tainted = true
	return n, false, err
}

// line takes the next line off p. It returns the line without its end and how
// many bytes of p it took; or nil, having put what there was of the line into
// c.part. The line is valid until forgetPart. A line found whole is not copied.
func (c *Client) line(p []byte) (line []byte, used int, err *wire.Error) {
	end := bytes.IndexByte(p, '\n')
	if used = end + 1; end < 0 {
		used = len(p)
	}
	if line, err = c.takeLine(p, used, end >= 0); line != nil {
		line = c.trimEnd(line)
	} else if err != nil {
		used = int(c.room)
	}
	return line, used, err
}

// fieldLine is line, of a field line with those that continue it, which begin with
// whitespace. Only the byte after a line shows whether it has ended, unless the line is empty.
// A space replaces each fold (RFC 9112, section 5.2).
func (c *Client) fieldLine(p []byte) (line []byte, used int, err *wire.Error) {
	ended := len(c.part) > 0 && c.part[len(c.part)-1] == '\n'
	folded := len(c.part) > 0 && bytes.IndexByte(c.part[:len(c.part)-1], '\n') >= 0
	for !ended || used == len(p) || isSpace(p[used]) {
		folded = folded || ended
		end := bytes.IndexByte(p[used:], '\n')
		if end < 0 {
			if _, err := c.takeLine(p, len(p), false); err != nil {
				return nil, int(c.room), err
			}
			return nil, len(p), nil
		}
		used += end + 1
		ended = true
		if size := len(c.part) + used; size == 1 || size == 2 && (len(c.part) == 1 && c.part[0] == '\r' || len(c.part) == 0 && p[0] == '\r') {
			break
		}
	}
	if line, err = c.takeLine(p, used, true); err != nil {
		return nil, int(c.room), err
	}
	if !folded {
		return c.trimEnd(line), used, nil
	}
	if len(c.part) == 0 {
		c.part = append(c.t.spare.Borrow(), line...)
		line = c.part
	}
	return c.unfold(line), used, nil
}

// takeLine takes the first used bytes of p, with which a line is complete or not. It returns
// the complete line; or nil, having put them into c.part.
func (c *Client) takeLine(p []byte, used int, complete bool) (line []byte, err *wire.Error) {
	if int64(used) > c.room {
		return nil, c.tooLong()
	}
	c.room -= int64(used)
	if complete && len(c.part) == 0 {
		return p[:used], nil
	}
	if used > 0 {
		if c.part == nil {
			c.part = c.t.spare.Borrow()
		}
		c.part = append(c.part, p[:used]...)
	}
	if !complete {
		return nil, nil
	}
	return c.part, nil
}

// trimEnd returns a line without its end.
func (c *Client) trimEnd(line []byte) []byte {
	line = line[:len(line)-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		return line[:n-1]
	}
	c.head.departs |= wire.BareLF
	return line
}

// unfold makes one line of several, in place.
func (c *Client) unfold(lines []byte) []byte {
	c.head.departs |= wire.FoldedLines
	joined := lines[:0]
	for len(lines) > 0 {
		end := bytes.IndexByte(lines, '\n') + 1
		line := c.trimEnd(lines[:end])
		if lines = lines[end:]; len(joined) > 0 {
			line = trimSpace(line)
			joined = append(joined, ' ')
		}
		joined = append(joined, line...)
		for len(lines) > 0 && len(joined) > 0 && isSpace(joined[len(joined)-1]) {
			joined = joined[:len(joined)-1]
		}
	}
	return joined
}

func (c *Client) tooLong() *wire.Error {
	switch c.state {
	case inChunkSize:
		return ErrChunkLine
	case inTrailer:
		return ErrTrailerTooLarge
	default:
		return ErrHeaderTooLarge
	}
}

func (c *Client) forgetPart() {
	if c.part != nil {
		c.t.spare.GiveBack(c.part)
		c.part = nil
	}
}

// chunkSize reads a chunk's size and passes over its extensions (RFC 9112,
// section 7.1). It tells whether whitespace alone follows the size.
func chunkSize(line []byte) (size int64, spaces bool, err *wire.Error) {
	i := 0
	for ; i < len(line); i++ {
		digit, ok := hexDigit(line[i])
		if !ok {
			break
		}
		if size > math.MaxInt64>>4 {
			return 0, false, ErrChunkOverflow
		}
		size = size<<4 | digit
	}
	if i == 0 {
		return 0, false, ErrChunkSize
	}
	rest := line[i:]
	if len(rest) == 0 {
		return size, false, nil
	}
	if rest = trimSpace(rest); len(rest) == 0 {
		return size, true, nil
	}
	if rest[0] != ';' {
		return 0, false, ErrChunkSize
	}
	return size, false, checkText(rest)
}

func hexDigit(b byte) (int64, bool) {
	switch {
	case b-'0' < 10:
		return int64(b - '0'), true
	case b|0x20-'a' < 6:
		return int64(b|0x20-'a') + 10, true
	default:
		return 0, false
	}
}
