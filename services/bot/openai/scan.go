package openai

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// maxNesting bounds how deep values may be nested.
const maxNesting = 1000

// A scanner reads a JSON value (RFC 8259) in one pass, without reflection. Its methods return false for what is not JSON, and for
// a value of another kind than they read.
type scanner struct {
	b     []byte
	at    int
	depth int
}

func (s *scanner) blanks() {
	for s.at < len(s.b) && (s.b[s.at] == ' ' || s.b[s.at] == '\n' || s.b[s.at] == '\t' || s.b[s.at] == '\r') {
		s.at++
	}
}

// next reads the byte c, after blanks.
func (s *scanner) next(c byte) bool {
	s.blanks()
	if s.at == len(s.b) || s.b[s.at] != c {
		return false
	}
	s.at++
	return true
}

// end reports whether only blanks are left.
func (s *scanner) end() bool {
	s.blanks()
	return s.at == len(s.b)
}

// list reads a list between two brackets: any number of items, separated by commas.
func (s *scanner) list(begin, end byte, item func() bool) bool {
	if s.depth == maxNesting || !s.next(begin) {
		return false
	}
	s.depth++
	defer func() { s.depth-- }()
	if s.next(end) {
		return true
	}
	for {
		if !item() {
			return false
		}
		if s.next(end) {
			return true
		}
		if !s.next(',') {
			return false
		}
	}
}

func (s *scanner) array(item func() bool) bool { return s.list('[', ']', item) }

// elements reads an array; value reads each element, i counts them.
func (s *scanner) elements(value func(i int) bool) bool {
	i := -1
	return s.array(func() bool {
		i++
		return value(i)
	})
}

// fields reads an object; value reads the value of each field.
func (s *scanner) fields(value func(name []byte) bool) bool {
	return s.list('{', '}', func() bool {
		s.blanks()
		begin := s.at
		name, plain, ok := s.quoted()
		if ok && !plain {
			var meant string
			meant, ok = decoded(s.b[begin:s.at])
			name = []byte(meant)
		}
		return ok && s.next(':') && value(name)
	})
}

// object reads an object, or null.
func (s *scanner) object(value func(name []byte) bool) bool { return s.null() || s.fields(value) }

// sees returns the first byte of the next value; 0 is the end.
func (s *scanner) sees() byte {
	s.blanks()
	if s.at == len(s.b) {
		return 0
	}
	return s.b[s.at]
}

// value reads any value, and returns its JSON.
func (s *scanner) value() ([]byte, bool) {
	s.blanks()
	begin := s.at
	ok := s.skip()
	return s.b[begin:s.at], ok
}

// quoted reads a string, and returns the text between its quotes; plain reports that it has no escapes.
func (s *scanner) quoted() (text []byte, plain, ok bool) {
	s.blanks()
	if s.at == len(s.b) || s.b[s.at] != '"' {
		return nil, false, false
	}
	s.at++
	begin := s.at
	plain = true
	for s.at < len(s.b) {
		switch c := s.b[s.at]; {
		case c == '"':
			s.at++
			return s.b[begin : s.at-1], plain, true
		case c < ' ':
			return nil, false, false
		case c == '\\':
			plain = false
			if s.at++; s.at == len(s.b) || !s.escape() {
				return nil, false, false
			}
		default:
			plain = plain && c < utf8.RuneSelf
		}
		s.at++
	}
	return nil, false, false
}

// escape reads an escape after its backslash, without its last byte.
func (s *scanner) escape() bool {
	if s.b[s.at] != 'u' {
		return bytes.IndexByte([]byte(`"\/bfnrt`), s.b[s.at]) >= 0
	}
	if s.at+4 >= len(s.b) {
		return false
	}
	for _, c := range s.b[s.at+1 : s.at+5] {
		if c-'0' >= 10 && c|0x20-'a' >= 6 {
			return false
		}
	}
	s.at += 4
	return true
}

// text reads a string, or null for "".
func (s *scanner) text() (string, bool) {
	if s.null() {
		return "", true
	}
	s.blanks()
	begin := s.at
	text, plain, ok := s.quoted()
	if !ok || plain {
		return string(text), ok
	}
	return decoded(s.b[begin:s.at])
}

// decoded returns what a string with escapes, or with bytes beyond ASCII, means.
func decoded(quoted []byte) (meant string, ok bool) {
	err := json.Unmarshal(quoted, &meant)
	return meant, err == nil
}

// stringValue reads any value, and returns it if it is a text.
func (s *scanner) stringValue() (string, bool) {
	if s.sees() != '"' {
		return "", s.skip()
	}
	return s.text()
}

// textValue returns a value that is a text; "" for another.
func textValue(value []byte) string {
	s := scanner{b: value}
	text, _ := s.stringValue()
	return text
}

func (s *scanner) null() bool { return s.word("null") }

func (s *scanner) word(w string) bool {
	s.blanks()
	if len(s.b)-s.at < len(w) || string(s.b[s.at:s.at+len(w)]) != w {
		return false
	}
	s.at += len(w)
	return true
}

// number reads any value; other than a whole number it counts as 0.
func (s *scanner) number() (n int, ok bool) {
	value, ok := s.value()
	n, _ = whole(value)
	return n, ok
}

// skip reads any value.
func (s *scanner) skip() bool {
	s.blanks()
	if s.at == len(s.b) {
		return false
	}
	switch c := s.b[s.at]; c {
	case '"':
		_, _, ok := s.quoted()
		return ok
	case '{':
		return s.list('{', '}', func() bool {
			_, _, ok := s.quoted()
			return ok && s.next(':') && s.skip()
		})
	case '[':
		return s.array(s.skip)
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	default:
		return s.anyNumber()
	}
}

// anyNumber reads a number.
func (s *scanner) anyNumber() bool {
	digits := func() bool {
		begin := s.at
		for s.at < len(s.b) && s.b[s.at]-'0' < 10 {
			s.at++
		}
		return s.at > begin
	}
	is := func(set string) bool {
		if s.at < len(s.b) && bytes.IndexByte([]byte(set), s.b[s.at]) >= 0 {
			s.at++
			return true
		}
		return false
	}
	is("-")
	if !is("0") && !digits() {
		return false
	}
	if is(".") && !digits() {
		return false
	}
	if is("eE") {
		is("+-")
		return digits()
	}
	return true
}
