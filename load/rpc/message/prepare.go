package message

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"dyno/load/rpc/diag"
)

// maxOpen bounds how many messages within each other an Encoder keeps open.
const maxOpen = 32

// An Encoder makes requests of JSON in which some texts vary. It may be used by several
// goroutines.
type Encoder struct {
	codec  *Codec
	pieces [][]byte
	ops    []op // what to write; nil: each request is made of its JSON
}

// Prepare prepares requests of one kind: JSON cut into pieces, with a part between each two. Append
// gives what AppendEncode makes of the joined pieces and parts. Only the order of fields on the wire
// may differ.
//
// Append does not allocate when each part is within a string, or is a whole number, truth value or
// string. Prepare then finds the faults of the pieces.
func (c *Codec) Prepare(pieces ...[]byte) (*Encoder, error) {
	e := &Encoder{codec: c, pieces: make([][]byte, len(pieces))}
	for i, p := range pieces {
		e.pieces[i] = bytes.Clone(p)
	}
	if len(pieces) == 0 {
		e.pieces = [][]byte{nil}
	}
	// The parts are taken for zeros, which can stand for a number and in a string.
	sample, holes := bytes.Clone(e.pieces[0]), []int{}
	for _, p := range e.pieces[1:] {
		holes = append(holes, len(sample))
		sample = append(append(sample, '0'), p...)
	}
	value := bytes.TrimSpace(sample)
	if !utf8.Valid(sample) || !json.Valid(sample) || value[0] != '{' || wellKnownForm(c.in.Descriptor()) != "" {
		if len(holes) > 0 {
			return e, nil
		}
		_, err := c.AppendEncode(nil, sample)
		return e, err
	}
	from := bytes.IndexByte(sample, '{')
	p := &planner{
		sample: locator{sample, c.types},
		holes:  holes,
		fits:   make([][]byte, len(holes)),
	}
	for i := range p.fits {
		p.fits[i] = []byte("0")
	}
	p.members(c.in, from, from+len(value))
	if p.unplannable && len(holes) > 0 {
		return e, nil
	}
	if _, err := c.AppendEncode(nil, e.join(nil, p.fits)); err != nil {
		var f *diag.Fault
		if errors.As(err, &f) && f.Path != "" && len(holes) > 0 {
			f.Line, f.Column = 0, 0 // of another text than the one that was given
		}
		return nil, err
	}
	if p.most <= maxOpen {
		e.ops = p.flush()
	}
	return e, nil
}

// Append appends a request to a buffer: with the parts, one fewer than the pieces. An error is
// AppendEncode's; its place is in the pieces and parts joined. The buffer is then as it was.
func (e *Encoder) Append(dst []byte, parts [][]byte) ([]byte, error) {
	if e.ops != nil {
		if b, ok := e.write(dst, parts); ok {
			return b, nil
		}
	}
	return e.codec.AppendEncode(dst, e.join(nil, parts))
}

// join appends the JSON.
func (e *Encoder) join(dst []byte, parts [][]byte) []byte {
	dst = append(dst, e.pieces[0]...)
	for i, p := range e.pieces[1:] {
		dst = append(append(dst, parts[i]...), p...)
	}
	return dst
}

// An op is one thing to write.
type op struct {
	do    opKind
	bytes []byte // of a literal; of others the tag
	part  int
	kind  protoreflect.Kind
	enum  map[string]int32
}

type opKind int8

const (
	opLiteral opKind = iota
	opBegin          // of bytes after a tag and their length
	opEnd            // of the last begun part
	opText           // a part within a string
	opBase64         // a part that is a string in base64
	opScalar         // a part that is a number, a truth value or the name of an enum's value
)

// write writes by the plan. It returns false, and dst as it was, when a part is wrong or unusually
// written.
func (e *Encoder) write(dst []byte, parts [][]byte) (b []byte, ok bool) {
	var starts [maxOpen]int
	open := 0
	b = dst
	for i := range e.ops {
		o := &e.ops[i]
		switch o.do {
		case opLiteral:
			b = append(b, o.bytes...)
		case opBegin:
			b = append(append(b, o.bytes...), 0)
			starts[open] = len(b)
			open++
		case opEnd:
			open--
			b = insertLength(b, starts[open])
		case opText:
			if !isPlainText(parts[o.part]) {
				return dst, false
			}
			b = append(b, parts[o.part]...)
		case opBase64:
			if b, ok = appendBase64(b, parts[o.part]); !ok {
				return dst, false
			}
		case opScalar:
			b = append(b, o.bytes...)
			if b, ok = o.appendScalar(b, parts[o.part]); !ok {
				return dst, false
			}
		}
	}
	return b, true
}

// insertLength writes the length of the bytes from start into the byte before them. It makes room for a
// longer one.
func insertLength(b []byte, start int) []byte {
	n := len(b) - start
	if more := protowire.SizeVarint(uint64(n)) - 1; more > 0 {
		b = append(b, "\x00\x00\x00\x00\x00\x00\x00\x00\x00"[:more]...)
		copy(b[start+more:], b[start:start+n])
	}
	binary.PutUvarint(b[start-1:], uint64(n))
	return b
}

// isPlainText tells whether text stands for itself in a string of JSON.
func isPlainText(text []byte) bool {
	for _, c := range text {
		if c < ' ' || c == '"' || c == '\\' {
			return false
		}
	}
	return utf8.Valid(text)
}

// appendBase64 decodes base64 with its padding: other ways of writing it are left to AppendEncode,
// and so is what JSON does not allow in a string.
func appendBase64(dst, text []byte) ([]byte, bool) {
	if bytes.ContainsAny(text, "\r\n") {
		return dst, false
	}
	b, err := base64.StdEncoding.AppendDecode(dst, text)
	return b, err == nil
}

// appendScalar appends a value by its text.
func (o *op) appendScalar(b, text []byte) ([]byte, bool) {
	switch o.kind {
	case protoreflect.BoolKind:
		switch string(text) {
		case "true":
			return append(b, 1), true
		case "false":
			return append(b, 0), true
		}
		return b, false
	case protoreflect.EnumKind:
		n, ok := o.enum[string(text)]
		return protowire.AppendVarint(b, uint64(int64(n))), ok
	case protoreflect.FloatKind:
		f, ok := parseFloat(text, 32)
		return protowire.AppendFixed32(b, math.Float32bits(float32(f))), ok
	case protoreflect.DoubleKind:
		f, ok := parseFloat(text, 64)
		return protowire.AppendFixed64(b, math.Float64bits(f)), ok
	}
	if !isNumber(text) {
		return b, false
	}
	bits := 64
	switch o.kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind, protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		bits = 32
	}
	var v uint64
	var err error
	switch o.kind {
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		v, err = strconv.ParseUint(string(text), 10, bits)
	default:
		var n int64
		n, err = strconv.ParseInt(string(text), 10, bits)
		v = uint64(n)
	}
	switch o.kind {
	case protoreflect.Sint32Kind, protoreflect.Sint64Kind:
		return protowire.AppendVarint(b, protowire.EncodeZigZag(int64(v))), err == nil
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind:
		return protowire.AppendFixed32(b, uint32(v)), err == nil
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
		return protowire.AppendFixed64(b, v), err == nil
	}
	return protowire.AppendVarint(b, v), err == nil
}

// parseFloat reads a number.
func parseFloat(text []byte, bits int) (float64, bool) {
	if !isNumber(text) || !json.Valid(text) {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(text), bits)
	return f, err == nil
}

// isNumber tells whether text, which strconv reads, can be a number of JSON: it has no sign but a minus, no needless
// zeros, and begins with a digit. Longer texts would have to be copied.
func isNumber(text []byte) bool {
	digits := bytes.TrimPrefix(text, []byte("-"))
	return len(digits) > 0 && len(text) <= 32 && digits[0] >= '0' && digits[0] <= '9' &&
		(digits[0] != '0' || len(digits) == 1 || digits[1] < '0' || digits[1] > '9')
}

// A planner makes ops of a sample.
type planner struct {
	sample      locator
	holes       []int    // offsets in the sample, where a zero stands for a part
	fits        [][]byte // parts that are not at fault where they are
	ops         []op
	literal     []byte // to be written before the next op
	open        int    // begun, and not ended
	most        int    // that were open at once
	unplannable bool   // a part is where no plan can be made for it
}

// within returns the parts between two offsets.
func (p *planner) within(from, to int) (parts []int) {
	for i, at := range p.holes {
		if from <= at && at < to {
			parts = append(parts, i)
		}
	}
	return parts
}

func (p *planner) add(o op) {
	p.flush()
	p.ops = append(p.ops, o)
}

// flush returns all ops so far.
func (p *planner) flush() []op {
	if len(p.literal) > 0 {
		p.ops = append(p.ops, op{do: opLiteral, bytes: p.literal})
		p.literal = nil
	}
	if p.ops == nil {
		p.ops = []op{}
	}
	return p.ops
}

func (p *planner) begin(number protowire.Number) {
	p.add(op{do: opBegin, bytes: protowire.AppendTag(nil, number, protowire.BytesType)})
	p.open++
	p.most = max(p.most, p.open)
}

func (p *planner) end() {
	p.open--
	p.add(op{do: opEnd})
}

// members plans the members of an object.
func (p *planner) members(t protoreflect.MessageType, from, to int) {
	p.sample.object(from, to, func(name string, at, from, to int) bool {
		field := p.sample.field(t.Descriptor(), name)
		switch {
		case len(p.within(at, from)) > 0:
			p.unplannable = true
		case len(p.within(from, to)) == 0:
			p.literal = append(p.literal, p.encode(t, name, p.sample.text[from:to])...)
		case field == nil: // AppendEncode will say so
		case field.IsMap():
			p.entries(t, field, name, from, to)
		case field.IsList() && p.sample.text[from] == '[':
			p.sample.array(from, to, func(_, from, to int) bool {
				if len(p.within(from, to)) == 0 {
					p.literal = append(p.literal, p.encode(t, name, slices.Concat([]byte("["), p.sample.text[from:to], []byte("]")))...)
				} else {
					p.value(field, from, to)
				}
				return true
			})
		case field.IsList():
			p.unplannable = true
		default:
			p.value(field, from, to)
		}
		return !p.unplannable
	})
}

// encode encodes one member. Its faults are found later.
func (p *planner) encode(t protoreflect.MessageType, name string, value []byte) []byte {
	message := t.New().Interface()
	text := slices.Concat([]byte("{"+quoteJSON(name)+":"), value, []byte("}"))
	if (protojson.UnmarshalOptions{Resolver: p.sample.types, AllowPartial: true}).Unmarshal(text, message) != nil {
		return nil
	}
	b, err := proto.MarshalOptions{Deterministic: true, AllowPartial: true}.Marshal(message)
	if err != nil {
		return nil
	}
	return b
}

// entries plans the entries of a map.
func (p *planner) entries(t protoreflect.MessageType, field protoreflect.FieldDescriptor, name string, from, to int) {
	if p.sample.text[from] != '{' {
		p.unplannable = true
		return
	}
	p.sample.object(from, to, func(key string, at, from, to int) bool {
		switch {
		case len(p.within(at, from)) > 0:
			p.unplannable = true
		case len(p.within(from, to)) == 0:
			entry := slices.Concat([]byte("{"+quoteJSON(key)+":"), p.sample.text[from:to], []byte("}"))
			p.literal = append(p.literal, p.encode(t, name, entry)...)
		default:
			p.begin(field.Number())
			text := quoteJSON(key)
			if field.MapKey().Kind() == protoreflect.BoolKind {
				text = key
			}
			p.literal = append(p.literal, p.encode(dynamicpb.NewMessageType(field.Message()), string(field.MapKey().Name()), []byte(text))...)
			p.value(field.MapValue(), from, to)
			p.end()
		}
		return !p.unplannable
	})
}

// value plans one value of a field, with parts in it.
func (p *planner) value(field protoreflect.FieldDescriptor, from, to int) {
	switch message := field.Message(); {
	case field.Kind() == protoreflect.GroupKind:
		p.unplannable = true
	case message != nil && wrapped(message) != nil:
		p.begin(field.Number())
		p.value(wrapped(message), from, to)
		p.end()
	case message != nil && (wellKnownForm(message) != "" || p.sample.text[from] != '{'):
		p.unplannable = true
	case message != nil:
		p.begin(field.Number())
		p.members(dynamicpb.NewMessageType(message), from, to)
		p.end()
	case field.Kind() == protoreflect.StringKind:
		p.string(field, from, to)
	default:
		p.scalar(field, from, to)
	}
}

// scalar plans a value that is one part.
func (p *planner) scalar(field protoreflect.FieldDescriptor, from, to int) {
	quoted := p.sample.text[from] == '"'
	parts := p.within(from, to)
	whole := len(parts) == 1 && (!quoted && p.holes[parts[0]] == from && to == from+1 || quoted && p.holes[parts[0]] == from+1 && to == from+3)
	if !whole {
		p.unplannable = true
		return
	}
	o := op{do: opScalar, part: parts[0], kind: field.Kind(), bytes: protowire.AppendTag(nil, field.Number(), wireTypes[field.Kind()])}
	fit := "0"
	switch field.Kind() {
	case protoreflect.BytesKind:
		if !quoted {
			p.unplannable = true
			return
		}
		p.begin(field.Number())
		p.add(op{do: opBase64, part: parts[0]})
		p.end()
		p.fits[parts[0]] = nil
		return
	case protoreflect.BoolKind:
		if quoted {
			p.unplannable = true
			return
		}
		fit = "false"
	case protoreflect.EnumKind:
		o.enum = map[string]int32{}
		values := field.Enum().Values()
		for i := range values.Len() {
			v := values.Get(i)
			if quoted {
				o.enum[string(v.Name())] = int32(v.Number())
			} else {
				o.enum[strconv.Itoa(int(v.Number()))] = int32(v.Number())
			}
		}
		if quoted {
			fit = string(values.Get(0).Name())
		}
	}
	p.fits[parts[0]] = []byte(fit)
	p.add(o)
}

// string plans a string with parts in it.
func (p *planner) string(field protoreflect.FieldDescriptor, from, to int) {
	if p.sample.text[from] != '"' {
		p.unplannable = true
		return
	}
	p.begin(field.Number())
	at := from + 1
	literal := func(to int) {
		var text string
		if json.Unmarshal(slices.Concat([]byte(`"`), p.sample.text[at:to], []byte(`"`)), &text) != nil {
			p.unplannable = true
		}
		p.literal = append(p.literal, text...)
	}
	for _, part := range p.within(from, to) {
		literal(p.holes[part])
		p.add(op{do: opText, part: part})
		p.fits[part] = nil
		at = p.holes[part] + 1
	}
	literal(to - 1)
	p.end()
}
