package resource

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// A Fault is what is wrong with one place of a document.
type Fault struct {
	Pointer string `json:"pointer"` // JSON Pointer (RFC 6901) in URI fragment form, "#" is the whole
	Detail  string `json:"detail"`
}

// Invalid is all that is wrong with a document.
type Invalid []Fault

func (v Invalid) Error() string {
	lines := make([]string, len(v))
	for i, f := range v {
		lines[i] = f.Pointer + ": " + f.Detail
	}
	return strings.Join(lines, "; ")
}

// maxFaults bounds what one document is told.
const maxFaults = 32

// faults collects.
type faults struct{ list Invalid }

func (f *faults) check(ok bool, pointer, format string, args ...any) bool {
	if !ok && len(f.list) < maxFaults {
		f.list = append(f.list, Fault{"#" + pointer, fmt.Sprintf(format, args...)})
	}
	return ok
}

// err is nil when there are none.
func (f *faults) err() error {
	if len(f.list) == 0 {
		return nil
	}
	return f.list
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// escape makes text a part of a JSON Pointer (RFC 6901, section 3).
func escape(text string) string { return pointerEscapes.Replace(text) }

// Decode reads one JSON document that has no null, and no field which into does not know.
// Its error is Invalid.
func Decode(text []byte, into any) error {
	d := decoder(text)
	err := d.Decode(into)
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) && strings.HasPrefix(kind.Value, "number ") {
		// To JSON Schema 1.0 is a whole number (2020-12, section 4.2.3), to encoding/json it is none.
		d = decoder(wholeNumbers(text))
		err = d.Decode(into)
	}
	if err == nil {
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			return Invalid{{"#", fmt.Sprintf("there is more after the document, at byte %d", d.InputOffset())}}
		}
		if pointer, ok := findNull(text); ok {
			return Invalid{{pointer, "is null: leave it out, or give it a value"}}
		}
		return nil
	}
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind):
		return Invalid{{fieldPointer(reflect.TypeOf(into), kind.Field), fmt.Sprintf("is a %s and must be a %s", kind.Value, kindName(kind.Type.Kind().String()))}}
	case errors.As(err, &syntax):
		return Invalid{{"#", fmt.Sprintf("is not JSON: %v, at byte %d", syntax, syntax.Offset)}}
	case errors.Is(err, io.EOF):
		return Invalid{{"#", "is empty, and must be a JSON document"}}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return Invalid{{"#", "is cut off"}}
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return Invalid{{"#/" + escape(strings.Trim(name, `"`)), "is not a field of this document"}}
	}
	return Invalid{{"#", err.Error()}}
}

func decoder(text []byte) *json.Decoder {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d
}

// fieldPointer is the place of a field as encoding/json names it: with dots between names, and
// with those of structs that are embedded, which are no part of a document.
func fieldPointer(t reflect.Type, field string) string {
	pointer := "#"
	if field == "" {
		return pointer
	}
	for part := range strings.SplitSeq(field, ".") {
		for t != nil && (t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map) {
			t = t.Elem()
		}
		var next reflect.Type
		embedded := false
		if t != nil && t.Kind() == reflect.Struct {
			for f := range t.Fields() {
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				if embedded = f.Anonymous && name == "" && f.Name == part; embedded || name == part {
					next = f.Type
					break
				}
			}
		}
		if t = next; !embedded {
			pointer += "/" + escape(part)
		}
	}
	return pointer
}

// wholeNumbers returns a JSON text in which numbers that are whole are written without a
// fraction and an exponent, as far as they have 64 bits.
func wholeNumbers(text []byte) []byte {
	out := make([]byte, 0, len(text))
	inside := false // a string
	for i := 0; i < len(text); {
		c := text[i]
		end := i + 1
		switch {
		case inside && c == '\\':
			end = min(i+2, len(text))
		case c == '"':
			inside = !inside
		case !inside && (c == '-' || c >= '0' && c <= '9'):
			for end < len(text) && bytes.IndexByte([]byte("+-.0123456789eE"), text[end]) >= 0 {
				end++
			}
			out = appendWhole(out, text[i:end])
			i = end
			continue
		}
		out = append(out, text[i:end]...)
		i = end
	}
	return out
}

// appendWhole appends one number.
func appendWhole(dst, number []byte) []byte {
	f, err := strconv.ParseFloat(string(number), 64)
	digits, _, _ := bytes.Cut(bytes.ToLower(number), []byte("e"))
	switch zero := len(bytes.Trim(digits, "-0.")) == 0; {
	case err != nil, !bytes.ContainsAny(number, ".eE"), f != math.Trunc(f), math.Abs(f) >= 1<<63, f == 0 && !zero:
		return append(dst, number...)
	}
	return strconv.AppendInt(dst, int64(f), 10)
}

// findNull finds the first null of a JSON document. encoding/json takes one for a field that
// was left out: who writes null for the content of a configuration would empty it.
func findNull(text []byte) (pointer string, ok bool) {
	if !bytes.Contains(text, []byte("null")) {
		return "", false
	}
	type level struct {
		array bool
		index int    // of the next value, in an array
		name  string // of the next value, in an object
		named bool   // name was read
	}
	var levels []level
	d := json.NewDecoder(bytes.NewReader(text))
	for {
		token, err := d.Token()
		if err != nil {
			return "", false // the end: Decode has read the document before
		}
		if end, is := token.(json.Delim); is && (end == '}' || end == ']') {
			levels = levels[:len(levels)-1]
			continue
		}
		if n := len(levels); n > 0 {
			top := &levels[n-1]
			if !top.array && !top.named {
				top.name, _ = token.(string)
				top.named = true
				continue
			}
			top.named = false
			top.index++
		}
		switch token {
		case nil:
			pointer = "#"
			for _, l := range levels {
				if l.array {
					l.name = strconv.Itoa(l.index - 1)
				}
				pointer += "/" + escape(l.name)
			}
			return pointer, true
		case json.Delim('{'), json.Delim('['):
			levels = append(levels, level{array: token == json.Delim('[')})
		}
	}
}

// kindName is JSON's name of a kind of Go's.
func kindName(kind string) string {
	switch {
	case strings.HasPrefix(kind, "int"), strings.HasPrefix(kind, "uint"):
		return "whole number"
	case strings.HasPrefix(kind, "float"):
		return "number"
	case kind == "slice":
		return "list"
	case kind == "map", kind == "struct", kind == "ptr":
		return "object"
	case kind == "bool":
		return "boolean"
	}
	return kind
}
