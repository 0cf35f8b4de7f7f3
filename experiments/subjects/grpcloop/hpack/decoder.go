// Package hpack decodes header blocks (RFC 7541) for a server whose requests have the same few fields each time.
// The server looks a field up once, when the field enters a table. From then on its meaning is a number.
// Decoding allocates nothing once the tables have their sizes.
package hpack

import (
	"errors"

	"golang.org/x/net/http2/hpack"
)

// TableSize bounds the dynamic table of a connection, as RFC 7541 counts: the bytes of
// names and values, and 32 for each entry. It is the size that clients assume.
const TableSize = 4096

// overhead is what an entry counts in addition to its bytes (RFC 7541, section 4.1).
const overhead = 32

// statics is how many entries the static table has.
const statics = 61

// What is wrong with a block. The connection cannot go on after any of these, because
// both sides' tables may differ (RFC 9113, section 4.3).
var (
	errShort   = errors.New("hpack: the block ends within a field")
	errInteger = errors.New("hpack: an integer is too large")
	errIndex   = errors.New("hpack: an index is outside the tables")
	errHuffman = errors.New("hpack: a string is not a Huffman code")
	errUpdate  = errors.New("hpack: a table size is too large, or not at the beginning of the block")
)

// A Meaning is what a field means to the server.
type Meaning uint32

// A Sink takes the fields of a block, in order. Name and value are valid during the call.
type Sink interface {
	Field(m Meaning, name, value []byte)
}

// A Dictionary is what all connections of a loop share: the meanings of the static
// entries, and memory to decode strings into. It belongs to one goroutine.
type Dictionary struct {
	mean  func(name, value []byte) Meaning
	fixed [statics + 1]field
	name  text
	value text
}

type field struct {
	meaning     Meaning
	name, value []byte
}

// text is where a Huffman code is decoded to.
type text struct{ b []byte }

func (t *text) Write(b []byte) (int, error) {
	t.b = append(t.b, b...)
	return len(b), nil
}

// NewDictionary returns a dictionary of the fields' meanings. The function must not keep
// its arguments.
func NewDictionary(mean func(name, value []byte) Meaning) *Dictionary {
	d := &Dictionary{mean: mean}
	i := 1
	// The static table is in x/net's decoder, and comes out of it entry by entry.
	all := hpack.NewDecoder(TableSize, func(f hpack.HeaderField) {
		name, value := []byte(f.Name), []byte(f.Value)
		d.fixed[i] = field{mean(name, value), name, value}
		i++
	})
	for i <= statics {
		if _, err := all.Write([]byte{0x80 | byte(i)}); err != nil {
			panic("hpack: x/net's decoder refuses an entry of the static table: " + err.Error())
		}
	}
	return d
}

// entry is a field in the dynamic table. Its bytes are in the arena.
type entry struct {
	meaning     Meaning
	at          uint32 // as a position in all bytes that ever were in the arena
	name, value uint16
}

func (e entry) size() int { return int(e.name) + int(e.value) + overhead }

// A Decoder is the state of one connection's client. Its zero value is ready when Init has
// given it a dictionary.
type Decoder struct {
	dictionary *Dictionary
	entries    []entry // a ring; its length is a power of two
	newest     int
	count      int
	size       int
	limit      int    // as the client set it
	arena      []byte // bytes of the entries, the oldest first
	base       uint32 // position of the arena's first byte
}

// Init prepares a decoder for a new connection.
func (d *Decoder) Init(dictionary *Dictionary) {
	*d = Decoder{dictionary: dictionary, limit: TableSize}
}

// Decode gives the fields of a block to the sink.
func (d *Decoder) Decode(block []byte, sink Sink) error {
	first := true
	for len(block) > 0 {
		b := block[0]
		switch {
		case b&0x80 != 0: // indexed
			i := int(b & 0x7f)
			if i == 0x7f {
				var err error
				if i, block, err = integer(block, 7); err != nil {
					return err
				}
			} else {
				block = block[1:]
			}
			if i-1 < statics && i > 0 {
				f := &d.dictionary.fixed[i]
				sink.Field(f.meaning, f.name, f.value)
				break
			}
			e, ok := d.entry(i)
			if !ok {
				return errIndex
			}
			name, value := d.bytes(e)
			sink.Field(e.meaning, name, value)
		case b&0xe0 == 0x20: // the table's size
			if !first {
				return errUpdate
			}
			n, rest, err := integer(block, 5)
			if err != nil {
				return err
			}
			if n > TableSize {
				return errUpdate
			}
			block = rest
			d.limit = n
			d.evict(0)
			continue // several may follow each other
		default:
			bits := uint(4) // without indexing, or never indexed
			if b&0x40 != 0 {
				bits = 6
			}
			rest, err := d.literal(block, bits, sink)
			if err != nil {
				return err
			}
			block = rest
		}
		first = false
	}
	return nil
}

// literal decodes a field that is spelled out, and keeps it if it has a 6-bit index.
func (d *Decoder) literal(block []byte, bits uint, sink Sink) ([]byte, error) {
	i, block, err := integer(block, bits)
	if err != nil {
		return nil, err
	}
	var name []byte
	switch {
	case i == 0:
		if name, block, err = str(block, &d.dictionary.name); err != nil {
			return nil, err
		}
	case i <= statics:
		name = d.dictionary.fixed[i].name
	default:
		e, ok := d.entry(i)
		if !ok {
			return nil, errIndex
		}
		// The entry may have to go before the new one comes (RFC 7541, section 4.4).
		name, _ = d.bytes(e)
		d.dictionary.name.b = append(d.dictionary.name.b[:0], name...)
		name = d.dictionary.name.b
	}
	value, block, err := str(block, &d.dictionary.value)
	if err != nil {
		return nil, err
	}
	m := d.dictionary.mean(name, value)
	if bits == 6 {
		d.insert(m, name, value)
	}
	sink.Field(m, name, value)
	return block, nil
}

// entry returns the entry of an index above the static table.
func (d *Decoder) entry(i int) (entry, bool) {
	i -= statics + 1
	if i < 0 || i >= d.count {
		return entry{}, false
	}
	return d.entries[(d.newest-i)&(len(d.entries)-1)], true
}

func (d *Decoder) bytes(e entry) (name, value []byte) {
	at := e.at - d.base
	mid := at + uint32(e.name)
	end := mid + uint32(e.value)
	return d.arena[at:mid:mid], d.arena[mid:end:end]
}

// evict makes room for more bytes.
func (d *Decoder) evict(more int) {
	for d.count > 0 && d.size+more > d.limit {
		d.count--
		d.size -= d.entries[(d.newest-d.count)&(len(d.entries)-1)].size()
	}
}

func (d *Decoder) insert(m Meaning, name, value []byte) {
	size := len(name) + len(value) + overhead
	d.evict(size)
	if size > d.limit {
		return // the table is empty then, and that is no error
	}
	if d.count == len(d.entries) {
		grown := make([]entry, max(16, 2*len(d.entries)))
		for i := range d.count {
			grown[d.count-1-i] = d.entries[(d.newest-i)&(len(d.entries)-1)]
		}
		d.entries, d.newest = grown, d.count-1
	}
	length := len(name) + len(value)
	if len(d.arena)+length > cap(d.arena) {
		d.compact(length)
	}
	d.newest = (d.newest + 1) & (len(d.entries) - 1)
	d.entries[d.newest] = entry{m, d.base + uint32(len(d.arena)), uint16(len(name)), uint16(len(value))}
	d.arena = append(append(d.arena, name...), value...)
	d.count++
	d.size += size
}

// compact removes the bytes of entries that are gone. An arena of twice the size of what
// lives in it is compacted seldom.
func (d *Decoder) compact(more int) {
	oldest := d.base + uint32(len(d.arena))
	if d.count > 0 {
		oldest = d.entries[(d.newest-d.count+1)&(len(d.entries)-1)].at
	}
	live := d.arena[oldest-d.base:]
	if need := 2 * (len(live) + more); need > cap(d.arena) {
		d.arena = append(make([]byte, 0, need), live...)
	} else {
		d.arena = d.arena[:copy(d.arena[:cap(d.arena)], live)]
	}
	d.base = oldest
}

// integer decodes an integer whose first byte has n bits for it.
func integer(b []byte, bits uint) (int, []byte, error) {
	if len(b) == 0 {
		return 0, nil, errShort
	}
	n := int(b[0]) & (1<<bits - 1)
	b = b[1:]
	if n < 1<<bits-1 {
		return n, b, nil
	}
	for shift := 0; ; shift += 7 {
		if len(b) == 0 {
			return 0, nil, errShort
		}
		if shift > 21 {
			return 0, nil, errInteger
		}
		n += int(b[0]&0x7f) << shift
		if b[0]&0x80 == 0 {
			return n, b[1:], nil
		}
		b = b[1:]
	}
}

// str decodes a string: a part of the block itself, or decoded into the buffer.
func str(b []byte, into *text) (s, rest []byte, err error) {
	if len(b) == 0 {
		return nil, nil, errShort
	}
	huffman := b[0]&0x80 != 0
	n, b, err := integer(b, 7)
	if err != nil {
		return nil, nil, err
	}
	if n > len(b) {
		return nil, nil, errShort
	}
	if !huffman {
		return b[:n], b[n:], nil
	}
	into.b = into.b[:0]
	if _, err := hpack.HuffmanDecode(into, b[:n]); err != nil {
		return nil, nil, errHuffman
	}
	return into.b, b[n:], nil
}
