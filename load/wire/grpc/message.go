package grpc

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"slices"

	"dyno/load/wire"
)

// The prefix of each message (HTTP2, "Length-Prefixed-Message"): a byte of flags, and the message's
// length.
const (
	prefixSize     = 5
	flagCompressed = 0x01
	flagTrailers   = 0x80 // of gRPC-Web: what follows are trailers, as a header block of HTTP/1.1 (Web)
)

// AppendMessage appends a message with what stands before it.
func AppendMessage(b, message []byte, compressed bool) []byte {
	flags := byte(0)
	if compressed {
		flags = flagCompressed
	}
	b = binary.BigEndian.AppendUint32(append(b, flags), uint32(len(message))) //nolint:gosec // bounded where calls are prepared
	return append(b, message...)
}

// A call is an exchange under way: where it is in what it sends, and in what it receives.
type call struct {
	request int32
	state   callState
	status  int16 // of HTTP

	// Messages sent in pieces.
	sent   uint32 // messages that were handed over whole
	due    uint32 // messages that may have been sent by now
	offset int    // bytes of the next one that were handed over

	// Messages received.
	messages uint32 // that are complete
	head     [prefixSize]byte
	got      uint8  // bytes of head
	left     uint32 // bytes of the message that have not arrived
	part     []byte // what has arrived of it, if it is to be put together
	group    [4]byte
	grouped  uint8 // bytes of group: characters of base64 whose group is not complete

	end failure // what the status says; without settled, nothing

	// gRPC-Web: the trailing metadata that was asked for, whose values stand in a buffer of it.
	trailing []wire.MuxField
	values   []byte
}

// restart makes the call a new one. It keeps its memory.
func (k *call) restart(request int) {
	*k = call{request: int32(request), state: active, trailing: k.trailing[:0], values: k.values[:0]} //nolint:gosec // bounded by the calls
}

// A callState is a call's state.
type callState uint16

const (
	active   callState = 1 << iota // the place is taken
	headed                         // the response's header has come
	settled                        // end is what the status says
	early                          // it stands in the header, and counts only if nothing is after that
	opaque                         // the content is not gRPC's
	encoded                        // grpc-encoding names an offered coding
	foreign                        // grpc-encoding names something else
	inside                         // of a message, whose prefix is complete
	whole                          // the message is put together
	trailed                        // gRPC-Web: the trailers have come
	garbled                        // what follows is not base64
	rejected                       // the status is not OK, and no check judges it
)

// A content is a piece of a response's content. Messages are taken from it one by one.
type content struct {
	raw   []byte // what is left of the piece
	plain []byte // base64: decoded bytes that are left
	space []byte // base64: where that stands
}

// textSpace is how much is decoded from base64 at once.
const textSpace = 3 << 10

// message takes the next message. Without a complete one, and without a failure, all of the
// piece is used. The message is valid until the next one is taken, and nil unless it is asked
// for.
func (c *content) message(t *Template, k *call) (message []byte, complete bool, f failure) {
	for {
		if t.web != Text {
			if len(c.raw) == 0 {
				return nil, false, f
			}
			var n int
			n, complete, message, f = k.next(t, c.raw)
			c.raw = c.raw[n:]
		} else {
			if len(c.plain) == 0 {
				switch {
				case k.state&garbled != 0:
					return nil, false, errBase64
				case len(c.raw) == 0:
					return nil, false, f
				case c.space == nil:
					c.space = make([]byte, 0, textSpace)
				}
				var n int
				n, c.plain = k.decode(c.space, c.raw)
				c.raw = c.raw[n:]
				continue
			}
			var n int
			n, complete, message, f = k.next(t, c.plain)
			c.plain = c.plain[n:]
		}
		if complete || f.Error != nil {
			return message, complete, f
		}
	}
}

// drop forgets the piece.
func (c *content) drop() { c.raw, c.plain = nil, nil }

// next consumes content up to the end of one message.
func (k *call) next(t *Template, p []byte) (n int, complete bool, message []byte, f failure) {
	if k.state&inside == 0 {
		if k.state&trailed != 0 {
			return len(p), false, nil, errBehindEnd
		}
		if k.got == 0 && len(p) >= prefixSize {
			copy(k.head[:], p)
			n = prefixSize
		} else {
			n = copy(k.head[k.got:], p)
			if k.got += uint8(n); k.got < prefixSize { //nolint:gosec // at most 5
				return n, false, nil, f
			}
		}
		k.got = 0
		if f = k.open(t); f.Error != nil {
			return n, false, nil, f
		}
	}
	body := p[n:]
	if uint32(len(body)) >= k.left { //nolint:gosec // a piece is smaller than 4 GiB
		body = body[:k.left]
	}
	n += len(body)
	k.left -= uint32(len(body)) //nolint:gosec // not more than was left
	if k.state&whole != 0 && (k.left > 0 || k.part != nil) {
		if k.part == nil {
			k.part = t.spare.Borrow()
		}
		// Room for no more than has arrived: a peer may announce what it does not send.
		k.part = append(k.part, body...)
		body = k.part
	}
	if k.left > 0 {
		return n, false, nil, f
	}
	message, f = k.close(t, body)
	return n, f.Error == nil && k.head[0]&flagTrailers == 0, message, f
}

// open begins with a message whose prefix is complete.
func (k *call) open(t *Template) (f failure) {
	flags, size := k.head[0], binary.BigEndian.Uint32(k.head[1:])
	limit := t.maxMessage
	switch {
	case flags&^(flagCompressed|flagTrailers) != 0 || flags&flagTrailers != 0 && t.web == Native:
		return errFrameFlags
	case flags&flagCompressed != 0 && k.state&foreign != 0:
		return errEncoding
	case flags&flagCompressed != 0 && k.state&encoded == 0:
		return errUncoded
	case flags&flagTrailers != 0:
		limit = maxTrailers
	}
	if int64(size) > int64(limit) {
		if flags&flagTrailers != 0 {
			return errTrailersTooLarge
		}
		return t.tooLarge(int64(size))
	}
	k.left = size
	k.state |= inside
	k.state &^= whole
	if flags != 0 || t.calls[k.request].wants {
		k.state |= whole
	}
	return f
}

// close ends a message that has arrived whole.
func (k *call) close(t *Template, body []byte) (message []byte, f failure) {
	k.state &^= inside
	flags := k.head[0]
	if flags&flagCompressed != 0 {
		var ok bool
		if body, ok = t.expand(body); !ok {
			f = errCompressed
		} else if len(body) > t.maxMessage {
			f = t.tooLarge(0) // no more of it was expanded
		}
	} else if k.part != nil {
		t.spare.GiveBack(t.shown)
		t.shown, k.part = k.part, nil // body stands in it
	}
	k.forgetPart(t)
	switch {
	case f.Error != nil:
		return nil, f
	case flags&flagTrailers != 0:
		k.state |= trailed
		return nil, k.trailers(t, body)
	}
	k.messages++
	if !t.calls[k.request].wants {
		return nil, f
	}
	return body, f
}

func (k *call) forgetPart(t *Template) {
	if k.part != nil {
		t.spare.GiveBack(k.part)
		k.part = nil
	}
}

// maxTrailers bounds the trailers of gRPC-Web, in bytes.
const maxTrailers = 64 << 10

// trailers reads the trailers of gRPC-Web: lines as of a header of HTTP/1.1, without the
// empty one at the end (Web).
func (k *call) trailers(t *Template, block []byte) (f failure) {
	var s callStatus
	for len(block) > 0 {
		line, rest, _ := bytes.Cut(block, []byte("\n"))
		block = rest
		line = bytes.TrimSuffix(line, []byte("\r"))
		name, value, found := bytes.Cut(line, []byte(":"))
		if !found {
			if len(line) == 0 {
				continue // some servers end the block as a header is ended
			}
			return errTrailers
		}
		value = bytes.Trim(value, " \t")
		switch {
		case bytes.EqualFold(name, []byte(nameStatus)):
			s.code = value
		case bytes.EqualFold(name, []byte(nameMessage)):
			s.message = value
		case bytes.EqualFold(name, []byte(nameDetails)):
			s.details = value
		}
		for i, asked := range t.trailers {
			if bytes.EqualFold(name, asked) {
				begin := len(k.values)
				k.values = append(k.values, value...)
				k.trailing = append(k.trailing, wire.MuxField{Name: t.firstTrailing + i, Value: k.values[begin:len(k.values):len(k.values)]})
			}
		}
	}
	if s.code != nil {
		k.noteStatus(t, s)
	}
	return f
}

// noteStatus notes what a status says. That of trailers takes the place of one in the header.
func (k *call) noteStatus(t *Template, s callStatus) {
	end, ok := t.ending(s)
	k.end = end
	k.state |= settled
	k.state &^= rejected | early
	if !ok {
		k.state |= rejected
	}
}

// judge forgets a status in the header if content came, or trailers without one: a response that
// has its status in the header has nothing else (HTTP2, "Responses", Trailers-Only).
func (k *call) judge(trailers bool) {
	if k.state&early != 0 && (trailers || k.messages > 0 || k.got > 0 || k.grouped > 0 || k.state&(inside|trailed) != 0) {
		k.state &^= settled | early
	}
}

// decode decodes base64, at most as much as to has room for, and returns how much of p it used.
// It stops where it is not base64. Content may be several texts in base64 after each other,
// each padded (Web).
func (k *call) decode(to, p []byte) (n int, out []byte) {
	for n < len(p) && len(to)+3 <= cap(to) {
		k.group[k.grouped] = p[n]
		n++
		if k.grouped++; k.grouped < 4 {
			continue
		}
		k.grouped = 0
		var word uint32
		pads := 0
		for i, b := range k.group {
			if b == '=' && i >= 2 {
				pads++
				word <<= 6
				continue
			}
			v := base64Values[b]
			if v > 63 || pads > 0 {
				k.state |= garbled
				return n, to
			}
			word = word<<6 | uint32(v)
		}
		group := [3]byte{byte(word >> 16), byte(word >> 8), byte(word)}
		to = append(to, group[:3-pads]...)
	}
	return n, to
}

// base64Values maps the standard alphabet (RFC 4648, section 4); 64 is none.
var base64Values = func() (all [256]byte) {
	for i := range all {
		all[i] = 64
	}
	for i, b := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		all[b] = byte(i)
	}
	return all
}()

// compress returns a message compressed with gzip, as calls are prepared.
func compress(message []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(message); err != nil {
		panic(err) // into memory
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// expand decompresses a message, and stops one byte past the limit. Its result is valid until the next
// call.
func (t *Template) expand(p []byte) ([]byte, bool) {
	t.source.Reset(p)
	var err error
	if t.gunzip == nil {
		t.gunzip, err = gzip.NewReader(&t.source)
	} else {
		err = t.gunzip.Reset(&t.source)
	}
	if err != nil {
		return nil, false
	}
	b := t.shown[:0]
	for len(b) <= t.maxMessage {
		b = slices.Grow(b, min(max(512, len(p)), t.maxMessage+1-len(b)))
		n, err := t.gunzip.Read(b[len(b):min(cap(b), t.maxMessage+1)])
		b = b[:len(b)+n]
		switch {
		case err == io.EOF: //nolint:errorlint // as it is documented
			t.shown = b
			return b, true
		case err != nil:
			t.shown = b
			return nil, false
		}
	}
	t.shown = b
	return b, true
}
