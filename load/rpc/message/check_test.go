package message

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// echoing returns a codec whose responses are its requests.
func echoing(c *Codec) *Codec {
	return New(c.in.Descriptor(), c.in.Descriptor(), c.types)
}

func TestCheck(t *testing.T) {
	order := echoing(find(t, shop(t), "shop.v1.Shop/Buy"))
	item := echoing(find(t, shop(t), "shop.v1.Shop/Fill"))
	record := echoing(find(t, compiled(t, "legacy.proto"), "legacy.Archive/Keep"))
	modern := echoing(find(t, compiled(t, "edition.proto"), "modern.Modern/Call"))
	for _, tt := range []struct {
		name     string
		m        *Codec
		response []byte
		want     string
	}{
		{"empty", order, nil, ""},
		{"string", order, []byte{0x0a, 1, 'x'}, ""},
		{"unknown field", order, []byte{0xf8, 7, 1}, ""},
		{"unknown group", order, []byte{0xfb, 7, 8, 1, 0xfc, 7}, ""},
		{"message", order, []byte{0x12, 2, 0x10, 1}, ""},
		{"map", order, []byte{0x22, 5, 0x08, 7, 0x12, 1, 'x'}, ""},
		{"packed", item, []byte{0x2a, 2, 1, 2}, ""},
		{"not packed", item, []byte{0x28, 1, 0x28, 2}, ""},
		{"packed doubles", item, append([]byte{0x32, 16}, make([]byte, 16)...), ""},
		{"high number", item, []byte{0xc2, 0x3e, 1, 2}, ""},
		{"required", record, []byte{0x0a, 0}, ""},
		{"group", record, []byte{0x0a, 0, 0x53, 0x08, 1, 0x54}, ""},
		{"parts of a message", record, []byte{0x0a, 0, 0x5a, 2, 0x10, 1, 0x5a, 2, 0x0a, 0}, ""},
		{"text that is not checked", modern, []byte{0x1a, 0, 0x32, 3, 0x12, 1, 0xff}, ""},
		{"delimited", modern, []byte{0x1a, 0, 0x23, 0x0a, 0, 0x24}, ""},

		{"tag", order, []byte{0x0a, 0, 0x80}, "byte 2 of the response: no field begins here"},
		{"field 0", order, []byte{0x00}, "byte 0 of the response: no field begins here"},
		{"number", order, []byte{0x90, 0xe2, 0xdd, 0xdd, 0x30, 0}, "byte 0 of the response: no field begins here"},
		{"cut off", order, []byte{0x0a, 2, 'x'}, "shop.v1.Order.id: byte 1 of the response: the field is cut off"},
		{"unknown, cut off", order, []byte{0xfa, 7, 2, 'x'}, "byte 0 of the response: an unknown field is cut off"},
		{"not UTF-8", order, []byte{0x0a, 1, 0xff}, "shop.v1.Order.id: byte 1 of the response: the text is not UTF-8"},
		{"type", order, []byte{0x08, 1}, "shop.v1.Order.id: byte 0 of the response: the field is of another type than the schema says"},
		{"inner", order, []byte{0x0a, 0, 0x12, 3, 0x10, 1, 0x0d}, "shop.v1.Item.name: byte 6 of the response: the field is of another type"},
		{"key of a map", order, []byte{0x22, 2, 0x0a, 0}, "shop.v1.Order.NotesEntry.key: byte 2"},
		{"packed, cut off", item, []byte{0x2a, 2, 1, 0x80}, "shop.v1.Item.codes: byte 3 of the response: a value is cut off"},
		{"packed doubles, cut off", item, append([]byte{0x32, 15}, make([]byte, 15)...), "shop.v1.Item.weights: byte 10"},
		{"packed, length", item, []byte{0x2a, 9, 1}, "shop.v1.Item.codes: byte 1"},
		{"required", record, nil, "legacy.Record: required field legacy.Record.key not set"},
		{"required, inner", record, []byte{0x0a, 0, 0x5a, 0}, "legacy.Record: required field legacy.Record.key not set"},
		{"end of a group", record, []byte{0x0a, 0, 0x53, 0x08, 1}, "legacy.Record.page: byte 3"},
		{"end of another", order, []byte{0x0c}, "byte 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// Behind the response there is more, as in a buffer.
			response := append(bytes.Clone(tt.response), "more"...)[:len(tt.response)]
			expect(t, tt.m.Check(response), tt.want)
		})
	}
}

// A message can be in others as deep as decoders let it.
func TestCheckOfDeepMessages(t *testing.T) {
	m := echoing(find(t, shop(t), "shop.v1.Shop/Talk"))
	deep := func(n int) (b []byte) {
		for range n - 1 {
			b = protowire.AppendBytes([]byte{0x12}, b)
		}
		return b
	}
	expect(t, m.Check(deep(1000)), "")
	expect(t, m.Check(deep(protowire.DefaultRecursionLimit+1)), "messages are within each other too deep")
}

func TestManyRequiredFields(t *testing.T) {
	var b strings.Builder
	b.WriteString("syntax = \"proto2\";\nservice S { rpc M(A) returns (A); }\nmessage A {\n")
	for i := range 70 {
		fmt.Fprintf(&b, "required bool f%d = %d;\n", i, i+1)
	}
	m := find(t, source(t, b.String()+"}"), "S/M")
	all, err := m.AppendEncode(nil, m.Example())
	if err != nil {
		t.Fatal(err)
	}
	expect(t, m.Check(all), "")
	expect(t, m.Check(all[:len(all)-3]), "required field A.f69 not set")
}

// clean tells whether a decoder has understood every field of a message.
func clean(m protoreflect.Message) bool {
	ok := len(m.GetUnknown()) == 0
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsExtension():
			ok = false // Check looks at no extensions
		case f.IsMap():
			ok = false // a decoder drops what it does not know in entries
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				ok = ok && clean(v.List().Get(i).Message())
			}
		default:
			ok = ok && clean(v.Message())
		}
		return ok
	})
	return ok
}

// Accepted messages can be decoded; what can be decoded, with every field understood, Check accepts.
func FuzzCheck(f *testing.F) {
	methods := exampled(f)
	f.Add([]byte{0x0a, 0, 0x53, 0x08, 1, 0x54}, uint8(1))
	f.Add([]byte{0x22, 2, 0x0a, 0}, uint8(0))
	f.Fuzz(func(t *testing.T, b []byte, which uint8) {
		m := methods[int(which)%len(methods)]
		checked := m.Check(b)
		message := m.in.New().Interface()
		err := m.types.unmarshal(b, message)
		if checked == nil && err != nil && !hasExtension(b) {
			t.Errorf("%x: Check accepts what cannot be decoded: %v", b, err)
		}
		if err == nil && checked != nil && clean(message.ProtoReflect()) {
			t.Errorf("%x: Check refuses what can be decoded: %v", b, checked)
		}
	})
}

// hasExtension tells whether a message may have the one extension of the schemas, which
// Check does not look at: its tag is somewhere.
func hasExtension(b []byte) bool { return bytes.Contains(b, []byte{0xa2, 0x06}) }
