package reply

import (
	"strconv"

	"dyno/services/bot/buffer"
	"dyno/services/bot/openai"
	"dyno/services/bot/resume"
)

// Events sends the events of an answer to its client, and keeps them for a client that resumes. The ID of an event is
// that of the answer with a number.
type Events struct {
	Out     *Writer
	ID      string
	Kept    *resume.Stream // nil keeps nothing: then events have no IDs
	JSON    openai.JSON
	Buffers buffer.Lender
	n       uint64
}

// ExpectedEvent is enough for most events, in bytes.
const ExpectedEvent = 512

// Close ends the kept stream.
func (e *Events) Close() {
	if e.Kept != nil {
		e.Kept.End()
	}
}

// Say sends an event. more says that another one follows at once.
func (e *Events) Say(name string, v any, more bool) {
	e.send(name, more, func(b []byte) ([]byte, error) { return e.JSON.Append(b, v) })
}

// Fault sends the error that ends the events.
func (e *Events) Fault(status int, f openai.Fault) {
	f.ID = e.ID
	e.send("error", false, func(b []byte) ([]byte, error) {
		return openai.AppendFault(b, openai.Chat, status, "", f), nil
	})
}

// send sends an event with the data that add appends. It keeps the event first, so that a client that resumes gets it
// even if this one does not. The stream holds no memory while it waits.
func (e *Events) send(name string, more bool, add func(b []byte) ([]byte, error)) {
	buf := e.Buffers.Get(ExpectedEvent)
	defer e.Buffers.Put(buf)
	b, err := add(e.head(buf.B, name))
	if err != nil {
		return // callers pass values that JSON can express
	}
	buf.B = append(b, "\n\n"...)
	if e.Kept != nil {
		e.Kept.Add(buf.B)
	}
	e.Out.Write(buf.B, more)
}

// head begins an event.
func (e *Events) head(b []byte, name string) []byte {
	if e.Kept != nil {
		e.n++
		b = append(append(append(b, "id: "...), e.ID...), '-')
		b = append(strconv.AppendUint(b, e.n, 10), '\n')
	}
	return append(append(append(b, "event: "...), name...), "\ndata: "...)
}
