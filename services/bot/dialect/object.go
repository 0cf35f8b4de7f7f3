package dialect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"dyno/internal/strict"
	"dyno/services/bot/openai"
)

// Bounds of a request.
const (
	maxModel  = 256     // bytes
	maxTokens = 1 << 27 // their price must not overflow
)

// An Object is a JSON object of a client's request. A form takes out the fields that it knows; the others are left. The
// objects of one request share the first fault that is found, so that a form checks for it once, at its end.
type Object struct {
	path   string // of its own field; "" is the body
	fields map[string]json.RawMessage
	raw    json.RawMessage // of an element of a list
	fault  **FieldError
}

// ReadObject reads the body of a request. The error is a *FieldError.
func ReadObject(body []byte) (*Object, error) {
	var fault *strict.Error
	if err := strict.Check(body, nil); errors.As(err, &fault) {
		return nil, &FieldError{Field: cmp.Or(fault.Member, "body"), Text: fault.Text}
	}
	o := &Object{fault: new(*FieldError)}
	if json.Unmarshal(body, &o.fields) != nil || o.fields == nil {
		return nil, &FieldError{Field: "body", Text: "want a JSON object"}
	}
	return o, nil
}

// Path returns the path of a field, such as messages[2].role; that of the object itself for "".
func (o *Object) Path(field string) string {
	switch {
	case o.path == "":
		return field
	case field == "":
		return o.path
	}
	return o.path + "." + field
}

// Fail records a fault, unless there is one already. Text says what the field should be.
func (o *Object) Fail(field, format string, values ...any) {
	if *o.fault == nil {
		*o.fault = &FieldError{Field: o.Path(field), Text: fmt.Sprintf(format, values...)}
	}
}

// Err returns the first fault of the request: a *FieldError, or nil.
func (o *Object) Err() error {
	if *o.fault == nil {
		return nil
	}
	return *o.fault
}

// Take takes out a field and decodes it into v. It returns false, and leaves v unchanged, if the field is absent, null
// or of another type, which is a fault.
func (o *Object) Take(field string, v any) bool {
	value, ok := o.fields[field]
	if delete(o.fields, field); !ok || string(value) == "null" {
		return false
	}
	if err := json.Unmarshal(value, v); err != nil {
		o.Fail(field, "want %s", want(v))
		return false
	}
	return true
}

// want names the type of a variable.
func want(v any) string {
	switch v.(type) {
	case *string, **string:
		return "a string"
	case *bool, **bool:
		return "a boolean"
	case *int, **int, *int64, **int64:
		return "a whole number"
	case *float64, **float64:
		return "a number"
	case *[]string:
		return "a list of strings"
	case *map[string]string:
		return "an object of strings"
	case *[]json.RawMessage:
		return "a list"
	}
	return "an object"
}

// Has reports whether a field is there and not null.
func (o *Object) Has(field string) bool {
	value, ok := o.fields[field]
	return ok && string(value) != "null"
}

// HasText reports whether a field is a string.
func (o *Object) HasText(field string) bool { return bytes.HasPrefix(o.fields[field], []byte{'"'}) }

// Text takes out a string; "" if it is absent.
func (o *Object) Text(field string) (text string) {
	o.Take(field, &text)
	return text
}

// Required takes out a string that must be there.
func (o *Object) Required(field string) string {
	text := o.Text(field)
	if text == "" {
		o.Fail(field, "must be there and not be empty")
	}
	return text
}

// Schema takes out an object as it is; nil if it is absent.
func (o *Object) Schema(field string) json.RawMessage {
	value := o.fields[field]
	if ok := o.Take(field, &map[string]json.RawMessage{}); !ok {
		return nil
	}
	return value
}

// Object takes out an object; nil if it is absent.
func (o *Object) Object(field string) *Object {
	within := &Object{path: o.Path(field), fault: o.fault}
	if !o.Take(field, &within.fields) {
		return nil
	}
	return within
}

// Camel renames fields such as max_tokens to maxTokens, and returns o, which may be nil: Google's forms may have either.
func (o *Object) Camel() *Object {
	if o == nil {
		return nil
	}
	var twice string
	if o.fields, twice = openai.InCamels(o.fields); twice != "" {
		o.Fail(twice, "is there twice")
	}
	return o
}

// Objects takes out a list of objects.
func (o *Object) Objects(field string) (list []*Object) {
	var elements []json.RawMessage
	o.Take(field, &elements)
	for i, e := range elements {
		within := &Object{path: fmt.Sprintf("%s[%d]", o.Path(field), i), raw: e, fault: o.fault}
		if json.Unmarshal(e, &within.fields) != nil || within.fields == nil {
			within.Fail("", "want an object")
			return nil
		}
		list = append(list, within)
	}
	return list
}

// Parts takes out a list of objects, or a text, which stands for one object of that type with that text.
func (o *Object) Parts(field, kind string) []*Object {
	if !o.HasText(field) {
		return o.Objects(field)
	}
	part := &Object{path: o.Path(field), fault: o.fault}
	part.fields = map[string]json.RawMessage{"type": json.RawMessage(`"` + kind + `"`), "text": o.fields[field]}
	delete(o.fields, field)
	return []*Object{part}
}

// Raw returns an element of a list as it is.
func (o *Object) Raw() json.RawMessage { return o.raw }

// Default takes out a field that has its default value, in JSON: it says nothing.
func (o *Object) Default(field, value string) {
	if string(o.fields[field]) == value {
		delete(o.fields, field)
	}
}

// Model takes out the name of the model.
func (o *Object) Model(field string) string {
	model := o.Text(field)
	if model == "" || len(model) > maxModel {
		o.Fail(field, "must have 1 to %d bytes", maxModel)
	}
	return model
}

// Tokens takes out a bound on tokens; 0 if it is absent.
func (o *Object) Tokens(field string) (n int) {
	if o.Take(field, &n) && (n < 1 || n > maxTokens) {
		o.Fail(field, "must be from 1 to %d", maxTokens)
	}
	return n
}

// Note notes a feature of a field.
func (o *Object) Note(r *Request, f Feature, field string) { r.Note(f, "%s", o.Path(field)) }

// Left takes out all fields that are left and not null, in the order of their names; each gets one after the other.
func (o *Object) Left(each func(field string, value json.RawMessage)) {
	for _, field := range slices.Sorted(maps.Keys(o.fields)) {
		if value := o.fields[field]; string(value) != "null" {
			each(field, value)
		}
	}
	clear(o.fields)
}

// NoteLeft notes each field that is left as an OtherField: the neutral form has no place for it. What OpenAI's SDKs have
// parsed of an answer's text comes back next to that text, and LiteLLM's SDK repeats fields of an answer: they say
// nothing more.
func (o *Object) NoteLeft(r *Request) {
	for _, repeated := range []string{"parsed", "parsed_arguments", "provider_specific_fields"} {
		delete(o.fields, repeated)
	}
	o.Left(func(field string, _ json.RawMessage) { o.Note(r, OtherField, field) })
}

// Extra moves the fields that are left to Request.Extra, and notes the features of those.
func (o *Object) Extra(r *Request) {
	o.Left(func(field string, value json.RawMessage) {
		if r.Extra == nil {
			r.Extra = map[string]json.RawMessage{}
		}
		r.Extra[field] = value
		o.Note(r, FeatureOf(field), field)
	})
}

// SetURL sets the URL, or the data of one that has it in base64.
func (s *Source) SetURL(url string) {
	kind, data, ok := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,")
	if !ok || !strings.HasPrefix(url, "data:") {
		s.URL = url
		return
	}
	s.Type, s.Data = kind, data
}

// DataURL returns the URL, or one that has the data.
func (s *Source) DataURL() string {
	if s.Data == "" {
		return s.URL
	}
	return "data:" + s.Type + ";base64," + s.Data
}

// Append appends the JSON of a value that always encodes.
func Append(b []byte, v any) []byte {
	w := bytes.NewBuffer(b)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return b
	}
	return bytes.TrimSuffix(w.Bytes(), []byte{'\n'})
}

// Arguments returns the input of a tool's call from the model's text: an object, or a JSON string of another text.
func Arguments(text string) json.RawMessage {
	switch trimmed := bytes.TrimSpace([]byte(text)); {
	case len(trimmed) == 0:
		return json.RawMessage("{}")
	case trimmed[0] == '{' && json.Valid(trimmed):
		return trimmed
	}
	return Append(nil, text)
}

// ArgumentText returns the model's text of the input of a tool's call.
func ArgumentText(input json.RawMessage) string {
	var text string
	if json.Unmarshal(input, &text) == nil {
		return text
	}
	return string(input)
}

// UsageOf reads a usage, in any form that openai.LastUsage knows for an endpoint; nil without one.
func UsageOf(e openai.Endpoint, value json.RawMessage) *openai.Usage {
	if len(value) == 0 {
		return nil
	}
	field := `"usage":`
	if e == openai.Contents {
		field = `"usageMetadata":`
	}
	return openai.LastUsage(e, append([]byte(field), value...))
}
