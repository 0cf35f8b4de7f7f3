package plugin

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"
	"unicode"
)

// Builtin returns a plugin that is part of the gateway: "clock" gives the time, and "calculator" the result of a
// query's first calculation.
func Builtin(name string) (Plugin, error) {
	switch name {
	case "clock":
		return clock{}, nil
	case "calculator":
		return calculator{}, nil
	}
	return nil, fmt.Errorf("%q: must be clock or calculator", name)
}

type clock struct{}

func (clock) Run(context.Context, Call) (string, error) {
	return time.Now().Format("Monday, 2006-01-02 15:04:05 -07:00"), nil
}

type calculator struct{}

func (calculator) Run(_ context.Context, c Call) (string, error) {
	for _, text := range calculations(c.Query) {
		v, err := calculate(text)
		if err == nil {
			return text + " = " + decimal(v), nil
		}
	}
	return "", ErrNothing
}

// Bounds of a calculation, so that every one ends soon.
const (
	maxQuery  = 1024 // bytes that are looked at
	maxDepth  = 32   // of brackets and signs
	maxDigits = 30   // of a number
	maxBits   = 1024 // of a result
	places    = 10   // after the point
)

// spelled replaces other signs for operators and brackets.
var spelled = strings.NewReplacer("×", "*", "÷", "/", "(", "(", ")", ")", "加", "+", "减", "-", "乘以", "*", "乘", "*", "除以", "/",
	" plus ", "+", " minus ", "-", " times ", "*", " divided by ", "/")

// calculations returns the parts of a query that have digits and an operator.
func calculations(query string) (list []string) {
	if len(query) > maxQuery {
		query = query[:maxQuery]
	}
	for _, part := range strings.FieldsFunc(spelled.Replace(query), func(r rune) bool { return !strings.ContainsRune("0123456789.+-*/() ", r) }) {
		part = strings.TrimSpace(part)
		if strings.ContainsAny(part, "+-*/") && strings.ContainsFunc(part, unicode.IsDigit) {
			list = append(list, part)
		}
	}
	return list
}

// calculate evaluates + - * / and brackets, exactly.
func calculate(text string) (*big.Rat, error) {
	p := &reader{text: text}
	v, err := p.sum(0)
	if err == nil && p.peek() != 0 {
		return nil, fmt.Errorf("%q: %q is not understood", text, p.text[p.at:])
	}
	return v, err
}

type reader struct {
	text string
	at   int
}

// peek returns the next character that is no space; 0 is the end.
func (p *reader) peek() byte {
	for p.at < len(p.text) && p.text[p.at] == ' ' {
		p.at++
	}
	if p.at == len(p.text) {
		return 0
	}
	return p.text[p.at]
}

func (p *reader) sum(depth int) (*big.Rat, error) {
	return p.row(depth, "+-", func(p *reader, depth int) (*big.Rat, error) { return p.row(depth, "*/", (*reader).number) })
}

// row reads operands between operators of one rank.
func (p *reader) row(depth int, operators string, operand func(*reader, int) (*big.Rat, error)) (*big.Rat, error) {
	v, err := operand(p, depth)
	for err == nil {
		op := p.peek()
		if op == 0 || !strings.ContainsRune(operators, rune(op)) {
			return v, nil
		}
		p.at++
		var w *big.Rat
		if w, err = operand(p, depth); err != nil {
			break
		}
		switch op {
		case '+':
			v = new(big.Rat).Add(v, w)
		case '-':
			v = new(big.Rat).Sub(v, w)
		case '*':
			v = new(big.Rat).Mul(v, w)
		case '/':
			if w.Sign() == 0 {
				return nil, errors.New("division by zero")
			}
			v = new(big.Rat).Quo(v, w)
		}
		if v.Num().BitLen() > maxBits || v.Denom().BitLen() > maxBits {
			return nil, errors.New("the result is too long")
		}
	}
	return nil, err
}

func (p *reader) number(depth int) (*big.Rat, error) {
	if depth > maxDepth {
		return nil, errors.New("too many brackets")
	}
	switch c := p.peek(); c {
	case '(':
		p.at++
		v, err := p.sum(depth + 1)
		if err == nil && p.peek() != ')' {
			err = errors.New("a bracket is not closed")
		}
		p.at++
		return v, err
	case '-', '+':
		p.at++
		v, err := p.number(depth + 1)
		if err == nil && c == '-' {
			v = new(big.Rat).Neg(v)
		}
		return v, err
	}
	from := p.at
	for p.at < len(p.text) && (p.text[p.at] == '.' || '0' <= p.text[p.at] && p.text[p.at] <= '9') {
		p.at++
	}
	if from == p.at || p.at-from > maxDigits {
		return nil, fmt.Errorf("want a number of 1 to %d digits", maxDigits)
	}
	v, ok := new(big.Rat).SetString(p.text[from:p.at])
	if !ok {
		return nil, fmt.Errorf("%q is no number", p.text[from:p.at])
	}
	return v, nil
}

// decimal writes a number, rounded to some places.
func decimal(v *big.Rat) string {
	if v.IsInt() {
		return v.Num().String()
	}
	return strings.TrimRight(strings.TrimRight(v.FloatString(places), "0"), ".")
}
