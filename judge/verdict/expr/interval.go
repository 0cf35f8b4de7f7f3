package expr

import (
	"math"

	"dyno/internal/texts"
	"dyno/results/rundir"
)

// exactly is a figure that is known exactly.
func exactly(v float64) Quantity { return Quantity{Estimate: v, Low: v, High: v, Bounded: true} }

// sound returns a figure that can be computed with: its estimate is a number and lies
// between its ends. An end that is not a number counts as one that the data do not bound.
func sound(f Quantity, err error) (Quantity, error) {
	switch {
	case err != nil:
		return Quantity{}, err
	case math.IsNaN(f.Estimate) || math.IsInf(f.Estimate, 0):
		return Quantity{}, texts.NewError("lacks.value")
	case !f.Bounded:
		f.Low, f.High = f.Estimate, f.Estimate
		return f, nil
	}
	if math.IsNaN(f.Low) {
		f.Low = math.Inf(-1)
	}
	if math.IsNaN(f.High) {
		f.High = math.Inf(1)
	}
	f.Low, f.High = min(f.Low, f.Estimate), max(f.High, f.Estimate)
	return f, nil
}

// The arithmetic below is that of intervals (Moore, Interval Analysis, 1966): the
// result holds every value that operands within theirs can give. Rounding to
// nearest is monotone, so this is true of the rounded values as well. Where an
// operand has no interval the result has none, but keeps the width that the
// other one gives it.

func (a Quantity) plus(b Quantity) Quantity {
	return Quantity{a.Estimate + b.Estimate, a.Low + b.Low, a.High + b.High, a.Bounded && b.Bounded}
}

func (a Quantity) negated() Quantity { return Quantity{-a.Estimate, -a.High, -a.Low, a.Bounded} }

func (a Quantity) minus(b Quantity) Quantity { return a.plus(b.negated()) }

func (a Quantity) times(b Quantity) Quantity {
	low, high := math.Inf(1), math.Inf(-1)
	for _, x := range [...]float64{a.Low, a.High} {
		for _, y := range [...]float64{b.Low, b.High} {
			v := x * y
			if math.IsNaN(v) { // 0 × ∞: no value gets to the infinite end
				v = 0
			}
			low, high = min(low, v), max(high, v)
		}
	}
	return Quantity{a.Estimate * b.Estimate, low, high, a.Bounded && b.Bounded}
}

// over has no bounds where the divisor's interval reaches over zero, and one
// where it ends at zero. Its estimate is no number when the divisor's is zero.
func (a Quantity) over(b Quantity) Quantity {
	f := Quantity{a.Estimate / b.Estimate, math.Inf(-1), math.Inf(1), a.Bounded && b.Bounded}
	if b.Low < 0 && b.High > 0 {
		return f
	}
	from, to := b.Low, b.High
	if from == 0 {
		from = 0 // not -0, which is on the other side
	}
	if to == 0 && b.Low < 0 {
		to = math.Copysign(0, -1)
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, x := range [...]float64{a.Low, a.High} {
		for _, y := range [...]float64{from, to} {
			if v := x / y; !math.IsNaN(v) { // ∞/∞ and 0/0 lie between the others
				low, high = min(low, v), max(high, v)
			}
		}
	}
	if low <= high {
		f.Low, f.High = low, high
	}
	return f
}

func (a Quantity) smaller(b Quantity) Quantity {
	return Quantity{min(a.Estimate, b.Estimate), min(a.Low, b.Low), min(a.High, b.High), a.Bounded && b.Bounded}
}

func (a Quantity) larger(b Quantity) Quantity { return a.negated().smaller(b.negated()).negated() }

func (a Quantity) magnitude() Quantity {
	switch {
	case a.Low >= 0:
		return a
	case a.High <= 0:
		return a.negated()
	}
	return Quantity{math.Abs(a.Estimate), 0, max(-a.Low, a.High), a.Bounded}
}

// A truth is what can be said of a condition on figures with intervals.
type truth int8

// Their order is that of Kleene's logic: "and" is the least of its operands, "or"
// the greatest.
const (
	no truth = iota - 1
	undecided
	yes
)

// compare says whether a relation is true of all pairs of values within two
// intervals, of none, or of some.
func (a Quantity) compare(operator string, b Quantity) truth {
	switch operator {
	case "<":
		return either(a.High < b.Low, a.Low >= b.High)
	case "<=":
		return either(a.High <= b.Low, a.Low > b.High)
	case ">":
		return b.compare("<", a)
	case ">=":
		return b.compare("<=", a)
	case "==":
		return either(a.Low == b.High && a.High == b.Low, a.High < b.Low || a.Low > b.High)
	default: // !=
		return -a.compare("==", b)
	}
}

func either(all, none bool) truth {
	switch {
	case all:
		return yes
	case none:
		return no
	}
	return undecided
}

// A ruling is the outcome of a condition. If it is undecided, why holds the reasons;
// otherwise why holds what a reader should know.
type ruling struct {
	is  truth
	why []rundir.Message
}

// both joins two conditions. A side that is decisive (no for "and", yes for "or")
// decides, whatever the other is.
func both(l, r ruling, decisive truth) ruling {
	switch {
	case l.is == decisive && (r.is != decisive || len(l.why) <= len(r.why)):
		return l
	case r.is == decisive:
		return r
	case l.is == r.is:
		return ruling{l.is, append(l.why[:len(l.why):len(l.why)], r.why...)}
	case l.is == undecided:
		return l
	}
	return r
}

// spelled writes the range that a figure lies in.
func (a Quantity) spelled(write func(float64) string) rundir.Message {
	switch {
	case a.Low == a.High:
		return texts.New("range.exactly", "value", write(a.Estimate))
	case math.IsInf(a.Low, -1) && math.IsInf(a.High, 1):
		return texts.New("range.endless")
	case math.IsInf(a.Low, -1):
		return texts.New("range.most", "high", write(a.High))
	case math.IsInf(a.High, 1):
		return texts.New("range.least", "low", write(a.Low))
	}
	return texts.New("range.between", "low", write(a.Low), "high", write(a.High))
}
