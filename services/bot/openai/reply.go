package openai

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Usage is the tokens of an answer.
type Usage struct {
	Prompt, Completion int
	// Parts of these, which may have prices of their own: 0 if the upstream does not report them.
	Cached, CacheWrite, PromptAudio, PromptImage int
	Reasoning, CompletionAudio, CompletionImage  int
	// Units is what an Operation uses apart from tokens: images, seconds, characters or documents.
	Units int
	// Estimated says that it was estimated here, because the upstream did not report it.
	Estimated bool
}

// Total returns the sum.
func (u Usage) Total() int { return u.Prompt + u.Completion }

// maxCount bounds an accepted number of tokens, or of a choice.
const maxCount = 1 << 30

// whole parses a non-negative whole number, in any form: servers write 7 as 7.0, and some as "7".
func whole(value []byte) (n int, ok bool) {
	if len(value) > 2 && value[0] == '"' {
		value = value[1 : len(value)-1]
	}
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil || f != math.Trunc(f) || f < 0 || f > maxCount {
		return 0, false
	}
	return int(f), true
}

// A Reply is a whole answer, without a stream.
type Reply struct {
	ID    string // of /v1/responses
	Text  string // of the first choice; "" if it calls tools
	Bytes int    // of all output of the model, to estimate tokens
	Usage *Usage // nil if it has none
	// Pending says that the answer is not complete yet: one of /v1/responses, in the background.
	Pending bool
}

// output is the answer of /v1/responses.
type output struct {
	ID      json.RawMessage `json:"id"`
	Created json.RawMessage `json:"created_at"`
	Model   json.RawMessage `json:"model"`
	Status  string          `json:"status"`
	Error   json.RawMessage `json:"error"`
	Output  []struct {
		Arguments json.RawMessage `json:"arguments"`
		Input     json.RawMessage `json:"input"`   // of a custom tool
		Code      json.RawMessage `json:"code"`    // of an interpreter
		Summary   json.RawMessage `json:"summary"` // of reasoning
		Content   json.RawMessage `json:"content"` // a list
	} `json:"output"`
	Usage json.RawMessage `json:"usage"`
}

func (o output) reply(c Codec) Reply {
	r := Reply{ID: c.textOf(o.ID), Usage: usageOf(o.Usage)}
	var text strings.Builder
	for _, item := range o.Output {
		said, bytes := c.parts(item.Content)
		text.WriteString(said)
		_, summary := c.parts(item.Summary)
		r.Bytes += bytes + summary + c.made(item.Arguments) + c.made(item.Input) + c.made(item.Code)
	}
	r.Text = text.String()
	return r
}

// toolCall is a tool call of a message or of a delta.
type toolCall struct {
	Function struct {
		Name      json.RawMessage `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
	Custom struct {
		Name  json.RawMessage `json:"name"`
		Input json.RawMessage `json:"input"`
	} `json:"custom"`
}

func (t *toolCall) bytes(c Codec) int {
	return c.textBytesOf(t.Function.Name) + c.made(t.Function.Arguments) + c.textBytesOf(t.Custom.Name) + c.made(t.Custom.Input)
}

// aside has the fields of a message or a delta other than its content. Servers use either name for reasoning, and
// some send one text under both.
type aside struct {
	ReasoningContent json.RawMessage `json:"reasoning_content"`
	Reasoning        json.RawMessage `json:"reasoning"`
	Refusal          json.RawMessage `json:"refusal"`
}

func (a *aside) bytes(c Codec) int {
	return max(c.textBytesOf(a.ReasoningContent), c.textBytesOf(a.Reasoning)) + c.textBytesOf(a.Refusal)
}

// textBytesOf returns the length of a text. Other values count as 0: servers use these fields in many ways, and an answer
// must not fail for them.
func (c Codec) textBytesOf(value json.RawMessage) int {
	if len(value) == 0 {
		return 0
	}
	var text string
	_ = c.JSON.Unmarshal(value, &text)
	return textBytes(text)
}

// made returns the model's bytes in a value, which most servers send as a text, and some as JSON.
func (c Codec) made(value json.RawMessage) int {
	if n := c.textBytesOf(value); n > 0 || len(value) == 0 || value[0] != '{' && value[0] != '[' {
		return n
	}
	return len(value)
}

// parts returns the text of a value, which is a text or a list of parts. bytes also counts refusals, and the
// reasoning of some servers.
func (c Codec) parts(value json.RawMessage) (text string, bytes int) {
	if len(value) == 0 || string(value) == "null" || c.JSON.Unmarshal(value, &text) == nil {
		return text, textBytes(text)
	}
	var list []json.RawMessage
	if c.JSON.Unmarshal(value, &list) != nil {
		return "", c.made(value)
	}
	var all strings.Builder
	for _, each := range list {
		var part struct {
			Text, Refusal, Thinking json.RawMessage
		}
		if c.JSON.Unmarshal(each, &part) != nil {
			bytes += len(each)
			continue
		}
		var textBytesOf string
		if len(part.Text) > 0 {
			_ = c.JSON.Unmarshal(part.Text, &textBytesOf) // other values are not shown
		}
		all.WriteString(textBytesOf)
		bytes += c.made(part.Text) + c.textBytesOf(part.Refusal) + c.made(part.Thinking)
	}
	return all.String(), bytes
}

// ParseReply parses the body of a whole answer. The error is ErrNone if the body reports a failure, a *NoneError if
// it gives a reason, or ErrForm.
func (c Codec) ParseReply(e Endpoint, body []byte) (Reply, error) {
	switch e {
	case Messages:
		return c.parseMessage(body)
	case Tokens:
		return c.parseTokens(body)
	case Responses:
		var o output
		if err := c.JSON.Unmarshal(body, &o); err != nil {
			return Reply{}, fmt.Errorf("%w: %w", ErrForm, err)
		}
		if o.Output == nil {
			return Reply{}, c.none(body, "it has no output")
		}
		r := o.reply(c)
		switch o.Status {
		case "", "completed", "incomplete":
		case "queued", "in_progress":
			r.Pending = true
		default:
			if f := c.fault(o.Error, maxFaultNesting); f.Message != "" {
				f.Message = o.Status + ": " + f.Message
				return Reply{}, &NoneError{f}
			}
			return Reply{}, fmt.Errorf("%w: its status is %q", ErrNone, o.Status)
		}
		return r, nil
	}
	if c.Scan {
		if r, ok := scanReply(body); ok {
			return r, nil
		}
	}
	return c.parseReply(body)
}

// parseReply parses a reply of /v1/chat/completions, of any form.
func (c Codec) parseReply(body []byte) (Reply, error) {
	var answer struct {
		Choices []struct {
			Message struct {
				aside
				Content   json.RawMessage `json:"content"`
				ToolCalls []toolCall      `json:"tool_calls"`
			} `json:"message"`
		} `json:"choices"`
		Usage json.RawMessage `json:"usage"`
	}
	if err := c.JSON.Unmarshal(body, &answer); err != nil {
		return Reply{}, fmt.Errorf("%w: %w", ErrForm, err)
	}
	if len(answer.Choices) == 0 {
		return Reply{}, c.none(body, "it has no choices")
	}
	r := Reply{Usage: usageOf(answer.Usage)}
	for i, choice := range answer.Choices {
		text, bytes := c.parts(choice.Message.Content)
		if i == 0 {
			r.Text = text
		}
		r.Bytes += bytes + choice.Message.bytes(c)
		for _, t := range choice.Message.ToolCalls {
			r.Bytes += t.bytes(c)
		}
	}
	return r, nil
}

// none returns the error of a body without an answer: with the upstream's reason, or else missing.
func (c Codec) none(body []byte, missing string) error {
	if f := c.ParseFault(body); f.Message != "" {
		return &NoneError{f}
	}
	return fmt.Errorf("%w: %s", ErrNone, missing)
}

// A Delta is the next piece of a choice's text.
type Delta struct {
	Choice int
	Text   string
}

// An Event is an event of a stream.
type Event struct {
	Deltas []Delta // text, by choice
	Ended  []int   // choices of /v1/chat/completions, or blocks of /v1/messages, that end here
	Bytes  int     // of the model's output: text, reasoning, tools' arguments
	Usage  *Usage  // nil if it has none
	// Done says that it is the last event.
	Done bool
	// UsageOnly says that it has only the usage.
	UsageOnly bool
	// Failed is the upstream's error; its Message is "" without one.
	Failed Fault
	// Typed says that a failing event has the form of /v1/responses or /v1/messages, which clients know.
	Typed bool
	// Start identifies the response, in the first event of /v1/responses; nil in others.
	Start *Start
	// Next is the sequence_number after the event's own; 0 if it has none.
	Next int
}

// A Start has the properties of a response at its beginning.
type Start struct {
	ID      string
	Created int
	Model   string
}

// done ends a stream of /v1/chat/completions, and with some servers one of /v1/responses.
const done = "[DONE]"

// errorEvent is the name of events with which servers report errors.
const errorEvent = "error"

// failedEvent is the event with which /v1/responses reports errors.
const failedEvent = "response.failed"

// unknown is the message of a fault without one.
const unknown = "without a reason"

// ParseEvent reads one event into v.
func (c Codec) ParseEvent(e Endpoint, f Frame, v *Event) error {
	*v = Event{Deltas: v.Deltas[:0], Ended: v.Ended[:0]}
	data := f.Data
	switch {
	case f.End():
		v.Done = true
		return nil
	case string(f.Name) == errorEvent && (e == Chat || !typed(data)):
		v.Done = e != Chat
		v.Failed = c.ParseFault(data)
		v.Failed.Message = cmp.Or(v.Failed.Message, unknown)
		return nil
	}
	switch e {
	case Responses:
		return v.parseResponse(c, data)
	case Messages:
		return v.parseMessage(c, data)
	}
	if c.Scan && scanEvent(data, v) {
		return nil
	}
	return c.parseChat(data, v)
}

// typed reports whether an event of /v1/responses or /v1/messages says itself that the answer failed.
func typed(data []byte) bool {
	w := walker{scanner: scanner{b: data}}
	kind, _ := w.part()
	return kind == errorEvent || kind == failedEvent
}

// parseChat reads an event of /v1/chat/completions, of any form.
func (c Codec) parseChat(data []byte, v *Event) error {
	var chunk struct {
		Choices []struct {
			Index  json.RawMessage `json:"index"`
			Finish json.RawMessage `json:"finish_reason"`
			Delta  struct {
				aside
				Content   json.RawMessage `json:"content"`
				ToolCalls []toolCall      `json:"tool_calls"`
			} `json:"delta"`
		} `json:"choices"`
		Usage   json.RawMessage `json:"usage"`
		Error   json.RawMessage `json:"error"`
		Message json.RawMessage `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if err := c.JSON.Unmarshal(data, &chunk); err != nil {
		return fmt.Errorf("%w: %w", ErrForm, err)
	}
	v.Usage = usageOf(chunk.Usage)
	v.UsageOnly = len(chunk.Choices) == 0 && v.Usage != nil
	if says(chunk.Error) {
		v.Failed = c.ParseFault(data)
		v.Failed.Message = cmp.Or(v.Failed.Message, unknown)
	} else if len(chunk.Choices) == 0 && (says(chunk.Message) || says(chunk.Detail)) {
		v.Failed = c.ParseFault(data)
	}
	for _, choice := range chunk.Choices {
		index, _ := whole(choice.Index) // 0 if missing
		text, bytes := c.parts(choice.Delta.Content)
		if text != "" {
			v.Deltas = append(v.Deltas, Delta{index, text})
		}
		v.Bytes += bytes
		if c.textBytesOf(choice.Finish) > 0 {
			v.Ended = append(v.Ended, index)
		}
		v.Bytes += choice.Delta.bytes(c)
		for _, t := range choice.Delta.ToolCalls {
			v.Bytes += t.bytes(c)
		}
	}
	return nil
}

func (v *Event) parseResponse(c Codec, data []byte) error {
	var r struct {
		Type     string          `json:"type"`
		Number   json.RawMessage `json:"sequence_number"`
		Delta    json.RawMessage `json:"delta"`
		Response *output         `json:"response"`
	}
	if err := c.JSON.Unmarshal(data, &r); err != nil {
		return fmt.Errorf("%w: %w", ErrForm, err)
	}
	if n, ok := whole(r.Number); ok {
		v.Next = n + 1
	}
	if strings.HasSuffix(r.Type, deltaEvent) {
		var delta string
		_ = c.JSON.Unmarshal(r.Delta, &delta) // anyElement are no text
		if v.Bytes = textBytes(delta); strings.HasSuffix(r.Type, audioEvent) {
			v.Bytes = len(delta) / perTextByte
		}
		if r.Type == "response.output_text.delta" {
			v.Deltas = append(v.Deltas, Delta{0, delta})
		}
	}
	switch r.Type {
	case "": // some servers report failures like this
		v.Done, v.Failed = true, c.ParseFault(data)
		if v.Failed.Message == "" {
			return fmt.Errorf("%w: an event has no type", ErrForm)
		}
	case "response.created", "response.queued", "response.in_progress":
		if r.Response == nil {
			break
		}
		if id := c.textOf(r.Response.ID); id != "" {
			created, _ := whole(r.Response.Created) // 0 if missing
			v.Start = &Start{id, created, c.textOf(r.Response.Model)}
		}
	case "response.completed", "response.incomplete":
		v.Done = true
	case failedEvent, errorEvent:
		v.Done, v.Typed = true, true
		if r.Response != nil {
			v.Failed = c.fault(r.Response.Error, maxFaultNesting)
		}
		if v.Failed.Message == "" {
			v.Failed = c.ParseFault(data)
		}
		if v.Failed.Type == r.Type { // it is the name of the event
			v.Failed.Type = ""
		}
		v.Failed.Message = cmp.Or(v.Failed.Message, "the model failed")
	}
	if r.Response != nil {
		v.Usage = usageOf(r.Response.Usage)
	}
	return nil
}

// An Error is an error in the form for clients.
type Error struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Param   any    `json:"param"`
	Code    any    `json:"code"`
}

// AppendFault appends an error in the form of an endpoint. A missing type follows from the status; id is the request's,
// for clients of /v1/messages. Both param and id may be "".
func AppendFault(b []byte, of Endpoint, status int, param string, f Fault, id string) []byte {
	if of == Messages || of == Tokens {
		return appendMessageFault(b, status, param, f, id)
	}
	e := Error{Message: f.Message, Type: f.Type}
	switch {
	case e.Type != "":
	case status == 401 || status == 403:
		e.Type = "authentication_error"
	case status == 429:
		e.Type = "rate_limit_error"
	case status >= 500:
		e.Type = "server_error"
	default:
		e.Type = "invalid_request_error"
	}
	if param != "" {
		e.Param = param
	}
	if f.Code != "" {
		e.Code = f.Code
	}
	encoded, err := json.Marshal(map[string]Error{"error": e})
	if err != nil {
		return b // strings always encode
	}
	return append(b, encoded...)
}

// AppendFailure appends the event that ends a stream after the gateway's own fault. For /v1/responses that is
// response.failed, or error for a response that has not begun; next is its sequence_number.
func AppendFailure(b []byte, e Endpoint, status int, f Fault, start *Start, next int) []byte {
	switch e {
	case Chat:
		return AppendFrame(b, "", AppendFault(nil, e, status, "", f, ""))
	case Messages:
		return AppendFrame(b, errorEvent, AppendFault(nil, e, status, "", f, ""))
	}
	var event any = struct {
		Type    string  `json:"type"`
		Code    *string `json:"code"`
		Message string  `json:"message"`
		Param   *string `json:"param"`
		Next    int     `json:"sequence_number"`
	}{errorEvent, optional(f.Code), f.Message, nil, next}
	name := errorEvent
	if start != nil {
		name = failedEvent
		event = map[string]any{
			"type": name, "sequence_number": next,
			"response": map[string]any{
				"id": start.ID, "object": "response", "created_at": start.Created, "model": start.Model, "status": "failed",
				"error":  map[string]string{"code": cmp.Or(f.Code, "server_error"), "message": f.Message},
				"output": []any{}, "usage": nil, "incomplete_details": nil, "instructions": nil, "metadata": map[string]string{},
				"parallel_tool_calls": true, "temperature": nil, "tool_choice": "auto", "tools": []any{}, "top_p": nil,
			},
		}
	}
	data, err := json.Marshal(event)
	if err != nil {
		return b // strings and numbers always encode
	}
	return AppendFrame(b, name, data)
}

// optional returns nil for "".
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
