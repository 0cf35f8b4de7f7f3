package http2

import "strconv"

// appendHead appends what a frame begins with.
func appendHead(b []byte, length int, kind, flags uint8, id uint32) []byte {
	return append(b, byte(length>>16), byte(length>>8), byte(length), kind, flags,
		byte(id>>24), byte(id>>16), byte(id>>8), byte(id))
}

// An encoder knows what is in the client's table: at most the two fields that nearly all
// answers have. Everything else is spelled out each time.
type encoder struct {
	limit   int   // the table's size
	update  bool  // the client must be sent the limit
	content uint8 // index of the content type; 0 when it is not in the table
	status  uint8 // index of grpc-status: 0
}

// both is the size of the two fields in the table.
const both = (12 + 16 + 32) + (11 + 1 + 32)

// resize follows the client's setting.
func (e *encoder) resize(size int) {
	if size == e.limit {
		return
	}
	*e = encoder{limit: size, update: true}
	// A table that was smaller for a moment is empty, and so is a table with an announced size. Both sides
	// agree: the update sets 0 first.
}

// begin appends what a header block begins with.
func (e *encoder) begin(b []byte) []byte {
	if e.update {
		e.update = false
		b = append(b, 0x20)
		b = appendInteger(b, 0x20, 5, e.limit)
	}
	return b
}

// appendInteger appends an integer (RFC 7541, section 5.1).
func appendInteger(b []byte, first byte, bits uint, n int) []byte {
	if n < 1<<bits-1 {
		return append(b, first|byte(n))
	}
	b = append(b, first|(1<<bits-1))
	for n -= 1<<bits - 1; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

// appendField appends a field that is spelled out and enters no table.
func appendField[S string | []byte](b []byte, name string, value S) []byte {
	b = append(appendInteger(append(b, 0), 0, 7, len(name)), name...)
	return append(appendInteger(b, 0, 7, len(value)), value...)
}

const contentType = "application/grpc"

// header appends the fields that each answer begins with: the status 200, and the content
// type.
func (e *encoder) header(b []byte) []byte {
	b = append(e.begin(b), 0x88)
	if e.content != 0 {
		return append(b, 0x80|e.content)
	}
	if e.limit < both {
		b = append(b, 0x0f, 31-15)
		return append(append(b, byte(len(contentType))), contentType...)
	}
	b = append(b, 0x40|31, byte(len(contentType)))
	e.content = 62
	if e.status != 0 {
		e.status++
	}
	return append(b, contentType...)
}

// ok appends the trailer of a call that went well.
func (e *encoder) ok(b []byte) []byte {
	b = e.begin(b)
	if e.status != 0 {
		return append(b, 0x80|e.status)
	}
	if e.limit < both {
		return appendField(b, "grpc-status", "0")
	}
	b = append(b, 0x40, byte(len("grpc-status")))
	b = append(b, "grpc-status\x010"...)
	e.status = 62
	if e.content != 0 {
		e.content++
	}
	return b
}

// sendBlock sends a header block in as many frames as it needs.
func (c *Conn) sendBlock(id uint32, flags uint8, block []byte) {
	kind := uint8(frameHeaders)
	for len(block) > MaxFrame {
		c.Out = append(appendHead(c.Out, MaxFrame, kind, flags, id), block[:MaxFrame]...)
		block = block[MaxFrame:]
		kind, flags = frameContinuation, 0
	}
	c.Out = append(appendHead(c.Out, len(block), kind, flags|flagEndHeaders, id), block...)
}

// Respond sends the header of an answer, unless that was done: with gzip, and with the
// metadata that the call brought.
func (c *Conn) Respond(s *Stream, gzip bool) {
	if s.headers {
		return
	}
	s.headers = true
	b := c.encoder.header(c.shared.block[:0])
	if gzip {
		b = appendField(b, "grpc-encoding", "gzip")
	}
	if len(s.Request.Initial) > 0 {
		b = appendField(b, "x-grpc-test-echo-initial", s.Request.Initial)
	}
	c.shared.block = b
	c.sendBlock(s.id, 0, b)
}

// Finish sends the status of a call, after all data or instead of an answer, and ends the
// stream.
func (c *Conn) Finish(s *Stream, status uint32, message string) {
	b := c.shared.block[:0]
	if !s.headers {
		b = c.encoder.header(b)
		if len(s.Request.Initial) > 0 {
			b = appendField(b, "x-grpc-test-echo-initial", s.Request.Initial)
		}
	}
	if status == 0 {
		b = c.encoder.ok(b)
	} else {
		var digits [10]byte
		b = appendField(c.encoder.begin(b), "grpc-status", strconv.AppendUint(digits[:0], uint64(status), 10))
		if message != "" {
			b = appendField(b, "grpc-message", escape(message))
		}
		if s.Request.Encoding == Unknown {
			b = appendField(b, "grpc-accept-encoding", "identity,gzip")
		}
	}
	if len(s.Request.Trailing) > 0 {
		b = appendField(b, "x-grpc-test-echo-trailing-bin", s.Request.Trailing)
	}
	c.shared.block = b
	c.sendBlock(s.id, flagEndStream, b)
	if s.ended {
		c.credit = min(c.credit+1, credit)
	} else {
		// The client is asked to send no more (section 8.1).
		c.sendReset(s.id, NoError)
	}
	c.close(s)
}

// Refuse ends a call that is none of gRPC's with a status of HTTP.
func (c *Conn) Refuse(s *Stream, status string) {
	b := c.encoder.begin(c.shared.block[:0])
	b = append(b, 0x08, byte(len(status)))
	b = append(b, status...)
	c.shared.block = b
	c.sendBlock(s.id, flagEndStream, b)
	if !s.ended {
		c.sendReset(s.id, NoError)
	}
	c.close(s)
}

// escape writes a message in the characters that a header may have (gRPC over HTTP/2,
// "Responses").
func escape(message string) string {
	const hex = "0123456789ABCDEF"
	b := make([]byte, 0, len(message))
	for i := range len(message) {
		if ch := message[i]; ch < ' ' || ch > '~' || ch == '%' {
			b = append(b, '%', hex[ch>>4], hex[ch&15])
		} else {
			b = append(b, ch)
		}
	}
	return string(b)
}

// room returns how many bytes of a stream's data may be sent now.
func (c *Conn) room(s *Stream) int {
	return min(c.send, s.send, maxOutput-len(c.Out))
}

// Reserve returns the memory for n bytes of data that are sent now, all of them in
// one frame; nil when that does not go.
func (c *Conn) Reserve(s *Stream, n int) []byte {
	if n > MaxFrame || n > c.room(s) {
		return nil
	}
	c.Out = appendHead(c.Out, n, frameData, 0, s.id)
	at := len(c.Out)
	if at+n > cap(c.Out) {
		c.Out = append(c.Out, make([]byte, n)...)
	} else {
		c.Out = c.Out[:at+n]
	}
	c.send -= n
	s.send -= n
	return c.Out[at:]
}

// Send sends what it may of a stream's data and returns how much that was. If that is not
// all, Writable is called when there may be more.
func (c *Conn) Send(s *Stream, b []byte) (sent int) {
	for sent < len(b) {
		n := min(len(b)-sent, MaxFrame, c.room(s))
		if n <= 0 {
			c.Wait(s)
			break
		}
		c.Out = append(appendHead(c.Out, n, frameData, 0, s.id), b[sent:sent+n]...)
		c.send -= n
		s.send -= n
		sent += n
	}
	return sent
}

// Wait has Writable called when the stream's turn comes to send.
func (c *Conn) Wait(s *Stream) {
	switch {
	case s.waits || s.stalled:
	case s.send <= 0:
		// Only a window update for this stream helps, so it is not looked at until then.
		s.stalled = true
	default:
		c.waiting.push(s)
	}
}

// Crowded reports whether so much waits to be written that no input is taken.
func (c *Conn) Crowded() bool { return len(c.Out) > maxOutput }

// Waits reports whether a stream waits that could send now.
func (c *Conn) Waits() bool { return c.waiting.length > 0 && c.send > 0 && len(c.Out) < maxOutput }

// Resume tells streams that wait that they may send, each once, in the order of their
// waiting.
func (c *Conn) Resume() {
	for range c.waiting.length {
		if !c.Waits() {
			return
		}
		s := c.waiting.first
		c.waiting.remove(s)
		c.shared.handler.Writable(s)
	}
}
