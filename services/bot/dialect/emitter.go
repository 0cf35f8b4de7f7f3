package dialect

import (
	"cmp"
	"fmt"

	"dyno/services/bot/openai"
)

// An Emitter gives the events of one stream to a function, in their order: it opens and closes blocks as their pieces
// come, and gives nothing after the end. It is for readers of forms whose blocks have no beginning and no end.
type Emitter struct {
	Each         func(*Event)
	Began, Ended bool   // only to be read
	Last         Answer // of Finish
	Stopped      bool   // the answer is complete: End gives Finish

	event Event
	open  bool
	kind  Kind // of the open block
	id    string
	calls int
}

func (m *Emitter) emit(e Event) {
	if u := e.Answer.Usage; u != nil && (min(u.Prompt, u.Completion, u.Cached, u.Reasoning) < 0 || max(u.Prompt, u.Completion) > 1<<30) {
		e.Answer.Usage = nil // an answer must not fail for it
	}
	if m.event = e; !m.Ended {
		m.Each(&m.event)
	}
	m.Ended = m.Ended || e.Kind == Finish || e.Kind == Fault
}

// Begin gives Begin. IDs of calls that have none are made of id.
func (m *Emitter) Begin(a Answer, id string) {
	m.Began, m.id = true, id
	m.emit(Event{Kind: Begin, Answer: a})
}

// Open closes the open block and opens another.
func (m *Emitter) Open(b Block) {
	m.Close()
	m.open, m.kind = true, b.Kind
	m.emit(Event{Kind: Open, Block: b})
}

// Close closes the open block, if there is one.
func (m *Emitter) Close() {
	if m.open {
		m.open = false
		m.emit(Event{Kind: Close})
	}
}

// Piece gives a text or a signature, or none, of a block of this kind. A signature is a block's last piece.
func (m *Emitter) Piece(k Kind, text, signature string) {
	if text+signature != "" && (!m.open || m.kind != k) {
		m.Open(Block{Kind: k})
	}
	if text != "" {
		m.emit(Event{Kind: Piece, Text: text})
	}
	if signature != "" {
		m.emit(Event{Kind: Piece, Signature: signature})
		m.Close()
	}
}

// Call gives a whole ToolCall. It makes an ID that is unique in the answer for one without an ID.
func (m *Emitter) Call(id, name, input, signature string) {
	m.Open(Block{Kind: ToolCall, ID: cmp.Or(id, fmt.Sprintf("call_%s_%d", m.id, m.calls)), Name: name})
	if m.calls++; input == "null" {
		input = ""
	}
	m.Piece(ToolCall, cmp.Or(input, "{}"), signature)
	m.Close()
}

// End implements Reader. The model waits for results if it has called tools and says no other reason.
func (m *Emitter) End(each func(*Event)) error {
	if m.Ended {
		return nil
	} else if !m.Stopped {
		return openai.ErrCut
	}
	m.Each = each
	if m.Close(); m.Last.Stop == End && m.calls > 0 {
		m.Last.Stop = ToolCalls
	}
	m.emit(Event{Kind: Finish, Answer: m.Last})
	return nil
}

// Fail gives a fault.
func (m *Emitter) Fail(f openai.Fault) {
	f.Message = cmp.Or(f.Message, "without a reason")
	m.emit(Event{Kind: Fault, Fault: f})
}

// ReadWhole reads an answer that has the form of one event of the server's stream. The error is that of
// Server.ReadAnswer.
func ReadWhole(r Reader, body []byte) (*Answer, error) {
	var d Fold
	err := r.Read(openai.Frame{Data: body}, d.Add)
	switch {
	case err != nil:
	case d.Fault != nil:
		err = &openai.NoneError{Fault: *d.Fault}
	case r.End(d.Add) != nil:
		err = fmt.Errorf("%w: its answer has no end", openai.ErrNone)
	}
	return &d.Answer, err
}
