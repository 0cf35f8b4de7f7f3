package stat

import (
	"math"
	"slices"
	"testing"
)

func TestHolmAgainstClosedTesting(t *testing.T) {
	for i, c := range readFixture[struct {
		P    []float64
		Holm []decimal
	}](t, "multiple") {
		before := slices.Clone(c.P)
		holm, err := Holm(c.P)
		if err != nil {
			t.Fatal(err)
		}
		for k := range c.P {
			expect(t, i, "Holm", holm[k], c.Holm[k])
		}
		if !slices.Equal(c.P, before) {
			t.Errorf("case %d: the caller's values are now %v", i, c.P)
		}
	}
}

func TestHolmUnfit(t *testing.T) {
	for _, bad := range []float64{math.NaN(), -0.1, 1.1, math.Inf(1)} {
		_, err := Holm([]float64{0.5, bad})
		expectError(t, err, "p-value 1 is")
	}
	if got, err := Holm(nil); err != nil || len(got) != 0 {
		t.Errorf("empty family: %v, %v", got, err)
	}
}
