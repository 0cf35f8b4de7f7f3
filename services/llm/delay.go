package llm

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"
)

// A Shape is how a delay is distributed.
type Shape string

// The shapes. A and B are the fields of Delay.
const (
	Constant    Shape = ""            // A
	Exponential Shape = "exponential" // of mean A
	Uniform     Shape = "uniform"     // from A to B
	Normal      Shape = "normal"      // of mean A and standard deviation B, never below 0
	LogNormal   Shape = "lognormal"   // of median A; B is the 84th percentile, one σ of the logarithm above
)

// durations is each shape's number of durations.
var durations = map[Shape]int{Constant: 1, Exponential: 1, Uniform: 2, Normal: 2, LogNormal: 2}

// A Delay is a distribution of delays. The zero value is no delay.
type Delay struct {
	Shape Shape
	A, B  time.Duration
}

// maxDelay bounds configured and drawn delays.
const maxDelay = 10 * time.Minute

// ParseDelay reads "20ms", "exponential(20ms)", "uniform(10ms,30ms)",
// "normal(20ms,5ms)" or "lognormal(20ms,40ms)".
func ParseDelay(text string) (Delay, error) {
	d := Delay{}
	inner := text
	if shape, rest, ok := strings.Cut(text, "("); ok {
		if inner, ok = strings.CutSuffix(rest, ")"); !ok {
			return Delay{}, fmt.Errorf("%q: the bracket is not closed", text)
		}
		if d.Shape = Shape(shape); d.Shape == Constant {
			return Delay{}, fmt.Errorf("%q: nothing before the bracket: want a distribution such as normal(20ms,5ms)", text)
		}
	}
	a, b, two := strings.Cut(inner, ",")
	var err error
	if d.A, err = parseDuration(a); err != nil {
		return Delay{}, fmt.Errorf("%q: %w", text, err)
	}
	if two {
		if d.B, err = parseDuration(b); err != nil {
			return Delay{}, fmt.Errorf("%q: %w", text, err)
		}
	}
	if want := durations[d.Shape]; want > 0 && (want == 2) != two {
		return Delay{}, fmt.Errorf("%q: wants %d durations", text, want)
	}
	if err := d.Validate(); err != nil {
		return Delay{}, fmt.Errorf("%q: %w", text, err)
	}
	return d, nil
}

// parseDuration reads a Go duration; "0" needs no unit.
func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil {
		return 0, fmt.Errorf("%q: want a duration such as 20ms", text)
	}
	return d, nil
}

// String returns the form that ParseDelay reads.
func (d Delay) String() string {
	switch {
	case d.Shape == Constant:
		return d.A.String()
	case durations[d.Shape] == 1:
		return fmt.Sprintf("%s(%v)", d.Shape, d.A)
	}
	return fmt.Sprintf("%s(%v,%v)", d.Shape, d.A, d.B)
}

// Validate reports every fault at once.
func (d Delay) Validate() error {
	var errs []error
	if durations[d.Shape] == 0 {
		errs = append(errs, fmt.Errorf("distribution %q: must be exponential, uniform, normal or lognormal, or none", string(d.Shape)))
	}
	for _, v := range []time.Duration{d.A, d.B} {
		if v < 0 || v > maxDelay {
			errs = append(errs, fmt.Errorf("%v: must be from 0 to %v", v, maxDelay))
		}
	}
	switch d.Shape {
	case Uniform:
		if d.B < d.A {
			errs = append(errs, fmt.Errorf("%v: ends before it begins: want uniform(shortest,longest)", d))
		}
	case LogNormal:
		if d.A <= 0 || d.B < d.A {
			errs = append(errs, fmt.Errorf("%v: want lognormal(median,84th percentile), the median above 0", d))
		}
	}
	return errors.Join(errs...)
}

// Draw returns a delay from 0 to ten minutes. It draws nothing for a constant one.
func (d Delay) Draw(r *rand.Rand) time.Duration {
	a, b := float64(d.A), float64(d.B)
	var v float64
	switch d.Shape {
	case Exponential:
		v = a * r.ExpFloat64()
	case Uniform:
		v = a + (b-a)*r.Float64()
	case Normal:
		v = a + b*r.NormFloat64()
	case LogNormal:
		v = a * math.Exp(math.Log(b/a)*r.NormFloat64())
	default:
		return d.A
	}
	return time.Duration(min(max(v, 0), float64(maxDelay)))
}
