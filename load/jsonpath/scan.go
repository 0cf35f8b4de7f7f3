package jsonpath

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// MaxDepth is how deep arrays and objects may be nested in a document.
const MaxDepth = 1024

// A Result says what Find found.
type Result uint8

// The results.
const (
	Found     Result = iota
	Missing          // there is no such value
	Malformed        // the document is not JSON
)

// Find returns the value at the path as it stands in doc, without the blanks around it.
// It reads doc up to the end of that value and no further: what follows may be
// malformed, and so may bytes inside strings that are not UTF-8. It does not allocate.
func (p *Path) Find(doc []byte) (value []byte, result Result) {
	s := scan{doc: doc}
	i := s.blanks(0)
	for k := range p.steps {
		if i = s.step(i, &p.steps[k]); i < 0 {
			if s.problem == "" {
				return nil, Missing
			}
			return nil, Malformed
		}
	}
	end := s.value(i)
	if end < 0 {
		return nil, Malformed
	}
	return doc[i:end], Found
}

// Check reads a whole document and returns what is wrong with it, and where, in bytes
// from 0. The problem is "" when nothing is. Check does not look for bytes that are not
// UTF-8, and it does not allocate.
func Check(doc []byte) (offset int, problem string) {
	s := scan{doc: doc}
	i := s.value(s.blanks(0))
	if i >= 0 {
		if i = s.blanks(i); i < len(doc) {
			s.fail(i, "something follows the value")
		}
	}
	return s.at, s.problem
}

// Names returns the names of the members of a document that is an object, each once,
// in their order; nil for any other document.
func Names(doc []byte) (names []string) {
	s := scan{doc: doc}
	i := s.blanks(0)
	if i == len(doc) || doc[i] != '{' {
		return nil
	}
	seen := map[string]bool{}
	s.members(i, func(key []byte) bool {
		if name := string(appendUnescaped(nil, key)); !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
		return false
	})
	if s.problem != "" {
		return nil
	}
	return names
}

// A scan reads a document. Its methods take the place at which to read and return that
// after what they read; -1 when that is malformed, which the scan then remembers.
type scan struct {
	doc     []byte
	at      int // of the problem
	problem string
}

func (s *scan) fail(at int, problem string) int {
	if at >= len(s.doc) {
		at, problem = len(s.doc), "the document ends too early"
	}
	s.at, s.problem = at, problem
	return -1
}

// blanks passes over insignificant white space.
func (s *scan) blanks(i int) int {
	for i < len(s.doc) && (s.doc[i] == ' ' || s.doc[i] == '\n' || s.doc[i] == '\r' || s.doc[i] == '\t') {
		i++
	}
	return i
}

// is tells whether the byte at i is there and is b.
func (s *scan) is(i int, b byte) bool { return i < len(s.doc) && s.doc[i] == b }

// step goes from the value at i to one of its members or elements: -1 without a
// problem when it has no such.
func (s *scan) step(i int, st *step) int {
	switch {
	case st.member && s.is(i, '{'):
		return s.member(i, st.name)
	case !st.member && s.is(i, '['):
		n := st.index
		if n < 0 {
			count := 0
			if s.elements(i, func(int) bool { count++; return false }); s.problem != "" {
				return -1
			}
			if n += count; n < 0 {
				return -1
			}
		}
		return s.element(i, n)
	}
	s.value(i)
	return -1
}

// member returns the place of the value of the object's member of that name.
func (s *scan) member(i int, name string) int {
	return s.members(i, func(key []byte) bool { return equal(key, name) })
}

// element returns the place of the array's element n.
func (s *scan) element(i, n int) int {
	return s.elements(i, func(k int) bool { return k == n })
}

// members goes through the members of the object at i, up to the wanted one, and returns its value's
// place; -1 when none is wanted. Keys are as they stand in the document, without the quotes.
func (s *scan) members(i int, wanted func(key []byte) bool) int {
	i = s.blanks(i + 1)
	if s.is(i, '}') {
		return -1
	}
	for {
		key, after := s.key(i)
		if after < 0 {
			return -1
		}
		i = s.blanks(after)
		if wanted(key) {
			return i
		}
		if i = s.value(i); i < 0 {
			return -1
		}
		switch i = s.blanks(i); {
		case s.is(i, ','):
			i = s.blanks(i + 1)
		case s.is(i, '}'):
			return -1
		default:
			return s.fail(i, "want , or } after an object's member")
		}
	}
}

// elements is members for arrays.
func (s *scan) elements(i int, wanted func(n int) bool) int {
	i = s.blanks(i + 1)
	if s.is(i, ']') {
		return -1
	}
	for n := 0; ; n++ {
		if wanted(n) {
			return i
		}
		if i = s.value(i); i < 0 {
			return -1
		}
		switch i = s.blanks(i); {
		case s.is(i, ','):
			i = s.blanks(i + 1)
		case s.is(i, ']'):
			return -1
		default:
			return s.fail(i, "want , or ] after an array's element")
		}
	}
}

// key reads an object's key and the colon after it.
func (s *scan) key(i int) (key []byte, after int) {
	if !s.is(i, '"') {
		return nil, s.fail(i, "want a name in double quotes")
	}
	end := s.str(i)
	if end < 0 {
		return nil, -1
	}
	colon := s.blanks(end)
	if !s.is(colon, ':') {
		return nil, s.fail(colon, "want : after a name")
	}
	return s.doc[i+1 : end-1], colon + 1
}

// value reads the value at i, whatever is nested in it.
func (s *scan) value(i int) int {
	if i < len(s.doc) && s.doc[i] != '{' && s.doc[i] != '[' {
		return s.scalar(i)
	}
	var objects [MaxDepth / 64]uint64 // bit d: what is open at depth d is an object
	depth := 0
	for {
		if i >= len(s.doc) {
			return s.fail(i, "")
		}
		c := s.doc[i]
		if c == '{' || c == '[' {
			if depth == MaxDepth {
				return s.fail(i, "nested too deep")
			}
			word, bit := depth/64, uint64(1)<<(depth%64)
			objects[word] &^= bit
			depth++
			i = s.blanks(i + 1)
			if c == '{' {
				objects[word] |= bit
				if !s.is(i, '}') {
					if _, i = s.key(i); i < 0 {
						return -1
					}
					i = s.blanks(i)
					continue
				}
			} else if !s.is(i, ']') {
				continue
			}
			i++
			depth--
		} else if i = s.scalar(i); i < 0 {
			return -1
		}

		// A value has ended; so may what is around it.
		for {
			if depth == 0 {
				return i
			}
			i = s.blanks(i)
			if i == len(s.doc) {
				return s.fail(i, "")
			}
			c := s.doc[i]
			object := objects[(depth-1)/64]>>((depth-1)%64)&1 == 1
			if c == ',' {
				if i = s.blanks(i + 1); object {
					if _, i = s.key(i); i < 0 {
						return -1
					}
					i = s.blanks(i)
				}
				break
			}
			switch {
			case object && c == '}', !object && c == ']':
			case object:
				return s.fail(i, "want , or } after an object's member")
			default:
				return s.fail(i, "want , or ] after an array's element")
			}
			i++
			depth--
		}
	}
}

// scalar reads a string, a number or a literal name.
func (s *scan) scalar(i int) int {
	switch c := s.doc[i]; {
	case c == '"':
		return s.str(i)
	case c == '-' || isDigit(c):
		return s.number(i)
	case c == 't':
		return s.literal(i, "true")
	case c == 'f':
		return s.literal(i, "false")
	case c == 'n':
		return s.literal(i, "null")
	}
	return s.fail(i, "want a value: an object, an array, a string in double quotes, a number, true, false or null")
}

func (s *scan) literal(i int, name string) int {
	if !bytes.HasPrefix(s.doc[i:], []byte(name)) {
		return s.fail(i, "want true, false, null or a string in double quotes")
	}
	return i + len(name)
}

func (s *scan) number(i int) int {
	if s.doc[i] == '-' {
		i++
	}
	switch {
	case s.is(i, '0'):
		i++
	default:
		if i = s.digits(i); i < 0 {
			return -1
		}
	}
	if s.is(i, '.') {
		if i = s.digits(i + 1); i < 0 {
			return -1
		}
	}
	if s.is(i, 'e') || s.is(i, 'E') {
		if i++; s.is(i, '+') || s.is(i, '-') {
			i++
		}
		return s.digits(i)
	}
	return i
}

// digits reads one digit or more.
func (s *scan) digits(i int) int {
	if i >= len(s.doc) || !isDigit(s.doc[i]) {
		return s.fail(i, "want a digit")
	}
	for i < len(s.doc) && isDigit(s.doc[i]) {
		i++
	}
	return i
}

// str reads the string whose opening quote is at i.
func (s *scan) str(i int) int {
	open := i
	for i++; ; {
		for i+8 <= len(s.doc) {
			found := special(binary.LittleEndian.Uint64(s.doc[i:]))
			if found != 0 {
				i += bits.TrailingZeros64(found) / 8
				break
			}
			i += 8
		}
		if i >= len(s.doc) {
			return s.fail(i, "")
		}
		switch c := s.doc[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			n := escape(s.doc[i:])
			if n == 0 {
				return s.fail(i, `want an escape: \" \\ \/ \b \f \n \r \t or \u with four hexadecimal digits`)
			}
			i += n
		case c < ' ':
			if c == '\n' {
				return s.fail(open, "a string that its line does not end")
			}
			return s.fail(i, "a control character in a string")
		default:
			i++
		}
	}
}

// special marks the first of eight bytes that is a quote, a backslash or below 0x20. Its lowest set bit
// is in that byte; it is 0 if there is none. (In x - n, a byte's top bit turns on where the byte was
// below n. A borrow can only start at such a byte. So the first one found is true, though later ones
// may be false.)
func special(eight uint64) uint64 {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	quote, backslash := eight^ones*'"', eight^ones*'\\'
	return ((eight-ones*0x20)&^eight | (quote-ones)&^quote | (backslash-ones)&^backslash) & tops
}
