package expr

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"dyno/internal/texts"
)

var inf = math.Inf(1)

func TestIntervalArithmetic(t *testing.T) {
	for _, c := range []struct {
		name string
		got  Quantity
		want Quantity
	}{
		{"sum", between(1, 2, 3).plus(between(10, 20, 40)), between(11, 22, 43)},
		{"sum without end", between(-inf, 2, 3).plus(between(1, 1, inf)), between(-inf, 3, inf)},
		{"difference", between(1, 2, 3).minus(between(10, 20, 40)), between(-39, -18, -7)},
		{"difference without end", between(1, 2, inf).minus(between(1, 1, inf)), between(-inf, 1, inf)},
		{"product", between(1, 2, 3).times(between(-10, 1, 40)), between(-30, 2, 120)},
		{"product of two below zero", between(-3, -2, -1).times(between(-3, -2, 5)), between(-15, 4, 9)},
		{"product of nothing and everything", exactly(0).times(between(-inf, 1, inf)), exactly(0)},
		{"product with an end of zero", between(0, 1, 2).times(between(1, 1, inf)), between(0, 1, inf)},
		{"quotient", between(1, 2, 4).over(between(2, 4, 8)), between(0.125, 0.5, 2)},
		{"quotient by a divisor below zero", between(1, 2, 4).over(between(-8, -4, -2)), between(-2, -0.5, -0.125)},
		{"quotient over zero", between(1, 2, 4).over(between(-1, 4, 8)), between(-inf, 0.5, inf)},
		{"quotient from zero up", between(1, 2, 4).over(between(0, 4, 8)), between(0.125, 0.5, inf)},
		{"quotient from minus zero up", between(1, 2, 4).over(between(math.Copysign(0, -1), 4, 8)), between(0.125, 0.5, inf)},
		{"quotient up to zero", between(1, 2, 4).over(between(-8, -4, 0)), between(-inf, -0.5, -0.125)},
		{"quotient of zero from zero up", between(0, 1, 2).over(between(0, 1, 1)), between(0, 1, inf)},
		{"quotient of two without end", between(1, 2, inf).over(between(1, 2, inf)), between(0, 1, inf)},
		{"smaller", between(1, 5, 9).smaller(between(2, 3, 4)), between(1, 3, 4)},
		{"larger", between(1, 5, 9).larger(between(2, 3, 4)), between(2, 5, 9)},
		{"magnitude above zero", between(1, 5, 9).magnitude(), between(1, 5, 9)},
		{"magnitude below zero", between(-9, -5, -1).magnitude(), between(1, 5, 9)},
		{"magnitude over zero", between(-9, -5, 1).magnitude(), between(0, 5, 9)},
		{"one without an interval", single(2).plus(between(1, 2, 3)), Quantity{4, 3, 5, false}},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
}

func TestSound(t *testing.T) {
	for _, c := range []struct{ in, want Quantity }{
		{between(1, 2, 3), between(1, 2, 3)},
		{between(math.NaN(), 2, math.NaN()), between(-inf, 2, inf)},
		{between(3, 2, 1), between(2, 2, 2)},
		{Quantity{Estimate: 2}, single(2)},
	} {
		if got, err := sound(c.in, nil); err != nil || got != c.want {
			t.Errorf("%v: %v, %v; want %v", c.in, got, err, c.want)
		}
	}
	for _, v := range []float64{math.NaN(), inf, -inf} {
		if got, err := sound(exactly(v), nil); err == nil {
			t.Errorf("%v: %v, want an error", v, got)
		}
	}
}

// A drawn expression is on three figures of each of two dimensions.
func drawNumber(t *rapid.T, depth int) string {
	if depth == 0 || rapid.IntRange(0, 3).Draw(t, "leaf") == 0 {
		return rapid.SampledFrom([]string{
			`value(v, errors.ratio)`, `value(v, errors.total)`, `ratio(v, w, throughput)`, "0", "1", "-2.5", "1e3",
		}).Draw(t, "figure")
	}
	l, r := drawNumber(t, depth-1), drawNumber(t, depth-1)
	switch operator := rapid.SampledFrom([]string{"+", "-", "*", "/", "min", "max", "abs", "neg"}).Draw(t, "operator"); operator {
	case "min", "max":
		return fmt.Sprintf("%s(%s, %s)", operator, l, r)
	case "abs":
		return fmt.Sprintf("abs(%s)", l)
	case "neg":
		return fmt.Sprintf("-(%s)", l)
	default:
		return fmt.Sprintf("(%s %s %s)", l, operator, r)
	}
}

func drawCondition(t *rapid.T, depth int) string {
	if depth > 0 {
		switch rapid.SampledFrom([]string{"comparison", "not", "and", "or"}).Draw(t, "condition") {
		case "not":
			return "not (" + drawCondition(t, depth-1) + ")"
		case "and":
			return "(" + drawCondition(t, depth-1) + " and " + drawCondition(t, depth-1) + ")"
		case "or":
			return "(" + drawCondition(t, depth-1) + " or " + drawCondition(t, depth-1) + ")"
		}
	}
	operator := rapid.SampledFrom([]string{"<", "<=", ">", ">=", "==", "!="}).Draw(t, "relation")
	return drawNumber(t, 3) + " " + operator + " " + drawNumber(t, 2)
}

// A condition that whole intervals decide has the same outcome on every interval, and on
// every point, within them. The values computed lie within the interval computed.
func TestTighteningNeverContradicts(t *testing.T) {
	keys := []string{"v errors.ratio", "v errors.total", "v/w throughput"}
	end := rapid.OneOf(rapid.Float64Range(-10, 10), rapid.SampledFrom([]float64{-inf, -1, 0, math.Copysign(0, -1), 1, inf, 1e308, -1e308, 5e-324}))
	decided := 0
	rapid.Check(t, func(t *rapid.T) {
		text := drawCondition(t, 2)
		wide, tight, point := facts{}, facts{}, facts{}
		for _, key := range keys {
			a, b := end.Draw(t, "a"), end.Draw(t, "b")
			low, high := min(a, b), max(a, b)
			if low == high && math.IsInf(low, 0) {
				low, high = -inf, inf
			}
			within := rapid.Float64Range(max(low, -math.MaxFloat64), min(high, math.MaxFloat64))
			x, y, z := within.Draw(t, "x"), within.Draw(t, "y"), within.Draw(t, "z")
			wide[key] = between(low, z, high)
			tight[key] = between(min(x, y), x, max(x, y))
			point[key] = exactly(y)
		}
		if rapid.IntRange(0, 9).Draw(t, "missing") == 0 {
			key := rapid.SampledFrom(keys).Draw(t, "key")
			delete(wide, key)
		}
		e, err := Compile(text, ForClaim, Names{Variants: []string{"v", "w"}})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		in := &evaluation{Evidence: wide}
		r := e.holds(in)
		if r.is != undecided {
			decided++
		}
		for _, f := range []facts{tight, point} {
			on := &evaluation{Evidence: f}
			if got := e.holds(on); r.is*got.is == -1 {
				t.Errorf("%s\n%d on %v\n%d on %v", text, r.is, wide, got.is, f)
			}
			if e.measured.number == nil {
				continue
			}
			outer, err := e.measured.number(in)
			if err != nil {
				continue
			}
			inner, err := e.measured.number(on)
			if err == nil && (inner.Low < outer.Low || inner.High > outer.High) {
				t.Errorf("%s: %v is not within %v", text, inner, outer)
			}
			if math.IsNaN(outer.Low) || math.IsNaN(outer.High) || outer.Low > outer.Estimate || outer.High < outer.Estimate {
				t.Errorf("%s: %v", text, outer)
			}
		}
		if again := e.holds(in); again.is != r.is || texts.Joined(texts.English, again.why) != texts.Joined(texts.English, r.why) {
			t.Errorf("%s: %v and then %v", text, r, again)
		}
	})
	if decided == 0 {
		t.Error("nothing was ever decided")
	}
}
