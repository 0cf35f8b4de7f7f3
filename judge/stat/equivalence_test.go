package stat

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestEquivalenceAgainstSciPy(t *testing.T) {
	for i, c := range readFixture[struct {
		D            []float64
		Margin       float64
		P, Low, High decimal
	}](t, "equivalence") {
		e, err := EquivalenceTest(c.D, c.Margin, 0.05)
		if err != nil {
			t.Errorf("case %d: %v", i, err)
			continue
		}
		expect(t, i, "p", e.P, c.P)
		expect(t, i, "low", e.Interval.Low, c.Low)
		expect(t, i, "high", e.Interval.High, c.High)
		if e.Equivalent != (c.P <= 0.05) {
			t.Errorf("case %d: %+v", i, e)
		}
	}
}

// The interval lies within the margin when the test says so, whichever of the
// two is the base.
func TestEquivalenceIsSymmetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SliceOfN(rapid.Float64Range(-0.03, 0.03), 2, 20).Draw(t, "log ratios")
		margin := rapid.Float64Range(0.001, 0.1).Draw(t, "margin")
		e, err := EquivalenceTest(d, margin, 0.05)
		if err != nil {
			t.Fatal(err)
		}
		swapped, err := EquivalenceTest(negated(d), margin, 0.05)
		if err != nil || swapped.P != e.P || swapped.Equivalent != e.Equivalent || !agree(swapped.Interval.Low, 1/e.Interval.High) {
			t.Errorf("%+v swapped is %+v, %v", e, swapped, err)
		}
		within := e.Interval.Within(Interval{1 / (1 + margin), 1 + margin})
		if math.Abs(e.P-0.05) > 1e-9 && within != e.Equivalent {
			t.Errorf("%+v, but within %v: %v", e, margin, within)
		}
	})
}

func TestEquivalenceWithoutSpread(t *testing.T) {
	for _, c := range []struct {
		d          float64
		p          float64
		equivalent bool
	}{{0, 0, true}, {0.5, 1, false}, {-0.5, 1, false}, {logMargin(0.02), 0.5, false}} {
		e, err := EquivalenceTest([]float64{c.d, c.d, c.d, c.d}, 0.02, 0.05)
		if err != nil || e.P != c.p || e.Equivalent != c.equivalent {
			t.Errorf("log ratios all %v: %+v, %v", c.d, e, err)
		}
	}
	for _, alpha := range []float64{0, 0.5, -1, math.NaN()} {
		_, err := EquivalenceTest([]float64{0, 1}, 0.02, alpha)
		expectError(t, err, "alpha")
	}
	_, err := EquivalenceTest([]float64{0, 1}, 0, 0.05)
	expectError(t, err, "margin 0")
}

// Variants a margin apart are called equivalent no more often than alpha.
func TestEquivalenceKeepsItsLevel(t *testing.T) {
	const runs, n = 2500, 8
	rng := newRNG(17)
	found := 0
	for range runs {
		d := make([]float64, n)
		for i := range d {
			d[i] = logMargin(0.02) + 0.005*rng.NormFloat64()
		}
		e, err := EquivalenceTest(d, 0.02, 0.05)
		if err != nil {
			t.Fatal(err)
		}
		if e.Equivalent {
			found++
		}
	}
	// Three standard errors are 0.013.
	if share := float64(found) / runs; math.Abs(share-0.05) > 0.013 {
		t.Errorf("false equivalence %v, want 0.05", share)
	}
}

func TestJudge(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		name     string
		at95     Interval
		at90     Interval
		margin   float64
		higher   Outcome // when higher is better
		contrary Outcome // when lower is better
	}{
		{"clearly above", Interval{1.1, 1.3}, Interval{1.12, 1.28}, 0.02, Better, Worse},
		{"clearly below", Interval{0.7, 0.9}, Interval{0.75, 0.85}, 0.02, Worse, Better},
		{"above, within the margin", Interval{1.001, 1.01}, Interval{1.002, 1.009}, 0.02, Better, Worse},
		{"about one, narrow", Interval{0.99, 1.01}, Interval{0.992, 1.008}, 0.02, Equivalent, Equivalent},
		{"a point at one", Interval{1, 1}, Interval{1, 1}, 0.02, Equivalent, Equivalent},
		{"touches one", Interval{1, 1.1}, Interval{1.01, 1.09}, 0.02, Inconclusive, Inconclusive},
		{"90 % within, 95 % not", Interval{0.979, 1.021}, Interval{0.985, 1.015}, 0.02, Equivalent, Equivalent},
		{"at the margin", Interval{0.9, 1.1}, Interval{1 / 1.02, 1.02}, 0.02, Equivalent, Equivalent},
		{"just beyond it below", Interval{0.9, 1.1}, Interval{0.98, 1.02}, 0.02, Inconclusive, Inconclusive},
		{"wide", Interval{0.8, 1.2}, Interval{0.85, 1.15}, 0.02, Inconclusive, Inconclusive},
		{"unbounded", Interval{-inf, inf}, Interval{-inf, inf}, 0.02, Inconclusive, Inconclusive},
		{"no numbers", Interval{nan, nan}, Interval{nan, nan}, 0.02, Inconclusive, Inconclusive},
		{"half a number", Interval{1.1, nan}, Interval{1, 1}, 0.02, Inconclusive, Inconclusive},
		{"no margin", Interval{0.99, 1.01}, Interval{1, 1}, 0, Inconclusive, Inconclusive},
		{"margin no number", Interval{0.99, 1.01}, Interval{1, 1}, nan, Inconclusive, Inconclusive},
	} {
		if got := Judge(c.at95, c.at90, c.margin, HigherIsBetter); got != c.higher {
			t.Errorf("%s, higher is better: %v, want %v", c.name, got, c.higher)
		}
		if got := Judge(c.at95, c.at90, c.margin, LowerIsBetter); got != c.contrary {
			t.Errorf("%s, lower is better: %v, want %v", c.name, got, c.contrary)
		}
	}
	for o, want := range map[Outcome]string{Inconclusive: "inconclusive", Equivalent: "equivalent", Better: "better", Worse: "worse"} {
		if o.String() != want {
			t.Errorf("%d is %q, want %q", o, o, want)
		}
	}
	if h, l := HigherIsBetter.String(), LowerIsBetter.String(); h != "higher is better" || l != "lower is better" {
		t.Errorf("directions %q and %q", h, l)
	}
}
