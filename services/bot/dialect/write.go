package dialect

import (
	"bytes"
	"reflect"
	"slices"
)

// Fields are the fields of a JSON object to write.
type Fields map[string]any

// Set sets a field, unless the value is the zero of its type.
func (f Fields) Set(name string, value any) Fields {
	if v := reflect.ValueOf(value); v.IsValid() && !v.IsZero() {
		f[name] = value
	}
	return f
}

// NamedResults returns the messages for a form whose results of tools name the function, and whose arguments are
// objects: Name is set in each ToolResult after its call, and a text that a model gave instead of an object is in one.
func (r *Request) NamedResults() []Message {
	names := map[string]string{} // by the IDs of the calls so far
	list := slices.Clone(r.Messages)
	for i := range list {
		blocks := slices.Clone(list[i].Blocks)
		for j := range blocks {
			switch b := &blocks[j]; {
			case b.Kind == ToolCall && !bytes.HasPrefix(b.Input, []byte{'{'}):
				b.Input = Append(nil, Fields{"arguments": b.Input})
				fallthrough
			case b.Kind == ToolCall:
				names[b.ID] = b.Name
			case b.Kind == ToolResult:
				b.Name = names[b.ID]
			}
		}
		list[i].Blocks = blocks
	}
	return list
}
