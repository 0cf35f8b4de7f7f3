package texts

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// A Message is a sentence as data: its kind, its values, written as a reader sees them,
// and the sentences within it.
type Message struct {
	Kind   string               `json:"kind"`
	Values map[string]string    `json:"values,omitempty"`
	Parts  map[string][]Message `json:"parts,omitempty"`
}

// New makes a message from names and values in turn.
func New(kind string, pairs ...string) Message {
	m := Message{Kind: kind}
	for i := 0; i+1 < len(pairs); i += 2 {
		if m.Values == nil {
			m.Values = map[string]string{}
		}
		m.Values[pairs[i]] = pairs[i+1]
	}
	return m
}

// With returns the message with other sentences in it.
func (m Message) With(name string, parts ...Message) Message {
	all := maps.Clone(m.Parts)
	if all == nil {
		all = map[string][]Message{}
	}
	all[name] = parts
	m.Parts = all
	return m
}

// Others is the kind of text that dyno did not write.
const Others = "verbatim"

// Verbatim makes a message of text that dyno did not write.
func Verbatim(words string) Message { return New(Others, "words", words) }

// reasons is the name under which a sentence holds others that are reasons. Each reason
// is a clause of its own.
const reasons = "reasons"

// Because makes a message of a kind that has reasons. A repeated reason is named once.
func Because(kind string, list ...Message) Message { return New(kind).With(reasons, Once(list...)...) }

// Once returns the messages without repetitions.
func Once(list ...Message) []Message {
	var different []Message
	for _, m := range list {
		if !slices.ContainsFunc(different, func(o Message) bool { return reflect.DeepEqual(o, m) }) {
			different = append(different, m)
		}
	}
	return different
}

// Together makes one message of several, without repetitions. There must be at least one.
func Together(list ...Message) Message {
	if different := Once(list...); len(different) == 1 {
		return different[0]
	}
	return Because("reasons", list...)
}

// Joint is Together for a list that may be empty: it is nil then.
func Joint(list []Message) *Message {
	if len(list) == 0 {
		return nil
	}
	return new(Together(list...))
}

// In writes the message in a language. This package has no words for names: it writes names of checks
// with blanks, and leaves all others as they are.
func (m Message) In(language string) string {
	values := map[string]string{}
	for name, v := range m.Values {
		if (name == "check" || name == "limit") && IsName(v) {
			v = strings.ReplaceAll(v, "_", " ")
		}
		values[name] = v
	}
	for name, parts := range m.Parts {
		separator := "answer.comma"
		if name == reasons {
			separator = "answer.semicolon"
		}
		values[name] = join(language, separator, parts)
	}
	return Say(language, m.Kind, values)
}

// English writes the message in English; for no message it returns "".
func (m *Message) English() string {
	if m == nil {
		return ""
	}
	return m.In(English)
}

// String returns the message in English, for debugging.
func (m Message) String() string { return m.In(English) }

// Joined writes several messages as one sentence.
func Joined(language string, list []Message) string { return join(language, "answer.comma", list) }

func join(language, separator string, list []Message) string {
	var sentences []string
	for _, m := range list {
		sentences = append(sentences, m.In(language))
	}
	return strings.Join(sentences, Say(language, separator, nil))
}

// An Error is a message as an error. Its text is English.
type Error struct{ Message }

func (e *Error) Error() string { return e.In(English) }

// AsMessage returns the message.
func (e *Error) AsMessage() Message { return e.Message }

// NewError makes an error of a message.
func NewError(kind string, pairs ...string) error { return &Error{New(kind, pairs...)} }

// Of returns an error's message. It looks into joined errors that consist of a single one.
func Of(err error) (Message, bool) {
	switch e := err.(type) { //nolint:errorlint // what an error is wrapped in says more than the error
	case interface{ AsMessage() Message }:
		return e.AsMessage(), true
	case interface{ Unwrap() []error }:
		if list := e.Unwrap(); len(list) == 1 {
			return Of(list[0])
		}
	}
	return Message{}, false
}

// OfError returns what an error says: its message, or its text if it has none.
func OfError(err error) Message {
	if m, ok := Of(err); ok {
		return m
	}
	return Verbatim(err.Error())
}

// Reasons returns what an error says, without repetitions. For an Error, and for each
// error with a method AsMessage, alone or joined, that is its message. For any other error it
// is the text, line by line.
func Reasons(err error) (list []Message) {
	switch e := err.(type) { //nolint:errorlint // what an error is wrapped in says more than the error
	case nil:
	case interface{ AsMessage() Message }:
		list = append(list, e.AsMessage())
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			list = append(list, Reasons(one)...)
		}
	default:
		for line := range strings.SplitSeq(err.Error(), "\n") {
			list = append(list, Verbatim(line))
		}
	}
	return Once(list...)
}
