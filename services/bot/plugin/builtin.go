package plugin

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
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
	e, err := parser.ParseExpr(apart.Replace(text))
	if err != nil {
		return nil, fmt.Errorf("%q is not understood: %w", text, err)
	}
	return value(e, 0)
}

// apart has two operators next to each other stay two.
var apart = strings.NewReplacer("+", " + ", "-", " - ", "*", " * ", "/", " / ")

// value returns the value of an expression within some others.
func value(e ast.Expr, depth int) (*big.Rat, error) {
	if depth > maxDepth {
		return nil, errors.New("too many brackets")
	}
	switch e := e.(type) {
	case *ast.ParenExpr:
		return value(e.X, depth+1)
	case *ast.UnaryExpr:
		v, err := value(e.X, depth+1)
		if err == nil && e.Op == token.SUB {
			v = new(big.Rat).Neg(v)
		}
		return v, err
	case *ast.BasicLit:
		if v, ok := new(big.Rat).SetString(e.Value); ok && len(e.Value) <= maxDigits {
			return v, nil
		}
	case *ast.BinaryExpr:
		v, err := value(e.X, depth) // many in a row are not deep
		w, other := value(e.Y, depth)
		if err := errors.Join(err, other); err != nil {
			return nil, err
		}
		return combine(v, e.Op, w)
	}
	return nil, fmt.Errorf("want a number of 1 to %d digits", maxDigits)
}

// combine carries out an operation.
func combine(v *big.Rat, op token.Token, w *big.Rat) (*big.Rat, error) {
	is := new(big.Rat)
	switch {
	case op == token.ADD:
		is.Add(v, w)
	case op == token.SUB:
		is.Sub(v, w)
	case op == token.MUL:
		is.Mul(v, w)
	case w.Sign() == 0:
		return nil, errors.New("division by zero")
	default:
		is.Quo(v, w)
	}
	if is.Num().BitLen() > maxBits || is.Denom().BitLen() > maxBits {
		return nil, errors.New("the result is too long")
	}
	return is, nil
}

// decimal writes a number, rounded to some places.
func decimal(v *big.Rat) string {
	if v.IsInt() {
		return v.Num().String()
	}
	return strings.TrimRight(strings.TrimRight(v.FloatString(places), "0"), ".")
}
