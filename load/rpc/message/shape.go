package message

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// A shape is what must be known of a message to check it, and to write it in JSON.
type shape struct {
	low        []*fieldShape // by number, those below maxLow
	high       map[protowire.Number]*fieldShape
	required   uint64 // the bits of fields that must be there
	partial    bool   // there are such fields without a bit
	special    bool   // it has a JSON of its own, fields that must be there, or more fields than bits
	extensible bool
}

// maxLow bounds the table of a shape.
const maxLow = 256

// A fieldShape is one field of a shape.
type fieldShape struct {
	full     protoreflect.FullName
	name     []byte // in JSON, quoted, with the colon
	kind     protoreflect.Kind
	wire     protowire.Type // of one value
	list     bool
	packable bool // many values may be in one length-delimited field
	isMap    bool
	implicit bool             // a zero on the wire is as good as none
	text     bool             // must be UTF-8
	bit      uint64           // its own in the message
	rivals   uint64           // with the bits of its oneof's other fields: none may be there yet
	enum     map[int32][]byte // the names of values, quoted
	inner    *shape           // of a message; of a map, the shape of its entries
}

// The fields of a map's entry.
const (
	entryKey   = 1
	entryValue = 2
)

// newShape makes the shape of a message, and of all that are in it.
func newShape(d protoreflect.MessageDescriptor) *shape {
	shapes := map[protoreflect.FullName]*shape{}
	var open []protoreflect.MessageDescriptor
	of := func(d protoreflect.MessageDescriptor) *shape {
		s := shapes[d.FullName()]
		if s == nil {
			s = &shape{
				special:    wellKnownForm(d) != "" || d.Fields().Len() > 64 || d.RequiredNumbers().Len() > 0,
				extensible: d.ExtensionRanges().Len() > 0,
			}
			shapes[d.FullName()] = s
			open = append(open, d)
		}
		return s
	}
	top := of(d)
	for len(open) > 0 {
		d := open[len(open)-1]
		open = open[:len(open)-1]
		s := shapes[d.FullName()]
		for i := range d.Fields().Len() {
			field := d.Fields().Get(i)
			f := newFieldShape(field)
			if field.Message() != nil {
				f.inner = of(field.Message())
			}
			if field.Cardinality() == protoreflect.Required {
				s.required |= f.bit
				s.partial = s.partial || f.bit == 0
			}
			s.add(field.Number(), f)
		}
	}
	return top
}

// newFieldShape makes the shape of a field, but for what is in it.
func newFieldShape(field protoreflect.FieldDescriptor) *fieldShape {
	f := &fieldShape{
		full: field.FullName(), name: []byte(quoteJSON(field.JSONName()) + ":"), kind: field.Kind(), wire: wireTypes[field.Kind()],
		list: field.IsList(), isMap: field.IsMap(), implicit: !field.HasPresence(), bit: 1 << field.Index(),
	}
	f.packable = f.list && f.wire != protowire.BytesType && f.wire != protowire.StartGroupType
	if enforcer, ok := field.(interface{ EnforceUTF8() bool }); ok && f.kind == protoreflect.StringKind {
		f.text = enforcer.EnforceUTF8()
	}
	f.rivals = f.bit
	if one := field.ContainingOneof(); one != nil {
		for i := range one.Fields().Len() {
			f.rivals |= 1 << one.Fields().Get(i).Index()
		}
	}
	if enum := field.Enum(); enum != nil && enum.FullName() != "google.protobuf.NullValue" { // which is null
		f.enum = map[int32][]byte{}
		for i := range enum.Values().Len() {
			v := enum.Values().Get(i)
			if _, alias := f.enum[int32(v.Number())]; !alias {
				f.enum[int32(v.Number())] = []byte(quoteJSON(string(v.Name())))
			}
		}
	}
	return f
}

// wireTypes are how values of each kind begin on the wire.
var wireTypes = map[protoreflect.Kind]protowire.Type{
	protoreflect.BoolKind:     protowire.VarintType,
	protoreflect.EnumKind:     protowire.VarintType,
	protoreflect.Int32Kind:    protowire.VarintType,
	protoreflect.Sint32Kind:   protowire.VarintType,
	protoreflect.Uint32Kind:   protowire.VarintType,
	protoreflect.Int64Kind:    protowire.VarintType,
	protoreflect.Sint64Kind:   protowire.VarintType,
	protoreflect.Uint64Kind:   protowire.VarintType,
	protoreflect.Sfixed32Kind: protowire.Fixed32Type,
	protoreflect.Fixed32Kind:  protowire.Fixed32Type,
	protoreflect.FloatKind:    protowire.Fixed32Type,
	protoreflect.Sfixed64Kind: protowire.Fixed64Type,
	protoreflect.Fixed64Kind:  protowire.Fixed64Type,
	protoreflect.DoubleKind:   protowire.Fixed64Type,
	protoreflect.StringKind:   protowire.BytesType,
	protoreflect.BytesKind:    protowire.BytesType,
	protoreflect.MessageKind:  protowire.BytesType,
	protoreflect.GroupKind:    protowire.StartGroupType,
}

func (s *shape) add(number protowire.Number, f *fieldShape) {
	if number >= maxLow {
		if s.high == nil {
			s.high = map[protowire.Number]*fieldShape{}
		}
		s.high[number] = f
		return
	}
	for int(number) >= len(s.low) {
		s.low = append(s.low, nil)
	}
	s.low[number] = f
}

func (s *shape) field(number protowire.Number) *fieldShape {
	if int(number) < len(s.low) {
		return s.low[number]
	}
	return s.high[number]
}
