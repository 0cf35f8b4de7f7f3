package pace

import (
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"time"
)

// MaxThink bounds every duration of a Think.
const MaxThink = 24 * time.Hour

// A ThinkKind is a distribution of think time.
type ThinkKind uint8

// The kinds of think time, with the fields of Think that each one uses.
const (
	Fixed       ThinkKind = iota // always Mean
	Uniform                      // Min to Max, both included
	Exponential                  // of mean Mean
	thinkKinds
)

var thinkNames = [thinkKinds]string{"constant", "uniform", "exponential"}

// String returns the kind's usual name.
func (k ThinkKind) String() string {
	if k < thinkKinds {
		return thinkNames[k]
	}
	return fmt.Sprintf("ThinkKind(%d)", uint8(k))
}

// Think describes the pause of a closed loop's user between a response and the
// next request. The zero value is no pause.
type Think struct {
	Kind           ThinkKind
	Mean, Min, Max time.Duration
}

// Validate reports every fault at once. A field that the kind does not use must
// be 0.
func (t Think) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }

	if t.Kind >= thinkKinds {
		fault("kind %d: want Fixed (%d), Uniform (%d) or Exponential (%d)", uint8(t.Kind), Fixed, Uniform, Exponential)
	}
	for _, f := range []struct {
		field   string
		value   time.Duration
		uniform bool
	}{{"mean", t.Mean, false}, {"min", t.Min, true}, {"max", t.Max, true}} {
		switch {
		case f.value < 0 || f.value > MaxThink:
			fault("%s: %v, want 0 to %v", f.field, f.value, MaxThink)
		case f.value != 0 && f.uniform != (t.Kind == Uniform) && t.Kind < thinkKinds:
			fault("%s: %v, but %v think time does not use it", f.field, f.value, t.Kind)
		}
	}
	if t.Kind == Uniform && t.Min > t.Max {
		fault("min: %v is more than max, %v", t.Min, t.Max)
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("think time: %w", err)
	}
	return nil
}

// Draw returns a think time made from the next numbers of a generator; it does not
// allocate. The receiver must be valid.
func (t Think) Draw(rng *rand.PCG) time.Duration {
	switch t.Kind {
	case Uniform:
		above, _ := bits.Mul64(rng.Uint64(), uint64(t.Max-t.Min)+1)
		return t.Min + time.Duration(above)
	case Exponential:
		// In 64 bits there is room for 10⁵ times the longest mean.
		ns, _ := exponential(rng).scale(fixed{lo: uint64(t.Mean)}, 1)
		return time.Duration(ns)
	default:
		return t.Mean
	}
}
