// Package strict checks the JSON that clients send, before anything is read of it. Accepted JSON means
// the same to every reader, to the counting gateway and to the answering server: no member is repeated,
// and no text is repaired. No name differs from a known one only in case or by Unicode's folding, which
// some decoders ignore.
package strict

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Members are an object's known members, each with its value's own members, or those of the elements of
// a list. nil knows none: any names may be there.
type Members map[string]Members

// Names are members of whose values nothing is known.
func Names(names ...string) Members {
	m := Members{}
	for _, name := range names {
		m[name] = nil
	}
	return m
}

// An Error is a fault of a text.
type Error struct {
	Member string // the path of the member that is at fault, such as "messages.0.role"; "" without one
	Text   string // what would be right
}

func (e *Error) Error() string {
	if e.Member == "" {
		return e.Text
	}
	return fmt.Sprintf("%q: %s", e.Member, e.Text)
}

// decoders are used again: most of a check's cost would be to make one.
var decoders = sync.Pool{New: func() any { return jsontext.NewDecoder(nothing{}) }}

// nothing has nothing to read.
type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, io.EOF }

// Check returns what is wrong with a text that should be one object of these members; others may be there, too. The error
// is an *Error.
func Check(text []byte, known Members) error {
	d := decoders.Get().(*jsontext.Decoder)
	defer func() {
		d.Reset(nothing{}) // it does not hold on to the text
		decoders.Put(d)
	}()
	d.Reset(bytes.NewBuffer(text))
	if d.PeekKind() != jsontext.KindBeginObject {
		return &Error{"", "want a JSON object"}
	}
	if err := value(d, known); err != nil {
		return fault(err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return &Error{"", "want one JSON object, and nothing after it"}
	}
	return nil
}

// value takes the next value.
func value(d *jsontext.Decoder, known Members) error {
	kind := d.PeekKind()
	if known == nil || kind != jsontext.KindBeginObject && kind != jsontext.KindBeginArray {
		_, err := d.ReadValue()
		return err
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	// At a fault the kind is invalid, and reading says what it is.
	for end := d.PeekKind(); end != jsontext.KindEndObject && end != jsontext.KindEndArray; end = d.PeekKind() {
		within := known
		if kind == jsontext.KindBeginObject {
			name, err := d.ReadValue()
			if err != nil {
				return err
			}
			var right string
			if within, right, err = member(name, known); err != nil {
				return err
			} else if right != "" {
				return &Error{path(d.StackPointer()), fmt.Sprintf("want %q", right)}
			}
		}
		if err := value(d, within); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// member returns what is known of the value of a member, by its quoted name. Right is the name that is known if this one
// differs from it by folding alone.
func member(quoted jsontext.Value, known Members) (within Members, right string, err error) {
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		if name, err = jsontext.AppendUnquote(nil, quoted); err != nil {
			return nil, "", err
		}
	}
	if within, ok := known[string(name)]; ok {
		return within, "", nil
	}
	for right := range known {
		if strings.EqualFold(right, string(name)) {
			return nil, right, nil
		}
	}
	return nil, "", nil
}

// maxPath bounds how much of a path an error repeats, in bytes.
const maxPath = 100

// path is how an error names a member.
func path(p jsontext.Pointer) string {
	s := strings.ReplaceAll(strings.TrimPrefix(string(p), "/"), "/", ".")
	if len(s) > maxPath {
		s = strings.ToValidUTF8(s[:maxPath], "") + "…"
	}
	return s
}

// fault says what a decoder's error means.
func fault(err error) error {
	var own *Error
	var syntax *jsontext.SyntacticError
	switch {
	case errors.As(err, &own):
		return own
	case !errors.As(err, &syntax):
		return &Error{"", "want a JSON object: " + err.Error()}
	case errors.Is(err, jsontext.ErrDuplicateName):
		return &Error{path(syntax.JSONPointer), "is there twice"}
	case syntax.JSONPointer == "":
		return &Error{"", "want a JSON object: " + syntax.Err.Error()}
	}
	return &Error{path(syntax.JSONPointer), syntax.Err.Error()}
}
