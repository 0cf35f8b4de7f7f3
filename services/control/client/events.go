package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// An event is one of a stream of server-sent events (HTML standard, section 9.2).
type event struct {
	kind string
	data []byte // with a line feed after each line until it is complete; nil without one
	id   string
	ids  bool // an id was given, perhaps an empty one
}

// maxEvent bounds an event, in bytes: a document of the largest size, escaped by JSON in the worst case.
const maxEvent = 16 << 20

// errEvent says that a response is not a valid event stream.
var errEvent = errors.New("the stream is not one of events")

// events reads a stream until it ends. It calls alive for each line, with whether it is a comment, and take for each
// event with a kind. An incomplete event is ignored.
func events(r io.Reader, alive func(comment bool), take func(event) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 16<<10), maxEvent)
	lines.Split(splitLines())
	var e event
	mark := []byte("\ufeff") // a stream may begin with it
	size := 0
	for lines.Scan() {
		line := bytes.TrimPrefix(lines.Bytes(), mark)
		mark = nil
		alive(len(line) > 0 && line[0] == ':')
		switch {
		case len(line) > 0:
			e.field(line)
		case e.data == nil:
			e.kind = "" // an ID stays, by the standard
		default:
			e.data = e.data[:len(e.data)-1]
			if e.kind != "" {
				if err := take(e); err != nil {
					return err
				}
			}
			e = event{}
		}
		if size += len(line) + 1; e.kind == "" && e.data == nil {
			size = 0 // comments without end are no event
		}
		if size > maxEvent {
			return fmt.Errorf("%w: one has more than %d bytes", errEvent, maxEvent)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("%w: a line has more than %d bytes", errEvent, maxEvent)
	case err != nil:
		return err
	}
	return io.EOF
}

// splitLines splits a stream at a line feed, a carriage return, or both together.
func splitLines() bufio.SplitFunc {
	searched := 0 // bytes without an end of line
	feed := false // a line feed belongs to the line before
	return func(data []byte, _ bool) (advance int, line []byte, err error) {
		begin := 0
		if feed && len(data) > 0 && data[0] == '\n' {
			begin = 1
		}
		end := bytes.IndexAny(data[max(begin, searched):], "\r\n")
		if end < 0 {
			searched = len(data)
			return 0, nil, nil
		}
		end += max(begin, searched)
		searched, feed = 0, data[end] == '\r'
		return end + 1, data[begin:end], nil
	}
}

// field takes one line of an event.
func (e *event) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(name) {
	case "event":
		e.kind = string(value)
	case "data":
		e.data = append(append(e.data, value...), '\n')
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			e.id, e.ids = string(value), true
		}
	}
}
