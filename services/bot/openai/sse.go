package openai

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// ErrCut says that a stream ended in the middle.
var ErrCut = errors.New("the stream was cut")

// A Frame is one event of a stream (HTML standard, section 9.2). Its bytes are good
// until the next is read.
type Frame struct {
	Name []byte // of the event; empty is "message"
	Data []byte // of all its data lines
	Raw  []byte // all of it, with the empty line behind
}

// A Reader reads a stream event by event. One event has maxFrame bytes at most.
type Reader struct {
	b    *bufio.Reader
	raw  []byte
	data []byte
	name []byte
}

// maxFrame bounds one event.
const maxFrame = 1 << 20

// NewReader reads from r, some kilobytes at a time.
func NewReader(r io.Reader) *Reader { return &Reader{b: bufio.NewReaderSize(r, 4<<10)} }

// Next returns the next event that has data. The error is io.EOF where the stream
// ends between two events.
func (r *Reader) Next() (Frame, error) {
	r.raw, r.data, r.name = r.raw[:0], r.data[:0], r.name[:0]
	has := false
	for {
		start := len(r.raw)
		for {
			part, err := r.b.ReadSlice('\n')
			r.raw = append(r.raw, part...)
			if len(r.raw) > maxFrame {
				return Frame{}, fmt.Errorf("an event has more than %d bytes", maxFrame)
			}
			if err == nil {
				break
			}
			if errors.Is(err, bufio.ErrBufferFull) {
				continue
			}
			if errors.Is(err, io.EOF) && len(bytes.TrimSpace(r.raw)) > 0 {
				err = ErrCut
			}
			return Frame{}, err
		}
		line := bytes.TrimRight(r.raw[start:], "\r\n")
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0 && has:
			return Frame{Name: r.name, Data: r.data, Raw: r.raw}, nil
		case len(line) == 0: // comments only, or nothing
			r.raw, r.name = r.raw[:0], r.name[:0]
		case string(field) == "data":
			if has {
				r.data = append(r.data, '\n')
			}
			has = true
			r.data = append(r.data, value...)
		case string(field) == "event":
			r.name = append(r.name[:0], value...)
		}
	}
}

// More tells whether the next event has come already.
func (r *Reader) More() bool {
	b, err := r.b.Peek(r.b.Buffered())
	return err == nil && (bytes.Contains(b, []byte("\n\n")) || bytes.Contains(b, []byte("\n\r\n")))
}

// AppendFrame adds an event.
func AppendFrame(b []byte, name string, data []byte) []byte {
	if name != "" {
		b = append(append(append(b, "event: "...), name...), '\n')
	}
	return append(append(append(b, "data: "...), data...), "\n\n"...)
}
