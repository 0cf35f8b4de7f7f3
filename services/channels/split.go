package channels

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// errOversize means that a record is longer than allowed. The splitter skips the rest of
// it.
var errOversize = errors.New("record longer than max_record_bytes")

// A splitter cuts the bytes of one source into records. It holds at most one
// incomplete record.
type splitter struct {
	lengths bool // framing by length instead of newlines
	max     int  // length of a record in bytes

	partial  []byte // the incomplete record so far, with its length prefix
	skipLine bool   // skip until the next newline
	skip     int64  // bytes to skip
}

// next consumes bytes of p, which is not empty, until a record is complete or p
// is used up. The record is a copy.
func (s *splitter) next(p []byte) (record []byte, used int, ok bool, err error) {
	if s.lengths {
		return s.nextByLength(p)
	}
	end := bytes.IndexByte(p, '\n')
	if s.skipLine {
		if end < 0 {
			return nil, len(p), false, nil
		}
		s.skipLine = false
		return nil, end + 1, false, nil
	}
	line, used := p, len(p)
	if end >= 0 {
		line, used = p[:end], end+1
	}
	if len(s.partial)+len(line) > s.max {
		s.partial, s.skipLine = nil, end < 0
		return nil, used, false, errOversize
	}
	s.partial = append(s.partial, line...)
	if end < 0 {
		return nil, used, false, nil
	}
	return s.take(0), used, true, nil
}

func (s *splitter) nextByLength(p []byte) (record []byte, used int, ok bool, err error) {
	if s.skip > 0 {
		n := min(s.skip, int64(len(p)))
		s.skip -= n
		return nil, int(n), false, nil
	}
	if n := 4 - len(s.partial); n > 0 {
		used = min(n, len(p))
		s.partial = append(s.partial, p[:used]...)
		if used < n {
			return nil, used, false, nil
		}
	}
	length := int64(binary.BigEndian.Uint32(s.partial))
	if length > int64(s.max) {
		s.partial, s.skip = nil, length
		return nil, used, false, errOversize
	}
	n := min(4+int(length)-len(s.partial), len(p)-used)
	s.partial = append(s.partial, p[used:used+n]...)
	used += n
	if len(s.partial) < 4+int(length) {
		return nil, used, false, nil
	}
	return s.take(4), used, true, nil
}

func (s *splitter) take(from int) []byte {
	record := make([]byte, len(s.partial)-from)
	copy(record, s.partial[from:])
	s.partial = s.partial[:0]
	if cap(s.partial) > 64<<10 {
		s.partial = nil // one long record must not keep its memory permanently
	}
	return record
}

// end returns what is left at the end of the bytes, and forgets it: a last line without
// newline (ok), or an incomplete record (torn).
func (s *splitter) end() (line []byte, ok, torn bool) {
	left := len(s.partial) > 0
	ok = left && !s.lengths
	torn = left && s.lengths || s.skip > 0
	if ok {
		line = s.take(0)
	}
	s.partial, s.skipLine, s.skip = nil, false, 0
	return line, ok, torn
}
