package template

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"dyno/internal/nearest"
)

// maxNesting bounds functions within functions.
const maxNesting = 16

// A node is a piece of a template's text, or an expression in it.
type node struct {
	kind   nodeKind
	text   string // what a literal says, or the name
	number int64
	args   []node
	offset int // in the template's text
}

type nodeKind uint8

const (
	literalNode nodeKind = iota
	numberNode           // as a function's argument only
	nameNode
	callNode
)

// parse reads a template's text. The fault is nil when it is in order.
func parse(text string) ([]node, *Fault) {
	p := parser{text: text}
	if len(text) > MaxText {
		p.fail(0, fmt.Sprintf("%d bytes are too long", len(text)), fmt.Sprintf("want at most %d", MaxText))
		return nil, p.fault
	}
	var nodes []node
	for p.fault == nil && p.at < len(text) {
		start := p.at
		open := strings.Index(text[start:], "{{")
		if open < 0 {
			open = len(text) - start
		}
		if open > 0 {
			nodes = append(nodes, node{kind: literalNode, text: text[start : start+open], offset: start})
		}
		if p.at += open; p.at == len(text) {
			break
		}
		nodes = append(nodes, p.braces())
	}
	return nodes, p.fault
}

// A parser reads a template's text. Its first fault ends the reading.
type parser struct {
	text  string
	at    int
	fault *Fault
}

func (p *parser) fail(at int, problem, hint string) {
	if p.fault == nil {
		p.fault = &Fault{Offset: at, Problem: problem, Hint: hint}
		p.at = len(p.text)
	}
}

const hintExpression = `want a variable or a function, such as {{ name }} or {{ uuid() }}; write {{ "{{" }} for the braces themselves`

// braces reads {{ expression }}.
func (p *parser) braces() node {
	open := p.at
	p.at += len("{{")
	p.blanks()
	if p.at == len(p.text) {
		p.fail(open, "{{ without }}", `close it; write {{ "{{" }} for the braces themselves`)
		return node{}
	}
	n := p.expression(0)
	if n.kind == numberNode {
		p.fail(n.offset, "a number by itself", "leave the braces out")
	}
	p.blanks()
	switch {
	case p.fault != nil:
	case p.at == len(p.text):
		p.fail(open, "{{ without }}", `close it; write {{ "{{" }} for the braces themselves`)
	case !strings.HasPrefix(p.text[p.at:], "}}"):
		p.fail(p.at, fmt.Sprintf("%s where }} is wanted", p.quoteNext()), hintExpression)
	default:
		p.at += len("}}")
	}
	return n
}

func (p *parser) blanks() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

// is tells whether the next byte is b.
func (p *parser) is(b byte) bool { return p.at < len(p.text) && p.text[p.at] == b }

// quoteNext returns the next character in quotes, or says that there is none.
func (p *parser) quoteNext() string {
	if p.at == len(p.text) {
		return "the end"
	}
	r, _ := utf8.DecodeRuneInString(p.text[p.at:])
	return strconv.QuoteRune(r)
}

func (p *parser) expression(depth int) node {
	switch start := p.at; {
	case depth > maxNesting:
		p.fail(start, "functions nested too deep", fmt.Sprintf("want at most %d levels", maxNesting))
		return node{}
	case p.is('"'), p.is('\''):
		return node{kind: literalNode, text: p.quoted(), offset: start}
	case p.at < len(p.text) && (p.is('-') || isDigit(p.text[p.at])):
		return p.number()
	case p.at < len(p.text) && isNameStart(p.text[p.at]):
		return p.nameOrCall(depth)
	default:
		p.fail(start, fmt.Sprintf("%s where an expression is wanted", p.quoteNext()), hintExpression)
		return node{}
	}
}

// nameOrCall reads a variable's name, or a function with its arguments.
func (p *parser) nameOrCall(depth int) node {
	start := p.at
	for p.at < len(p.text) && isNameByte(p.text[p.at]) {
		p.at++
	}
	n := node{kind: nameNode, text: p.text[start:p.at], offset: start}
	if !p.is('(') {
		return n
	}
	n.kind = callNode
	p.at++
	p.blanks()
	if p.is(')') {
		p.at++
		return n
	}
	for p.fault == nil {
		if len(n.args) == MaxArguments {
			p.fail(p.at, "too many arguments", fmt.Sprintf("want at most %d", MaxArguments))
			break
		}
		n.args = append(n.args, p.expression(depth+1))
		p.blanks()
		switch {
		case p.is(')'):
			p.at++
			return n
		case p.is(','):
			p.at++
			p.blanks()
		default:
			p.fail(p.at, fmt.Sprintf("%s where , or ) is wanted", p.quoteNext()), fmt.Sprintf("close the arguments of %s with )", n.text))
		}
	}
	return n
}

func (p *parser) number() node {
	start := p.at
	for p.at++; p.at < len(p.text) && (isNameByte(p.text[p.at])); {
		p.at++
	}
	text := p.text[start:p.at]
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		p.fail(start, fmt.Sprintf("%q is no whole number of 64 bits", nearest.Clip(text)), "want one such as 10 or -3")
	}
	return node{kind: numberNode, text: text, number: v, offset: start}
}

// quoted reads a string in quotes.
func (p *parser) quoted() string {
	start, quote := p.at, p.text[p.at]
	var b strings.Builder
	for p.at++; p.at < len(p.text); p.at++ {
		c := p.text[p.at]
		if c == quote {
			p.at++
			return b.String()
		}
		if c == '\\' {
			p.at++
			if !p.is('\\') && !p.is('"') && !p.is('\'') {
				p.fail(p.at-1, "a backslash before neither a quote nor a backslash", `write \\ for a backslash`)
				return ""
			}
			c = p.text[p.at]
		}
		b.WriteByte(c)
	}
	p.fail(start, "the quote is never closed", "close it")
	return ""
}

func isDigit(b byte) bool     { return b-'0' < 10 }
func isNameStart(b byte) bool { return b|0x20-'a' < 26 || b == '_' }
func isNameByte(b byte) bool  { return isNameStart(b) || isDigit(b) || b == '-' || b == '.' }

// InJSON returns the template that says between the quotes of a JSON string what the text, a
// template, says: what stands outside of braces is escaped now, and what an expression says when
// it is known. The error is the first fault of the text.
func InJSON(text string) (string, error) {
	p := parser{text: text}
	if len(text) > MaxText {
		return "", fmt.Errorf("%d bytes are too long: want at most %d", len(text), MaxText)
	}
	var b []byte
	for p.fault == nil && p.at < len(text) {
		literal, _, found := strings.Cut(text[p.at:], "{{")
		b = appendJSON(b, []byte(literal))
		if p.at += len(literal); !found {
			break
		}
		open := p.at
		p.braces()
		if p.fault == nil {
			b = append(b, "{{ json_escape("...)
			b = append(b, strings.TrimSpace(text[open+len("{{"):p.at-len("}}")])...)
			b = append(b, ") }}"...)
		}
	}
	if p.fault != nil {
		return "", fmt.Errorf("at offset %d: %s; %s", p.fault.Offset, p.fault.Problem, p.fault.Hint)
	}
	return string(b), nil
}
