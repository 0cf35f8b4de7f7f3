package compare

import (
	"math"
	"testing"
)

// A quotient of which an end is open is open.
func TestLogQuotient(t *testing.T) {
	for _, c := range []struct{ low, high, want float64 }{
		{2, 2, 0},
		{math.E, 1, 1},
		{0, 1, math.Inf(-1)},
		{1, math.Inf(1), math.Inf(-1)},
		{math.Inf(-1), 1, math.Inf(-1)},
	} {
		if got := logQuotient(c.low, c.high); got != c.want && !(math.Abs(got-c.want) < 1e-12) {
			t.Errorf("%v over %v: %v, want %v", c.low, c.high, got, c.want)
		}
	}
}
