package sse

import (
	"bytes"
	"time"
)

const (
	// maxBytes bounds a line, without its end, and an event's data.
	maxBytes = 1 << 20

	// maxID bounds a last event ID, which has to fit into a request's header.
	maxID = 4 << 10

	// MaxRetry is the longest pause a server can ask for. A longer one counts as this.
	MaxRetry = 24 * time.Hour
)

// A Message is an event as it is dispatched. Its fields are valid until the next call of the parser, or
// of another parser in its pool. Bytes that are not UTF-8 are left as they are.
type Message struct {
	Type []byte // empty means "message"
	Data []byte // the lines of data joined by LF
}

// A Parser interprets an event stream (HTML standard, sections 9.2.5 and 9.2.6). It
// is for one goroutine at a time, together with the others of its pool. At rest,
// which is between two events, it holds no buffer.
type Parser struct {
	pool  *pool
	open  *event // the event that has arrived in part; nil at rest
	id    []byte // the last event ID
	retry time.Duration
	bom   uint8 // how many bytes of a byte order mark have arrived, or bomDone
	cr    bool  // the last byte was a CR: an LF now belongs to it
}

// byteOrderMark is ignored at the stream's beginning, and only there.
const (
	byteOrderMark = "\xef\xbb\xbf"
	bomDone       = uint8(len(byteOrderMark))
)

// NewParser returns a parser at the beginning of a stream.
func NewParser() *Parser { return &Parser{pool: &pool{}} }

// An event is the state of an event whose end has not arrived. Values of its fields are copied into its
// own buffers where they must outlive the bytes that brought them.
type event struct {
	line  value // the beginning of a line whose end has not arrived; always its own
	data  value // the lines so far, joined by LF
	kind  value
	id    value
	lines int  // of data
	named bool // has an ID
}

// A value is bytes that lie elsewhere, or in its buffer.
type value struct {
	bytes  []byte
	buffer []byte
	own    bool // bytes lies in buffer
}

// set makes v the bytes b, which need not outlive the present piece unless keep says
// so.
func (v *value) set(b []byte, keep bool) {
	v.bytes, v.own = b, false
	if keep {
		v.keep()
	}
}

// keep makes v outlive the present piece.
func (v *value) keep() {
	if !v.own {
		v.buffer = append(v.buffer[:0], v.bytes...)
		v.bytes, v.own = v.buffer, true
	}
}

// add appends b.
func (v *value) add(b ...byte) {
	v.keep()
	v.buffer = append(v.buffer, b...)
	v.bytes = v.buffer
}

// clear empties v, whose bytes stay readable until it is set again.
func (v *value) clear() {
	v.bytes, v.own = nil, false
	if cap(v.buffer) > maxSpare {
		v.buffer = nil
	}
}

// A pool holds what the parsers of one worker share.
type pool struct {
	spare []*event // that no parser needs at present; never more than parsers
}

// maxSpare is the largest buffer kept for later. An event longer than this costs an
// allocation, which is better than as many large buffers as subscribers.
const maxSpare = 16 << 10

func (p *pool) borrow() *event {
	if n := len(p.spare); n > 0 {
		e := p.spare[n-1]
		p.spare = p.spare[:n-1]
		return e
	}
	return &event{}
}

func (p *pool) giveBack(e *event) {
	e.line.clear()
	e.data.clear()
	e.kind.clear()
	e.id.clear()
	e.lines, e.named = 0, false
	p.spare = append(p.spare, e)
}

// Reset goes to the beginning of another stream of the same source, and discards an unfinished event.
// The last event ID and the pause to reconnect after are the source's, and stay. By the letter of the
// standard the stream's ID buffer would begin empty. Then a first event without an ID would erase the
// last event ID; browsers begin with that, and so does this.
func (p *Parser) Reset() {
	p.rest()
	p.bom, p.cr = 0, false
}

func (p *Parser) rest() {
	if p.open != nil {
		p.pool.giveBack(p.open)
		p.open = nil
	}
}

// LastEventID returns the ID of the last event that had one. It is valid until the
// next call of Next.
func (p *Parser) LastEventID() []byte { return p.id }

// Retry returns the reconnection time that the server asked for; 0 if none.
func (p *Parser) Retry() time.Duration { return p.retry }

// Next consumes b up to the end of the first dispatched event, and returns the number of bytes
// consumed. Without an event, all of b is consumed. Cut at any place, the same bytes give the same
// events at the same places. The errors are ErrLine, ErrEvent and ErrID; after one the stream cannot be
// used until Reset.
//
// The end of an event is the first byte of its empty line's end: the LF of a CR LF counts as the next
// event's, since it may never come.
func (p *Parser) Next(b []byte) (n int, m Message, found bool, err error) {
	if p.bom != bomDone {
		n = p.mark(b)
	}
	for n < len(b) {
		if p.cr {
			p.cr = false
			if b[n] == '\n' {
				n++
				continue
			}
		}
		end := lineEnd(b[n:])
		if end < 0 {
			return len(b), Message{}, false, p.keep(b[n:])
		}
		line := b[n : n+end]
		n += end + 1
		p.cr = b[n-1] == '\r'
		cut := p.open != nil && len(p.open.line.bytes) > 0
		if cut {
			if err := p.hold(line); err != nil {
				return n, Message{}, false, err
			}
			line = p.open.line.bytes
			p.open.line.bytes = nil
		}
		if len(line) > 0 {
			if err := p.field(line, cut); err != nil {
				return n, Message{}, false, err
			}
			continue
		}
		if m, found = p.dispatch(); found {
			return n, m, true, nil
		}
	}
	return n, Message{}, false, p.keep(nil)
}

// mark takes the byte order mark off the stream's beginning, as far as it has
// arrived.
func (p *Parser) mark(b []byte) (n int) {
	earlier := p.bom
	for n < len(b) && p.bom != bomDone {
		if b[n] != byteOrderMark[p.bom] {
			// It was none: what looked like one is the beginning of a line.
			p.bom = bomDone
			if earlier > 0 {
				p.event().line.add([]byte(byteOrderMark[:earlier])...)
			}
			return 0
		}
		p.bom++
		n++
	}
	return n
}

// event returns the open event.
func (p *Parser) event() *event {
	if p.open == nil {
		p.open = p.pool.borrow()
	}
	return p.open
}

// hold adds to the line whose end has not arrived.
func (p *Parser) hold(b []byte) error {
	e := p.event()
	if len(e.line.bytes)+len(b) > maxBytes {
		return ErrLine
	}
	if len(e.line.bytes) == 0 {
		e.line.set(b, true)
	} else {
		e.line.add(b...)
	}
	return nil
}

// keep ends a piece: line is the beginning of the next line, and the open event's data has to outlive
// the piece.
func (p *Parser) keep(line []byte) error {
	if len(line) > 0 {
		if err := p.hold(line); err != nil {
			return err
		}
	}
	if e := p.open; e != nil {
		e.data.keep()
		e.kind.keep()
		e.id.keep()
	}
	return nil
}

// field interprets a line that is not empty. Keep says that its bytes do not last.
func (p *Parser) field(line []byte, keep bool) error {
	if len(line) > maxBytes {
		return ErrLine
	}
	name, value := line, []byte(nil)
	if colon := bytes.IndexByte(line, ':'); colon >= 0 {
		name, value = line[:colon], line[colon+1:]
		if len(value) > 0 && value[0] == ' ' {
			value = value[1:]
		}
	}
	switch string(name) {
	case "data":
		e := p.event()
		if len(e.data.bytes)+len(value)+min(e.lines, 1) > maxBytes {
			return ErrEvent
		}
		if e.lines++; e.lines == 1 {
			e.data.set(value, keep)
		} else {
			e.data.add('\n')
			e.data.add(value...)
		}
	case "event":
		p.event().kind.set(value, keep)
	case "id":
		if bytes.IndexByte(value, 0) >= 0 {
			break
		}
		if len(value) > maxID {
			return ErrID
		}
		e := p.event()
		e.named = true
		e.id.set(value, keep)
	case "retry":
		if ms, ok := milliseconds(value); ok {
			p.retry = ms
		}
	}
	return nil
}

// dispatch ends the open event, and returns it unless it has no data.
func (p *Parser) dispatch() (m Message, found bool) {
	e := p.open
	if e == nil {
		return Message{}, false
	}
	if e.named {
		p.id = append(p.id[:0], e.id.bytes...)
	}
	if e.lines > 0 {
		m, found = Message{Type: e.kind.bytes, Data: e.data.bytes}, true
	}
	p.rest()
	return m, found
}

// milliseconds reads a reconnection time: digits and nothing else.
func milliseconds(digits []byte) (time.Duration, bool) {
	const longest = int64(MaxRetry / time.Millisecond)
	var n int64
	for _, b := range digits {
		if b < '0' || b > '9' {
			return 0, false
		}
		n = min(n*10+int64(b-'0'), longest)
	}
	return time.Duration(n) * time.Millisecond, len(digits) > 0
}

// lineEnd returns the place of the first CR or LF; -1 if there is none.
func lineEnd(b []byte) int {
	// Both are searched for in one stretch after the other: a search for one of them to the end, for
	// every line ended by the other, would take quadratic time.
	const stretch = 512
	for from := 0; from < len(b); from += stretch {
		s := b[from:min(from+stretch, len(b))]
		end := bytes.IndexByte(s, '\n')
		if end >= 0 {
			s = s[:end]
		}
		if cr := bytes.IndexByte(s, '\r'); cr >= 0 {
			end = cr
		}
		if end >= 0 {
			return from + end
		}
	}
	return -1
}
