package rpc

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxExample is about how many fields an example shows: messages within messages can be
// more than anybody has room for.
const maxExample = 1000

// Example returns a request in JSON with the zero values of all fields, indented, for
// somebody to fill in: one element in each list and map, and the first field of each
// oneof. A message within itself is left out, and so is what exceeds a thousand fields.
func (m Method) Example() []byte {
	e := exampler{fields: maxExample, within: map[protoreflect.FullName]bool{}}
	e.message(m.codec.in.Descriptor(), 0)
	return []byte(e.String())
}

// An exampler writes an example.
type exampler struct {
	strings.Builder
	fields int                            // that may still be written
	within map[protoreflect.FullName]bool // the messages that are being written
}

func (e *exampler) message(d protoreflect.MessageDescriptor, indent int) {
	if text := example(d); text != "" {
		e.WriteString(text)
		return
	}
	e.within[d.FullName()] = true
	defer delete(e.within, d.FullName())
	oneofs := map[protoreflect.FullName]bool{}
	empty := true
	for i := range d.Fields().Len() {
		field := d.Fields().Get(i)
		if o := field.ContainingOneof(); o != nil && !o.IsSynthetic() {
			if oneofs[o.FullName()] {
				continue
			}
		}
		value := field
		if field.IsMap() {
			value = field.MapValue()
		}
		inner := value.Message()
		if e.fields == 0 || inner != nil && e.within[inner.FullName()] {
			continue
		}
		e.fields--
		if o := field.ContainingOneof(); o != nil {
			oneofs[o.FullName()] = true
		}
		if empty {
			e.WriteByte('{')
		} else {
			e.WriteByte(',')
		}
		empty = false
		e.line(indent + 1)
		e.WriteString(quoteJSON(field.JSONName()) + ": ")
		switch {
		case field.IsMap():
			e.WriteByte('{')
			e.line(indent + 2)
			e.WriteString(exampleKey(field.MapKey()) + ": ")
			e.value(value, indent+2)
			e.line(indent + 1)
			e.WriteByte('}')
		case field.IsList() && value.Message() == nil:
			e.WriteString("[" + zero(value) + "]")
		case field.IsList():
			e.WriteByte('[')
			e.line(indent + 2)
			e.value(value, indent+2)
			e.line(indent + 1)
			e.WriteByte(']')
		default:
			e.value(value, indent+1)
		}
	}
	if empty {
		e.WriteString("{}")
		return
	}
	e.line(indent)
	e.WriteByte('}')
}

func (e *exampler) value(field protoreflect.FieldDescriptor, indent int) {
	if field.Message() != nil {
		e.message(field.Message(), indent)
		return
	}
	e.WriteString(zero(field))
}

// line begins a line.
func (e *exampler) line(indent int) {
	e.WriteByte('\n')
	for range indent {
		e.WriteString("  ")
	}
}

// exampleKey is a key of a map in JSON.
func exampleKey(key protoreflect.FieldDescriptor) string {
	switch key.Kind() {
	case protoreflect.StringKind:
		return `""`
	case protoreflect.BoolKind:
		return `"false"`
	}
	return `"0"`
}
