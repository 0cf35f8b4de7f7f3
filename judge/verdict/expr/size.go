package expr

import (
	"math"
	"strings"

	"github.com/expr-lang/expr/ast"

	"dyno/internal/texts"
	"dyno/internal/units"
	"dyno/results/rundir"
)

// A form says what a figure without any effect is.
type form int

const (
	formValue      form = iota // of one thing: nothing is without an effect
	formRatio                  // 1
	formChange                 // 0, of a ratio less 1
	formDifference             // 0, of what is compared by its difference, or of a multiple of that
)

// hasSign tells whether the number is 0 without any effect.
func (t typed) hasSign() bool { return t.form == formChange || t.form == formDifference }

// formOf returns the form of what an operator makes of two numbers. What is subtracted is what a figure is compared
// with: a variant's figure, or the constant that it has without an effect.
func formOf(operator string, left, right typed) form {
	switch {
	case left.constant && right.constant:
		return formValue
	case operator == "-" && right.isOne() && !left.hasSign():
		return formChange
	case operator == "-",
		operator == "+" && left.hasSign() && right.hasSign(),
		operator == "*" && left.hasSign() != right.hasSign(),
		operator == "/" && left.hasSign() && !right.hasSign():
		return formDifference
	}
	return formValue
}

// isOne tells whether the number is the constant 1 without a unit.
func (t typed) isOne() bool {
	if !t.constant || t.dim != plain {
		return false
	}
	v, err := t.number(nil)
	return err == nil && v.Estimate == 1
}

// An effect is what was published, in the unit of what is measured.
type effect struct {
	published float64
	form      form
	text      string // as it was published
}

// compileClaim compiles the expression of a claim: its condition, or its published size and what is measured.
func compileClaim(c rundir.PlanClaim, names Names) (*Expression, error) {
	if c.Measured == "" {
		return Compile(c.Holds, ForClaim, names)
	}
	e, err := CompileMeasured(c.Measured, names)
	if err != nil {
		return nil, err
	}
	return e, e.publish(c.Published, names)
}

// CompileMeasured parses and checks an expression of one figure, as Compile does one of a condition.
func CompileMeasured(text string, names Names) (*Expression, error) {
	e := &Expression{}
	err := e.compile(text, ForClaim, names, func(c *compiler, i int, n ast.Node) {
		if e.measured = c.number(n); i > 0 {
			c.fault(n, "a second figure; want one")
		}
		if e.measured.number != nil && e.measured.constant {
			c.fault(n, "%s is no measured figure; want one such as ratio(new, old, throughput)", describe(n))
		}
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

// publish reads the published size of the figure that an expression measures.
func (e *Expression) publish(text string, names Names) error {
	literal := &Expression{}
	return literal.compile(text, ForClaim, names, func(c *compiler, i int, n ast.Node) {
		published := typed{}
		if isLiteral(n) && i == 0 {
			published = c.number(n)
		} else {
			c.fault(n, "%s is not what was published; want a number with its unit, such as 2.3, -42%% or 80ms", describe(n))
		}
		if published.number == nil {
			return
		}
		v, err := published.number(nil)
		if of := e.measured.dim; published.dim != of && (published.dim != plain || of != size && of != rate) {
			c.fault(n, "what was published is %s, and what is measured is %s", published.dim, of)
		}
		e.effect = &effect{v.Estimate, e.measured.form, strings.TrimSpace(text)}
		if err != nil || !e.effect.isSound() {
			c.fault(n, "%s is no effect; write a bound with holds", e.effect.text)
		}
		if published.unit == rundir.Share && e.measured.dim == plain {
			e.measured.unit = rundir.Share
		}
	})
}

// isLiteral tells whether a node is a number with or without a sign.
func isLiteral(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		return true
	case *ast.UnaryNode:
		return (n.Operator == "-" || n.Operator == "+") && isLiteral(n.Node)
	}
	return false
}

// isSound tells whether there is an effect that others can be measured by.
func (s effect) isSound() bool {
	switch s.form {
	case formRatio:
		return s.published > 0 && s.published != 1
	case formChange:
		return s.published > -1 && s.published != 0
	}
	return s.published != 0
}

const (
	// near is the share of a published size by which a measured one may differ and still agree.
	near = 0.2
	// widestAgreeing is the factor by which the interval of a value without a sign may differ from the published
	// value.
	widestAgreeing = 2
)

// relative returns a measured figure in published sizes: 1 is as published, 0 no effect, and negative is the wrong
// sign. A ratio of less than 1 counts as its reciprocal, so that it does not matter which of two variants is the
// base. A change counts as the ratio that it is.
func (s effect) relative(v Quantity) Quantity {
	one := exactly(1)
	switch s.form {
	case formRatio:
		if s.published < 1 {
			return effect{published: 1 / s.published, form: formRatio}.relative(one.over(v.larger(exactly(0))))
		}
		return v.minus(one).over(exactly(s.published - 1))
	case formChange:
		return effect{published: 1 + s.published, form: formRatio}.relative(v.plus(one))
	}
	return v.over(exactly(s.published))
}

// against decides a claim of a size by the measured figure in published sizes, x from low to high:
//
//	refuted      high < 0, or low ≤ 0 and high < 0.8
//	agrees       low > 0 and 0.8 ≤ x ≤ 1.2
//	smaller      low > 0, high < 1 and x < 0.8
//	larger       low > 1 and x > 1.2
//	not settled  all else
//
// A value without a sign has no effect to exclude: it is never refuted. It agrees only if low ≥ 1/2 and high ≤ 2.
func (s effect) against(x Quantity) (outcome, why string) {
	signed := s.form != formValue
	shown := !signed || x.Low > 0
	isNear := 1-near <= x.Estimate && x.Estimate <= 1+near
	switch {
	case signed && x.High < 0:
		return rundir.Refuted, ""
	case signed && x.Low <= 0 && x.High < 1-near:
		return rundir.Refuted, "undecided.may_hold"
	case !shown:
		return rundir.NotSettled, "undecided.open"
	case isNear && !signed && (x.Low < 1./widestAgreeing || x.High > widestAgreeing):
		return rundir.NotSettled, "undecided.wide"
	case isNear:
		return rundir.Agrees, ""
	case x.High < 1 && x.Estimate < 1:
		return rundir.Smaller, ""
	case x.Low > 1 && x.Estimate > 1:
		return rundir.Larger, ""
	case signed:
		return rundir.NotSettled, "undecided.sign"
	}
	return rundir.NotSettled, "undecided.wide"
}

// sized decides the claim of a size.
func (e *Expression) sized(on *evaluation) (outcome string, why []rundir.Message) {
	v, err := e.measured.number(on)
	if err != nil {
		return rundir.NotSettled, []rundir.Message{texts.Together(texts.Reasons(err)...)}
	}
	if !v.Bounded {
		return rundir.NotSettled, []rundir.Message{texts.New("undecided.rounds")}
	}
	x := e.effect.relative(v)
	if math.IsNaN(x.Estimate) || math.IsInf(x.Estimate, 0) {
		return rundir.NotSettled, []rundir.Message{texts.New("lacks.value")}
	}
	outcome, kind := e.effect.against(x)
	if kind != "" {
		write := e.measured.dim.Write
		if e.measured.unit == rundir.Share {
			write = func(v float64) string { return units.FourDigits(100*v) + "%" }
		}
		why = []rundir.Message{texts.New(kind, "published", e.effect.text).With("range", v.spelled(write))}
	}
	return outcome, why
}
