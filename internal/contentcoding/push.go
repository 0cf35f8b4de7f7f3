package contentcoding

import (
	"errors"
	"io"
	"iter"
)

// A Decoder decodes a body that comes in pieces, for callers who are given bytes and do not read them. One goroutine
// uses it, and ends it by Close.
type Decoder struct {
	next  func() ([]byte, bool) // decodes until there is something, or until it needs more: nil
	stop  func()
	in    []byte // what was not decoded yet
	ended bool   // nothing follows in
	err   error
}

const pieceSize = 16 << 10 // bytes that are decoded at once

var errClosed = errors.New("the decoder is closed")

// NewDecoder returns a decoder of a body with a field. NewReader has the limits and errors.
func NewDecoder(field string, most int64) (*Decoder, error) {
	d := &Decoder{}
	source := &pieces{d: d}
	r, err := NewReader(source, field, most)
	if err != nil {
		return nil, err
	}
	// The libraries read. As a coroutine, they wait within their Read until the next piece comes.
	d.next, d.stop = iter.Pull(func(yield func([]byte) bool) {
		source.yield = yield
		out := make([]byte, pieceSize)
		for {
			n, err := r.Read(out)
			if source.closed {
				return
			}
			if n > 0 && !yield(out[:n]) {
				return
			}
			if err != nil {
				d.err = err
				return
			}
		}
	})
	return d, nil
}

// Append decodes the next piece of the body, and appends to dst what is known by then.
func (d *Decoder) Append(dst, piece []byte) ([]byte, error) {
	d.in = piece
	for d.err == nil {
		out, more := d.next()
		if !more || out == nil {
			break
		}
		dst = append(dst, out...)
	}
	if errors.Is(d.err, io.EOF) { // the body ended before its pieces
		return dst, nil
	}
	return dst, d.err
}

// End tells that the body is whole, and appends to dst what is left of it.
func (d *Decoder) End(dst []byte) ([]byte, error) {
	d.ended = true
	return d.Append(dst, nil)
}

// Close frees what the decoder holds.
func (d *Decoder) Close() {
	if d.err == nil {
		d.err = errClosed
	}
	d.stop()
}

// pieces are a decoder's input as a reader.
type pieces struct {
	d      *Decoder
	yield  func([]byte) bool
	closed bool
}

// Read returns what has come, and waits for more if that is nothing.
func (s *pieces) Read(p []byte) (int, error) {
	for len(s.d.in) == 0 {
		if s.d.ended {
			return 0, io.EOF
		}
		if s.closed = s.closed || !s.yield(nil); s.closed {
			return 0, errClosed
		}
	}
	n := copy(p, s.d.in)
	s.d.in = s.d.in[n:]
	return n, nil
}
