// Package jsonpath finds one value in a JSON document (RFC 8259) by a path. It builds no tree and does
// not allocate.
//
// A path is a singular query of RFC 9535, which selects at most one value:
//
//	$                  the document
//	.name              the member of an object; letters, digits and _ of any script
//	['any name']       the same for any name; double quotes do as well
//	[0], [-1]          the first and the last element of an array
//
// Paths that select several values are refused: wildcards, slices, filters, unions and the descendants
// that two dots stand for. The first of several members with one name counts. (encoding/json takes the
// last; RFC 8259 leaves it open.)
package jsonpath

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"dyno/internal/nearest"
)

// Bounds of a path.
const (
	MaxText  = 4096 // bytes
	MaxSteps = 64
)

// maxIndex is the largest index of I-JSON (RFC 9535, section 2.1).
const maxIndex = 1<<53 - 1

// A Path is a compiled path. It is immutable and may be shared.
type Path struct {
	text  string
	steps []step
}

// A step goes from a value to one of its members or elements.
type step struct {
	name   string
	index  int // of an element; negative ones count from the end
	member bool
}

// A SyntaxError says what is wrong with the text of a path.
type SyntaxError struct {
	Text    string
	Offset  int // in bytes, from 0
	Problem string
	Hint    string // what would be right
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("JSON path %q: at offset %d: %s; %s", nearest.Clip(e.Text), e.Offset, e.Problem, e.Hint)
}

// Compile reads a path. Its errors have type *SyntaxError.
func Compile(text string) (*Path, error) {
	p := parser{text: text}
	steps := p.path()
	if p.err != nil {
		return nil, p.err
	}
	return &Path{text: text, steps: steps}, nil
}

// Member returns the path of the document's member of that name.
func Member(name string) *Path {
	return &Path{text: "$[" + strconv.Quote(name) + "]", steps: []step{{name: name, member: true}}}
}

// String returns the text of the path.
func (p *Path) String() string { return p.text }

// A parser reads the text of a path. Its first fault ends the reading.
type parser struct {
	text string
	at   int
	err  *SyntaxError
}

// Hints that several faults share.
const (
	hintSingle = "want a path to one value, of names and indexes only"
	hintQuote  = "write ['name'] for a name with other characters"
)

func (p *parser) fail(at int, problem, hint string) {
	if p.err == nil {
		p.err = &SyntaxError{Text: p.text, Offset: at, Problem: problem, Hint: hint}
		p.at = len(p.text)
	}
}

func (p *parser) path() (steps []step) {
	switch {
	case len(p.text) > MaxText:
		p.fail(0, fmt.Sprintf("%d bytes are too long", len(p.text)), fmt.Sprintf("want at most %d", MaxText))
		return nil
	case !utf8.ValidString(p.text):
		p.fail(0, "the text is not UTF-8", "want UTF-8")
		return nil
	case !strings.HasPrefix(p.text, "$"):
		hint := "want $, which is the document, as in $.name"
		if p.text != "" {
			hint = fmt.Sprintf("want it to begin with $, as in $.%s", nearest.Clip(strings.TrimPrefix(p.text, ".")))
		}
		p.fail(0, "a path begins with $", hint)
		return nil
	}
	for p.at = 1; p.err == nil; {
		start := p.at
		p.blanks()
		if p.at == len(p.text) {
			if p.at > start {
				p.fail(start, "blanks after the path", "leave them out")
			}
			return steps
		}
		if len(steps) == MaxSteps {
			p.fail(p.at, "too many steps", fmt.Sprintf("want at most %d", MaxSteps))
			return nil
		}
		switch p.text[p.at] {
		case '.':
			steps = append(steps, p.dot())
		case '[':
			steps = append(steps, p.bracket())
		default:
			p.fail(p.at, fmt.Sprintf("%q is neither . nor [", p.rune()), hintQuote)
		}
	}
	return nil
}

// rune returns the character at hand.
func (p *parser) rune() rune {
	r, _ := utf8.DecodeRuneInString(p.text[p.at:])
	return r
}

func (p *parser) blanks() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

// dot reads .name.
func (p *parser) dot() step {
	p.at++
	start := p.at
	for p.at < len(p.text) && isNameByte(p.text[p.at]) {
		p.at++
	}
	name := p.text[start:p.at]
	switch {
	case name != "" && !isDigit(name[0]):
		return step{name: name, member: true}
	case name != "":
		p.fail(start, fmt.Sprintf("a name after . begins with a letter or _, not with %q", name[0]), "write [0] for an element, ['0'] for a name")
	case p.at == len(p.text):
		p.fail(start, "the path ends where a name is wanted", hintQuote)
	case p.text[p.at] == '.':
		p.fail(start-1, ".. selects several values", hintSingle)
	case p.text[p.at] == '*':
		p.fail(start, "* selects several values", hintSingle)
	default:
		p.fail(start, fmt.Sprintf("%q begins no name", p.rune()), hintQuote)
	}
	return step{}
}

// isNameByte tells whether a byte may stand in a name after a dot (RFC 9535, section
// 2.5.1.1): letters, digits, _ and everything that is not ASCII.
func isNameByte(b byte) bool {
	return b|0x20-'a' < 26 || isDigit(b) || b == '_' || b >= utf8.RuneSelf
}

func isDigit(b byte) bool { return b-'0' < 10 }

// bracket reads ['name'], ["name"] or [index].
func (p *parser) bracket() (s step) {
	p.at++
	p.blanks()
	switch {
	case p.at == len(p.text):
		p.fail(p.at, "[ without ]", "want [0] or ['name']")
		return s
	case p.text[p.at] == '\'' || p.text[p.at] == '"':
		s = step{name: p.quoted(), member: true}
	case p.text[p.at] == '-' || isDigit(p.text[p.at]):
		s = step{index: p.index()}
	case p.text[p.at] == '*':
		p.fail(p.at, "* selects several values", hintSingle)
	case p.text[p.at] == '?':
		p.fail(p.at, "filters are not supported", hintSingle)
	case p.text[p.at] == ':':
		p.fail(p.at, "a slice selects several values", hintSingle)
	default:
		p.fail(p.at, fmt.Sprintf("%q is neither a quote nor a number", p.rune()), "want [0] or ['name']")
	}
	if p.err != nil {
		return s
	}
	p.blanks()
	switch {
	case p.at == len(p.text):
		p.fail(p.at, "[ without ]", "close it")
	case p.text[p.at] == ']':
		p.at++
	case p.text[p.at] == ',':
		p.fail(p.at, "a union selects several values", hintSingle)
	case p.text[p.at] == ':':
		p.fail(p.at, "a slice selects several values", hintSingle)
	default:
		p.fail(p.at, fmt.Sprintf("%q where ] is wanted", p.rune()), "want one name in quotes or one number")
	}
	return s
}

// index reads an element's number: no leading zeros, no -0.
func (p *parser) index() int {
	start := p.at
	if p.text[p.at] == '-' {
		p.at++
	}
	for p.at < len(p.text) && isDigit(p.text[p.at]) {
		p.at++
	}
	text := p.text[start:p.at]
	n, err := strconv.Atoi(text)
	if err != nil || n > maxIndex || n < -maxIndex || strconv.Itoa(n) != text {
		p.fail(start, fmt.Sprintf("%q is no index", text), "want a whole number such as 0, 12 or -1")
		return 0
	}
	return n
}

// quoted reads a name in quotes, with JSON's escapes and the escaped quote.
func (p *parser) quoted() string {
	start := p.at
	quote := p.text[p.at]
	var b strings.Builder
	for p.at++; p.at < len(p.text); {
		switch c := p.text[p.at]; {
		case c == quote:
			p.at++
			return b.String()
		case c < ' ':
			p.fail(p.at, "a control character in a name", `write it as \u00XX`)
			return ""
		case c != '\\':
			b.WriteByte(c)
			p.at++
		case p.at+1 < len(p.text) && p.text[p.at+1] == quote:
			b.WriteByte(quote)
			p.at += 2
		case p.at+1 < len(p.text) && p.text[p.at+1] == '"': // in single quotes: no escape there
			p.fail(p.at, `\" in single quotes`, "leave the backslash out")
			return ""
		default:
			n := escape([]byte(p.text[p.at:]))
			if n == 0 {
				p.fail(p.at, "no such escape", `want one of \b \f \n \r \t \/ \\ \u0000, or that of the quote`)
				return ""
			}
			r, n := unescape([]byte(p.text[p.at:]))
			if r == utf8.RuneError && n == len(`\u0000`) && !strings.EqualFold(p.text[p.at:p.at+n], `\ufffd`) {
				p.fail(p.at, "half of a surrogate pair", `want both, as in \ud83d\ude00`)
				return ""
			}
			b.WriteRune(r)
			p.at += n
		}
	}
	p.fail(start, "the quote is never closed", "close it")
	return ""
}
