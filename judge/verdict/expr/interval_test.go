package expr

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"dyno/internal/texts"
	"dyno/results/rundir"
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

func TestCompare(t *testing.T) {
	below, at, over, above := between(1, 2, 3), between(1, 2, 5), between(3, 5, 8), between(6, 7, 8)
	for _, c := range []struct {
		a        Quantity
		operator string
		b        Quantity
		want     truth
	}{
		{below, "<", exactly(5), yes}, {at, "<", exactly(5), undecided}, {over, "<", exactly(5), undecided}, {above, "<", exactly(5), no},
		{below, "<", exactly(3), undecided}, {at, "<", exactly(1), no}, {at, "<=", exactly(5), yes}, {at, "<=", exactly(1), undecided},
		{below, ">", exactly(5), no}, {over, ">", exactly(5), undecided}, {above, ">", exactly(5), yes}, {above, ">=", exactly(6), yes},
		{above, ">=", exactly(8), undecided}, {above, ">", exactly(8), no},
		{below, "<", above, yes}, {above, "<", below, no}, {at, "<", over, undecided},
		{below, "==", exactly(5), no}, {over, "==", exactly(5), undecided}, {exactly(5), "==", exactly(5), yes}, {exactly(5), "==", exactly(6), no},
		{below, "!=", exactly(5), yes}, {over, "!=", exactly(5), undecided}, {exactly(5), "!=", exactly(5), no},
		{between(1, 2, inf), "<", exactly(1e300), undecided}, {between(-inf, 2, 3), "<", exactly(4), yes}, {between(-inf, 2, inf), "==", between(-inf, 2, inf), undecided},
	} {
		if got := c.a.compare(c.operator, c.b); got != c.want {
			t.Errorf("%v %s %v: %d, want %d", c.a, c.operator, c.b, got, c.want)
		}
	}
}

func TestKleene(t *testing.T) {
	truths := []truth{no, undecided, yes}
	for _, a := range truths {
		for _, b := range truths {
			l, r := ruling{a, []rundir.Message{texts.Verbatim("l")}}, ruling{b, []rundir.Message{texts.Verbatim("r")}}
			and, or := both(l, r, no), both(l, r, yes)
			if and.is != min(a, b) || or.is != max(a, b) {
				t.Errorf("%d and %d: %d; or: %d", a, b, and.is, or.is)
			}
			for _, got := range []ruling{and, or} {
				// A reason is given only by a side that the result comes from.
				for _, why := range got.why {
					if from := map[string]truth{"l": a, "r": b}[why.String()]; from != got.is {
						t.Errorf("%d, %d: %v", a, b, got)
					}
				}
				if len(got.why) == 0 {
					t.Errorf("%d, %d: no reason", a, b)
				}
			}
		}
	}
}

func TestSpelled(t *testing.T) {
	for want, got := range map[string]rundir.Message{
		"78.2ms to 85.33ms":        between(0.0782, 0.08, 0.08533).spelled(duration),
		"200ns":                    exactly(200e-9).spelled(duration),
		"-1.5µs to 2s":             between(-1.5e-6, 0, 2).spelled(duration),
		"0s":                       exactly(0).spelled(duration),
		"an interval without ends": between(-inf, 0, inf).spelled(plain),
		"10MiB":                    exactly(10 << 20).spelled(size),
		"0B to 1.5KiB":             between(0, 1, 1536).spelled(size),
		"1000/s":                   exactly(1000).spelled(rate),
		"10%/h":                    exactly(0.1 / 3600).spelled(growthRate),
		"1.36":                     exactly(1.36).spelled(plain),
	} {
		if got.String() != want {
			t.Errorf("%s, want %s", got, want)
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

// What is true of whole intervals is true of every interval, and of every point,
// within them, and the values computed lie within the interval computed.
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
			if e.left.number == nil {
				continue
			}
			outer, err := e.left.number(in)
			if err != nil {
				continue
			}
			inner, err := e.left.number(on)
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
