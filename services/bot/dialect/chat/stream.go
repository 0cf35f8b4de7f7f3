package chat

import (
	"encoding/json"
	"fmt"

	"dyno/services/bot/dialect"
	"dyno/services/bot/openai"
)

// A delta is what an event adds to the message.
type delta struct {
	Role      string    `json:"role,omitempty"`
	Content   *text     `json:"content,omitempty"`
	Refusal   text      `json:"refusal,omitempty"`
	Reasoning text      `json:"reasoning_content,omitempty"`
	Other     text      `json:"reasoning,omitempty"`
	Thoughts  []thought `json:"thinking_blocks,omitempty"`
	Images    []part    `json:"images,omitempty"`
	Calls     []call    `json:"tool_calls,omitempty"`
	Extra     *extra    `json:"extra_content,omitempty"`
}

func (client) NewWriter(r *dialect.Request) dialect.Writer { return &writer{usage: r.IncludeUsage} }

type writer struct {
	usage    bool
	head     []byte // of each event, until its choices
	open     dialect.Block
	thinking []byte // of the open block
	calls    int    // that have begun
	thoughts int
	images   int
}

func (w *writer) Append(b []byte, e *dialect.Event) []byte {
	switch e.Kind {
	case dialect.Begin:
		head := dialect.Append(nil, completion{ID: e.Answer.ID, Object: "chat.completion.chunk", Created: float64(e.Answer.Created), Model: e.Answer.Model})
		w.head = append([]byte("data: "), head[:len(head)-len("null}")]...)
		return w.delta(b, &delta{Role: "assistant", Content: new(text)})
	case dialect.Open:
		w.open, w.thinking = e.Block, w.thinking[:0]
		switch e.Block.Kind {
		case dialect.ToolCall:
			c := callOf(&e.Block, "")
			index := w.calls
			c.Index = &index
			w.calls++
			return w.delta(b, &delta{Calls: []call{c}})
		case dialect.Redacted:
			return w.thought(b, &e.Block)
		case dialect.Image:
			p, index := imagePart(&e.Block.Source), w.images
			p.Index = &index
			w.images++
			return w.delta(b, &delta{Images: []part{p}})
		}
	case dialect.Piece:
		return w.piece(b, e)
	case dialect.Close:
		if w.open.Kind == dialect.Thinking && w.open.Signature != "" {
			w.open.Text = string(w.thinking)
			return w.thought(b, &w.open)
		}
	case dialect.Finish:
		b = append(append(b, w.head...), `[{"index":0,"delta":{},"logprobs":null,"finish_reason":"`...)
		b = append(append(b, finish(e.Answer.Stop)...), '"')
		if e.Answer.Sequence != "" {
			b = dialect.Append(append(b, `,"stop_reason":`...), e.Answer.Sequence)
		}
		b = append(b, "}]}\n\n"...)
		if w.usage && e.Answer.Usage != nil {
			b = append(append(append(append(b, w.head...), `[],"usage":`...), usageOf(e.Answer.Usage)...), "}\n\n"...)
		}
		return append(b, openai.EndFrame(openai.Chat).Raw...)
	case dialect.Fault:
		return openai.AppendFailure(b, openai.Chat, 502, e.Fault, nil, 0)
	}
	return b
}

func (w *writer) piece(b []byte, e *dialect.Event) []byte {
	switch t := text(e.Text); w.open.Kind {
	case dialect.Text:
		return w.delta(b, &delta{Content: &t, Extra: signed(e.Signature)})
	case dialect.Refusal:
		return w.delta(b, &delta{Refusal: t})
	case dialect.Thinking:
		w.open.Signature += e.Signature
		if w.thinking = append(w.thinking, t...); t != "" {
			return w.delta(b, &delta{Reasoning: t})
		}
	case dialect.ToolCall:
		index := w.calls - 1
		c := call{Index: &index, Extra: signed(e.Signature)}
		if w.open.Custom {
			c.Custom = &custom{Input: t}
		} else {
			c.Function = &function{Arguments: t}
		}
		return w.delta(b, &delta{Calls: []call{c}})
	}
	return b
}

// thought writes a whole block: clients that put pieces together, and those that only collect them, get it unchanged.
func (w *writer) thought(b []byte, block *dialect.Block) []byte {
	t, index := thoughtOf(block), w.thoughts
	t.Index = &index
	w.thoughts++
	return w.delta(b, &delta{Thoughts: []thought{t}})
}

func (w *writer) delta(b []byte, d *delta) []byte {
	b = append(append(b, w.head...), `[{"index":0,"delta":`...)
	return append(dialect.Append(b, d), `,"logprobs":null,"finish_reason":null}]}`+"\n\n"...)
}

func (server) NewReader() dialect.Reader { return &reader{} }

type reader struct {
	began, over  bool
	open         bool
	kind         dialect.Kind // of the open block
	call         int          // the index of the last call
	id           string       // of the last call
	byReasoning  bool         // the text of the open thinking comes by reasoning_content, and by thinking_blocks once more
	calls, ended bool         // a call has begun; there was a finish_reason
	end          dialect.Answer
}

// errOrder says that a piece belongs to a block that has ended.
var errOrder = fmt.Errorf("%w: a piece of a tool's call comes after the next call", openai.ErrForm)

func (r *reader) Read(f openai.Frame, each func(*dialect.Event)) error {
	switch {
	case r.over:
		return nil
	case f.End():
		r.finish(each)
		return nil
	}
	var chunk struct {
		ID      string  `json:"id"`
		Created float64 `json:"created"`
		Model   string  `json:"model"`
		Choices []struct {
			Index      int             `json:"index"`
			Delta      delta           `json:"delta"`
			Finish     string          `json:"finish_reason"`
			StopReason json.RawMessage `json:"stop_reason"`
		} `json:"choices"`
		Usage json.RawMessage `json:"usage"`
		Error json.RawMessage `json:"error"`
	}
	err := json.Unmarshal(f.Data, &chunk)
	if err != nil || len(f.Name) > 0 || len(chunk.Choices) == 0 || chunk.Error != nil {
		var v openai.Event
		codec := openai.Standard()
		if fault := codec.ParseEvent(openai.Chat, f, &v); fault != nil {
			return fault
		} else if v.Failed.Message != "" {
			r.over = true
			each(&dialect.Event{Kind: dialect.Fault, Fault: v.Failed})
			return nil
		} else if err != nil {
			return fmt.Errorf("%w: %w", openai.ErrForm, err)
		}
	}
	if !r.began {
		r.began = true
		each(&dialect.Event{Kind: dialect.Begin, Answer: dialect.Answer{ID: chunk.ID, Model: chunk.Model, Created: int64(chunk.Created)}})
	}
	if u := dialect.UsageOf(openai.Chat, chunk.Usage); u != nil {
		r.end.Usage = u
	}
	for i := range chunk.Choices {
		c := &chunk.Choices[i]
		if c.Index != 0 || r.ended {
			continue // one answer was asked for
		}
		if err := r.delta(&c.Delta, each); err != nil {
			return err
		}
		if c.Finish != "" {
			r.close(each)
			r.ended = true
			r.end.Stop, r.end.Sequence = stopOf(c.Finish, c.StopReason, r.calls)
		}
	}
	return nil
}

func (r *reader) delta(d *delta, each func(*dialect.Event)) error {
	reasoning := d.Reasoning
	if reasoning == "" {
		reasoning = d.Other
	}
	if reasoning != "" {
		r.piece(dialect.Thinking, reasoning, each)
		r.byReasoning = true
	}
	for i := range d.Thoughts {
		r.thought(&d.Thoughts[i], each)
	}
	if d.Content != nil {
		r.piece(dialect.Text, *d.Content, each)
	}
	if signature := d.Extra.signature(); signature != "" {
		if !r.open || r.kind != dialect.Text {
			r.begin(&dialect.Block{}, each)
		}
		each(&dialect.Event{Kind: dialect.Piece, Signature: signature})
	}
	for i := range d.Images {
		b := d.Images[i].block()
		r.begin(&b, each)
	}
	r.piece(dialect.Refusal, d.Refusal, each)
	for i := range d.Calls {
		if err := r.toolCall(&d.Calls[i], each); err != nil {
			return err
		}
	}
	return nil
}

// piece adds a text to the open block of its kind, or to a new one.
func (r *reader) piece(kind dialect.Kind, t text, each func(*dialect.Event)) {
	if t == "" {
		return
	}
	if !r.open || r.kind != kind {
		r.begin(&dialect.Block{Kind: kind}, each)
	}
	each(&dialect.Event{Kind: dialect.Piece, Text: string(t)})
}

// thought reads a piece of thinking, or a whole one. A signature ends it.
func (r *reader) thought(t *thought, each func(*dialect.Event)) {
	if t.Type == redacted {
		b := t.block()
		r.begin(&b, each)
		r.close(each)
		return
	}
	if !r.open || r.kind != dialect.Thinking {
		if t.Thinking == "" && t.Signature == "" {
			return
		}
		r.begin(&dialect.Block{Kind: dialect.Thinking}, each)
	}
	if !r.byReasoning {
		r.piece(dialect.Thinking, text(t.Thinking), each)
	}
	if t.Signature != "" {
		each(&dialect.Event{Kind: dialect.Piece, Signature: t.Signature})
		r.close(each)
	}
}

// toolCall reads a piece of a call. Some servers number calls, others only name them.
func (r *reader) toolCall(c *call, each func(*dialect.Event)) error {
	index := r.call
	if c.Index != nil {
		index = *c.Index
	}
	b, input := c.block()
	if !r.calls || index > r.call || b.ID != "" && b.ID != r.id {
		signature := b.Signature
		b.Signature = ""
		r.begin(&b, each)
		r.calls, r.call, r.id = true, max(index, r.call), b.ID
		b.Signature = signature
	} else if index < r.call || !r.open || r.kind != dialect.ToolCall {
		return errOrder
	}
	if input != "" {
		each(&dialect.Event{Kind: dialect.Piece, Text: input})
	}
	if b.Signature != "" {
		each(&dialect.Event{Kind: dialect.Piece, Signature: b.Signature})
	}
	return nil
}

func (r *reader) begin(b *dialect.Block, each func(*dialect.Event)) {
	r.close(each)
	r.open, r.kind, r.byReasoning = true, b.Kind, false
	each(&dialect.Event{Kind: dialect.Open, Block: *b})
}

func (r *reader) close(each func(*dialect.Event)) {
	if r.open {
		each(&dialect.Event{Kind: dialect.Close})
	}
	r.open = false
}

// finish ends the stream. Some servers give no reason.
func (r *reader) finish(each func(*dialect.Event)) {
	if !r.began {
		each(&dialect.Event{Kind: dialect.Begin})
	}
	if r.close(each); !r.ended {
		r.end.Stop, _ = stopOf("", nil, r.calls)
	}
	r.over = true
	each(&dialect.Event{Kind: dialect.Finish, Answer: r.end})
}

func (r *reader) End(each func(*dialect.Event)) error {
	switch {
	case r.over:
		return nil
	case !r.ended:
		return openai.ErrCut
	}
	r.finish(each)
	return nil
}
