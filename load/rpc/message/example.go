package message

import (
	"bytes"
	"encoding/json"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxExample is about how many fields an example shows: messages within messages can be
// more than anybody has room for.
const maxExample = 1000

// Example returns a request in JSON with the default values of all fields, indented, for a user to
// fill in: one element in each list and map, and the first field of each oneof. A message within itself
// is left out. So are messages that would make more than a thousand fields.
func (c *Codec) Example() []byte {
	message := c.in.New()
	e := exampler{within: map[protoreflect.FullName]bool{}}
	e.fill(message)
	text, err := protojson.MarshalOptions{Resolver: c.types, AllowPartial: true, EmitDefaultValues: true}.Marshal(message.Interface())
	var b bytes.Buffer
	if err != nil || json.Indent(&b, text, "", "  ") != nil {
		return []byte("{}") // a default of the schema's is not valid
	}
	return b.Bytes()
}

// An exampler makes an example.
type exampler struct {
	fields int                            // so far
	within map[protoreflect.FullName]bool // the messages that are being filled
}

// fill sets the fields of a message. It returns false if the message is to be left out.
func (e *exampler) fill(m protoreflect.Message) bool {
	d := m.Descriptor()
	fields := d.Fields()
	switch {
	case d.FullName() == "google.protobuf.Any":
		m.Set(fields.ByName("type_url"), protoreflect.ValueOfString("type.googleapis.com/google.protobuf.Empty"))
		return true
	case d.FullName() == "google.protobuf.Value":
		m.Set(fields.ByName("null_value"), protoreflect.ValueOfEnum(0))
		return true
	case wellKnownForm(d) != "":
		return true
	case e.within[d.FullName()], e.fields > 0 && e.fields+fields.Len() > maxExample:
		return false
	}
	e.fields += fields.Len()
	e.within[d.FullName()] = true
	defer delete(e.within, d.FullName())
	for i := range fields.Len() {
		f := fields.Get(i)
		if o := f.ContainingOneof(); o != nil && m.WhichOneof(o) != nil {
			continue
		}
		switch {
		case f.IsMap():
			if v := m.NewField(f).Map().NewValue(); f.MapValue().Message() == nil || e.fill(v.Message()) {
				m.Mutable(f).Map().Set(f.MapKey().Default().MapKey(), v)
			}
		case f.IsList():
			if v := m.NewField(f).List().NewElement(); f.Message() == nil || e.fill(v.Message()) {
				m.Mutable(f).List().Append(v)
			}
		default:
			if v := m.NewField(f); f.Message() == nil || e.fill(v.Message()) {
				m.Set(f, v)
			}
		}
	}
	return true
}
