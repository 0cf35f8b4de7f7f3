package stat

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
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

// Adjusting keeps the order, makes no p smaller, and does not depend on the places.
func TestHolmProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.Float64Range(0, 1), 0, 12).Draw(t, "p")
		holm, err := Holm(p)
		if err != nil {
			t.Fatal(err)
		}
		for i := range p {
			if holm[i] < p[i] || holm[i] > 1 {
				t.Errorf("p %v, adjusted %v", p[i], holm[i])
			}
			for j := range p {
				if p[i] < p[j] && holm[i] > holm[j] {
					t.Errorf("order of %v and %v is lost", p[i], p[j])
				}
			}
		}
		turned := slices.Clone(p)
		slices.Reverse(turned)
		again, err := Holm(turned)
		slices.Reverse(again)
		if err != nil || !slices.Equal(again, holm) {
			t.Errorf("%v, reversed %v, %v", holm, again, err)
		}
	})
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

// In a family of six, of which three are real, a false finding is as rare as one test alone.
func TestHolmKeepsItsLevel(t *testing.T) {
	const runs, m, real = 4000, 6, 3
	rng := newRNG(19)
	anyFalse := 0
	for range runs {
		p := make([]float64, m)
		for i := range p {
			p[i] = rng.Float64()
			if i < real {
				p[i] *= 0.01
			}
		}
		holm, err := Holm(p)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(holm[real:], func(p float64) bool { return p <= 0.05 }) {
			anyFalse++
		}
	}
	if got := float64(anyFalse) / runs; got > 0.06 || got < 0.02 {
		t.Errorf("any false finding %v, want up to 0.05, and not far less", got)
	}
}
