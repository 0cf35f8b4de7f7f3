package stat

import (
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
