package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// ErrCut says that a stream ended in the middle.
var ErrCut = errors.New("the stream was cut")

// ErrLarge says that an event has more than MaxEvent bytes.
var ErrLarge = fmt.Errorf("an event has more than %d bytes", MaxEvent)

// A Frame is one event of a stream (HTML standard, section 9.2). Its bytes are good
// until the next is read.
type Frame struct {
	Name []byte // of the event; empty is "message"
	Data []byte // of all its data lines
	Raw  []byte // all of it, with the empty line behind
}

// End tells whether it says nothing but that the stream has ended.
func (f Frame) End() bool { return string(bytes.TrimSpace(f.Data)) == done }

// EndFrame returns the event that ends a stream of /v1/chat/completions.
func EndFrame() Frame {
	raw := AppendFrame(nil, "", []byte(done))
	return Frame{Data: []byte(done), Raw: raw}
}

// A Reader reads a stream event by event. One event has MaxEvent bytes at most. While a stream
// waits for its next token, its reader holds a small buffer; one that is behind, or has
// large events, has a large one until it has caught up.
type Reader struct {
	// Alive is called when something has come that is no event yet, such as a comment: before more is waited for. nil is
	// nobody.
	Alive func()

	from  io.Reader
	small []byte // its own
	b     []byte // what has been read: in small, or in what is larger
	at    int    // where the next event begins
	err   error  // of the last read, told when there is no event before it
	full  bool   // the last read filled the buffer: there may be more
	// waited says that the event that is read now was waited for.
	waited bool
	data   []byte      // of an event that has several lines of it
	pool   *ReaderPool // of large buffers; nil makes new ones
}

// MaxEvent bounds one event of a stream, in bytes.
const MaxEvent = 1 << 20

// Bounds of memory.
const (
	smallRead = 512
	largeRead = 16 << 10
	mostKept  = 64 << 10 // from one stream to the next
	mostEmpty = 100      // reads that return nothing, one after another
)

// NewReader reads from r.
func NewReader(r io.Reader) *Reader { return &Reader{from: r} }

// Readers lends readers of streams. Its methods may be called from any goroutine.
type Readers interface {
	Get(from io.Reader) *Reader
	// Put takes a reader back. Events that it has returned are not good any more.
	Put(r *Reader)
}

// A ReaderPool is the gateway's Readers: it uses readers and their large buffers again. The zero value is ready.
type ReaderPool struct {
	readers, large sync.Pool // of *Reader and *[largeRead]byte
}

// Get is Readers'.
func (p *ReaderPool) Get(from io.Reader) *Reader {
	if r, ok := p.readers.Get().(*Reader); ok {
		r.from = from
		return r
	}
	r := NewReader(from)
	r.pool = p
	return r
}

// Put is Readers'.
func (p *ReaderPool) Put(r *Reader) {
	r.shrink()
	if cap(r.data) > mostKept {
		r.data = nil
	}
	r.Alive, r.from, r.err, r.full = nil, nil, nil, false
	p.readers.Put(r)
}

// shrink goes back to the small buffer, and forgets what is in the other.
func (r *Reader) shrink() {
	if cap(r.b) == largeRead && r.pool != nil {
		r.pool.large.Put((*[largeRead]byte)(r.b[:largeRead]))
	}
	if r.small == nil {
		r.small = make([]byte, 0, smallRead)
	}
	r.b, r.at = r.small, 0
}

// enlarge goes on with a larger buffer.
func (r *Reader) enlarge() {
	var b []byte
	if size := 2 * cap(r.b); size > largeRead {
		b = make([]byte, 0, size)
	} else if r.pool == nil {
		b = make([]byte, 0, largeRead)
	} else if large, ok := r.pool.large.Get().(*[largeRead]byte); ok {
		b = large[:0]
	} else {
		b = new([largeRead]byte)[:0]
	}
	b = append(b, r.b[r.at:]...)
	r.shrink()
	r.b = b
}

// Next returns the next event that has data. The error is io.EOF where the stream
// ends between two events, or behind one that is complete but for the empty line.
func (r *Reader) Next() (Frame, error) {
	for r.waited = false; ; {
		raw, err := r.event()
		if errors.Is(err, ErrCut) || errors.Is(err, io.ErrUnexpectedEOF) {
			if f, ok := r.last(); ok {
				return f, nil
			}
		}
		if err != nil {
			return Frame{}, err
		}
		if f, ok := r.parse(raw); ok {
			return f, nil
		}
	}
}

// last returns what stands at the end of a stream as an event, if its data is complete. Its Raw has the empty line that is
// missing.
func (r *Reader) last() (Frame, bool) {
	raw := r.b[r.at:]
	f, ok := r.parse(raw)
	if !ok || !f.End() && !json.Valid(f.Data) {
		return Frame{}, false
	}
	r.at = len(r.b)
	f.Raw = append(bytes.Clone(bytes.TrimRight(raw, "\r\n")), "\n\n"...)
	return f, true
}

// Rest returns what has come and is no event, where Next has returned an error.
func (r *Reader) Rest() []byte { return r.b[r.at:] }

// event returns all of the next event.
func (r *Reader) event() ([]byte, error) {
	line, searched := 0, 0 // from at on: where the line begins, and up to where its end is not
	for {
		b := r.b[r.at:]
		end := bytes.IndexByte(b[searched:], '\n') + 1
		if end == 0 {
			searched = len(b)
		} else {
			end += searched
		}
		if max(end, searched) > MaxEvent {
			return nil, ErrLarge
		}
		if end == 0 {
			if err := r.fill(); err != nil {
				return nil, err
			}
			continue
		}
		if len(bytes.TrimRight(b[line:end], "\r\n")) == 0 {
			r.at += end
			return b[:end], nil
		}
		line, searched = end, end
	}
}

// fill reads more behind what there is. It is called when there is no whole event.
func (r *Reader) fill() error {
	left := len(r.b) - r.at
	if r.err != nil {
		if errors.Is(r.err, io.EOF) && len(bytes.TrimSpace(r.b[r.at:])) > 0 {
			return ErrCut
		}
		return r.err
	}
	switch {
	case left == 0 && !r.full:
		r.shrink()
	case left == cap(r.b), r.full && cap(r.b) < largeRead:
		r.enlarge()
	}
	r.b = append(r.b[:0], r.b[r.at:]...)
	r.at = 0
	if r.waited && r.Alive != nil {
		r.Alive()
	}
	r.waited = true
	for range mostEmpty {
		var n int
		n, r.err = r.from.Read(r.b[left:cap(r.b)])
		r.b = r.b[:left+n]
		if n > 0 || r.err != nil {
			r.full = len(r.b) == cap(r.b)
			return nil //nolint:nilerr // r.err is told once what came with it was read
		}
	}
	return io.ErrNoProgress
}

// parse reads an event. It tells false for one without data, such as a comment: some servers and proxies keep a
// connection alive by a field without a value.
func (r *Reader) parse(raw []byte) (Frame, bool) {
	f, lines := Frame{Raw: raw}, 0
	for rest := raw; len(rest) > 0; {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		field, value, _ := bytes.Cut(bytes.TrimRight(line, "\r"), []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "data":
			switch lines++; lines {
			case 1:
				f.Data = value
				continue
			case 2:
				r.data = append(r.data[:0], f.Data...)
			}
			r.data = append(append(r.data, '\n'), value...)
			f.Data = r.data
		case "event":
			f.Name = value
		}
	}
	return f, len(bytes.TrimSpace(f.Data)) > 0
}

// More tells whether the next event that has data has come already. Comments, which keep a
// connection alive, are none.
func (r *Reader) More() bool {
	data := false
	for b := r.b[r.at:]; ; {
		line, rest, whole := bytes.Cut(b, []byte{'\n'})
		if !whole {
			return false
		}
		b, line = rest, bytes.TrimRight(line, "\r")
		if len(line) == 0 && data {
			return true
		}
		field, value, _ := bytes.Cut(line, []byte{':'})
		data = data || string(field) == "data" && len(bytes.TrimSpace(value)) > 0
	}
}

// AppendFrame adds an event.
func AppendFrame(b []byte, name string, data []byte) []byte {
	if name != "" {
		b = append(append(append(b, "event: "...), name...), '\n')
	}
	return append(append(append(b, "data: "...), data...), "\n\n"...)
}
