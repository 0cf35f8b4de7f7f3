package message

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"dyno/internal/nearest"
	"dyno/load/rpc/diag"
)

// maxLocated bounds how deep into a message the place of a fault is searched for. Each
// level tries what is within it again.
const maxLocated = 64

// locatedAt is a fault at an offset of a text.
func locatedAt(text []byte, offset int, path, problem, hint string) *diag.Fault {
	before := text[:offset]
	line := 1 + bytes.Count(before, []byte("\n"))
	column := 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
	return &diag.Fault{Line: line, Column: column, Path: path, Problem: problem, Hint: hint}
}

// locate says where the JSON between two offsets of a text is wrong, which could not be encoded. For
// faults that it does not find, it returns the error's own words.
func (c *Codec) locate(text []byte, from, to int, failed error) error {
	message := text[from:to]
	if len(bytes.TrimSpace(message)) == 0 {
		return locatedAt(text, from, "", "there is no JSON", "{} is a message without values")
	}
	for i := 0; i < len(message); {
		r, size := utf8.DecodeRune(message[i:])
		if r == utf8.RuneError && size == 1 {
			return locatedAt(text, from+i, "", "the text is not UTF-8", "")
		}
		i += size
	}
	var value json.RawMessage
	if err := json.Unmarshal(message, &value); err != nil {
		return locatedAt(text, from+errorOffset(err, message, 0), "", diag.Plain(err.Error()), "")
	}
	l := locator{text, c.types}
	start := from + bytes.Index(message, value)
	if f := l.message(c.in, start, start+len(value), "", 0); f != nil {
		return f
	}
	return locatedAt(text, start, "", diag.Cause(failed), "")
}

// A locator searches for a fault by trying parts of a message.
type locator struct {
	text  []byte
	types *Types
}

// fits tells whether JSON can be a message; it need not be complete.
func (l locator) fits(t protoreflect.MessageType, text []byte) bool {
	return protojson.UnmarshalOptions{Resolver: l.types, AllowPartial: true}.Unmarshal(text, t.New().Interface()) == nil
}

// message returns what is wrong with a message, or nil.
func (l locator) message(t protoreflect.MessageType, from, to int, path string, depth int) *diag.Fault {
	d := t.Descriptor()
	if d.FullName() == "google.protobuf.Any" {
		return l.any(from, to, path, depth)
	}
	if form := wellKnownForm(d); form != "" {
		if l.fits(t, l.text[from:to]) {
			return nil
		}
		return l.unfit(from, to, path, form)
	}
	if l.text[from] != '{' {
		return l.unfit(from, to, path, "an object: {…}")
	}
	return l.members(t, from, to, path, depth, false)
}

// members returns what is wrong with the members of an object, or nil. If it is in an Any,
// one of them is the type.
func (l locator) members(t protoreflect.MessageType, from, to int, path string, depth int, typed bool) (fault *diag.Fault) {
	seen := map[protoreflect.FieldNumber]bool{}
	oneofs := map[protoreflect.FullName]string{}
	l.object(from, to, func(name string, at, from, to int) bool {
		if typed && name == "@type" {
			return true
		}
		inner := join(path, name)
		field := l.field(t.Descriptor(), name)
		switch {
		case field == nil:
			problem := fmt.Sprintf("%s has no field %s", t.Descriptor().FullName(), diag.Quote(name))
			fault = locatedAt(l.text, at, inner, problem, nearest.Hint(name, fieldNames(t.Descriptor())))
			return false
		case seen[field.Number()]:
			fault = locatedAt(l.text, at, inner, "the field is there twice", "")
			return false
		}
		seen[field.Number()] = true
		if o := field.ContainingOneof(); o != nil && !o.IsSynthetic() && !isNull(l.text[from:to]) {
			if other, ok := oneofs[o.FullName()]; ok {
				fault = locatedAt(l.text, at, inner, fmt.Sprintf("only one of the fields of %s can be set, and %s is", o.Name(), diag.Quote(other)), "")
				return false
			}
			oneofs[o.FullName()] = name
		}
		fault = l.value(t, field, name, from, to, inner, depth)
		return fault == nil
	})
	return fault
}

// value returns what is wrong with a field's value, or nil.
func (l locator) value(t protoreflect.MessageType, field protoreflect.FieldDescriptor, name string, from, to int, path string, depth int) (fault *diag.Fault) {
	fits := func(parts ...string) bool {
		return l.fits(t, []byte("{"+quoteJSON(name)+":"+strings.Join(parts, "")+"}"))
	}
	switch {
	case fits(string(l.text[from:to])):
		return nil
	case depth == maxLocated:
		return l.unfit(from, to, path, formOf(field))
	case field.IsMap():
		if l.text[from] != '{' {
			return l.unfit(from, to, path, "an object: {…}")
		}
		seen := map[string]bool{}
		l.object(from, to, func(key string, at, from, to int) bool {
			entry := path + "[" + strconv.Quote(diag.Plain(key)) + "]"
			value := string(l.text[from:to])
			switch {
			case seen[key]:
				fault = locatedAt(l.text, at, entry, "the key is there twice", "")
			case fits("{", quoteJSON(key), ":", value, "}"):
				seen[key] = true
			case fits("{", goodKey(field.MapKey()), ":", value, "}"):
				fault = locatedAt(l.text, at, entry, fmt.Sprintf("the key is not %s", formOf(field.MapKey())), "")
			default:
				fault = l.element(field.MapValue(), from, to, entry, depth)
			}
			return fault == nil
		})
	case field.IsList():
		if l.text[from] != '[' {
			return l.unfit(from, to, path, "an array: […]")
		}
		l.array(from, to, func(i, from, to int) bool {
			if !fits("[", string(l.text[from:to]), "]") {
				fault = l.element(field, from, to, path+"["+strconv.Itoa(i)+"]", depth)
			}
			return fault == nil
		})
	default:
		fault = l.element(field, from, to, path, depth)
	}
	return fault
}

// element says what is wrong with one value of a field.
func (l locator) element(field protoreflect.FieldDescriptor, from, to int, path string, depth int) *diag.Fault {
	if field.Message() != nil {
		if f := l.message(dynamicpb.NewMessageType(field.Message()), from, to, path, depth+1); f != nil {
			return f
		}
	}
	var name string
	if field.Enum() != nil && l.text[from] == '"' && json.Unmarshal(l.text[from:to], &name) == nil {
		problem := fmt.Sprintf("%s has no value %s", field.Enum().FullName(), diag.Quote(name))
		return locatedAt(l.text, from, path, problem, nearest.Hint(name, valueNames(field.Enum())))
	}
	return l.unfit(from, to, path, formOf(field))
}

// any returns what is wrong with a google.protobuf.Any, or nil.
func (l locator) any(from, to int, path string, depth int) (fault *diag.Fault) {
	const form = `an object with its "@type", such as {"@type": "type.googleapis.com/pkg.Message", …}`
	if l.text[from] != '{' {
		return l.unfit(from, to, path, form)
	}
	var url string
	at, members := from, 0
	l.object(from, to, func(name string, _, from, to int) bool {
		members++
		if name != "@type" {
			return true
		}
		at = from
		return json.Unmarshal(l.text[from:to], &url) == nil
	})
	if members == 0 {
		return nil
	}
	if url == "" {
		return locatedAt(l.text, at, path, "the type of the message is missing", form)
	}
	t, err := l.types.FindMessageByURL(url)
	if err != nil {
		name := url[strings.LastIndexByte(url, '/')+1:]
		return locatedAt(l.text, at, join(path, "@type"), "no message "+diag.Quote(name)+" is known", diag.Suggest(name, l.types.Names()))
	}
	if t.Descriptor().FullName() != "google.protobuf.Any" && wellKnownForm(t.Descriptor()) == "" {
		return l.members(t, from, to, path, depth+1, true)
	}
	return nil
}

// unfit says that a value is not what it should be.
func (l locator) unfit(from, to int, path, form string) *diag.Fault {
	value := diag.Plain(string(l.text[from:min(to, from+200)]))
	if r := []rune(value); len(r) > 40 {
		value = string(r[:40]) + "…"
	}
	return locatedAt(l.text, from, path, fmt.Sprintf("%s is not %s", value, form), "")
}

// object calls each with the members of a valid object: a name, where it begins, and where
// its value is.
func (l locator) object(from, to int, each func(name string, at, from, to int) bool) {
	d := json.NewDecoder(bytes.NewReader(l.text[from:to]))
	d.UseNumber()
	_, _ = d.Token() // the brace: the text is valid
	for d.More() {
		at := int(d.InputOffset())
		at += bytes.IndexByte(l.text[from+at:to], '"')
		token, err := d.Token()
		name, ok := token.(string)
		var value json.RawMessage
		if err != nil || !ok || d.Decode(&value) != nil {
			return
		}
		end := from + int(d.InputOffset())
		if !each(name, from+at, end-len(value), end) {
			return
		}
	}
}

// array calls each with the elements of a valid array.
func (l locator) array(from, to int, each func(i, from, to int) bool) {
	d := json.NewDecoder(bytes.NewReader(l.text[from:to]))
	_, _ = d.Token() // the bracket: the text is valid
	for i := 0; d.More(); i++ {
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return
		}
		end := from + int(d.InputOffset())
		if !each(i, end-len(value), end) {
			return
		}
	}
}

// field returns the field that a name in JSON means, or nil.
func (l locator) field(d protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if inner, ok := strings.CutPrefix(name, "["); ok && strings.HasSuffix(inner, "]") {
		x, err := l.types.FindExtensionByName(protoreflect.FullName(strings.TrimSuffix(inner, "]")))
		if err != nil || x.TypeDescriptor().ContainingMessage().FullName() != d.FullName() {
			return nil
		}
		return x.TypeDescriptor()
	}
	if f := d.Fields().ByJSONName(name); f != nil {
		return f
	}
	return d.Fields().ByTextName(name)
}

func join(path, name string) string {
	if path == "" {
		return diag.Plain(name)
	}
	return path + "." + diag.Plain(name)
}

func isNull(value []byte) bool { return string(value) == "null" }

// quoteJSON writes a string as JSON.
func quoteJSON(s string) string {
	b, _ := json.Marshal(s) // strings can be written
	return string(b)
}

// goodKey is a key of a map in JSON that nothing is wrong with.
func goodKey(key protoreflect.FieldDescriptor) string {
	if key.Kind() == protoreflect.BoolKind {
		return `"true"`
	}
	return `"0"`
}

func fieldNames(d protoreflect.MessageDescriptor) (names []string) {
	for i := range d.Fields().Len() {
		names = append(names, d.Fields().Get(i).JSONName())
	}
	return names
}

func valueNames(d protoreflect.EnumDescriptor) (names []string) {
	for i := range d.Values().Len() {
		names = append(names, string(d.Values().Get(i).Name()))
	}
	return names
}
