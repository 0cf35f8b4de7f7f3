package stat

import (
	"math"
	"testing"
)

// Judge calls equivalent what SciPy's two one-sided tests call so.
func TestJudgeAgainstSciPy(t *testing.T) {
	for i, c := range readFixture[struct {
		D            []float64
		Margin       float64
		P, Low, High decimal
	}](t, "equivalence") {
		m, err := PairedMean(c.D, 0.9)
		if err != nil {
			t.Errorf("case %d: %v", i, err)
			continue
		}
		at90 := Interval{math.Exp(m.Interval.Low), math.Exp(m.Interval.High)}
		expect(t, i, "low", at90.Low, c.Low)
		expect(t, i, "high", at90.High, c.High)
		wide := Interval{math.Inf(-1), math.Inf(1)}
		if got := Judge(wide, at90, c.Margin, HigherIsBetter); (got == Equivalent) != (c.P <= 0.05) {
			t.Errorf("case %d: %v, and p is %v", i, got, c.P)
		}
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
