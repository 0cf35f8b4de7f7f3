package http2

import (
	"encoding/binary"
	"math"

	"dyno/load/wire"
)

// A section is the meaning of one header block: all that its stream depends on. It
// follows from the block and, when it is stateful, from the dynamic table.
type section struct {
	t        *Template
	length   int64       // content-length; -1 without
	size     int64       // of the list, as RFC 9113, section 6.5.2 counts it
	fault    *wire.Error // the first thing that makes the response malformed
	added    int         // fields that entered the dynamic table
	status   int16       // 0 without
	codings  wire.Codings
	regular  bool // there was a regular field
	pseudo   bool // there was a pseudo-header field
	stateful bool // the block used the dynamic table, or did more to it than add fields
}

// A fieldKind says what a name means to the protocol.
type fieldKind uint8

const (
	otherField fieldKind = iota
	statusField
	pseudoField     // a pseudo-header field that responses do not have
	lengthField     // content-length
	connectionField // of HTTP/1.1's connections (RFC 9113, section 8.2.2)
	teField
	codingField // content-encoding
)

// A nameInfo describes a name.
type nameInfo struct {
	kind   fieldKind
	wanted uint8       // the number of the wanted field plus 1; 0 for others
	fault  *wire.Error // what is wrong with the name
}

// maxWanted is the number of names that can be asked for.
const maxWanted = 64

// names maps names to their meaning, starting with the static table's.
type names struct {
	wanted []string
	static [len(staticTable) + 1]nameInfo
	texts  [len(staticTable) + 1][]byte
}

func newNames(wanted []string) names {
	ns := names{wanted: wanted}
	for i, p := range staticTable {
		ns.texts[i+1] = []byte(p.name)
		ns.static[i+1] = ns.classify(ns.texts[i+1])
	}
	return ns
}

// classify finds out about a name.
func (ns *names) classify(name []byte) (info nameInfo) {
	switch len(name) {
	case len("te"):
		if string(name) == "te" {
			info.kind = teField
		}
	case len(":status"), len("connection"), len("content-length"), len("content-encoding"), len("transfer-encoding"):
		switch string(name) {
		case ":status":
			info.kind = statusField
		case "content-length":
			info.kind = lengthField
		case "content-encoding":
			info.kind = codingField
		case "upgrade", "connection", "keep-alive", "proxy-connection", "transfer-encoding":
			info.kind = connectionField
		}
	}
	for i, w := range ns.wanted {
		if string(name) == w {
			info.wanted = uint8(i + 1)
		}
	}
	if info.kind == otherField && len(name) > 0 && name[0] == ':' {
		info.kind = pseudoField
	}
	if info.kind <= pseudoField && info.kind != statusField {
		info.fault = nameFault(name)
	}
	return info
}

// nameFault tells what is wrong with a name (RFC 9113, section 8.2.1).
func nameFault(name []byte) *wire.Error {
	if len(name) == 0 {
		return ErrFieldName
	}
	for i, b := range name {
		switch {
		case b-'A' < 26:
			return ErrFieldNameCase
		case b <= ' ', b >= 0x7f, b == ':' && i > 0:
			return ErrFieldName
		}
	}
	return nil
}

// isValue tells whether v may be a field's value (RFC 9113, section 8.2.1): without
// NUL, CR or LF, and without a space at either end.
func isValue(v []byte) bool {
	if len(v) == 0 {
		return true
	}
	if isSpace(v[0]) || isSpace(v[len(v)-1]) {
		return false
	}
	for len(v) >= 8 {
		// A byte below 0x10 makes the highest bit of its place change when 0x10 is
		// subtracted from it. A borrow can start at such a byte only.
		const ones, tops = 0x0101010101010101, 0x8080808080808080
		word := binary.LittleEndian.Uint64(v)
		if (word-ones*0x10)&^word&tops != 0 && !allValue(v[:8]) {
			return false
		}
		v = v[8:]
	}
	return allValue(v)
}

func allValue(v []byte) bool {
	for _, b := range v {
		if b <= '\r' && (b == 0 || b == '\n' || b == '\r') {
			return false
		}
	}
	return true
}

func isSpace(b byte) bool { return b == ' ' || b == '\t' }

// staticStatus holds the statuses of the static table.
var staticStatus = [...]int16{8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500}

// static adds a field of the static table.
func (s *section) static(index int) {
	if index < len(staticStatus) && staticStatus[index] != 0 && s.status == 0 && !s.regular && s.t.names.static[index].wanted == 0 {
		s.status, s.pseudo = staticStatus[index], true
		s.size += int64(len(":status200") + entryOverhead)
		return
	}
	value := staticTable[index-1].value
	s.t.value = append(s.t.value[:0], value...)
	s.add(len(staticTable[index-1].name), s.t.value, s.t.names.static[index], nil)
}

// add adds a field. Value need not outlive the call.
func (s *section) add(nameLen int, value []byte, info nameInfo, fault *wire.Error) {
	s.size += int64(nameLen + len(value) + entryOverhead)
	if fault != nil {
		s.reject(fault)
	}
	switch info.kind {
	case statusField:
		switch {
		case s.regular:
			s.reject(ErrPseudoOrder)
		case s.status != 0:
			s.reject(ErrStatusTwice)
		}
		s.pseudo = true
		s.status = s.readStatus(value)
	case pseudoField:
		s.pseudo = true
		s.reject(ErrPseudo)
	case lengthField:
		s.regular = true
		s.readLength(value)
	case connectionField:
		s.regular = true
		s.reject(ErrConnectionField)
	case teField:
		s.regular = true
		if string(value) != "trailers" {
			s.reject(ErrConnectionField)
		}
	case codingField:
		s.regular = true
		s.codings = s.codings.Add(value)
	default:
		s.regular = true
	}
	if info.wanted != 0 && s.size <= s.t.maxHeader {
		s.t.keep(int(info.wanted-1), value)
	}
}

// malformed tells what is wrong with a section where it came on its stream.
func (s *section) malformed(on *stream, end bool) *wire.Error {
	switch trailers := on.state&hasHead != 0; {
	case s.fault != nil:
		return s.fault
	case trailers && s.pseudo:
		return ErrPseudoTrailer
	case trailers && !end:
		return ErrTrailerEnd
	case trailers:
		return nil
	case s.status == 0:
		return ErrNoStatus
	case s.status == 101:
		return ErrSwitching
	case s.status < 200 && end:
		return ErrInformationalEnd
	default:
		return nil
	}
}

// reject notes the first fault that makes the response malformed.
func (s *section) reject(fault *wire.Error) {
	if s.fault == nil {
		s.fault = fault
	}
}

func (s *section) readStatus(v []byte) int16 {
	if len(v) != 3 || v[0]-'1' > 8 || v[1]-'0' > 9 || v[2]-'0' > 9 {
		s.reject(ErrStatus)
		return 0
	}
	return int16(v[0]-'0')*100 + int16(v[1]-'0')*10 + int16(v[2]-'0')
}

// readLength accepts the same number several times, as RFC 9110, section 8.6 allows.
func (s *section) readLength(digits []byte) {
	n := int64(0)
	for _, b := range digits {
		d := int64(b) - '0'
		if d < 0 || d > 9 || n > (math.MaxInt64-d)/10 {
			s.reject(ErrContentLength)
			return
		}
		n = n*10 + d
	}
	switch {
	case len(digits) == 0:
		s.reject(ErrContentLength)
	case s.length >= 0 && s.length != n:
		s.reject(ErrContentLengths)
	default:
		s.length = n
	}
}

// A memo is a block that arrived, and its meaning. A server repeats itself until its
// date changes, and comparing bytes takes a fraction of the time of decoding them. It
// cannot change an outcome: only blocks are remembered that do not use the dynamic table,
// so that their meaning follows from their bytes alone. The fields that a block adds to the
// table are in the memo: a decoder adds them when the table is next needed.
type memo struct {
	block   []byte
	section section
	fields  []wire.MuxField
	data    []byte // the fields' values

	adds     []entry // in texts
	texts    []byte
	size     int // of adds
	decoders int // those for which adds wait
}

const (
	memos        = 8 // by a hash of the block, for as many kinds of responses
	minMemoBlock = 8
	maxMemoBlock = 2 << 10
)

// memo returns the place of a block among the memos.
func (t *Template) memo(block []byte) **memo {
	first := binary.LittleEndian.Uint64(block)
	last := binary.LittleEndian.Uint64(block[len(block)-8:])
	hash := (first ^ last<<1 ^ uint64(len(block))) * 0x9e3779b97f4a7c15
	return &t.memos[hash>>61]
}

// read returns the meaning of a header block, and puts its wanted fields into t.fields.
// Every block that arrives must be read, or the table is out of step.
func (d *decoder) read(block []byte, t *Template) (*section, *wire.Error) {
	var place **memo
	if len(block) >= minMemoBlock && len(block) <= maxMemoBlock && !t.memoOff {
		place = t.memo(block)
		if m := *place; m != nil && string(m.block) == string(block) {
			d.deferAdds(m)
			t.fields = m.fields
			return &m.section, nil
		}
	}
	d.applyDeferred()
	s := &t.section
	*s = section{t: t, length: -1}
	t.kept, t.keptData = t.kept[:0], t.keptData[:0]
	if err := d.decode(block, s); err != nil {
		return nil, err
	}
	if s.size > t.maxHeader {
		s.reject(ErrHeaderListTooLarge)
	}
	t.fields = t.list(t.ownFields[:0], t.keptData)
	t.ownFields = t.fields
	if place != nil && !s.stateful && s.added <= d.count {
		if *place == nil || (*place).decoders > 0 {
			*place = &memo{} // the old one is still needed: once for each date
		}
		m := *place
		m.block = append(m.block[:0], block...)
		m.section = *s
		m.data = append(m.data[:0], t.keptData...)
		m.fields = t.list(m.fields[:0], m.data)
		m.adds, m.texts, m.size = m.adds[:0], m.texts[:0], 0
		for age := s.added; age > 0; age-- {
			e := d.youngest(age)
			m.texts, m.size = append(m.texts, d.text(e)...), m.size+e.size()
			m.adds = append(m.adds, *e)
		}
	}
	return s, nil
}

// deferAdds notes that a memo's fields are to be added to the table, once more if they wait already.
func (d *decoder) deferAdds(m *memo) {
	if len(m.adds) == 0 {
		return
	}
	if d.deferred != m {
		d.applyDeferred()
		d.deferred = m
		m.decoders++
	}
	d.times++
}

// applyDeferred adds the fields that wait. Repeating them more often than the table has room for changes nothing.
func (d *decoder) applyDeferred() {
	m := d.deferred
	if m == nil {
		return
	}
	for range min(d.times, d.max/m.size+1) {
		texts := m.texts
		for i := range m.adds {
			e := &m.adds[i]
			d.insert(texts[:e.name], texts[e.name:][:e.value], e.info, e.fault)
			texts = texts[e.name+e.value:]
		}
	}
	d.dropDeferred()
}

// dropDeferred forgets the fields that wait.
func (d *decoder) dropDeferred() {
	if d.deferred != nil {
		d.deferred.decoders--
		d.deferred, d.times = nil, 0
	}
}

// A keptField is a wanted field of the section that is being read: where in keptData
// its value is.
type keptField struct{ name, from, to int }

func (t *Template) keep(name int, value []byte) {
	from := len(t.keptData)
	t.keptData = append(t.keptData, value...)
	t.kept = append(t.kept, keptField{name, from, len(t.keptData)})
}

// list appends the wanted fields, whose values are in data.
func (t *Template) list(to []wire.MuxField, data []byte) []wire.MuxField {
	for _, k := range t.kept {
		to = append(to, wire.MuxField{Name: k.name, Value: data[k.from:k.to:k.to]})
	}
	return to
}
