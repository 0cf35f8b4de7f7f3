package stat

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestAdjustedAgainstSciPy(t *testing.T) {
	for i, c := range readFixture[struct {
		P        []float64
		Holm, BH []decimal
	}](t, "multiple") {
		before := slices.Clone(c.P)
		holm, err := Holm(c.P)
		if err != nil {
			t.Fatal(err)
		}
		bh, err := BenjaminiHochberg(c.P)
		if err != nil {
			t.Fatal(err)
		}
		for k := range c.P {
			expect(t, i, "Holm", holm[k], c.Holm[k])
			expect(t, i, "Benjamini-Hochberg", bh[k], c.BH[k])
		}
		if !slices.Equal(c.P, before) {
			t.Errorf("case %d: the caller's values are now %v", i, c.P)
		}
	}
}

// Adjusting keeps the order, makes no p smaller, and does not depend on the
// places; Holm is the stricter.
func TestAdjustedProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.Float64Range(0, 1), 0, 12).Draw(t, "p")
		holm, err := Holm(p)
		if err != nil {
			t.Fatal(err)
		}
		bh, err := BenjaminiHochberg(p)
		if err != nil {
			t.Fatal(err)
		}
		for i := range p {
			if bh[i] < p[i] || holm[i] < bh[i]*(1-1e-12) || holm[i] > 1 {
				t.Errorf("p %v, Benjamini-Hochberg %v, Holm %v", p[i], bh[i], holm[i])
			}
			for j := range p {
				if p[i] < p[j] && (holm[i] > holm[j] || bh[i] > bh[j]) {
					t.Errorf("order of %v and %v is lost", p[i], p[j])
				}
			}
		}
		turned := slices.Clone(p)
		slices.Reverse(turned)
		if again, err := Holm(turned); err != nil || !slices.Equal(reversed(again), holm) {
			t.Errorf("%v, from behind %v, %v", holm, again, err)
		}
		if again, err := BenjaminiHochberg(turned); err != nil || !slices.Equal(reversed(again), bh) {
			t.Errorf("%v, from behind %v, %v", bh, again, err)
		}
	})
}

func reversed(values []float64) []float64 {
	out := slices.Clone(values)
	slices.Reverse(out)
	return out
}

func TestAdjustedUnfit(t *testing.T) {
	for _, adjust := range []func([]float64) ([]float64, error){Holm, BenjaminiHochberg} {
		for _, bad := range []float64{math.NaN(), -0.1, 1.1, math.Inf(1)} {
			_, err := adjust([]float64{0.5, bad})
			expectError(t, err, "p-value 1 is")
		}
		if got, err := adjust(nil); err != nil || len(got) != 0 {
			t.Errorf("empty family: %v, %v", got, err)
		}
	}
}

// Holm keeps the chance of any false finding; Benjamini-Hochberg the share.
func TestAdjustedKeepTheirLevel(t *testing.T) {
	const runs, m, real = 4000, 6, 3
	rng := newRNG(19)
	anyFalse, share := 0, 0.0
	for range runs {
		p := make([]float64, m)
		for i := range p {
			p[i] = rng.Float64()
			if i < real {
				p[i] *= 0.01
			}
		}
		holm, _ := Holm(p)
		bh, _ := BenjaminiHochberg(p)
		falseHolm, falseBH, found := 0, 0, 0
		for i := range p {
			if holm[i] <= 0.05 && i >= real {
				falseHolm++
			}
			if bh[i] <= 0.1 {
				found++
				if i >= real {
					falseBH++
				}
			}
		}
		if falseHolm > 0 {
			anyFalse++
		}
		share += float64(falseBH) / float64(max(1, found))
	}
	// Three standard errors are 0.010. With half of them real, the share is half of 0.1.
	if got := float64(anyFalse) / runs; got > 0.06 || got < 0.02 {
		t.Errorf("any false finding by Holm %v, want up to 0.05, and not far less", got)
	}
	if got := share / runs; math.Abs(got-0.05) > 0.01 {
		t.Errorf("share of false findings %v, want 0.05", got)
	}
}
