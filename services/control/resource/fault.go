package resource

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A Fault is an error at one place of a document.
type Fault struct {
	Pointer string `json:"pointer"` // JSON Pointer (RFC 6901) in URI fragment form, "#" is the whole
	Detail  string `json:"detail"`
}

// Invalid is all faults of a document.
type Invalid []Fault

func (v Invalid) Error() string {
	lines := make([]string, len(v))
	for i, f := range v {
		lines[i] = f.Pointer + ": " + f.Detail
	}
	return strings.Join(lines, "; ")
}

// maxFaults bounds the faults that are reported for one document.
const maxFaults = 32

// faults collects the faults of a document, or of one entry of its list.
type faults struct {
	found Invalid
	list  string // pointer of the list; "" is the document
	index int
}

// check adds a fault unless ok. The pointer is relative to the entry.
func (f *faults) check(ok bool, pointer, format string, args ...any) bool {
	if !ok && len(f.found) < maxFaults {
		if f.list != "" {
			pointer = fmt.Sprintf("%s/%d%s", f.list, f.index, pointer)
		}
		f.found = append(f.found, Fault{"#" + pointer, fmt.Sprintf(format, args...)})
	}
	return ok
}

// err returns the faults as an error, or nil without any.
func (f *faults) err() error {
	if len(f.found) == 0 {
		return nil
	}
	return f.found
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// escape makes text a part of a JSON Pointer (RFC 6901, section 3).
func escape(text string) string { return pointerEscapes.Replace(text) }

// Decode parses one JSON document. It refuses nulls, duplicate members, and members without a field of exactly that
// name: no other reader may find something else in the document. It refuses text that is not UTF-8, which could only
// be stored changed. It must have one of some members, if any are named. Its error is Invalid.
func Decode(text []byte, into any, needs ...string) error {
	err := json.Unmarshal(text, into, json.RejectUnknownMembers(true))
	var semantic *json.SemanticError
	if errors.As(err, &semantic) && semantic.JSONKind == jsontext.KindNumber {
		// JSON Schema counts 1.0 as a whole number (2020-12, section 4.2.3); package json does not.
		err = json.Unmarshal(wholeNumbers(text), into, json.RejectUnknownMembers(true))
	}
	if err != nil {
		return Invalid{faultOf(text, err)}
	}
	if pointer, ok := findNull(text); ok {
		return Invalid{{pointer, "is null: leave it out, or give it a value"}}
	}
	if len(needs) > 0 && !hasMember(text, needs) {
		return Invalid{{"#/" + needs[0], "must be given"}}
	}
	return nil
}

// hasMember reports whether a valid JSON object has one of some members.
func hasMember(text []byte, names []string) bool {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	if _, err := d.ReadToken(); err != nil {
		return false
	}
	for d.PeekKind() == jsontext.KindString {
		name, err := d.ReadToken()
		if err == nil && contains(names, name.String()) {
			return true
		}
		if err != nil || d.SkipValue() != nil {
			return false
		}
	}
	return false
}

// faultOf returns why a text could not be decoded, in JSON's terms.
func faultOf(text []byte, err error) Fault {
	if len(bytes.TrimSpace(text)) == 0 {
		return Fault{"#", "is empty, and must be a JSON document"}
	}
	var (
		semantic  *json.SemanticError
		syntactic *jsontext.SyntacticError
	)
	switch {
	case errors.As(err, &semantic):
		at := "#" + string(semantic.JSONPointer)
		switch {
		case errors.Is(err, json.ErrUnknownName):
			return Fault{at, "is not a field of this document"}
		case semantic.GoType == nil:
			return Fault{at, err.Error()}
		case semantic.GoType == reflect.TypeFor[time.Time]() && semantic.JSONKind == jsontext.KindString:
			return Fault{at, "must be a time such as 2026-01-02T03:04:05Z"}
		case semantic.JSONKind == jsontext.KindNumber && len(semantic.JSONValue) > 0:
			return Fault{at, fmt.Sprintf("is %.40s and must be %s", semantic.JSONValue, goKind(semantic.GoType.Kind()))}
		}
		return Fault{at, fmt.Sprintf("is %s and must be %s", jsonKind(semantic.JSONKind), goKind(semantic.GoType.Kind()))}
	case errors.As(err, &syntactic):
		at, offset := "#"+string(syntactic.JSONPointer), syntactic.ByteOffset
		switch {
		case errors.Is(err, jsontext.ErrDuplicateName):
			return Fault{at, "is given twice"}
		case !utf8.Valid(text):
			return Fault{at, fmt.Sprintf("must be UTF-8, and is not at byte %d", offset+1)}
		case errors.Is(err, io.ErrUnexpectedEOF):
			return Fault{"#", "is cut off"}
		case syntactic.JSONPointer == "" && offset > 0 && json.Unmarshal(text[:offset], new(any)) == nil:
			return Fault{"#", fmt.Sprintf("there is more after the document, at byte %d", offset)}
		}
		return Fault{at, fmt.Sprintf("is not JSON: %v, at byte %d", syntactic.Err, offset+1)}
	}
	return Fault{"#", err.Error()}
}

// wholeNumbers writes whole numbers of a JSON text without fraction and exponent, as far as they fit into 64 bits.
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

// findNull finds the first null of a JSON document. Package json empties a field at null: null as the content of a
// configuration would empty it.
func findNull(text []byte) (pointer string, ok bool) {
	if !bytes.Contains(text, []byte("null")) {
		return "", false
	}
	d := jsontext.NewDecoder(bytes.NewReader(text))
	for {
		token, err := d.ReadToken()
		if err != nil {
			return "", false // the end: Decode has validated the document before
		}
		if token.Kind() == jsontext.KindNull {
			return "#" + string(d.StackPointer()), true
		}
	}
}

// jsonKind returns JSON's name for a kind of value.
func jsonKind(k jsontext.Kind) string {
	switch k {
	case jsontext.KindBeginObject:
		return "an object"
	case jsontext.KindBeginArray:
		return "a list"
	case jsontext.KindTrue, jsontext.KindFalse:
		return "a boolean"
	}
	return "a " + k.String()
}

// goKind returns JSON's name for the values that a Go kind is read from.
func goKind(k reflect.Kind) string {
	switch {
	case k >= reflect.Int && k <= reflect.Uintptr:
		return "a whole number"
	case k == reflect.Float32 || k == reflect.Float64:
		return "a number"
	case k == reflect.Slice || k == reflect.Array:
		return "a list"
	case k == reflect.Map || k == reflect.Struct || k == reflect.Pointer:
		return "an object"
	case k == reflect.Bool:
		return "a boolean"
	}
	return "a string"
}
