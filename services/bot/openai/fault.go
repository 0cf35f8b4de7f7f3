package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Fault is an upstream's own error.
type Fault struct {
	Message string
	// Type and Code name the kind, such as insufficient_quota; "" if the upstream names none.
	Type, Code string
	ID         string // of the gateway's request; "" is none
}

// ErrForm says that an answer or an event has an unknown form.
var ErrForm = errors.New("its answer is not in a known form")

// ErrNone says that a body reports a failure instead of an answer.
var ErrNone = errors.New("no answer")

// A NoneError is an ErrNone with the upstream's reason.
type NoneError struct{ Fault }

func (e *NoneError) Error() string { return ErrNone.Error() + ": " + e.Message }

// Unwrap returns ErrNone.
func (e *NoneError) Unwrap() error { return ErrNone }

// maxFaultNesting bounds how deep a message is searched for.
const maxFaultNesting = 4

// ParseFault parses an upstream's error: plain text, or JSON in any of the usual forms. Servers have the message in
// "error", as a text or as an object, in "message" or in "detail". It ignores HTML pages, binary data and incomplete
// JSON.
func (c Codec) ParseFault(data []byte) Fault {
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0 || data[0] == '<' || !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0:
		return Fault{}
	case json.Valid(data):
		return c.fault(data, maxFaultNesting)
	case bytes.IndexByte([]byte(`{["`), data[0]) >= 0:
		return Fault{}
	}
	return Fault{Message: string(data)}
}

// fault reads a JSON value.
func (c Codec) fault(value json.RawMessage, depth int) Fault {
	value = bytes.TrimSpace(value)
	if len(value) == 0 || depth == 0 {
		return Fault{}
	}
	switch value[0] {
	case '"':
		return Fault{Message: c.textOf(value)}
	case '[':
		var list []json.RawMessage
		if c.JSON.Unmarshal(value, &list) != nil || len(list) == 0 {
			return Fault{}
		}
		return c.fault(list[0], depth-1)
	case '{':
		return c.faultObject(value, depth)
	}
	return Fault{}
}

func (c Codec) faultObject(value json.RawMessage, depth int) Fault {
	var o struct {
		Error       json.RawMessage `json:"error"`
		Errors      json.RawMessage `json:"errors"`
		Message     json.RawMessage `json:"message"`
		Detail      json.RawMessage `json:"detail"`
		Description json.RawMessage `json:"error_description"`
		Msg         json.RawMessage `json:"msg"`
		Type        json.RawMessage `json:"type"`
		Code        json.RawMessage `json:"code"`
	}
	if c.JSON.Unmarshal(value, &o) != nil {
		return Fault{}
	}
	f := c.fault(o.Error, depth-1)
	title := c.textOf(o.Error) // a text there may be only a title
	for _, other := range []json.RawMessage{o.Errors, o.Message, o.Detail, o.Description, o.Msg} {
		if f.Message != title {
			break
		}
		more := c.fault(other, depth-1)
		if more.Message == "" || more.Message == title {
			continue
		}
		if title != "" {
			more.Message = title + ": " + more.Message
		}
		f = Fault{Message: more.Message, Type: cmp.Or(more.Type, f.Type), Code: cmp.Or(more.Code, f.Code)}
	}
	f.Type, f.Code = cmp.Or(f.Type, c.kind(o.Type)), cmp.Or(f.Code, c.kind(o.Code))
	return f
}

// textOf returns a text; "" for another value.
func (c Codec) textOf(value json.RawMessage) (text string) {
	if bytes.HasPrefix(value, []byte{'"'}) {
		_ = c.JSON.Unmarshal(value, &text) // ignores an unreadable text
	}
	return text
}

// says reports whether a field "error" has a value: some servers send the field in every answer.
func says(value json.RawMessage) bool {
	switch string(value) {
	case "", "null", "false", `""`:
		return false
	}
	return true
}

// maxBrief bounds an upstream's text for clients and logs, in bytes.
const maxBrief = 1 << 10

// Brief shortens a long text to its beginning.
func Brief(text string) string {
	if len(text) <= maxBrief {
		return text
	}
	return strings.ToValidUTF8(text[:maxBrief], "") + "…"
}

// maxKind bounds an accepted type or code, in bytes.
const maxKind = 64

// kind reads a type or a code.
func (c Codec) kind(value json.RawMessage) string {
	text := c.textOf(value)
	if len(text) > maxKind || text == "error" { // "error" is only the name of the event
		return ""
	}
	return text
}

// WithID returns an event that ends a stream by an error with the ID of the gateway's request. One that has an ID keeps it.
func (f Frame) WithID(id string) Frame {
	var fields map[string]json.RawMessage
	if json.Unmarshal(f.Data, &fields) != nil || fields == nil || says(fields["request_id"]) {
		return f
	}
	fields["request_id"] = strconv.AppendQuote(nil, id)
	f.Data, _ = json.Marshal(fields) // it was JSON
	f.Raw = AppendFrame(nil, string(f.Name), f.Data)
	return f
}
