package verdict

import (
	"math"

	"dyno/internal/texts"
	"dyno/results/rundir"
)

// exactly is a figure that is known exactly.
func exactly(v float64) figure { return figure{estimate: v, low: v, high: v, bounded: true} }

// sound returns a figure that can be computed with: its estimate is a number and lies
// between its ends. An end that is not a number counts as one that the data do not bound.
func sound(f figure, err error) (figure, error) {
	switch {
	case err != nil:
		return figure{}, err
	case math.IsNaN(f.estimate) || math.IsInf(f.estimate, 0):
		return figure{}, texts.NewError("lacks.value")
	case !f.bounded:
		f.low, f.high = f.estimate, f.estimate
		return f, nil
	}
	if math.IsNaN(f.low) {
		f.low = math.Inf(-1)
	}
	if math.IsNaN(f.high) {
		f.high = math.Inf(1)
	}
	f.low, f.high = min(f.low, f.estimate), max(f.high, f.estimate)
	return f, nil
}

// The arithmetic below is that of intervals (Moore, Interval Analysis, 1966): the
// result holds every value that operands within theirs can give. Rounding to
// nearest is monotone, so this is true of the rounded values as well. Where an
// operand has no interval the result has none, but keeps the width that the
// other one gives it.

func (a figure) plus(b figure) figure {
	return figure{a.estimate + b.estimate, a.low + b.low, a.high + b.high, a.bounded && b.bounded}
}

func (a figure) negated() figure { return figure{-a.estimate, -a.high, -a.low, a.bounded} }

func (a figure) minus(b figure) figure { return a.plus(b.negated()) }

func (a figure) times(b figure) figure {
	low, high := math.Inf(1), math.Inf(-1)
	for _, x := range [...]float64{a.low, a.high} {
		for _, y := range [...]float64{b.low, b.high} {
			v := x * y
			if math.IsNaN(v) { // 0 × ∞: no value gets to the infinite end
				v = 0
			}
			low, high = min(low, v), max(high, v)
		}
	}
	return figure{a.estimate * b.estimate, low, high, a.bounded && b.bounded}
}

// over has no bounds where the divisor's interval reaches over zero, and one
// where it ends at zero. Its estimate is no number when the divisor's is zero.
func (a figure) over(b figure) figure {
	f := figure{a.estimate / b.estimate, math.Inf(-1), math.Inf(1), a.bounded && b.bounded}
	if b.low < 0 && b.high > 0 {
		return f
	}
	from, to := b.low, b.high
	if from == 0 {
		from = 0 // not -0, which is on the other side
	}
	if to == 0 && b.low < 0 {
		to = math.Copysign(0, -1)
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, x := range [...]float64{a.low, a.high} {
		for _, y := range [...]float64{from, to} {
			if v := x / y; !math.IsNaN(v) { // ∞/∞ and 0/0 lie between the others
				low, high = min(low, v), max(high, v)
			}
		}
	}
	if low <= high {
		f.low, f.high = low, high
	}
	return f
}

func (a figure) smaller(b figure) figure {
	return figure{min(a.estimate, b.estimate), min(a.low, b.low), min(a.high, b.high), a.bounded && b.bounded}
}

func (a figure) larger(b figure) figure { return a.negated().smaller(b.negated()).negated() }

func (a figure) magnitude() figure {
	switch {
	case a.low >= 0:
		return a
	case a.high <= 0:
		return a.negated()
	}
	return figure{math.Abs(a.estimate), 0, max(-a.low, a.high), a.bounded}
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
func (a figure) compare(operator string, b figure) truth {
	switch operator {
	case "<":
		return either(a.high < b.low, a.low >= b.high)
	case "<=":
		return either(a.high <= b.low, a.low > b.high)
	case ">":
		return b.compare("<", a)
	case ">=":
		return b.compare("<=", a)
	case "==":
		return either(a.low == b.high && a.high == b.low, a.high < b.low || a.low > b.high)
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
func (a figure) spelled(d dimension) rundir.Message {
	switch {
	case a.low == a.high:
		return texts.New("range.exactly", "value", d.Write(a.estimate))
	case math.IsInf(a.low, -1) && math.IsInf(a.high, 1):
		return texts.New("range.endless")
	case math.IsInf(a.low, -1):
		return texts.New("range.most", "high", d.Write(a.high))
	case math.IsInf(a.high, 1):
		return texts.New("range.least", "low", d.Write(a.low))
	}
	return texts.New("range.between", "low", d.Write(a.low), "high", d.Write(a.high))
}
