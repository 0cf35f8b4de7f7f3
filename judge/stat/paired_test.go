package stat

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// logRatios returns ln(b/a) of each round.
func logRatios(a, b []float64) []float64 {
	d := make([]float64, len(a))
	for i := range a {
		d[i] = math.Log(b[i]) - math.Log(a[i])
	}
	return d
}

func TestPairedMeanAgainstSciPy(t *testing.T) {
	for i, c := range readFixture[struct {
		A, B                                     []float64
		Confidence                               float64
		Estimate, Low, High, T, P, S, Detectable decimal
	}](t, "ratio") {
		m, err := PairedMean(logRatios(c.A, c.B), c.Confidence)
		if err != nil {
			t.Errorf("case %d: %v", i, err)
			continue
		}
		expect(t, i, "estimate", math.Exp(m.Estimate), c.Estimate)
		expect(t, i, "low", math.Exp(m.Interval.Low), c.Low)
		expect(t, i, "high", math.Exp(m.Interval.High), c.High)
		expect(t, i, "t", m.T, c.T)
		expect(t, i, "p", m.P, c.P)
		expect(t, i, "standard deviation", m.StdDev, c.S)
		if c.Confidence == 0.95 {
			expect(t, i, "detectable", math.Expm1(DetectableEffect(m.StdDev, m.N, c.Confidence, 0.8)), c.Detectable)
		}
		if m.N != len(c.A) {
			t.Errorf("case %d: n %d", i, m.N)
		}
	}
}

func TestMeanOfEqualDifferences(t *testing.T) {
	for _, c := range []struct {
		d    []float64
		p, t float64
	}{
		{[]float64{0, 0, 0}, 1, 0},
		{[]float64{0.5, 0.5}, 0, math.Inf(1)},
		{[]float64{-2, -2}, 0, math.Inf(-1)},
	} {
		m, err := PairedMean(c.d, 0.95)
		if err != nil || m.P != c.p || m.T != c.t || m.Interval != (Interval{c.d[0], c.d[0]}) {
			t.Errorf("%v: %+v, %v", c.d, m, err)
		}
	}
}

// The noncentral t says what the detectable effect is worth.
func TestDetectableEffectHasItsPower(t *testing.T) {
	for i, c := range readFixture[struct {
		N             int
		Effect, Power decimal
	}](t, "power") {
		expect(t, i, "effect", DetectableEffect(1, c.N, 0.95, 0.8), c.Effect)
		if c.N >= 5 && math.Abs(float64(c.Power)-0.8) > 0.01 {
			t.Errorf("%d rounds: power %v, and the documentation says within 0.01 of 0.8", c.N, c.Power)
		}
	}
	if x := DetectableEffect(1, 1, 0.95, 0.8); !math.IsNaN(x) {
		t.Errorf("one round: %v, want NaN", x)
	}
	if x := DetectableEffect(0, 8, 0.95, 0.8); x != 0 {
		t.Errorf("no spread: %v, want 0", x)
	}
}

func TestFurtherRounds(t *testing.T) {
	for i, c := range readFixture[struct {
		Mean, S, Margin float64
		N, More         int
	}](t, "further") {
		more, err := FurtherRounds(c.Mean, c.S, c.N, c.Margin, 0.95)
		if err != nil || more != c.More {
			t.Errorf("case %d: %d, %v, want %d", i, more, err, c.More)
		}
	}
	if more, err := FurtherRounds(0, 1e6, 8, 0.02, 0.95); err != nil || more != MaxRounds-8 {
		t.Errorf("hopeless: %d, %v", more, err)
	}
	for _, c := range []struct {
		mean, s, margin float64
		n               int
		says            string
	}{
		{0, 1, 0, 8, "margin 0"}, {0, 1, -1, 8, "margin -1"}, {0, 1, math.NaN(), 8, "margin NaN"}, {0, 1, 2, 8, "margin 2"},
		{math.NaN(), 1, 0.02, 8, "value 0 is NaN"}, {0, math.Inf(1), 0.02, 8, "value 1 is +Inf"},
		{0, 1, 0.02, 1, "1 rounds"}, {0, 1, 0.02, MaxRounds + 1, "rounds"},
	} {
		_, err := FurtherRounds(c.mean, c.s, c.n, c.margin, 0.95)
		expectError(t, err, c.says)
	}
}

// As many further rounds as asked for do settle it, and one fewer does not.
func TestFurtherRoundsSettle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mean, s := rapid.Float64Range(-0.05, 0.05).Draw(t, "mean"), rapid.Float64Range(0.001, 0.1).Draw(t, "s")
		n := rapid.IntRange(2, 30).Draw(t, "n")
		more, err := FurtherRounds(mean, s, n, 0.02, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		outcome := func(rounds int) Outcome {
			i := func(confidence float64) Interval {
				half := halfWidth(s, rounds, confidence)
				return Interval{math.Exp(mean - half), math.Exp(mean + half)}
			}
			return Judge(i(0.95), i(0.9), 0.02, HigherIsBetter)
		}
		if o := outcome(n + more); o == Inconclusive {
			t.Errorf("%d rounds and %d more: %v", n, more, o)
		}
		if more > 0 {
			if o := outcome(n + more - 1); o == Better || o == Worse {
				t.Errorf("%d rounds and %d more: %v already", n, more-1, o)
			}
		}
	})
}
