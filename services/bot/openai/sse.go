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

// ErrLarge says that an event exceeds its reader's bound.
var ErrLarge = errors.New("an event has more")

// A Frame is one event of a stream (HTML standard, section 9.2). Its bytes are valid until the next is read.
type Frame struct {
	Name []byte // of the event; empty is "message"
	Data []byte // of all its data lines
	Raw  []byte // the whole event, with the empty line; no line ends with a lone carriage return
}

// Clone is good for as long as one likes.
func (f Frame) Clone() Frame {
	return Frame{bytes.Clone(f.Name), bytes.Clone(f.Data), bytes.Clone(f.Raw)}
}

// End reports whether the event only ends the stream.
func (f Frame) End() bool { return string(bytes.TrimSpace(f.Data)) == done }

// EndFrame returns the event that ends a stream of an endpoint whose choices end it; it is empty if there is none.
func EndFrame(e Endpoint) Frame {
	if e != Chat {
		return Frame{}
	}
	raw := AppendFrame(nil, "", []byte(done))
	return Frame{Data: []byte(done), Raw: raw}
}

// A Reader reads a stream event by event, by the HTML standard (section 9.2.6). It differs in two points. It ignores
// events with blank data: some servers keep a connection alive by them. At the end of the stream, an event without
// its empty line counts if its data is complete: some servers end like that.
//
// While a stream waits for its next token, its reader holds a small buffer. With unread or large events it holds a
// large one, until it has caught up.
type Reader struct {
	// Most bounds the bytes of an event.
	Most int
	// Alive, if not nil, is called after bytes without a complete event, such as a comment, before the next read.
	Alive func()

	from     io.Reader
	small    []byte // its own
	b        []byte // the bytes read: in small, or in a larger buffer
	at       int    // where the next event begins
	err      error  // of the last read, returned after the last event
	full     bool   // the last read filled the buffer: there may be more
	pastMark bool   // a byte order mark would be text from here on
	feed     bool   // the last line ended by a carriage return: a line feed that follows belongs to it
	// waited says that the reader had to wait for the present event.
	waited bool
	data   []byte      // of an event with several data lines
	pool   *ReaderPool // of large buffers; nil makes new ones
}

// MaxEvent is the default bound on one event of a stream, in bytes. An image in base64 has a few MiB.
const MaxEvent = 8 << 20

// mark is the byte order mark, with which a stream may begin.
const mark = "\xef\xbb\xbf"

// Bounds of memory.
const (
	smallRead = 512
	largeRead = 16 << 10
	mostKept  = 64 << 10 // from one stream to the next
	mostEmpty = 100      // consecutive reads without a byte
)

// NewReader reads from r.
func NewReader(r io.Reader) *Reader { return &Reader{Most: MaxEvent, from: r} }

// Readers lends readers of streams. Its methods may be called from any goroutine.
type Readers interface {
	Get(from io.Reader) *Reader
	// Put takes a reader back. Its events become invalid.
	Put(r *Reader)
}

// A ReaderPool is the gateway's Readers: it reuses readers and their large buffers. The zero value is ready.
type ReaderPool struct {
	readers, large sync.Pool // of *Reader and *[largeRead]byte
}

// Get implements Readers.
func (p *ReaderPool) Get(from io.Reader) *Reader {
	if r, ok := p.readers.Get().(*Reader); ok {
		r.from = from
		return r
	}
	r := NewReader(from)
	r.pool = p
	return r
}

// Put implements Readers.
func (p *ReaderPool) Put(r *Reader) {
	r.shrink()
	if cap(r.data) > mostKept {
		r.data = nil
	}
	r.Most, r.Alive, r.from, r.err, r.full, r.pastMark, r.feed = MaxEvent, nil, nil, nil, false, false, false
	p.readers.Put(r)
}

// shrink returns to the small buffer, and discards the contents of the other.
func (r *Reader) shrink() {
	if cap(r.b) == largeRead && r.pool != nil {
		r.pool.large.Put((*[largeRead]byte)(r.b[:largeRead]))
	}
	if r.small == nil {
		r.small = make([]byte, 0, smallRead)
	}
	r.b, r.at = r.small, 0
}

// enlarge switches to a larger buffer.
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

// Next returns the next event that has data. The error is io.EOF if the stream ends between two events, or after one
// that lacks only its empty line.
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

// last returns the rest of a stream as an event, if its data is complete. It adds the missing empty line to Raw.
func (r *Reader) last() (Frame, bool) {
	raw := r.b[r.at:]
	f, ok := r.parse(raw)
	if !ok || !f.End() && !json.Valid(f.Data) {
		return Frame{}, false
	}
	r.at = len(r.b)
	f.Raw = append(bytes.Clone(bytes.TrimRight(f.Raw, "\r\n")), "\n\n"...)
	return f, true
}

// Rest returns the bytes that are no event, after Next has returned an error.
func (r *Reader) Rest() []byte { return r.b[r.at:] }

// event returns the next event's bytes.
func (r *Reader) event() ([]byte, error) {
	if err := r.begin(); err != nil {
		return nil, err
	}
	line, searched := 0, 0 // offsets from at: the line's beginning, and the end of the part without a line end
	for {
		b := r.b[r.at:]
		text, end := lineEnd(b[searched:])
		blank := end > 0 && searched+text == line
		last := end > 0 && searched+end == len(b) && b[len(b)-1] == '\r'
		if searched = searched + end; end == 0 {
			searched = len(b)
		}
		switch {
		case searched > r.Most:
			return nil, fmt.Errorf("%w than %d bytes", ErrLarge, r.Most)
		case blank:
			r.at += searched
			r.feed = last
			return b[:searched], nil
		case end == 0 || last: // a following line feed belongs to it
			if last {
				searched--
			}
			if err := r.fill(); err != nil {
				return nil, err
			}
		default:
			line = searched
		}
	}
}

// begin skips bytes before the next event: a byte order mark, or the rest of the last line's end.
func (r *Reader) begin() error {
	for !r.pastMark || r.feed {
		b := r.b[r.at:]
		n := min(len(b), len(mark))
		if n == 0 || !r.pastMark && n < len(mark) && string(b[:n]) == mark[:n] {
			if err := r.fill(); err != nil {
				return err
			}
			continue
		}
		switch {
		case r.feed && b[0] == '\n':
			r.at++
		case !r.pastMark && string(b[:n]) == mark:
			r.at += n
		}
		r.pastMark, r.feed = true, false
	}
	return nil
}

// lineEnd returns the lengths of the first line's text and of its end: a line feed, a carriage return, or both. They
// are 0 if the line does not end.
func lineEnd(b []byte) (text, end int) {
	text = bytes.IndexByte(b, '\n')
	head := b
	if text >= 0 {
		head = b[:text]
	}
	switch cr := bytes.IndexByte(head, '\r'); {
	case cr >= 0 && cr+1 == text:
		return cr, text + 1
	case cr >= 0:
		return cr, cr + 1
	}
	return max(text, 0), text + 1
}

// feeds returns an event without lone carriage returns: some clients do not know such line ends.
func feeds(raw []byte) []byte {
	alone := false
	for at := bytes.IndexByte(raw, '\r'); at >= 0 && !alone; {
		alone = at+1 == len(raw) || raw[at+1] != '\n'
		next := bytes.IndexByte(raw[at+1:], '\r')
		if next < 0 {
			break
		}
		at += 1 + next
	}
	if !alone {
		return raw
	}
	return bytes.ReplaceAll(bytes.ReplaceAll(raw, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
}

// fill reads more bytes after those in the buffer. It is called when there is no whole event.
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

// parse parses an event. It returns false for one without data, such as a comment: some servers and proxies keep a
// connection alive by a field without a value.
func (r *Reader) parse(raw []byte) (Frame, bool) {
	f, lines := Frame{Raw: feeds(raw)}, 0
	for rest := raw; len(rest) > 0; {
		text, end := lineEnd(rest)
		if end == 0 {
			text, end = len(rest), len(rest)
		}
		field, value, _ := bytes.Cut(rest[:text], []byte(":"))
		rest = rest[end:]
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

// More reports whether the next event with data has already come. Comments, which keep a connection alive, do not
// count.
func (r *Reader) More() bool {
	data := false
	for b := r.b[r.at:]; ; {
		text, end := lineEnd(b)
		if end == 0 {
			return false
		}
		line := b[:text]
		b = b[end:]
		if len(line) == 0 && data {
			return true
		}
		field, value, _ := bytes.Cut(line, []byte{':'})
		data = data || string(field) == "data" && len(bytes.TrimSpace(value)) > 0
	}
}

// AppendFrame appends an event.
func AppendFrame(b []byte, name string, data []byte) []byte {
	if name != "" {
		b = append(append(append(b, "event: "...), name...), '\n')
	}
	return append(append(append(b, "data: "...), data...), "\n\n"...)
}
