package openai

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// Most messages of upstreams have one form. This file reads them in one pass, without reflection, at a fraction of
// the cost. For any other form the functions return false, and encoding/json reads it. Both always agree.

// scanEvent reads an event of /v1/chat/completions into v, which is empty.
func scanEvent(data []byte, v *Event) bool {
	s := scanner{b: data}
	var choices, used bool
	complete := s.object(func(key []byte) bool {
		switch string(key) {
		case "choices":
			if choices {
				return false // a second one is merged with the first
			}
			choices = true
			return s.array(func() bool { return s.delta(v) })
		case "usage":
			if used {
				return false
			}
			used = true
			usage, ok := s.usage()
			v.Usage = usage
			return ok
		case "error", "message", "detail":
			return s.null()
		}
		return s.skip()
	})
	if !complete || !s.end() {
		*v = Event{Deltas: v.Deltas[:0], Ended: v.Ended[:0]}
		return false
	}
	v.UsageOnly = v.Usage != nil && s.elements == 0
	return true
}

// delta reads a choice of an event.
func (s *scanner) delta(v *Event) bool {
	s.elements++
	var d Delta
	var ended bool
	var aside lengths
	var seen seen
	ok := s.object(func(key []byte) bool {
		switch string(key) {
		case "index":
			return seen.first(0) && s.number(&d.Choice)
		case "finish_reason":
			text, ok := s.text()
			ended = text != ""
			return seen.first(1) && ok
		case "delta":
			return seen.first(2) && s.object(func(key []byte) bool {
				switch string(key) {
				case "content":
					var ok bool
					d.Text, ok = s.text()
					return seen.first(3) && ok
				case "tool_calls":
					return s.null()
				}
				return s.aside(key, &aside)
			})
		}
		return s.skip()
	})
	v.Bytes += aside.bytes()
	if d.Text != "" {
		v.Deltas = append(v.Deltas, d)
		v.Bytes += textBytes(d.Text)
	}
	if ended {
		v.Ended = append(v.Ended, d.Choice)
	}
	return ok
}

// scanReply reads a whole answer of /v1/chat/completions.
func scanReply(body []byte) (r Reply, ok bool) {
	s := scanner{b: body}
	var seen seen
	ok = s.object(func(key []byte) bool {
		switch string(key) {
		case "choices":
			return seen.first(0) && s.array(func() bool { return s.message(&r) })
		case "usage":
			var ok bool
			r.Usage, ok = s.usage()
			return seen.first(1) && ok
		}
		return s.skip()
	})
	if !ok || !s.end() || s.elements == 0 {
		return Reply{}, false
	}
	return r, true
}

// message reads a choice of a reply.
func (s *scanner) message(r *Reply) bool {
	first := s.elements == 0
	s.elements++
	var seen seen
	return s.object(func(key []byte) bool {
		if string(key) != "message" {
			return s.skip()
		}
		var aside lengths
		ok := seen.first(0) && s.object(func(key []byte) bool {
			switch string(key) {
			case "content":
				text, ok := s.text()
				if first {
					r.Text = text
				}
				r.Bytes += textBytes(text)
				return seen.first(1) && ok
			case "tool_calls":
				return s.null()
			}
			return s.aside(key, &aside)
		})
		r.Bytes += aside.bytes()
		return ok
	})
}

// lengths has the lengths of the fields of aside.
type lengths struct {
	reasoning, refusal int
	seen               seen
}

func (d *lengths) bytes() int { return d.reasoning + d.refusal }

// aside reads the value of a field other than content, and notes its length.
func (s *scanner) aside(key []byte, to *lengths) bool {
	switch string(key) {
	case "reasoning_content":
		return to.seen.first(0) && s.count(&to.reasoning)
	case "reasoning":
		return to.seen.first(1) && s.count(&to.reasoning)
	case "refusal":
		return to.seen.first(2) && s.count(&to.refusal)
	}
	return s.skip()
}

// count reads any value, and notes the length of a text if it is the longest so far.
func (s *scanner) count(longest *int) bool {
	s.blanks()
	if s.at == len(s.b) || s.b[s.at] != '"' {
		return s.skip()
	}
	text, ok := s.text()
	*longest = max(*longest, textBytes(text))
	return ok
}

// usage reads a usage, or null.
func (s *scanner) usage() (*Usage, bool) {
	s.blanks()
	begin := s.at
	if s.null() {
		return nil, true
	}
	if !s.skip() {
		return nil, false
	}
	u := usageOf(s.b[begin:s.at])
	return u, u != nil
}

// seen is the set of an object's fields so far.
type seen uint8

// first notes a field, and reports whether it is new.
func (s *seen) first(bit int) bool {
	was := *s
	*s |= 1 << bit
	return *s != was
}

// maxNesting bounds how deep values may be nested.
const maxNesting = 100

// A scanner reads a JSON value (RFC 8259). Its methods return false for forms that encoding/json has to read.
type scanner struct {
	b        []byte
	at       int
	depth    int
	elements int // of the list that matters
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

// object reads an object; value reads the value of each field. Names with capitals are left to encoding/json, which
// ignores case.
func (s *scanner) object(value func(key []byte) bool) bool {
	return s.list('{', '}', func() bool {
		key, plain, ok := s.quoted()
		if !ok || !plain || !s.next(':') {
			return false
		}
		for _, c := range key {
			if c-'A' < 26 || c >= utf8.RuneSelf {
				return false
			}
		}
		return value(key)
	})
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
	var meant string
	err := json.Unmarshal(s.b[begin:s.at], &meant)
	return meant, err == nil
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

// number reads a whole number from 0 to maxCount.
func (s *scanner) number(to *int) bool {
	s.blanks()
	begin, n := s.at, 0
	for s.at < len(s.b) && s.b[s.at]-'0' < 10 {
		n = 10*n + int(s.b[s.at]-'0')
		if s.at++; n > maxCount {
			return false
		}
	}
	if s.at == begin || s.b[begin] == '0' && s.at > begin+1 || s.at < len(s.b) && bytes.IndexByte([]byte(".eE"), s.b[s.at]) >= 0 {
		return false
	}
	*to = n
	return true
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
