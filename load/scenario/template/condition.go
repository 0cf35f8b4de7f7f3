package template

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"dyno/internal/nearest"
)

// A Condition is a compiled condition.
type Condition struct {
	op          logic
	of          []Condition // of and, or and not
	left, right Template    // of a comparison; of defined: left
	asNumbers   bool
	variable    int // of defined, in the Scope; -1: it never changes
}

type logic uint8

const (
	and logic = iota
	or
	not
	defined
	equal
	unequal
	less
	atMost
	greater
	atLeast
)

type comparisonOp struct {
	text string
	op   logic
}

// comparisonOps are the comparisons as they are written, those with two characters first.
var comparisonOps = []comparisonOp{{"==", equal}, {"!=", unequal}, {"<=", atMost}, {">=", atLeast}, {"<", less}, {">", greater}}

// Holds tells whether the condition is true for a user.
func (c *Condition) Holds(s *State) bool {
	switch c.op {
	case and:
		for i := range c.of {
			if !c.of[i].Holds(s) {
				return false
			}
		}
		return true
	case or:
		for i := range c.of {
			if c.of[i].Holds(s) {
				return true
			}
		}
		return false
	case not:
		return !c.of[0].Holds(s)
	}
	w := s.Worker
	w.left = c.left.Append(w.left[:0], s)
	if c.op == defined {
		return len(w.left) > 0
	}
	w.right = c.right.Append(w.right[:0], s)
	if !c.asNumbers {
		return bytes.Equal(w.left, w.right) == (c.op == equal)
	}
	a, aIsNumber := parseNumber(w.left)
	b, bIsNumber := parseNumber(w.right)
	if !aIsNumber || !bIsNumber {
		return c.op == unequal
	}
	switch c.op {
	case equal:
		return a == b
	case unequal:
		return a != b
	case less:
		return a < b
	case atMost:
		return a <= b
	case greater:
		return a > b
	default:
		return a >= b
	}
}

// maxNumber is the length of the longest number.
const maxNumber = 32

// parseNumber reads a decimal number as JSON writes it. Texts that strconv would refuse are found
// before, because its errors take memory.
func parseNumber(text []byte) (float64, bool) {
	digits := func(at int) int {
		for at < len(text) && isDigit(text[at]) {
			at++
		}
		return at
	}
	at := 0
	if len(text) > 0 && text[0] == '-' {
		at = 1
	}
	whole := digits(at)
	if whole == at || len(text) > maxNumber {
		return 0, false
	}
	at = whole
	if at < len(text) && text[at] == '.' {
		end := digits(at + 1)
		if end == at+1 {
			return 0, false
		}
		at = end
	}
	if at < len(text) && text[at]|0x20 == 'e' {
		at++
		if at < len(text) && (text[at] == '-' || text[at] == '+') {
			at++
		}
		end := digits(at)
		if end == at || end-at > 2 { // what exceeds a float64 is no number
			return 0, false
		}
		at = end
	}
	if at < len(text) {
		return 0, false
	}
	x, err := strconv.ParseFloat(string(text), 64)
	return x, err == nil
}

const (
	hintCondition = `want a condition such as status == "vip", count > 3 or defined(token), joined by and, or, not and parentheses`
	hintOperand   = `want a variable, a number or a text in quotes, as in status == "vip"; variables stand without braces`
)

// CompileCondition makes a condition of a text, as Compile makes a template. The condition is
// nil if the text cannot be read.
func CompileCondition(text string, scope Scope) (*Condition, []Use, []Fault) {
	if len(text) > MaxCondition {
		return nil, nil, []Fault{{-1, fmt.Sprintf("a condition of %d bytes", len(text)), fmt.Sprintf("want at most %d", MaxCondition)}}
	}
	r := conditionReader{parser: parser{text: text}, binder: binder{scope: scope, bare: true}}
	r.blanks()
	out := r.disjunction(0)
	if r.fault == nil && r.at < len(text) {
		r.fail(r.at, fmt.Sprintf("%s where and, or or the end is wanted", r.quoteNext()), hintCondition)
	}
	if r.fault != nil {
		return nil, r.binder.uses, append(r.binder.faults, *r.fault)
	}
	return &out, r.binder.uses, r.binder.faults
}

// A conditionReader reads a condition, and binds its operands.
type conditionReader struct {
	parser
	binder binder
}

// word takes a word that joins conditions, if it is next.
func (r *conditionReader) word(w string) bool {
	rest, found := strings.CutPrefix(r.text[r.at:], w)
	if !found || rest != "" && isNameByte(rest[0]) {
		return false
	}
	r.at += len(w)
	r.blanks()
	return true
}

func (r *conditionReader) disjunction(depth int) Condition {
	return r.joined("or", or, func() Condition {
		return r.joined("and", and, func() Condition { return r.negation(depth) })
	})
}

// joined reads conditions with a word between them.
func (r *conditionReader) joined(word string, op logic, one func() Condition) Condition {
	all := []Condition{one()}
	for r.fault == nil && r.word(word) {
		all = append(all, one())
	}
	if len(all) == 1 {
		return all[0]
	}
	return Condition{op: op, of: all}
}

func (r *conditionReader) negation(depth int) Condition {
	switch start := r.at; {
	case depth > maxNesting:
		r.fail(start, "conditions nested too deep", fmt.Sprintf("want at most %d levels", maxNesting))
		return Condition{}
	case r.word("not"):
		return Condition{op: not, of: []Condition{r.negation(depth + 1)}}
	case r.is('('):
		r.at++
		r.blanks()
		inner := r.disjunction(depth + 1)
		if !r.is(')') {
			r.fail(r.at, fmt.Sprintf("%s where ) is wanted", r.quoteNext()), "close the parenthesis")
			return Condition{}
		}
		r.at++
		r.blanks()
		return inner
	}
	return r.comparison()
}

// comparison reads two operands and what stands between them, or defined(name).
func (r *conditionReader) comparison() Condition {
	left := r.operand()
	if left.kind == callNode && left.text == "defined" {
		return r.defined(&left)
	}
	var out Condition
	i := slices.IndexFunc(comparisonOps, func(c comparisonOp) bool { return strings.HasPrefix(r.text[r.at:], c.text) })
	if i < 0 {
		r.fail(r.at, r.quoteNext()+" where a comparison is wanted", "want ==, !=, <, <=, > or >= and what to compare with, or defined(name)")
		return out
	}
	out.op = comparisonOps[i].op
	r.at += len(comparisonOps[i].text)
	r.blanks()
	right := r.operand()
	if r.fault != nil {
		return out
	}
	out.asNumbers = out.op > unequal || left.kind == numberNode || right.kind == numberNode
	for _, n := range []*node{&left, &right} {
		if out.asNumbers && n.kind == literalNode {
			r.fail(n.offset, "a text in quotes, which is compared as a number", "leave out the quotes, or compare texts with == or !=")
		}
	}
	out.left, out.right = r.binder.bind([]node{left}), r.binder.bind([]node{right})
	return out
}

// operand reads what is compared: an expression of a template, or a number, which may be a fraction.
func (r *conditionReader) operand() (n node) {
	switch start := r.at; {
	case r.fault != nil:
	case start < len(r.text) && (r.is('-') || isDigit(r.text[start])):
		for r.at++; r.at < len(r.text) && (isNameByte(r.text[r.at]) || r.is('+')); {
			r.at++
		}
		n = node{kind: numberNode, text: r.text[start:r.at], offset: start}
		if _, ok := parseNumber([]byte(n.text)); !ok {
			r.fail(start, fmt.Sprintf("%q is no number", nearest.Clip(n.text)), "want one such as 10, -3 or 0.5")
		}
	case start < len(r.text) && (r.is('"') || r.is('\'') || isNameStart(r.text[start])):
		n = r.expression(0)
	default:
		r.fail(start, r.quoteNext()+" where an operand is wanted", hintOperand)
	}
	r.blanks()
	return n
}

// defined makes the condition that a variable has a value.
func (r *conditionReader) defined(call *node) Condition {
	out := Condition{op: defined, variable: -1}
	if len(call.args) != 1 || call.args[0].kind != nameNode && (call.args[0].kind != callNode || call.args[0].text != "column") {
		r.fail(call.offset, "defined without a variable", "want it as in defined(token)")
		return out
	}
	before := len(r.binder.uses)
	out.left = r.binder.bind(call.args)
	for i := before; i < len(r.binder.uses); i++ {
		r.binder.uses[i].Optional = true
		out.variable = r.binder.uses[i].Variable
	}
	return out
}

// Ensures tells whether a variable has a value wherever the condition holds.
func (c *Condition) Ensures(variable int) bool {
	switch c.op {
	case and:
		for i := range c.of {
			if c.of[i].Ensures(variable) {
				return true
			}
		}
	case or:
		for i := range c.of {
			if !c.of[i].Ensures(variable) {
				return false
			}
		}
		return true
	case defined:
		return c.variable == variable
	}
	return false
}
