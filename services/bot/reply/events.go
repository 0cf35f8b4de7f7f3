package reply

import (
	"strconv"

	"dyno/services/bot/buffer"
	"dyno/services/bot/openai"
	"dyno/services/bot/resume"
)

// Events tell the events of an answer to its client, and keep them for one that comes again. Each has the ID of the answer
// and its number.
type Events struct {
	Out     *Writer
	ID      string
	Kept    *resume.Stream // nil keeps nothing: events have no IDs then
	JSON    openai.JSON
	Buffers buffer.Lender
	n       uint64
}

// ExpectedEvent is what most events fit into, in bytes.
const ExpectedEvent = 512

// Close says that nothing follows.
func (e *Events) Close() {
	if e.Kept != nil {
		e.Kept.End()
	}
}

// Say tells an event. More says that another follows at once.
func (e *Events) Say(name string, v any, more bool) {
	e.tell(name, more, func(b []byte) ([]byte, error) { return e.JSON.Append(b, v) })
}

// Fault tells why there is no more.
func (e *Events) Fault(status int, f openai.Fault) {
	e.tell("error", false, func(b []byte) ([]byte, error) {
		return openai.AppendFault(b, status, "", f), nil
	})
}

// tell makes an event with the data that add adds, and sends it. It is kept first: who comes again has it
// even if this client takes none. Its memory is not held while the stream waits.
func (e *Events) tell(name string, more bool, add func(b []byte) ([]byte, error)) {
	buf := e.Buffers.Get(ExpectedEvent)
	defer e.Buffers.Put(buf)
	b, err := add(e.head(buf.B, name))
	if err != nil {
		return // what is said here is JSON
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
