package http2

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"dyno/load/wire"
	"dyno/load/wire/http1"
)

// Header blocks are encoded in two steps. Once, each request becomes a prepared one: a list of pieces,
// encoded as far as they can be before a connection is known. The fields that repeat themselves are
// entries of a dictionary, which all requests share. Then each connection sends an entry whole the
// first time, which puts it into the peer's dynamic table. From then on it sends the entry's index.
//
// Entries are never evicted from the peer's table: an entry that would not fit in addition to the
// others is sent whole each time. So an entry's place follows from one number.

// maxEncoderTable is how much of the peer's table is used at most, even if it offers
// more. All entries of a table of this size have indexes of at most two bytes.
const maxEncoderTable = defaultTableSize

// A dictEntry is a field, or the name of a field that varies.
type dictEntry struct {
	size   int    // in the peer's table; of a name, without the value's
	insert []byte // the field as it enters the table; of a name, up to the value
	whole  []byte // the field as it does not enter it
}

type dictionary struct {
	entries []dictEntry
	numbers map[pair]int // of fields and, without a value, of names
}

// A piece is a part of a prepared header block.
type piece struct {
	kind  pieceKind
	entry int    // entry, named: the number of the entry in the dictionary
	bytes []byte // fixed: as they are; others: what stands before the value
}

type pieceKind uint8

const (
	fixed      pieceKind = iota // bytes that never change
	repeated                    // an entry of the dictionary
	varying                     // bytes, and a value that varies
	varyingOf                   // a value that varies, of a name in the dictionary
	bodyLength                  // bytes, and the length of the body that varies
)

// A prepared is a request that is ready to be sent.
type prepared struct {
	request Request
	pieces  []piece
	body    []byte
	parts   int
	size    int  // of its header block at most, without the parts
	head    bool // its response has no body
}

// bound returns the largest size of the header block.
func (p *prepared) bound(parts [][]byte) int {
	n := p.size
	for _, part := range parts {
		n += len(part)
	}
	return n
}

// prepare encodes a request, whose fields may enter the dictionary.
func (d *dictionary) prepare(r Request) prepared {
	p := prepared{request: r, body: r.Body, parts: r.Parts(), head: r.Method == headMethod}
	if r.Protocol != "" {
		p.field(d, http1.Field{Name: ":method", Value: http.MethodConnect})
		p.field(d, http1.Field{Name: ":protocol", Value: r.Protocol})
	} else {
		p.field(d, http1.Field{Name: ":method", Value: r.Method})
	}
	p.field(d, http1.Field{Name: ":scheme", Value: r.Scheme})
	p.field(d, http1.Field{Name: ":authority", Value: r.Host})
	p.field(d, http1.Field{Name: ":path", Value: r.Target, Varies: r.VariesTarget})
	for _, f := range r.allFields() {
		f.Name = strings.ToLower(f.Name)
		p.field(d, f)
	}
	if r.needsLength() && r.VariesBody {
		p.pieces = append(p.pieces, piece{kind: bodyLength, bytes: appendInteger(nil, indexContentLength, 0x0f, 0)})
	}
	return p
}

// field adds a field.
func (p *prepared) field(d *dictionary, f http1.Field) {
	switch index, whole := staticIndex(f.Name, f.Value); {
	case whole:
		p.fixed(appendInteger(nil, index, 0x7f, 0x80))
	case !f.Varies:
		p.pieces = append(p.pieces, piece{kind: repeated, entry: d.number(f.Name, f.Value, index, false)})
	case index == 0:
		p.pieces = append(p.pieces, piece{kind: varyingOf, entry: d.number(f.Name, "", 0, true)})
	default:
		p.pieces = append(p.pieces, piece{kind: varying, bytes: appendInteger(nil, index, 0x0f, 0)})
	}
}

// fixed adds bytes to what is fixed.
func (p *prepared) fixed(b []byte) {
	if n := len(p.pieces); n > 0 && p.pieces[n-1].kind == fixed {
		p.pieces[n-1].bytes = append(p.pieces[n-1].bytes, b...)
		return
	}
	p.pieces = append(p.pieces, piece{kind: fixed, bytes: b})
}

// number returns the number of a field in the dictionary, or of a name.
func (d *dictionary) number(name, value string, index int, nameOnly bool) int {
	key := pair{name, value}
	if nameOnly {
		key.value = "\n" // which no value is
	}
	if n, found := d.numbers[key]; found {
		return n
	}
	e := dictEntry{
		size:   len(name) + len(value) + entryOverhead,
		insert: appendName(nil, index, name, 0x3f, 0x40),
		whole:  appendName(nil, index, name, 0x0f, 0),
	}
	if !nameOnly {
		e.insert, e.whole = appendText(e.insert, value), appendText(e.whole, value)
	}
	if d.numbers == nil {
		d.numbers = map[pair]int{}
	}
	d.numbers[key] = len(d.entries)
	d.entries = append(d.entries, e)
	return len(d.entries) - 1
}

// An encoder is what one connection's peer has in its dynamic table.
type encoder struct {
	dict     *dictionary
	places   []uint8 // for each entry, which insertion it was; 0 if it was none
	inserted int     // at most maxEncoderTable/entryOverhead, which is 128
	size     int
	max      int
	changed  bool // the peer must still learn max

	// same is the header block of the last request without parts. Next to it is the number of
	// insertions into the table at that time: if nothing has entered it since, the block is valid
	// again.
	same   []byte
	sameOf *prepared
	sameAt int
}

// maxSame keeps a connection small: a longer block is built each time.
const maxSame = 512

func (e *encoder) reset() {
	clear(e.places)
	e.inserted, e.size, e.max, e.changed, e.sameOf = 0, 0, defaultTableSize, false, nil
}

// limit takes note of the peer's SETTINGS_HEADER_TABLE_SIZE. The table is emptied by
// lowering its size to 0 for a moment, which is always allowed; so nothing must be
// thrown out entry by entry.
func (e *encoder) limit(size uint32) {
	if n := int(min(size, maxEncoderTable)); n != e.max {
		clear(e.places)
		e.inserted, e.size, e.max, e.changed, e.sameOf = 0, 0, n, true, nil
	}
}

// append appends the header block of a request. Parts are as many as it has, and sound.
func (e *encoder) append(b []byte, p *prepared, parts [][]byte) []byte {
	if e.sameOf == p && e.sameAt == e.inserted {
		return append(b, e.same...)
	}
	start, inserted, resized := len(b), e.inserted, e.changed
	if e.changed {
		b = appendInteger(append(b, 0x20), e.max, 0x1f, 0x20)
		e.changed = false
	}
	part := 0
	for i := range p.pieces {
		switch c := &p.pieces[i]; c.kind {
		case fixed:
			b = append(b, c.bytes...)
		case repeated:
			if place := e.places[c.entry]; place != 0 {
				b = e.appendIndex(b, place, 0x7f, 0x80)
			} else if d := &e.dict.entries[c.entry]; e.insert(c.entry, d.size) {
				b = append(b, d.insert...)
			} else {
				b = append(b, d.whole...)
			}
		case varying:
			b = appendText(append(b, c.bytes...), parts[part])
			part++
		case varyingOf:
			if place := e.places[c.entry]; place != 0 {
				b = e.appendIndex(b, place, 0x0f, 0)
			} else if d := &e.dict.entries[c.entry]; e.insert(c.entry, d.size+len(parts[part])) {
				b = append(b, d.insert...)
			} else {
				b = append(b, d.whole...)
			}
			b = appendText(b, parts[part])
			part++
		case bodyLength:
			var digits [20]byte
			length := strconv.AppendInt(digits[:0], int64(len(parts[p.parts-1])), 10)
			b = appendText(append(b, c.bytes...), length)
		}
	}
	if p.parts == 0 && !resized && inserted == e.inserted && len(b)-start <= maxSame {
		e.same, e.sameOf, e.sameAt = append(e.same[:0], b[start:]...), p, inserted
	}
	return b
}

// insert tells whether an entry has room in the peer's table, and counts it if so.
func (e *encoder) insert(entry, size int) bool {
	if e.size+size > e.max {
		return false
	}
	e.size += size
	e.inserted++
	e.places[entry] = uint8(e.inserted)
	return true
}

// appendIndex appends the index of an entry of the peer's dynamic table.
func (e *encoder) appendIndex(b []byte, place uint8, mask, first byte) []byte {
	index := len(staticTable) + 1 + e.inserted - int(place)
	if index < int(mask) {
		return append(b, first|byte(index))
	}
	return appendInteger(b, index, mask, first)
}

// appendInteger appends n in the bits of mask that follow first (RFC 7541, section 5.1).
func appendInteger(b []byte, n int, mask, first byte) []byte {
	if n < int(mask) {
		return append(b, first|byte(n))
	}
	b = append(b, first|mask)
	for n -= int(mask); n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

// appendName appends the start of a literal: the index of its name, or the name.
func appendName(b []byte, index int, name string, mask, first byte) []byte {
	b = appendInteger(b, index, mask, first)
	if index == 0 {
		b = appendText(b, name)
	}
	return b
}

// appendText appends a string literal, encoded if that is shorter (RFC 7541, section
// 5.2).
func appendText[T string | []byte](b []byte, s T) []byte {
	if n := huffmanLen(s); n < len(s) {
		return appendHuffman(appendInteger(b, n, 0x7f, 0x80), s)
	}
	return append(appendInteger(b, len(s), 0x7f, 0), s...)
}

// check tells what is wrong with the parts that a request is given.
func (p *prepared) check(parts [][]byte) *wire.Error {
	if len(parts) != p.parts {
		return ErrParts
	}
	if len(parts) == 0 {
		return nil
	}
	if p.request.VariesTarget {
		if !isPath(parts[0]) {
			return ErrPath
		}
		parts = parts[1:]
	}
	if p.request.VariesBody {
		parts = parts[:len(parts)-1]
	}
	for _, v := range parts {
		if !isSendable(v) {
			return ErrValue
		}
	}
	return nil
}

// maxRequestHeader bounds the fields of a request. So a mistake in a plan is found before it is sent.
const maxRequestHeader = 256 << 10

// maxInteger is the largest encoded length of an integer: an index, the length of a string or a table's
// size.
const maxInteger = 6

// measure finds out how large the header block can get.
func (p *prepared) measure(d *dictionary) error {
	p.size = 2 * maxInteger // to say that the table's size has changed
	for _, c := range p.pieces {
		p.size += len(c.bytes) + 2*maxInteger
		if c.kind == repeated || c.kind == varyingOf {
			p.size += len(d.entries[c.entry].whole)
		}
	}
	p.size += 20 // the digits of a length
	if p.size > maxRequestHeader {
		return fmt.Errorf("header of %d bytes: want at most %d", p.size, maxRequestHeader)
	}
	return nil
}
