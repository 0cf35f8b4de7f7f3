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
	data []byte
	id   string
	ids  bool // an id was given, perhaps an empty one
}

// maxEvent bounds an event, in bytes: a document of the largest size, escaped by JSON in the worst case.
const maxEvent = 4 << 20

// errEvent says that a response is not a valid event stream.
var errEvent = errors.New("the stream is not one of events")

// events reads a stream until it ends. It calls alive for each line, with whether it is a comment, and take for each
// event. An incomplete event is ignored.
func events(r io.Reader, alive func(comment bool), take func(event) error) error {
	reader := bufio.NewReaderSize(r, 16<<10)
	var e event
	var line []byte
	size := 0
	for {
		part, err := reader.ReadSlice('\n')
		line = append(line, part...)
		if size += len(part); size > maxEvent {
			return fmt.Errorf("%w: one has more than %d bytes", errEvent, maxEvent)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return err
		}
		alive(line[0] == ':')
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			if e.kind != "" {
				if err := take(e); err != nil {
					return err
				}
			}
			e, size = event{}, 0
		} else {
			e.field(line)
		}
		if line = line[:0]; e.kind == "" && e.data == nil {
			size = 0 // comments without end are no event
		}
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
		if e.data != nil {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, value...)
	case "id":
		e.id, e.ids = string(value), true
	}
}
