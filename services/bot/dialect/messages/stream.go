package messages

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"dyno/services/bot/dialect"
	"dyno/services/bot/openai"
)

// An event is one of a stream, of any type.
type event struct {
	Type    string  `json:"type"`
	Message message `json:"message"` // of message_start
	Index   int     `json:"index"`
	Block   block   `json:"content_block"`
	Delta   struct {
		Text      string `json:"text"`
		Input     string `json:"partial_json"`
		Thinking  string `json:"thinking"`
		Signature string `json:"signature"`
		Stop      string `json:"stop_reason"`
		Sequence  string `json:"stop_sequence"`
	} `json:"delta"`
	Usage json.RawMessage `json:"usage"`
}

// A reply reads a stream.
type reply struct {
	began, done bool
	open        bool            // there is an open block: those of the vendor's tools are not opened
	index       int             // of the open block
	input       json.RawMessage // of the open call, until a piece of it comes
	usage       *openai.Usage
	stop        string // "" as long as it is unknown
	sequence    string
	event       event         // the last one
	out         dialect.Event // the last one
}

// NewReader implements dialect.Server.
func (Server) NewReader() dialect.Reader { return &reply{} }

// Read implements dialect.Reader. As the API requires, it ignores events that it does not know, such as ping.
func (s *reply) Read(f openai.Frame, each func(*dialect.Event)) error {
	if s.done || f.End() { // some servers send the last event of OpenAI's form
		return nil
	}
	e := &s.event
	*e = event{}
	if err := json.Unmarshal(f.Data, e); err != nil {
		return fmt.Errorf("%w: %w", openai.ErrForm, err)
	}
	switch e.Type {
	case "message_start":
		s.usage = dialect.UsageOf(openai.Messages, e.Message.Usage)
		s.begin(each)
	case "content_block_start":
		s.begin(each)
		s.start(each)
	case "content_block_delta":
		if s.open && e.Index == s.index {
			s.piece(cmp.Or(e.Delta.Text, e.Delta.Input, e.Delta.Thinking), e.Delta.Signature, each)
		}
	case "content_block_stop":
		if e.Index == s.index {
			s.close(each)
		}
	case "message_delta":
		s.usage = openai.Messages.Latest(s.usage, dialect.UsageOf(openai.Messages, e.Usage))
		s.stop, s.sequence = cmp.Or(e.Delta.Stop, s.stop), cmp.Or(e.Delta.Sequence, s.sequence)
	case "message_stop":
		s.finish(each)
	case "error", "":
		fault := openai.Standard().ParseFault(f.Data)
		if e.Type == "" && fault.Message == "" {
			return fmt.Errorf("%w: an event has no type", openai.ErrForm)
		}
		s.done, fault.Message = true, cmp.Or(fault.Message, "without a reason")
		s.send(dialect.Event{Kind: dialect.Fault, Fault: fault}, each)
	}
	return nil
}

// End implements dialect.Reader. An answer is complete when the reason of its end is known.
func (s *reply) End(each func(*dialect.Event)) error {
	if !s.done && s.stop == "" {
		return openai.ErrCut
	}
	s.finish(each)
	return nil
}

func (s *reply) send(e dialect.Event, each func(*dialect.Event)) {
	s.out = e
	each(&s.out)
}

// begin begins the answer, unless it has begun.
func (s *reply) begin(each func(*dialect.Event)) {
	if s.began {
		return
	}
	s.began = true
	var prompt *openai.Usage
	if s.usage != nil {
		prompt = new(*s.usage)
		prompt.Completion, prompt.Reasoning = 0, 0
	}
	s.send(dialect.Event{Kind: dialect.Begin, Answer: dialect.Answer{ID: s.event.Message.ID, Model: s.event.Message.Model, Usage: prompt}}, each)
}

// start opens a block. Some servers send all of it, or its beginning, at once.
func (s *reply) start(each func(*dialect.Event)) {
	s.close(each)
	b, ok := s.event.Block.neutral()
	if !ok {
		return
	}
	s.open, s.index, s.input = true, s.event.Index, b.Input
	text, signature := b.Text, b.Signature
	if b.Text, b.Input = "", nil; b.Kind == dialect.Redacted {
		signature = ""
	} else {
		b.Signature = ""
	}
	s.send(dialect.Event{Kind: dialect.Open, Block: b}, each)
	s.piece(text, signature, each)
}

func (s *reply) piece(text, signature string, each func(*dialect.Event)) {
	if text != "" {
		s.input = nil
	}
	if text+signature != "" {
		s.send(dialect.Event{Kind: dialect.Piece, Text: text, Signature: signature}, each)
	}
}

// close closes the open block, if there is one.
func (s *reply) close(each func(*dialect.Event)) {
	if !s.open {
		return
	}
	if len(s.input) > len("{}") {
		s.piece(dialect.ArgumentText(s.input), "", each)
	}
	s.open, s.input = false, nil
	s.send(dialect.Event{Kind: dialect.Close}, each)
}

// finish ends the answer, unless it has ended.
func (s *reply) finish(each func(*dialect.Event)) {
	if s.done {
		return
	}
	s.begin(each)
	s.close(each)
	s.done = true
	s.send(dialect.Event{Kind: dialect.Finish, Answer: dialect.Answer{Stop: stops[s.stop], Sequence: s.sequence, Usage: s.usage}}, each)
}

// A stream writes a stream.
type stream struct {
	r     *dialect.Request
	index int          // of the open block, or of the next
	kind  dialect.Kind // of the open block
	skip  bool         // the open block has no place
}

// NewWriter implements dialect.Client.
func (Client) NewWriter(r *dialect.Request) dialect.Writer { return &stream{r: r} }

// Append implements dialect.Writer.
func (w *stream) Append(b []byte, e *dialect.Event) []byte {
	switch e.Kind {
	case dialect.Begin:
		return frame(b, dialect.Fields{"type": "message_start", "message": messageFields(&e.Answer)})
	case dialect.Open:
		if w.kind, w.skip = e.Block.Kind, hasNoPlace(&e.Block); w.skip {
			return b
		}
		return frame(b, dialect.Fields{"type": "content_block_start", "index": w.index, "content_block": shown(w.r, &e.Block)})
	case dialect.Piece:
		return w.piece(b, e)
	case dialect.Close:
		if w.skip {
			return b
		}
		w.index++
		return frame(b, dialect.Fields{"type": "content_block_stop", "index": w.index - 1})
	case dialect.Finish:
		delta := dialect.Fields{"stop_reason": stopNames[e.Answer.Stop], "stop_sequence": nil}
		b = frame(b, dialect.Fields{"type": "message_delta", "delta": delta.Set("stop_sequence", e.Answer.Sequence), "usage": usageFields(e.Answer.Usage)})
		return frame(b, dialect.Fields{"type": "message_stop"})
	}
	return openai.AppendFailure(b, openai.Messages, 500, e.Fault, nil, 0)
}

// piece appends the deltas of the open block.
func (w *stream) piece(b []byte, e *dialect.Event) []byte {
	if w.skip {
		return b
	}
	switch {
	case e.Text == "":
	case w.kind == dialect.ToolCall:
		b = w.delta(b, `input_json_delta","partial_json":`, e.Text)
	case w.kind != dialect.Thinking:
		b = w.delta(b, `text_delta","text":`, e.Text)
	case !hides(w.r):
		b = w.delta(b, `thinking_delta","thinking":`, e.Text)
	}
	if e.Signature != "" && w.kind == dialect.Thinking {
		b = w.delta(b, `signature_delta","signature":`, e.Signature)
	}
	return b
}

// delta appends content_block_delta. Head is the JSON between the delta's type and its text.
func (w *stream) delta(b []byte, head, text string) []byte {
	b = append(b, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"...)
	b = append(strconv.AppendInt(b, int64(w.index), 10), `,"delta":{"type":"`...)
	b, _ = jsontext.AppendQuote(append(b, head...), text) // replaces what is no UTF-8
	return append(b, "}}\n\n"...)
}

// frame appends an event.
func frame(b []byte, f dialect.Fields) []byte {
	b = append(append(append(b, "event: "...), f["type"].(string)...), "\ndata: "...)
	return append(dialect.Append(b, f), "\n\n"...)
}
