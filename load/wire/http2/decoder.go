package http2

import "dyno/load/wire"

// A decoder reads the header blocks of one connection (RFC 7541). Its dynamic table
// grows as it is needed, up to the size that it has by default.
type decoder struct {
	entries []entry // a ring, its length a power of two
	oldest  int     // where in the ring the oldest entry is
	count   int

	// data holds the entries' names and values in the order in which they came. Space before the oldest
	// entry's is free; it is moved together when data is full.
	data []byte

	size int // of all entries, as RFC 7541, section 4.1 counts them
	max  int // what the peer has chosen, defaultTableSize at most

	deferred *memo // its fields are yet to be added, as often as times
	times    int
}

// An entry is one field in the dynamic table.
type entry struct {
	at    uint32 // where in data its name begins
	name  uint32 // its length
	value uint32 // its length
	info  nameInfo
	fault *wire.Error // what is wrong with the field
}

func (e *entry) size() int { return int(e.name+e.value) + entryOverhead }

// reset empties the table for another connection. It keeps its memory.
func (d *decoder) reset() {
	d.dropDeferred()
	*d = decoder{entries: d.entries, data: d.data[:0], max: defaultTableSize}
}

// decode reads a whole header block into s. An error means that the table is out of step from now on.
// Faults of one field are s's.
func (d *decoder) decode(b []byte, s *section) *wire.Error {
	i := 0
	for i < len(b) && b[i]&0xe0 == 0x20 {
		size, next, err := integer(b, i, 0x1f)
		if err != nil {
			return err
		}
		if size > defaultTableSize {
			return ErrTableSize
		}
		i = next
		d.max = size
		d.shrink(size)
		s.stateful = true
	}
	for i < len(b) {
		var (
			index int
			mask  byte
			err   *wire.Error
		)
		switch x := b[i]; {
		case x >= 0x80: // indexed
			if index, i, err = integer(b, i, 0x7f); err != nil {
				return err
			}
			if index-1 < len(staticTable) && index > 0 {
				s.static(index)
				continue
			}
			e, err := d.entry(index)
			if err != nil {
				return err
			}
			s.stateful = true
			s.add(int(e.name), d.text(e)[e.name:], e.info, e.fault)
			continue
		case x >= 0x40: // literal that enters the table
			mask = 0x3f
		case x >= 0x20:
			return ErrTableUpdate
		default: // literal that does not, be it never to be indexed
			mask = 0x0f
		}
		enters := mask == 0x3f
		if index, i, err = integer(b, i, mask); err != nil {
			return err
		}
		var (
			name []byte
			info nameInfo
		)
		t := s.t
		switch {
		case index == 0:
			if name, i, err = text(b, i, &t.name); err != nil {
				return err
			}
			info = t.names.classify(name)
		case index <= len(staticTable):
			name, info = t.names.texts[index], t.names.static[index]
		default:
			e, err := d.entry(index)
			if err != nil {
				return err
			}
			s.stateful = true
			name, info = d.data[e.at:][:e.name], e.info
			if enters { // the table may throw it out, or move it, on behalf of this very field
				t.name = append(t.name[:0], name...)
				name = t.name
			}
		}
		var value []byte
		if value, i, err = text(b, i, &t.value); err != nil {
			return err
		}
		fault := info.fault
		if fault == nil && !isValue(value) {
			fault = ErrFieldValue
		}
		if enters {
			s.added++
			s.stateful = s.stateful || len(name)+len(value)+entryOverhead > d.max // which empties it
			d.insert(name, value, info, fault)
		}
		s.add(len(name), value, info, fault)
	}
	return nil
}

// entry returns the entry of the dynamic table that has an index (RFC 7541, section
// 2.3.3).
func (d *decoder) entry(index int) (*entry, *wire.Error) {
	switch age := index - len(staticTable); {
	case index == 0:
		return nil, ErrIndexZero
	case age > d.count:
		return nil, ErrIndex
	default:
		return d.youngest(age), nil
	}
}

// youngest returns the entry of an age: 1 is the youngest.
func (d *decoder) youngest(age int) *entry {
	return &d.entries[(d.oldest+d.count-age)&(len(d.entries)-1)]
}

// text returns an entry's name and value.
func (d *decoder) text(e *entry) []byte { return d.data[e.at:][:e.name+e.value] }

// insert puts a field into the table, for which the oldest ones may have to leave. One
// that is larger than the table only empties it (RFC 7541, section 4.4).
func (d *decoder) insert(name, value []byte, info nameInfo, fault *wire.Error) {
	size := len(name) + len(value) + entryOverhead
	if size > d.max {
		d.shrink(0)
		return
	}
	d.shrink(d.max - size)
	if d.count == len(d.entries) {
		d.growEntries()
	}
	if len(d.data)+len(name)+len(value) > cap(d.data) {
		d.makeRoom(len(name) + len(value))
	}
	e := &d.entries[(d.oldest+d.count)&(len(d.entries)-1)]
	*e = entry{uint32(len(d.data)), uint32(len(name)), uint32(len(value)), info, fault}
	d.data = append(append(d.data, name...), value...)
	d.count++
	d.size += size
}

// shrink throws out the oldest entries until the others fit.
func (d *decoder) shrink(size int) {
	for d.size > size {
		d.size -= d.entries[d.oldest].size()
		d.oldest = (d.oldest + 1) & (len(d.entries) - 1)
		d.count--
	}
	if d.count == 0 {
		d.data = d.data[:0]
	}
}

func (d *decoder) growEntries() {
	larger := make([]entry, max(8, 2*len(d.entries)))
	for i := range d.count {
		larger[i] = d.entries[(d.oldest+i)&(len(d.entries)-1)]
	}
	d.entries, d.oldest = larger, 0
}

// makeRoom moves the entries' data together, into more memory if need be: at most
// twice the table's size, so that moving costs little for each byte that comes.
func (d *decoder) makeRoom(n int) {
	start := len(d.data)
	if d.count > 0 {
		start = int(d.entries[d.oldest].at)
	}
	live := d.data[start:]
	to := d.data[:0]
	if 2*(len(live)+n) > cap(d.data) {
		to = make([]byte, 0, max(256, 2*cap(d.data), 2*(len(live)+n)))
	}
	d.data = append(to, live...)
	for i := range d.count {
		d.entries[(d.oldest+i)&(len(d.entries)-1)].at -= uint32(start)
	}
}

// integer reads the integer that starts in the bits of mask of b[i] (RFC 7541, section
// 5.1). Beyond 28 bits there is nothing that could be in order.
func integer(b []byte, i int, mask byte) (n, next int, err *wire.Error) {
	n = int(b[i] & mask)
	i++
	if n < int(mask) {
		return n, i, nil
	}
	for shift := 0; ; shift += 7 {
		switch {
		case shift >= 28:
			return 0, i, ErrInteger
		case i == len(b):
			return 0, i, ErrTruncated
		}
		n += int(b[i]&0x7f) << shift
		i++
		if b[i-1] < 0x80 {
			return n, i, nil
		}
	}
}

// text reads the string literal at b[i] (RFC 7541, section 5.2). Its result is in b or, when it was
// encoded, in scratch.
func text(b []byte, i int, scratch *[]byte) (s []byte, next int, err *wire.Error) {
	if i == len(b) {
		return nil, i, ErrTruncated
	}
	encoded := b[i]&0x80 != 0
	n, i, err := integer(b, i, 0x7f)
	if err != nil {
		return nil, i, err
	}
	if n > len(b)-i {
		return nil, i, ErrTruncated
	}
	s = b[i : i+n]
	if encoded {
		*scratch, err = appendUnhuffman((*scratch)[:0], s)
		s = *scratch
	}
	return s, i + n, err
}
