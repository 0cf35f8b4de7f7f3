package fields

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Package units reads figures; what is the reader's own is which of them a field takes, and
// what is said of the others.
func TestScalars(t *testing.T) {
	for _, c := range []struct {
		of   Spec
		in   string
		want any    // nil: it is a fault
		says string // the fault
	}{
		{Spec{Kind: Duration}, "1m30s", 90 * time.Second, ""},
		{Spec{Kind: Duration, Choices: []string{"auto"}}, "auto", Auto, ""},
		{Spec{Kind: Duration, Choices: []string{"auto"}}, "soon", nil, `"soon" is not a duration; such as 5s or 250ms; a bare number is seconds; or auto`},
		{Spec{Kind: Rate}, "300/min", 5., ""},
		{Spec{Kind: Rate}, "0", 0., ""},
		{Spec{Kind: Rate}, "fast", nil, `"fast" is not a rate; such as 5000/s, 300/min or 10/h; a bare number is per second`},
		{Spec{Kind: Size}, "2MiB", int64(2 << 20), ""},
		{Spec{Kind: Size}, "1 K", nil, `"1 K" is not a size; such as 512, 512B, 1.5KB, 1KiB or 1MiB`},
		{Spec{Kind: Share}, "2%", 0.02, ""},
		{Spec{Kind: Amount}, "50%", 0.5, ""},
		{Spec{Kind: Amount}, "half", nil, `"half" is not an amount of CPUs; such as 0.5 or 50%`},
		{Spec{Kind: CPUs}, "5,0-1", []int{0, 1, 5}, ""},
		{Spec{Kind: CPUs}, "3-1", nil, "the range 3-1 runs backwards; such as 0 or 0-3,5"},
		{Spec{Kind: Integer, Max: 20}, "12", 12., ""},
		{Spec{Kind: Integer}, "012", nil, `"012" is not a whole number; such as 100`},
		{Spec{Kind: Integer, Min: 1, Max: 9}, "10", nil, "10 is too much; from 1 to 9"},
		{Spec{Kind: Duration, Min: 1, Max: 90}, "2m", nil, "2m is too much; from 1s to 1m30s"},
		{Spec{Kind: Size, Min: 1, Max: 1 << 20}, "0", nil, "0B is too little; from 1B to 1MiB"},
		{Spec{Kind: Choice, Choices: []string{"echo", "line"}}, "lin", nil, `"lin" is not possible; did you mean "line"? (one of echo, line)`},
	} {
		if c.of.Max == 0 {
			c.of.Max = math.Inf(1)
		}
		if problem, hint := c.of.ScalarFault(c.in); c.want == nil {
			if problem+"; "+hint != c.says {
				t.Errorf("%s %q: %s; %s, want %s", c.of.Kind, c.in, problem, hint, c.says)
			}
			continue
		} else if problem != "" {
			t.Errorf("%s %q: %s", c.of.Kind, c.in, problem)
		}
		if got, err := c.of.Read(c.in); err != nil || !cmp.Equal(got, c.want) {
			t.Errorf("%s %q: %v, %v, want %v", c.of.Kind, c.in, got, err, c.want)
		}
	}
}
