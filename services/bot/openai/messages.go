package openai

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// This file reads answers and streams of Anthropic's Messages API (API reference, 2026-11).

// messageUsage parses the usage of an answer, or the part of it that an event has; nil is none. Its input_tokens are
// those that were neither read from the cache nor written to it.
func messageUsage(value []byte) *Usage {
	w := walker{scanner: scanner{b: value}}
	if w.sees() != '{' {
		return nil
	}
	var u Usage
	ok := w.fields(func(name string) bool {
		switch name {
		case "input_tokens":
			return w.kind(&u.Prompt)
		case "output_tokens":
			return w.kind(&u.Completion)
		case "cache_read_input_tokens":
			return w.kind(&u.Cached)
		case "cache_creation_input_tokens":
			return w.kind(&u.CacheWrite)
		case "output_tokens_details":
			return w.kinds(u.completionKind)
		}
		return w.skip()
	})
	if !ok || !w.end() || u == (Usage{}) {
		return nil
	}
	u.Prompt += u.Cached + u.CacheWrite
	return &u
}

// Latest returns the usage of a stream after an event that has now; nil is none. Events of /v1/messages have a part of
// it each, and their numbers only grow.
func (e Endpoint) Latest(before, now *Usage) *Usage {
	if e != Messages || before == nil || now == nil {
		return cmp.Or(now, before)
	}
	u := *now
	u.Prompt, u.Completion = max(u.Prompt, before.Prompt), max(u.Completion, before.Completion)
	u.Cached, u.CacheWrite, u.Reasoning = max(u.Cached, before.Cached), max(u.CacheWrite, before.CacheWrite), max(u.Reasoning, before.Reasoning)
	return &u
}

// block is a block of a message, or a delta of one.
type block struct {
	Text     json.RawMessage `json:"text"`
	Thinking json.RawMessage `json:"thinking"`
	Name     json.RawMessage `json:"name"`         // of a tool
	Input    json.RawMessage `json:"input"`        // of a tool
	Partial  json.RawMessage `json:"partial_json"` // of such an input
}

func (b *block) bytes(c Codec) int {
	n := c.textBytesOf(b.Text) + c.textBytesOf(b.Thinking) + c.textBytesOf(b.Name) + c.textBytesOf(b.Partial)
	if string(b.Input) == "{}" { // at the beginning of a stream, before its pieces
		return n
	}
	return n + c.made(b.Input)
}

// parseMessage parses an answer of /v1/messages.
func (c Codec) parseMessage(body []byte) (Reply, error) {
	var m struct {
		Content []block         `json:"content"`
		Usage   json.RawMessage `json:"usage"`
	}
	if err := c.JSON.Unmarshal(body, &m); err != nil {
		return Reply{}, fmt.Errorf("%w: %w", ErrForm, err)
	}
	if m.Content == nil {
		return Reply{}, c.none(body, "it has no content")
	}
	r := Reply{Usage: messageUsage(m.Usage)}
	var text strings.Builder
	for i := range m.Content {
		b := &m.Content[i]
		text.WriteString(c.textOf(b.Text))
		r.Bytes += b.bytes(c)
	}
	r.Text = text.String()
	return r, nil
}

// parseTokens parses an answer of /v1/messages/count_tokens. It uses no tokens.
func (c Codec) parseTokens(body []byte) (Reply, error) {
	var m struct {
		Tokens json.RawMessage `json:"input_tokens"`
	}
	if err := c.JSON.Unmarshal(body, &m); err != nil {
		return Reply{}, fmt.Errorf("%w: %w", ErrForm, err)
	}
	if _, ok := whole(m.Tokens); !ok {
		return Reply{}, c.none(body, "it has no input_tokens")
	}
	return Reply{Usage: &Usage{}}, nil
}

// AppendTokens appends an answer of /v1/messages/count_tokens.
func AppendTokens(b []byte, tokens int) []byte {
	return append(strconv.AppendInt(append(b, `{"input_tokens":`...), int64(tokens), 10), '}')
}

// parseMessage reads an event of /v1/messages.
func (v *Event) parseMessage(c Codec, data []byte) error {
	var m struct {
		Type    string          `json:"type"`
		Index   json.RawMessage `json:"index"`
		Delta   block           `json:"delta"`
		Block   block           `json:"content_block"`
		Message json.RawMessage `json:"message"`
		Usage   json.RawMessage `json:"usage"`
	}
	if err := c.JSON.Unmarshal(data, &m); err != nil {
		return fmt.Errorf("%w: %w", ErrForm, err)
	}
	switch m.Type {
	case "message_start":
		var message struct {
			Usage json.RawMessage `json:"usage"`
		}
		if c.JSON.Unmarshal(m.Message, &message) == nil {
			v.Usage = messageUsage(message.Usage)
		}
	case "content_block_start", blockDelta:
		v.Bytes = m.Block.bytes(c) + m.Delta.bytes(c)
		if text := c.textOf(m.Delta.Text); text != "" {
			v.Deltas = append(v.Deltas, Delta{0, text})
		}
	case "content_block_stop":
		index, _ := whole(m.Index) // 0 if missing
		v.Ended = append(v.Ended, index)
	case "message_delta":
		v.Usage = messageUsage(m.Usage)
	case "message_stop":
		v.Done = true
	case "", errorEvent:
		if v.Failed = c.ParseFault(data); v.Failed.Message == "" && m.Type == "" {
			return fmt.Errorf("%w: an event has no type", ErrForm)
		}
		v.Done, v.Typed = true, m.Type != ""
		v.Failed.Message = cmp.Or(v.Failed.Message, unknown)
	}
	return nil
}

// blockDelta is the event of /v1/messages with a piece of a block.
const blockDelta = "content_block_delta"

// pieces are the types of deltas of /v1/messages with a piece of a text, by the field of the text.
var pieces = map[string]string{"text": "text_delta", "partial_json": "input_json_delta", "thinking": "thinking_delta"}

// message reads an event of /v1/messages.
func (w *walker) message() bool {
	index := w.index(0)
	return w.fields(func(name string) bool {
		if !strings.EqualFold(name, "delta") || w.sees() != '{' {
			return w.whole(name)
		}
		return w.fields(func(name string) bool {
			kind := pieces[name]
			if kind == "" || w.sees() != '"' {
				return w.whole(name)
			}
			key := append(strconv.AppendInt(w.place.Key[:0], int64(index), 10), `,"delta":{"type":"`...)
			key = append(append(append(key, kind...), `","`...), name...)
			w.place = Place{Key: append(key, `":`...), Choice: index, closers: []byte("}")}
			return w.piece(w.place)
		})
	})
}

// faultTypes are the types of errors of the Messages API, by their statuses. 529 is its own.
var faultTypes = map[int]string{
	400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error", 404: "not_found_error",
	409: "conflict_error", 413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 503: "overloaded_error", 504: "timeout_error", 529: "overloaded_error",
}

// faultType returns the type of an error: the upstream's, if the API has it, or else that of the status.
func faultType(status int, f Fault) string {
	byStatus := faultTypes[400]
	if status >= 500 {
		byStatus = faultTypes[500]
	}
	byStatus = cmp.Or(faultTypes[status], byStatus)
	for _, kind := range faultTypes {
		if f.Type == kind {
			return kind
		}
	}
	return byStatus
}

// appendMessageFault appends an error in the form of the Messages API, which names no parameter: the message does.
func appendMessageFault(b []byte, status int, param string, f Fault, id string) []byte {
	if param != "" && !strings.HasPrefix(f.Message, param) {
		f.Message = param + ": " + f.Message
	}
	encoded, err := json.Marshal(map[string]any{
		"type": errorEvent, "error": map[string]string{"type": faultType(status, f), "message": f.Message}, "request_id": optional(id),
	})
	if err != nil {
		return b // strings always encode
	}
	return append(b, encoded...)
}
