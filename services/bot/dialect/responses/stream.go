package responses

import (
	"encoding/json"
	"fmt"
	"strings"

	"dyno/services/bot/dialect"
	"dyno/services/bot/openai"
)

// An event is an event of a stream, without the fields that are the same in all.
type event struct {
	Type         string  `json:"type"`
	Number       int     `json:"sequence_number"`
	ItemID       string  `json:"item_id,omitempty"`
	OutputIndex  *int    `json:"output_index,omitempty"`
	ContentIndex *int    `json:"content_index,omitempty"`
	SummaryIndex *int    `json:"summary_index,omitempty"`
	Delta        *string `json:"delta,omitempty"`
	Text         *string `json:"text,omitempty"`
	Refusal      *string `json:"refusal,omitempty"`
	Name         string  `json:"name,omitempty"`
	Arguments    *string `json:"arguments,omitempty"`
	Input        *string `json:"input,omitempty"`
	Logprobs     *list   `json:"logprobs,omitempty"`
	Part         *part   `json:"part,omitempty"`

	Item     json.RawMessage `json:"item,omitempty"`
	Response json.RawMessage `json:"response,omitempty"`
}

func (client) NewWriter(r *dialect.Request) dialect.Writer { return &writer{request: r} }

type writer struct {
	request  *dialect.Request
	repeated []byte // the encoded settings
	fold     dialect.Fold
	next     int // sequence_number
	output   []json.RawMessage
	item     item // of the open block
	parted   bool // the open block's part has begun
}

// first is the index of the only part of an item.
var first = new(int)

func (w *writer) Append(b []byte, e *dialect.Event) []byte {
	if e.Kind == dialect.Fault {
		var start *openai.Start
		if w.repeated != nil {
			start = &openai.Start{ID: w.fold.Answer.ID, Created: int(w.fold.Answer.Created), Model: w.fold.Answer.Model}
		}
		return openai.AppendFailure(b, openai.Responses, 502, e.Fault, start, w.next)
	}
	w.fold.Add(e)
	a := &w.fold.Answer
	switch e.Kind {
	case dialect.Begin:
		w.repeated = dialect.Append(nil, settings(w.request))
		at := appendResponse(nil, &dialect.Answer{ID: a.ID, Created: a.Created, Model: a.Model}, inProgress, nil, w.repeated)
		b = w.event(b, &event{Type: "response.created", Response: at})
		return w.event(b, &event{Type: "response.in_progress", Response: at})
	case dialect.Open:
		return w.open(b, &e.Block)
	case dialect.Piece:
		if e.Text != "" {
			b = w.part(b)
			return w.event(b, w.of(w.kind()+".delta", &event{Delta: &e.Text}))
		}
	case dialect.Close:
		return w.close(b, &a.Blocks[len(a.Blocks)-1])
	case dialect.Finish:
		status := statusOf(a.Stop)
		return w.event(b, &event{Type: "response." + status, Response: appendResponse(nil, a, status, w.output, w.repeated)})
	}
	return b
}

func (w *writer) event(b []byte, e *event) []byte {
	e.Number = w.next
	w.next++
	b = append(append(append(b, "event: "...), e.Type...), "\ndata: "...)
	return append(dialect.Append(b, e), "\n\n"...)
}

// of fills in what an event of the open item repeats.
func (w *writer) of(kind string, e *event) *event {
	index := len(w.output)
	e.Type, e.ItemID, e.OutputIndex = kind, w.item.ID, &index
	switch w.item.Type {
	case "message":
		if e.ContentIndex = first; strings.HasPrefix(kind, "response.output_text.") {
			e.Logprobs = &list{}
		}
	case "reasoning":
		e.SummaryIndex = first
	}
	return e
}

// kind is the beginning of the names of the open item's events.
func (w *writer) kind() string {
	switch w.item.Type {
	case "reasoning":
		return "response.reasoning_summary_text"
	case "function_call":
		return "response.function_call_arguments"
	case "custom_tool_call":
		return "response.custom_tool_call_input"
	case imageCall:
		return "response.image_generation_call"
	}
	if (*w.item.Content)[0].Refusal != nil {
		return "response.refusal"
	}
	return "response.output_text"
}

// open begins an item. Its texts are empty.
func (w *writer) open(b []byte, block *dialect.Block) []byte {
	w.item, w.parted = itemOf(block), false
	w.item.identify(w.fold.Answer.ID, len(w.output), inProgress)
	i, empty := w.item, ""
	switch {
	case i.Arguments != nil:
		i.Arguments = &empty
	case i.Input != nil:
		i.Input = &empty
	case i.Content != nil:
		i.Content = &[]part{}
	case i.Result != nil:
		i.Result = nil
	}
	index := len(w.output)
	b = w.event(b, &event{Type: "response.output_item.added", OutputIndex: &index, Item: dialect.Append(nil, i)})
	if i.Content != nil {
		return w.part(b)
	}
	return b
}

// part begins the open item's part, if it has one and that has not begun: reasoning may have none.
func (w *writer) part(b []byte) []byte {
	if w.parted {
		return b
	}
	w.parted = true
	switch empty := ""; w.item.Type {
	case "message":
		return w.event(b, w.of("response.content_part.added", &event{Part: &(*w.item.Content)[0]}))
	case "reasoning":
		return w.event(b, w.of("response.reasoning_summary_part.added", &event{Part: &part{Type: "summary_text", Text: &empty}}))
	}
	return b
}

// close ends the open item, whose block is complete now.
func (w *writer) close(b []byte, block *dialect.Block) []byte {
	items := itemsOf(block)
	items[0].ID, items[0].Status = w.item.ID, w.item.Status
	kind := w.kind() + ".done"
	switch i := &items[0]; {
	case i.Result != nil:
		e := w.of("response.image_generation_call.completed", &event{})
		b = w.event(b, e)
	case i.Content != nil:
		p := (*i.Content)[0]
		b = w.event(b, w.of(kind, &event{Text: p.Text, Refusal: p.Refusal}))
		b = w.event(b, w.of("response.content_part.done", &event{Part: &p}))
	case i.Summary != nil && len(*i.Summary) > 0:
		p := (*i.Summary)[0]
		b = w.event(b, w.of(kind, &event{Text: p.Text}))
		b = w.event(b, w.of("response.reasoning_summary_part.done", &event{Part: &p}))
	case i.Arguments != nil || i.Input != nil:
		e := &event{Arguments: i.Arguments, Input: i.Input}
		if i.Arguments != nil {
			e.Name = i.Name
		}
		b = w.event(b, w.of(kind, e))
	}
	for n, i := range items {
		index := len(w.output)
		if n > 0 {
			i.identify(w.fold.Answer.ID, index, completed)
			b = w.event(b, &event{Type: "response.output_item.added", OutputIndex: &index, Item: dialect.Append(nil, i)})
		}
		if i.Status != "" {
			i.Status = completed
		}
		encoded := dialect.Append(nil, i)
		w.output = append(w.output, encoded)
		b = w.event(b, &event{Type: "response.output_item.done", OutputIndex: &index, Item: encoded})
	}
	return b
}

func (server) NewReader() dialect.Reader { return &reader{} }

type reader struct {
	began, over bool
	open        bool
	kind        dialect.Kind // of the open block
	place       [3]int       // of the open block's last piece: its item, its part, and its part of a summary
	pieces      bool         // the open block has a piece
	calls       bool
}

func (r *reader) Read(f openai.Frame, each func(*dialect.Event)) error {
	if r.over || f.End() {
		return nil
	}
	var e struct {
		Type     string    `json:"type"`
		Delta    string    `json:"delta"`
		Output   int       `json:"output_index"`
		Content  int       `json:"content_index"`
		Summary  int       `json:"summary_index"`
		Item     *item     `json:"item"`
		Response *response `json:"response"`
	}
	err := json.Unmarshal(f.Data, &e)
	switch e.Type {
	case "response.created", "response.queued", "response.in_progress":
	case "response.output_item.added", "response.output_item.done", "response.completed", "response.incomplete":
	case "response.output_text.delta", "response.refusal.delta", "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
	case "", "error", "response.failed":
		return r.fail(f, each)
	default:
		return nil // it repeats others, or is of a tool of the vendor
	}
	if err != nil {
		return fmt.Errorf("%w: %w", openai.ErrForm, err)
	}
	if !r.began {
		begin := dialect.Answer{}
		if e.Response != nil {
			begin = dialect.Answer{ID: e.Response.ID, Model: e.Response.Model, Created: int64(e.Response.Created)}
		}
		r.began = true
		each(&dialect.Event{Kind: dialect.Begin, Answer: begin})
	}
	place := [3]int{e.Output, e.Content, e.Summary}
	switch e.Type {
	case "response.output_item.added":
		r.add(e.Item, place, each)
	case "response.output_item.done":
		r.done(e.Item, place, each)
	case "response.output_text.delta":
		r.piece(dialect.Text, place, e.Delta, each)
	case "response.refusal.delta":
		r.piece(dialect.Refusal, place, e.Delta, each)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		if r.open && r.kind == dialect.Thinking && r.pieces && r.place[0] == place[0] && r.place != place {
			e.Delta = paragraph + e.Delta
			r.place = place
		}
		r.piece(dialect.Thinking, place, e.Delta, each)
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		if !r.open || r.kind != dialect.ToolCall || r.place[0] != place[0] {
			return fmt.Errorf("%w: a piece of a tool's call has no call", openai.ErrForm)
		}
		r.piece(dialect.ToolCall, r.place, e.Delta, each)
	case "response.completed", "response.incomplete":
		end := dialect.Answer{}
		if e.Response != nil {
			end.Stop, end.Usage = e.Response.stop(r.calls), dialect.UsageOf(openai.Responses, e.Response.Usage)
		}
		r.close(each)
		r.over = true
		each(&dialect.Event{Kind: dialect.Finish, Answer: end})
	}
	return nil
}

func (r *reader) fail(f openai.Frame, each func(*dialect.Event)) error {
	var v openai.Event
	if err := openai.Standard().ParseEvent(openai.Responses, f, &v); err != nil {
		return err
	}
	r.over = true
	each(&dialect.Event{Kind: dialect.Fault, Fault: v.Failed})
	return nil
}

// add begins a call. Other blocks begin with their first piece, and a block ends when the next begins: its signature may
// follow in an item of its own.
func (r *reader) add(i *item, place [3]int, each func(*dialect.Event)) {
	if i == nil || i.Type != "function_call" && i.Type != "custom_tool_call" {
		return
	}
	r.calls = true
	r.begin(&dialect.Block{Kind: dialect.ToolCall, ID: i.CallID, Name: i.Name, Custom: i.Type == "custom_tool_call"}, place, each)
}

// done reads what only a complete item has: the proof of reasoning, or the input of a call without pieces.
func (r *reader) done(i *item, place [3]int, each func(*dialect.Event)) {
	if i == nil {
		return
	}
	same := r.open && r.place[0] == place[0]
	if i.Type != "reasoning" && i.Type != imageCall {
		if same && r.kind == dialect.ToolCall && !r.pieces {
			for _, text := range []*string{i.Arguments, i.Input} {
				if text != nil {
					r.piece(dialect.ToolCall, r.place, *text, each)
				}
			}
		}
		return
	}
	if signature, ok := i.signs(); ok {
		if r.open {
			each(&dialect.Event{Kind: dialect.Piece, Signature: signature})
		}
		return
	}
	for _, b := range i.appendBlocks(nil) {
		switch {
		case b.Kind == dialect.Redacted || b.Kind == dialect.Image:
			r.begin(&b, place, each)
		case !same || r.kind != dialect.Thinking:
			r.begin(&dialect.Block{Kind: dialect.Thinking}, place, each)
			r.piece(dialect.Thinking, place, b.Text, each)
		}
		if b.Kind == dialect.Thinking && b.Signature != "" {
			each(&dialect.Event{Kind: dialect.Piece, Signature: b.Signature})
		}
	}
}

// piece adds a text to the block of its kind and place.
func (r *reader) piece(kind dialect.Kind, place [3]int, text string, each func(*dialect.Event)) {
	if text == "" {
		return
	}
	if !r.open || r.kind != kind || r.place != place {
		r.begin(&dialect.Block{Kind: kind}, place, each)
	}
	r.pieces = true
	each(&dialect.Event{Kind: dialect.Piece, Text: text})
}

func (r *reader) begin(b *dialect.Block, place [3]int, each func(*dialect.Event)) {
	r.close(each)
	r.open, r.kind, r.place, r.pieces = true, b.Kind, place, false
	each(&dialect.Event{Kind: dialect.Open, Block: *b})
}

func (r *reader) close(each func(*dialect.Event)) {
	if r.open {
		each(&dialect.Event{Kind: dialect.Close})
	}
	r.open = false
}

func (r *reader) End(func(*dialect.Event)) error {
	if r.over {
		return nil
	}
	return openai.ErrCut
}
