package resource

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// escape makes text a part of a JSON Pointer (RFC 6901, section 3).
func escape(text string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(text)
}

// Decode reads one JSON document that has no field which into does not know. Its error
// is Invalid.
func Decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			return Invalid{{"#", fmt.Sprintf("there is more after the document, at byte %d", d.InputOffset())}}
		}
		return nil
	}
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind):
		pointer := "#"
		if kind.Field != "" {
			pointer += "/" + strings.ReplaceAll(kind.Field, ".", "/")
		}
		return Invalid{{pointer, fmt.Sprintf("is a %s and must be a %s", kind.Value, kindName(kind.Type.Kind().String()))}}
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
