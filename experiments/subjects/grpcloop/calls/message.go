package calls

import (
	"encoding/binary"
	"unicode/utf8"
)

// Wire types of Protocol Buffers.
const (
	wireVarint = 0
	wire64     = 1
	wireBytes  = 2
	wireGroup  = 3
	wireEnd    = 4
	wire32     = 5
)

// field is one field of a message: its number, and its value as a number or as bytes.
type field struct {
	number int
	wire   int
	value  uint64
	bytes  []byte
}

// next takes one field from a message. Groups are a fault: no client sends them.
func next(b []byte) (f field, rest []byte, ok bool) {
	tag, n := binary.Uvarint(b)
	if n <= 0 || tag>>3 == 0 || tag>>3 > 1<<29-1 {
		return f, nil, false
	}
	b = b[n:]
	f.number, f.wire = int(tag>>3), int(tag&7)
	switch f.wire {
	case wireVarint:
		if f.value, n = binary.Uvarint(b); n <= 0 {
			return f, nil, false
		}
		return f, b[n:], true
	case wireBytes:
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return f, nil, false
		}
		b = b[n:]
		f.bytes = b[:size]
		return f, b[size:], true
	case wire64:
		if len(b) < 8 {
			return f, nil, false
		}
		return f, b[8:], true
	case wire32:
		if len(b) < 4 {
			return f, nil, false
		}
		return f, b[4:], true
	}
	return f, nil, false
}

// echoMessage is an EchoRequest. Its slices are parts of what it was decoded from.
type echoMessage struct {
	text, payload []byte
	status        uint32
	delay         uint32 // ms
}

func (m *echoMessage) decode(b []byte) bool {
	for len(b) > 0 {
		f, rest, ok := next(b)
		if !ok {
			return false
		}
		b = rest
		switch {
		case f.number == 1 && f.wire == wireBytes:
			if !utf8.Valid(f.bytes) {
				return false
			}
			m.text = f.bytes
		case f.number == 2 && f.wire == wireBytes:
			m.payload = f.bytes
		case f.number == 3 && f.wire == wireVarint:
			m.status = uint32(f.value)
		case f.number == 4 && f.wire == wireVarint:
			m.delay = uint32(f.value)
		}
	}
	return true
}

// size returns the length of the EchoResponse to the message.
func (m *echoMessage) size() int { return bytesSize(m.text) + bytesSize(m.payload) }

// append appends the EchoResponse to the message.
func (m *echoMessage) append(b []byte) []byte {
	return appendBytes(appendBytes(b, 1, m.text), 2, m.payload)
}

// bytesSize is the length of a field of bytes whose number is below 16. An empty one is
// left out.
func bytesSize(v []byte) int {
	if len(v) == 0 {
		return 0
	}
	return 1 + varintSize(uint64(len(v))) + len(v)
}

func varintSize(v uint64) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}

func appendBytes[S string | []byte](b []byte, number int, v S) []byte {
	if len(v) == 0 {
		return b
	}
	return appendMessage(b, number, v)
}

// appendMessage appends a field even if it is empty.
func appendMessage[S string | []byte](b []byte, number int, v S) []byte {
	b = binary.AppendUvarint(append(b, byte(number<<3|wireBytes)), uint64(len(v)))
	return append(b, v...)
}

func appendVarint(b []byte, number int, v uint64) []byte {
	if v == 0 {
		return b
	}
	return binary.AppendUvarint(append(b, byte(number<<3|wireVarint)), v)
}

// expandMessage is an ExpandRequest.
type expandMessage struct {
	message  echoMessage
	count    uint32
	interval uint32 // µs
}

func (m *expandMessage) decode(b []byte) bool {
	for len(b) > 0 {
		f, rest, ok := next(b)
		if !ok {
			return false
		}
		b = rest
		switch {
		case f.number == 1 && f.wire == wireBytes:
			// A message that comes twice is merged.
			if !m.message.decode(f.bytes) {
				return false
			}
		case f.number == 2 && f.wire == wireVarint:
			m.count = uint32(f.value)
		case f.number == 3 && f.wire == wireVarint:
			m.interval = uint32(f.value)
		}
	}
	return true
}
