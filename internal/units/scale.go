package units

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Step is a unit of a Scale.
type Step struct {
	From float64 // its size, and the value from which it is used
	Name string  // with the blank before it, if there is one
}

// A Scale writes figures of one kind, each in the largest step that it reaches.
type Scale struct {
	steps  []Step
	zero   string
	suffix string
}

// Times is the scale of times in seconds.
func Times() Scale {
	return Scale{steps: []Step{{1e-9, " ns"}, {1e-6, " µs"}, {1e-3, " ms"}, {1, " s"}}, zero: "0 s"}
}

// Sizes is the scale of bytes.
func Sizes() Scale {
	return Scale{steps: []Step{{1, " B"}, {1 << 10, " KiB"}, {1 << 20, " MiB"}, {1 << 30, " GiB"}}, zero: "0 B"}
}

// SizeRates is the scale of bytes per second.
func SizeRates() Scale { return Scale{steps: Sizes().steps, zero: "0 B", suffix: "/s"} }

// Counts is the scale of counts, in thousands (k) and millions (M).
func Counts() Scale { return Scale{steps: []Step{{1, ""}, {1e3, "k"}, {1e6, "M"}}, zero: "0"} }

// Rates is the scale of figures per second.
func Rates() Scale { return Scale{steps: Counts().steps, zero: "0", suffix: "/s"} }

// Shares is the scale of shares, in percent. The whole is 1.
func Shares() Scale { return Scale{steps: []Step{{0.01, "%"}}, zero: "0%"} }

// Processors is the scale of CPU time a second: of CPUs in use.
func Processors() Scale { return Scale{steps: []Step{{1, " CPU"}}, zero: "0 CPU"} }

// Numbers is the scale of figures without a unit.
func Numbers() Scale { return Scale{steps: []Step{{1, ""}}, zero: "0"} }

// Write writes a figure with three significant digits and its unit.
func (s Scale) Write(v float64) string {
	if v == 0 {
		return s.zero + s.suffix
	}
	step := s.Step(v)
	return Figure(v/step.From) + step.Name + s.suffix
}

// Step returns the largest step that a figure reaches when it is rounded.
func (s Scale) Step(v float64) Step {
	best := s.steps[0]
	for _, step := range s.steps {
		// A value rounds up to the step if its distance is at most half a unit of its third digit.
		if math.Abs(v) >= step.From*(1-0.0005) {
			best = step
		}
	}
	return best
}

// Steps returns the units of the scale, the smallest first.
func (s Scale) Steps() []Step { return slices.Clone(s.steps) }

// Suffix is the text after every figure, in whatever step.
func (s Scale) Suffix() string { return s.suffix }

// Base is the unit in which figures are kept, such as s, B, 1/s or 1.
func (s Scale) Base() string {
	for _, step := range s.steps {
		if name := strings.TrimSpace(step.Name); step.From == 1 && name != "" {
			return name
		}
	}
	return "1" + s.suffix
}

// Figure writes a value with three significant digits, without an exponent from 0.001 to 10
// million.
func Figure(v float64) string {
	if v == 0 {
		return "0"
	}
	rounded := significant(v, 3)
	magnitude := int(math.Floor(math.Log10(math.Abs(rounded)) + 1e-9))
	if magnitude < -3 || magnitude > 7 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	return strconv.FormatFloat(rounded, 'f', max(0, 2-magnitude), 64)
}

// Write writes a value of the dimension with four significant digits, in the form used in
// expressions: without a blank before the unit.
func (d Dimension) Write(v float64) string {
	steps := map[Dimension][]Step{
		Duration: Times().steps,
		Size:     Sizes().steps,
		Rate:     {{1, "/s"}},
		Growth:   {{1. / 100 / 3600, "%/h"}},
	}[d]
	if steps == nil {
		steps = Numbers().steps
	}
	in := steps[0]
	if v == 0 && d == Duration {
		in = steps[len(steps)-1]
	}
	for _, step := range steps[1:] {
		if math.Abs(v) >= step.From {
			in = step
		}
	}
	form := byte('g')
	rounded := significant(v/in.From, 4)
	if isLarge(rounded) {
		form = 'f'
	}
	return strconv.FormatFloat(rounded, form, -1, 64) + strings.TrimSpace(in.Name)
}

// Percent writes a share in percent, with three digits.
func Percent(share float64) string { return fmt.Sprintf("%.3g %%", 100*share) }

// FourDigits writes a value with four significant digits. From 10,000 on it is a whole number, its digits in groups of
// three.
func FourDigits(v float64) string {
	rounded := significant(v, 4)
	if isLarge(rounded) {
		return Whole(int64(rounded))
	}
	return strconv.FormatFloat(rounded, 'g', -1, 64)
}

// ShortTime writes a time, given in seconds, with three significant digits and no zeros after them.
func ShortTime(seconds float64) string {
	if seconds == 0 {
		return Times().zero
	}
	step := Times().Step(seconds)
	return strconv.FormatFloat(significant(seconds/step.From, 3), 'f', -1, 64) + step.Name
}

// isLarge tells whether a value in four digits is a whole number, and short enough to write without an
// exponent.
func isLarge(v float64) bool { return math.Abs(v) >= 1e4 && math.Abs(v) < 1e15 }

// significant rounds a value to a number of significant digits.
func significant(v float64, digits int) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', digits-1, 64), 64)
	if err != nil {
		return v
	}
	return rounded
}

// Digits writes a count in plain digits.
func Digits(n int64) string { return strconv.FormatInt(n, 10) }

// Whole writes a count, its digits in groups of three.
func Whole(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}
