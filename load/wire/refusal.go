package wire

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxText is how many bytes of a server's text an error has, "…" not counted.
const MaxText = 200

// MaxRefusal is the number of bytes of a response's content that Refusals reads.
const MaxRefusal = 4 << 10

const (
	maxRefusals = 8   // errors with a text that are counted apart, see Refusals
	maxRead     = 256 // contents that are read; the rest have the error without a text
)

// Refusals makes the errors of responses that say that they failed, with what their content says
// about it. It is for one goroutine at a time. The zero value is ready for use.
//
// Contents may differ from one response to the next, by the number of a request for instance. So
// only the first are read, and only a few texts are counted apart: failing stays cheap.
type Refusals struct {
	interned map[refusal]*Error
	read     int
	plain    *Error // the error of the last content without its text
	last     []byte // the last content; servers repeat themselves
	err      *Error // its error
}

type refusal struct {
	plain *Error
	text  string
}

// Error returns an error with what the content of a response that begins like this says about it:
// the same pointer for the same text.
func (r *Refusals) Error(plain *Error, content []byte) *Error {
	return r.Decoded(plain, content, 0)
}

// Decoded is Error for content that is encoded.
func (r *Refusals) Decoded(plain *Error, content []byte, c Codings) *Error {
	switch {
	case len(content) == 0:
		return plain
	case r.plain == plain && bytes.Equal(r.last, content):
		return r.err
	case r.read == maxRead:
		return plain
	}
	r.read++
	r.plain, r.last, r.err = plain, append(r.last[:0], content...), r.errorOf(plain, refusalText(c.beginning(content)))
	return r.err
}

func (r *Refusals) errorOf(plain *Error, text string) *Error {
	if text == "" {
		return plain
	}
	key := refusal{plain, text}
	err := r.interned[key]
	switch {
	case err != nil:
		return err
	case len(r.interned) == maxRefusals:
		return plain
	case r.interned == nil:
		r.interned = map[refusal]*Error{}
	}
	err = &Error{Kind: plain.Kind, Text: plain.Text + ": " + text}
	r.interned[key] = err
	return err
}

// refusalText returns what the content of a response says about a failure: the message of a JSON
// object, as in many APIs, the title of a page, or a short text. It is empty where nothing is to be
// read.
func refusalText(content []byte) string {
	content = bytes.TrimSpace(content)
	if event, ok := bytes.CutPrefix(content, []byte("data:")); ok { // of a stream of events
		event, _, _ = bytes.Cut(event, []byte("\n"))
		content = bytes.TrimSpace(event)
	}
	switch {
	case len(content) == 0 || !utf8.Valid(content):
		return ""
	case content[0] == '{':
		return OneLine(messageOf(content))
	case content[0] == '<':
		lower := bytes.ToLower(content)
		_, title, _ := bytes.Cut(lower, []byte("<title>"))
		end := bytes.Index(title, []byte("</title>"))
		if begin := len(lower) - len(title); end > 0 && len(lower) == len(content) {
			return OneLine(string(content[begin : begin+end]))
		}
		return ""
	case len(content) > MaxText:
		return ""
	}
	return OneLine(string(content))
}

// messageOf returns the message of a JSON object: error.message, or one of the names that stand
// for it elsewhere.
func messageOf(object []byte) string {
	var members map[string]json.RawMessage
	if json.Unmarshal(object, &members) != nil {
		return ""
	}
	for _, name := range []string{"error", "message", "detail", "error_description", "title"} {
		var text string
		switch value := members[name]; {
		case len(value) == 0:
		case value[0] == '{' && name == "error":
			text = messageOf(value)
		default:
			_ = json.Unmarshal(value, &text) // what is no string says nothing
		}
		if text != "" {
			return text
		}
	}
	return ""
}

// OneLine makes one line of a server's text: without control characters, and of at most MaxText bytes.
func OneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= MaxText {
		return text
	}
	cut := MaxText
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
