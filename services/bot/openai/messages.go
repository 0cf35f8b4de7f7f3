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
	s := scanner{b: value}
	if s.sees() != '{' {
		return nil
	}
	var u Usage
	ok := s.object(func(name []byte) bool {
		switch string(name) {
		case "input_tokens":
			return s.kind(&u.Prompt)
		case "output_tokens":
			return s.kind(&u.Completion)
		case "cache_read_input_tokens":
			return s.kind(&u.Cached)
		case "cache_creation_input_tokens":
			return s.kind(&u.CacheWrite)
		case "output_tokens_details":
			return s.kinds(u.completionKind)
		}
		return s.skip()
	})
	if !ok || !s.end() || u == (Usage{}) {
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

// block reads a block of a message, or a delta of one, and returns its text and the bytes of the model's output.
func (s *scanner) block() (text string, bytes int, ok bool) {
	ok = s.object(func(name []byte) (ok bool) {
		n := 0
		switch string(name) {
		case "text":
			text, ok = s.stringValue()
			n = textBytes(text)
		case "thinking", "name", "partial_json": // of a tool, its name and the pieces of its input
			n, ok = s.size()
		case "input":
			value, there := s.value()
			if ok = there; string(value) != "{}" { // at the beginning of a stream, before its pieces
				n = made(value)
			}
		default:
			return s.skip()
		}
		bytes += n
		return ok
	})
	return text, bytes, ok
}

// parseMessage parses an answer of /v1/messages.
func (c Codec) parseMessage(body []byte) (r Reply, err error) {
	s, there := scanner{b: body}, false
	var text strings.Builder
	ok := s.object(func(name []byte) bool {
		switch string(name) {
		case "content":
			if s.null() {
				return true
			}
			there = true
			return s.array(func() bool {
				piece, bytes, ok := s.block()
				text.WriteString(piece)
				r.Bytes += bytes
				return ok
			})
		case "usage":
			return s.usage(messageUsage, &r.Usage)
		}
		return s.skip()
	})
	switch {
	case !ok || !s.end():
		return Reply{}, s.formError()
	case !there:
		return Reply{}, c.none(body, "it has no content")
	}
	r.Text = text.String()
	return r, nil
}

// countFields have the number in an answer that counts tokens.
var countFields = map[Endpoint]string{Tokens: "input_tokens", ContentTokens: "totalTokens"}

// parseTokens parses an answer that counts tokens. It uses none.
func (c Codec) parseTokens(e Endpoint, body []byte) (Reply, error) {
	s, there := scanner{b: body}, false
	ok := s.object(func(name []byte) bool {
		value, ok := s.value()
		if string(name) == countFields[e] {
			_, there = whole(value)
		}
		return ok
	})
	switch {
	case !ok || !s.end():
		return Reply{}, s.formError()
	case !there:
		return Reply{}, c.none(body, "it has no "+countFields[e])
	}
	return Reply{Usage: &Usage{}}, nil
}

// AppendTokens appends an answer of an endpoint that counts tokens.
func AppendTokens(b []byte, e Endpoint, tokens int) []byte {
	return fmt.Appendf(b, `{%q:%d}`, countFields[e], tokens)
}

// parseMessage reads an event of /v1/messages.
func (v *Event) parseMessage(c Codec, data []byte) error {
	var kind, text string
	var index, bytes int
	var begun, usage *Usage
	s := scanner{b: data}
	ok := s.object(func(name []byte) (ok bool) {
		switch string(name) {
		case "type":
			kind, ok = s.stringValue()
		case "index":
			index, ok = s.number()
		case "delta":
			var n int
			text, n, ok = s.block()
			bytes += n
		case "content_block":
			var n int
			_, n, ok = s.block()
			bytes += n
		case "message":
			if s.sees() != '{' { // of an error
				return s.skip()
			}
			return s.fields(func(name []byte) bool {
				if string(name) != "usage" {
					return s.skip()
				}
				return s.usage(messageUsage, &begun)
			})
		case "usage":
			return s.usage(messageUsage, &usage)
		default:
			return s.skip()
		}
		return ok
	})
	if !ok || !s.end() {
		return s.formError()
	}
	switch kind {
	case "message_start":
		v.Usage = begun
	case "content_block_start", blockDelta:
		if v.Bytes = bytes; text != "" {
			v.Deltas = append(v.Deltas, Delta{0, text})
		}
	case "content_block_stop":
		v.Ended = append(v.Ended, index)
	case "message_delta":
		v.Usage = usage
	case "message_stop":
		v.Done = true
	case "", errorEvent:
		if v.Failed = c.ParseFault(data); v.Failed.Message == "" && kind == "" {
			return fmt.Errorf("%w: an event has no type", ErrForm)
		}
		v.Done, v.Typed = true, kind != ""
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
	return w.named(func(name string) bool {
		if !strings.EqualFold(name, "delta") || w.sees() != '{' {
			return w.whole(name)
		}
		return w.named(func(name string) bool {
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
func appendMessageFault(b []byte, status int, param string, f Fault) []byte {
	if param != "" && !strings.HasPrefix(f.Message, param) {
		f.Message = param + ": " + f.Message
	}
	encoded, err := json.Marshal(map[string]any{
		"type": errorEvent, "error": map[string]string{"type": faultType(status, f), "message": f.Message}, "request_id": optional(f.ID),
	})
	if err != nil {
		return b // strings always encode
	}
	return append(b, encoded...)
}
