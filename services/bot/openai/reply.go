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
	Prompt, Completion int `json:"-"`
	// Parts of these, which may have prices of their own: 0 if the upstream does not report them.
	Cached          int `json:"cached,omitempty"`
	CacheWrite      int `json:"cache_write,omitempty"`
	PromptAudio     int `json:"prompt_audio,omitempty"`
	PromptImage     int `json:"prompt_image,omitempty"`
	Reasoning       int `json:"reasoning,omitempty"`
	CompletionAudio int `json:"completion_audio,omitempty"`
	CompletionImage int `json:"completion_image,omitempty"`
	// Units is what an Operation uses apart from tokens: images, seconds, characters or documents.
	Units int `json:"-"`
	// Estimated says that it was estimated here, because the upstream did not report it.
	Estimated bool `json:"-"`
}

// Kinds returns the parts that it has, as JSON; "" without any.
func (u Usage) Kinds() string {
	if u == (Usage{Prompt: u.Prompt, Completion: u.Completion, Units: u.Units, Estimated: u.Estimated}) {
		return ""
	}
	text, _ := json.Marshal(u) // of numbers
	return string(text)
}

// Total returns the sum.
func (u Usage) Total() int { return u.Prompt + u.Completion }

// Plus returns the sum of two usages.
func (u Usage) Plus(v Usage) Usage {
	return Usage{u.Prompt + v.Prompt, u.Completion + v.Completion, u.Cached + v.Cached, u.CacheWrite + v.CacheWrite, u.PromptAudio + v.PromptAudio, u.PromptImage + v.PromptImage,
		u.Reasoning + v.Reasoning, u.CompletionAudio + v.CompletionAudio, u.CompletionImage + v.CompletionImage, u.Units + v.Units, u.Estimated || v.Estimated}
}

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
	Reply

	created       int
	model, status string
	fault         []byte
	there         bool // its list is
}

// output reads an answer of /v1/responses.
func (s *scanner) output(o *output) bool {
	var text strings.Builder
	ok := s.object(func(name []byte) (ok bool) {
		switch string(name) {
		case "id":
			o.ID, ok = s.stringValue()
		case "created_at":
			o.created, ok = s.number()
		case "model":
			o.model, ok = s.stringValue()
		case "status":
			o.status, ok = s.stringValue()
		case "error":
			o.fault, ok = s.value()
		case "usage":
			return s.usage(usageOf, &o.Usage)
		case "output":
			if s.null() {
				return true
			}
			o.there = true
			return s.array(func() bool { return s.outputItem(&o.Reply, &text) })
		default:
			return s.skip()
		}
		return ok
	})
	o.Text = text.String()
	return ok
}

// outputItem reads an item of such an answer.
func (s *scanner) outputItem(r *Reply, text *strings.Builder) bool {
	return s.object(func(name []byte) (ok bool) {
		n := 0
		switch string(name) {
		case "content", "summary": // the latter is of reasoning
			var piece string
			if piece, n, ok = s.content(); string(name) == "content" {
				text.WriteString(piece)
			}
		case "arguments", "input", "code": // of a tool, a custom one, and an interpreter
			n, ok = s.made()
		default:
			return s.skip()
		}
		r.Bytes += n
		return ok
	})
}

// toolCalls reads the tool calls of a message or of a delta, and returns their bytes.
func (s *scanner) toolCalls() (bytes int, ok bool) {
	if s.null() {
		return 0, true
	}
	ok = s.array(func() bool {
		return s.object(func(kind []byte) bool {
			if string(kind) != "function" && string(kind) != "custom" {
				return s.skip()
			}
			return s.object(func(name []byte) (ok bool) {
				n := 0
				switch string(name) {
				case "name":
					n, ok = s.size()
				case "arguments", "input":
					n, ok = s.made()
				default:
					return s.skip()
				}
				bytes += n
				return ok
			})
		})
	})
	return bytes, ok
}

// message reads a message or a delta of /v1/chat/completions, and returns its text and the bytes of all output.
func (s *scanner) message() (text string, bytes int, ok bool) {
	reasoning := 0
	ok = s.object(func(name []byte) (ok bool) {
		n := 0
		switch string(name) {
		case "content":
			text, n, ok = s.content()
		case "tool_calls":
			n, ok = s.toolCalls()
		case "refusal":
			n, ok = s.size()
		case "reasoning_content", "reasoning": // servers use either name, and some send one text under both
			n, ok = s.size()
			n, reasoning = max(0, n-reasoning), max(n, reasoning)
		default:
			return s.skip()
		}
		bytes += n
		return ok
	})
	return text, bytes, ok
}

// content reads a value that is a text, or a list of parts. bytes also counts refusals, and the reasoning of some servers.
func (s *scanner) content() (text string, bytes int, ok bool) {
	switch s.sees() {
	case '"':
		text, ok = s.text()
		return text, textBytes(text), ok
	case '[':
	default:
		bytes, ok = s.made()
		return "", bytes, ok
	}
	var all strings.Builder
	ok = s.array(func() bool {
		if s.sees() != '{' {
			value, ok := s.value()
			if string(value) != "null" {
				bytes += len(value)
			}
			return ok
		}
		return s.fields(func(name []byte) (ok bool) {
			n := 0
			switch string(name) {
			case "text":
				value, there := s.value()
				all.WriteString(textValue(value))
				n, ok = made(value), there
			case "refusal":
				n, ok = s.size()
			case "thinking":
				n, ok = s.made()
			default:
				return s.skip()
			}
			bytes += n
			return ok
		})
	})
	return all.String(), bytes, ok
}

// size reads any value, and returns the length of a text. Other values count as 0: servers use these fields in many ways,
// and an answer must not fail for them.
func (s *scanner) size() (n int, ok bool) {
	text, ok := s.stringValue()
	return textBytes(text), ok
}

// made reads any value, and returns the model's bytes in it.
func (s *scanner) made() (n int, ok bool) {
	value, ok := s.value()
	return made(value), ok
}

// made returns the model's bytes in a value, which most servers send as a text, and some as JSON.
func made(value []byte) int {
	if len(value) > 0 && (value[0] == '{' || value[0] == '[') {
		return len(value)
	}
	return textBytes(textValue(value))
}

// usage reads any value, by the function for the form of usages.
func (s *scanner) usage(of func([]byte) *Usage, to **Usage) bool {
	value, ok := s.value()
	*to = of(value)
	return ok
}

// formError is the error of what could not be read.
func (s *scanner) formError() error {
	if !json.Valid(s.b) {
		return fmt.Errorf("%w: it is not JSON, from byte %d on", ErrForm, s.at)
	}
	return fmt.Errorf("%w: byte %d begins something else than is documented", ErrForm, s.at)
}

// ParseReply parses the body of a whole answer. The error is ErrNone if the body reports a failure, a *NoneError if
// it gives a reason, or ErrForm.
func (c Codec) ParseReply(e Endpoint, body []byte) (Reply, error) {
	switch e {
	case Messages:
		return c.parseMessage(body)
	case Contents:
		return c.parseContents(body)
	case Tokens, ContentTokens:
		return c.parseTokens(e, body)
	case Responses:
		var o output
		s := scanner{b: body}
		if !s.output(&o) || !s.end() {
			return Reply{}, s.formError()
		}
		if !o.there {
			return Reply{}, c.none(body, "it has no output")
		}
		switch o.status {
		case "", "completed", "incomplete":
		case "queued", "in_progress":
			o.Pending = true
		default:
			if f := c.fault(o.fault, maxFaultNesting); f.Message != "" {
				f.Message = o.status + ": " + f.Message
				return Reply{}, &NoneError{f}
			}
			return Reply{}, fmt.Errorf("%w: its status is %q", ErrNone, o.status)
		}
		return o.Reply, nil
	}
	return c.parseChatReply(body)
}

// parseChatReply parses a reply of /v1/chat/completions.
func (c Codec) parseChatReply(body []byte) (r Reply, err error) {
	s, choices := scanner{b: body}, 0
	ok := s.object(func(name []byte) bool {
		switch string(name) {
		case "choices":
			return s.null() || s.array(func() bool {
				choices++
				return s.object(func(name []byte) bool {
					if string(name) != "message" {
						return s.skip()
					}
					text, bytes, ok := s.message()
					if choices == 1 {
						r.Text = text
					}
					r.Bytes += bytes
					return ok
				})
			})
		case "usage":
			return s.usage(usageOf, &r.Usage)
		}
		return s.skip()
	})
	switch {
	case !ok || !s.end():
		return Reply{}, s.formError()
	case choices == 0:
		return Reply{}, c.none(body, "it has no choices")
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
	Ended  []int   // choices of /v1/chat/completions and of the Gemini API, or blocks of /v1/messages, that end here
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
	case string(f.Name) == errorEvent && (e.EndsByChoice() || !typed(data)):
		v.Done = !e.EndsByChoice()
		v.Failed = c.ParseFault(data)
		v.Failed.Message = cmp.Or(v.Failed.Message, unknown)
		return nil
	}
	switch e {
	case Responses:
		return v.parseResponse(c, data)
	case Messages:
		return v.parseMessage(c, data)
	case Contents:
		_, err := v.parseContents(c, data)
		return err
	}
	return v.parseChat(c, data)
}

// typed reports whether an event of /v1/responses or /v1/messages says itself that the answer failed.
func typed(data []byte) bool {
	w := walker{scanner: scanner{b: data}}
	kind, _ := w.part()
	return kind == errorEvent || kind == failedEvent
}

// parseChat reads an event of /v1/chat/completions.
func (v *Event) parseChat(c Codec, data []byte) error {
	s := scanner{b: data}
	var choices int
	var failed, said bool
	ok := s.object(func(name []byte) bool {
		switch string(name) {
		case "choices":
			return s.null() || s.array(func() bool {
				choices++
				return s.choice(v)
			})
		case "usage":
			return s.usage(usageOf, &v.Usage)
		case "error":
			value, ok := s.value()
			failed = says(value)
			return ok
		case "message", "detail":
			value, ok := s.value()
			said = said || says(value)
			return ok
		}
		return s.skip()
	})
	if !ok || !s.end() {
		*v = Event{Deltas: v.Deltas[:0], Ended: v.Ended[:0]}
		return s.formError()
	}
	v.UsageOnly = choices == 0 && v.Usage != nil
	if failed || choices == 0 && said {
		v.Failed = c.ParseFault(data)
	}
	if failed {
		v.Failed.Message = cmp.Or(v.Failed.Message, unknown)
	}
	return nil
}

// choice reads a choice of an event.
func (s *scanner) choice(v *Event) bool {
	var d Delta
	ended := 0
	ok := s.object(func(name []byte) (ok bool) {
		switch string(name) {
		case "index":
			d.Choice, ok = s.number()
		case "finish_reason":
			ended, ok = s.size()
		case "delta":
			var bytes int
			d.Text, bytes, ok = s.message()
			v.Bytes += bytes
		default:
			return s.skip()
		}
		return ok
	})
	if d.Text != "" {
		v.Deltas = append(v.Deltas, d)
	}
	if ended > 0 {
		v.Ended = append(v.Ended, d.Choice)
	}
	return ok
}

// parseResponse reads an event of /v1/responses.
func (v *Event) parseResponse(c Codec, data []byte) error {
	var kind string
	var delta []byte
	var response output
	s := scanner{b: data}
	ok := s.object(func(name []byte) (ok bool) {
		switch string(name) {
		case "type":
			kind, ok = s.stringValue()
		case "sequence_number":
			var value []byte
			value, ok = s.value()
			if n, is := whole(value); is {
				v.Next = n + 1
			}
		case "delta":
			delta, ok = s.value()
		case "response":
			return s.output(&response)
		default:
			return s.skip()
		}
		return ok
	})
	if !ok || !s.end() {
		return s.formError()
	}
	if strings.HasSuffix(kind, deltaEvent) {
		text := textValue(delta) // others are no text
		if v.Bytes = textBytes(text); strings.HasSuffix(kind, audioEvent) {
			v.Bytes = len(text) / perTextByte
		}
		if kind == "response.output_text.delta" && text != "" {
			v.Deltas = append(v.Deltas, Delta{0, text})
		}
	}
	switch kind {
	case "": // some servers report failures like this
		v.Done, v.Failed = true, c.ParseFault(data)
		if v.Failed.Message == "" {
			return fmt.Errorf("%w: an event has no type", ErrForm)
		}
	case "response.created", "response.queued", "response.in_progress":
		if response.ID != "" {
			v.Start = &Start{response.ID, response.created, response.model}
		}
	case "response.completed", "response.incomplete":
		v.Done = true
	case failedEvent, errorEvent:
		v.Done, v.Typed = true, true
		if v.Failed = c.fault(response.fault, maxFaultNesting); v.Failed.Message == "" {
			v.Failed = c.ParseFault(data)
		}
		if v.Failed.Type == kind { // it is the name of the event
			v.Failed.Type = ""
		}
		v.Failed.Message = cmp.Or(v.Failed.Message, "the model failed")
	}
	v.Usage = response.Usage
	return nil
}

// An Error is an error in the form for clients.
type Error struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Param   any    `json:"param"`
	Code    any    `json:"code"`
	ID      string `json:"request_id,omitempty"`
}

// AppendFault appends an error in the form of an endpoint. A missing type follows from the status; param may be "".
func AppendFault(b []byte, of Endpoint, status int, param string, f Fault) []byte {
	switch of {
	case Messages, Tokens:
		return appendMessageFault(b, status, param, f)
	case Contents, ContentTokens:
		return Standard().appendContentsFault(b, status, param, f)
	}
	e := Error{Message: f.Message, Type: f.Type, ID: f.ID}
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
	case Chat, Contents:
		return AppendFrame(b, "", AppendFault(nil, e, status, "", f))
	case Messages:
		return AppendFrame(b, errorEvent, AppendFault(nil, e, status, "", f))
	}
	var event any = struct {
		Type    string  `json:"type"`
		Code    *string `json:"code"`
		Message string  `json:"message"`
		Param   *string `json:"param"`
		ID      string  `json:"request_id,omitempty"`
		Next    int     `json:"sequence_number"`
	}{errorEvent, optional(f.Code), f.Message, nil, f.ID, next}
	name := errorEvent
	if start != nil {
		name = failedEvent
		event = map[string]any{
			"type": name, "sequence_number": next, "request_id": f.ID,
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
