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

// A Think is the pause between a response and the next request, by at most one distribution;
// without one there is none.
type Think struct {
	Constant    time.Duration `yaml:"constant,short" range:"0..1h" doc:"always this long"`
	Exponential time.Duration `yaml:"exponential" range:"0..1h" doc:"exponentially distributed with this mean"`
	Uniform     *Span         `yaml:"uniform" doc:"uniformly distributed"`
}

// A Span is the durations between two.
type Span struct {
	From time.Duration `yaml:"from,required" range:"0..1h" doc:"the shortest"`
	To   time.Duration `yaml:"to,required" range:"0..1h" doc:"the longest"`
}

// Validate reports every fault at once.
func (t Think) Validate() error {
	var faults []error
	within := func(field string, d time.Duration) {
		if d < 0 || d > MaxThink {
			faults = append(faults, fmt.Errorf("%s: %v, want 0 to %v", field, d, MaxThink))
		}
	}
	within("constant", t.Constant)
	within("exponential", t.Exponential)
	if u := t.Uniform; u != nil {
		within("uniform.from", u.From)
		within("uniform.to", u.To)
		if u.From > u.To {
			faults = append(faults, fmt.Errorf("uniform.to: %v is less than from, %v", u.To, u.From))
		}
	}
	if t.Several() {
		faults = append(faults, errors.New("more than one distribution"))
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("think time: %w", err)
	}
	return nil
}

// Several tells whether there is more than one distribution.
func (t Think) Several() bool {
	return t.Constant != 0 && t.Exponential != 0 || t.Uniform != nil && t.Constant|t.Exponential != 0
}

// Draw returns a think time made from the next numbers of a generator; it does not
// allocate. The receiver must be valid.
func (t Think) Draw(rng *rand.PCG) time.Duration {
	switch u := t.Uniform; {
	case u != nil:
		above, _ := bits.Mul64(rng.Uint64(), uint64(u.To-u.From)+1)
		return u.From + time.Duration(above)
	case t.Exponential > 0:
		// In 64 bits there is room for 10⁵ times the longest mean.
		ns, _ := exponential(rng).scale(fixed{lo: uint64(t.Exponential)}, 1)
		return time.Duration(ns)
	}
	return t.Constant
}
