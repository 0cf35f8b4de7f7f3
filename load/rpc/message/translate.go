package message

import (
	"encoding/base64"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// AppendJSON appends a response in JSON: what Decode makes of it, but for the order of members, which
// is that on the wire. It does not allocate as long as a response is written as programs write it: each
// field once, values of a list or map in sequence, and no well-known messages with their own JSON.
// Other responses are decoded to a message first. After an error dst is as it was.
func (c *Codec) AppendJSON(dst, response []byte) ([]byte, error) {
	w := jsonWriter{b: dst}
	if w.message(c.shape(), response, maxOpen) {
		return w.b, nil
	}
	text, err := c.Decode(response)
	return append(dst, text...), err
}

// A jsonWriter writes a response in JSON. Its functions return false when the response is written
// in a way that is left to Decode, or is wrong.
type jsonWriter struct{ b []byte }

func (w *jsonWriter) message(s *shape, b []byte, depth int) bool {
	if s.special || depth == 0 {
		return false
	}
	w.b = append(w.b, '{')
	seen, empty := uint64(0), true
	for len(b) > 0 {
		number, wire, n := protowire.ConsumeTag(b)
		if n < 0 || number > protowire.MaxValidNumber {
			return false
		}
		f := s.field(number)
		if f == nil {
			size := protowire.ConsumeFieldValue(number, wire, b[n:])
			if size < 0 || s.extensible {
				return false
			}
			b = b[n+size:]
			continue
		}
		if seen&f.rivals != 0 {
			return false
		}
		seen |= f.bit
		start := len(w.b)
		if !empty {
			w.b = append(w.b, ',')
		}
		w.b = append(w.b, f.name...)
		var written bool
		var size int
		var ok bool
		switch {
		case f.isMap:
			size, written, ok = w.entries(f, number, b, depth)
		case f.list:
			size, written, ok = w.elements(f, number, b, depth)
		default:
			size, written, ok = w.value(f, wire, b[n:], depth)
			size += n
		}
		if !ok {
			return false
		}
		if written {
			empty = false
		} else {
			w.b = w.b[:start]
		}
		b = b[size:]
	}
	w.b = append(w.b, '}')
	return true
}

// elements writes a list, whose values follow one another, each in its own field or several in one. It
// returns how long all of them are, and whether there are any.
func (w *jsonWriter) elements(f *fieldShape, number protowire.Number, b []byte, depth int) (size int, written, ok bool) {
	w.b = append(w.b, '[')
	add := func() {
		if written {
			w.b = append(w.b, ',')
		}
		written = true
	}
	for size < len(b) {
		next, wire, n := protowire.ConsumeTag(b[size:])
		if n < 0 {
			return 0, false, false
		}
		if next != number {
			break
		}
		at := size + n
		if f.packable && wire == protowire.BytesType {
			packed, n := protowire.ConsumeBytes(b[at:])
			if n < 0 {
				return 0, false, false
			}
			for len(packed) > 0 {
				add()
				used, _, ok := w.value(f, f.wire, packed, depth)
				if !ok {
					return 0, false, false
				}
				packed = packed[used:]
			}
			size = at + n
			continue
		}
		add()
		used, _, ok := w.value(f, wire, b[at:], depth)
		if !ok {
			return 0, false, false
		}
		size = at + used
	}
	w.b = append(w.b, ']')
	return size, written, true
}

// maxEntries is how many entries of a map are compared with each other: none may have the key of
// another.
const maxEntries = 32

// entries writes a map.
func (w *jsonWriter) entries(f *fieldShape, number protowire.Number, b []byte, depth int) (size int, written, ok bool) {
	w.b = append(w.b, '{')
	var keys [maxEntries][2]int
	count := 0
	for size < len(b) {
		next, wire, n := protowire.ConsumeTag(b[size:])
		if n < 0 {
			return 0, false, false
		}
		if next != number {
			break
		}
		entry, length := protowire.ConsumeBytes(b[size+n:])
		if wire != protowire.BytesType || length < 0 || count == maxEntries {
			return 0, false, false
		}
		size += n + length
		if count > 0 {
			w.b = append(w.b, ',')
		}
		start := len(w.b)
		end, ok := w.entry(f, entry, depth)
		if !ok {
			return 0, false, false
		}
		for _, k := range keys[:count] {
			if string(w.b[k[0]:k[1]]) == string(w.b[start:end]) {
				return 0, false, false
			}
		}
		keys[count] = [2]int{start, end}
		count++
	}
	w.b = append(w.b, '}')
	return size, count > 0, true
}

// entry writes an entry of a map, which has a key and a value. Each may be missing or zero. It returns
// where its key ends.
func (w *jsonWriter) entry(f *fieldShape, b []byte, depth int) (keyEnd int, ok bool) {
	key, value := f.inner.field(entryKey), f.inner.field(entryValue)
	number, wire, n := protowire.ConsumeTag(b)
	if len(b) == 0 || n < 0 || number != entryKey || wire != key.wire {
		return 0, false
	}
	quoted := key.kind == protoreflect.StringKind || isWide(key.kind)
	if !quoted {
		w.b = append(w.b, '"')
	}
	used, ok := w.scalar(key, b[n:])
	if !ok {
		return 0, false
	}
	if !quoted {
		w.b = append(w.b, '"')
	}
	keyEnd = len(w.b)
	w.b = append(w.b, ':')
	b = b[n+used:]
	number, wire, n = protowire.ConsumeTag(b)
	if len(b) == 0 || n < 0 || number != entryValue {
		return 0, false
	}
	used, _, ok = w.value(value, wire, b[n:], depth)
	return keyEnd, ok && n+used == len(b)
}

// isWide tells whether numbers of a kind are written in quotes.
func isWide(k protoreflect.Kind) bool {
	switch k {
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
		return true
	}
	return false
}

// value writes one value. It returns its length, and whether it is to be seen.
func (w *jsonWriter) value(f *fieldShape, wire protowire.Type, b []byte, depth int) (size int, written, ok bool) {
	if wire != f.wire || wire == protowire.StartGroupType {
		return 0, false, false
	}
	if f.inner != nil {
		v, n := protowire.ConsumeBytes(b)
		return n, true, n >= 0 && w.message(f.inner, v, depth-1)
	}
	size, ok = w.scalar(f, b)
	return size, !f.implicit || ok && !isZero(f.wire, b[:size]), ok
}

// isZero tells whether a scalar on the wire is zero, or empty.
func isZero(wire protowire.Type, b []byte) bool {
	if wire == protowire.BytesType {
		_, n := protowire.ConsumeVarint(b)
		return n == len(b) // no bytes follow the length
	}
	for _, c := range b {
		if c&0x7f != 0 || c != 0 && wire != protowire.VarintType {
			return false
		}
	}
	return true
}

// scalar writes a value that is no message. It returns its length.
func (w *jsonWriter) scalar(f *fieldShape, b []byte) (size int, ok bool) {
	switch f.wire {
	case protowire.VarintType:
		v, n := protowire.ConsumeVarint(b)
		return n, n >= 0 && w.varint(f, v)
	case protowire.Fixed32Type:
		v, n := protowire.ConsumeFixed32(b)
		switch f.kind {
		case protoreflect.FloatKind:
			w.float(float64(math.Float32frombits(v)), 32)
		case protoreflect.Fixed32Kind:
			w.b = strconv.AppendUint(w.b, uint64(v), 10)
		default:
			w.b = strconv.AppendInt(w.b, int64(int32(v)), 10)
		}
		return n, n >= 0
	case protowire.Fixed64Type:
		v, n := protowire.ConsumeFixed64(b)
		switch f.kind {
		case protoreflect.DoubleKind:
			w.float(math.Float64frombits(v), 64)
		case protoreflect.Fixed64Kind:
			w.quoted(false, v)
		default:
			w.quoted(true, v)
		}
		return n, n >= 0
	}
	v, n := protowire.ConsumeBytes(b)
	switch {
	case n < 0:
		return n, false
	case f.kind == protoreflect.BytesKind:
		w.b = append(w.b, '"')
		w.b = base64.StdEncoding.AppendEncode(w.b, v)
		w.b = append(w.b, '"')
		return n, true
	}
	return n, w.string(v)
}

// varint writes a number of variable length.
func (w *jsonWriter) varint(f *fieldShape, v uint64) bool {
	switch f.kind {
	case protoreflect.BoolKind:
		w.b = strconv.AppendBool(w.b, v != 0)
	case protoreflect.EnumKind:
		name, found := f.enum[int32(v)]
		switch {
		case f.enum == nil:
			return false
		case found:
			w.b = append(w.b, name...)
		default:
			w.b = strconv.AppendInt(w.b, int64(int32(v)), 10)
		}
	case protoreflect.Int32Kind:
		w.b = strconv.AppendInt(w.b, int64(int32(v)), 10)
	case protoreflect.Sint32Kind:
		w.b = strconv.AppendInt(w.b, int64(int32(protowire.DecodeZigZag(v&math.MaxUint32))), 10)
	case protoreflect.Uint32Kind:
		w.b = strconv.AppendUint(w.b, uint64(uint32(v)), 10)
	case protoreflect.Sint64Kind:
		w.quoted(true, uint64(protowire.DecodeZigZag(v)))
	case protoreflect.Uint64Kind:
		w.quoted(false, v)
	default:
		w.quoted(true, v)
	}
	return true
}

// quoted writes a number of 64 bits, as JSON has no room for all of them.
func (w *jsonWriter) quoted(signed bool, v uint64) {
	w.b = append(w.b, '"')
	if signed {
		w.b = strconv.AppendInt(w.b, int64(v), 10)
	} else {
		w.b = strconv.AppendUint(w.b, v, 10)
	}
	w.b = append(w.b, '"')
}

// float writes a floating-point number as encoding/json does.
func (w *jsonWriter) float(v float64, size int) {
	switch {
	case math.IsNaN(v):
		w.b = append(w.b, `"NaN"`...)
		return
	case math.IsInf(v, 1):
		w.b = append(w.b, `"Infinity"`...)
		return
	case math.IsInf(v, -1):
		w.b = append(w.b, `"-Infinity"`...)
		return
	}
	format, abs := byte('f'), math.Abs(v)
	if abs != 0 && (size == 64 && (abs < 1e-6 || abs >= 1e21) || size == 32 && (float32(abs) < 1e-6 || float32(abs) >= 1e21)) {
		format = 'e'
	}
	w.b = strconv.AppendFloat(w.b, v, format, -1, size)
	if n := len(w.b); format == 'e' && n >= 4 && w.b[n-4] == 'e' && w.b[n-3] == '-' && w.b[n-2] == '0' {
		w.b[n-2] = w.b[n-1]
		w.b = w.b[:n-1]
	}
}

// string writes a text.
func (w *jsonWriter) string(text []byte) bool {
	b, err := jsontext.AppendQuote(w.b, text)
	if err != nil {
		return false
	}
	w.b = b
	return true
}
