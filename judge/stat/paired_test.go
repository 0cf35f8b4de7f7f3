package stat

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestPairedRatioAgainstSciPy(t *testing.T) {
	for i, c := range readFixture[struct {
		A, B                                     []float64
		Confidence                               float64
		Estimate, Low, High, T, P, S, Detectable decimal
	}](t, "ratio") {
		r, err := PairedRatio(c.A, c.B, c.Confidence)
		if err != nil {
			t.Errorf("case %d: %v", i, err)
			continue
		}
		expect(t, i, "estimate", r.Estimate, c.Estimate)
		expect(t, i, "low", r.Interval.Low, c.Low)
		expect(t, i, "high", r.Interval.High, c.High)
		expect(t, i, "p", r.P, c.P)
		expect(t, i, "standard deviation", r.LogStdDev, c.S)
		if c.Confidence == 0.95 {
			expect(t, i, "detectable", r.Detectable, c.Detectable)
		}
		d, _ := LogRatios(c.A, c.B)
		m, err := PairedMean(d, c.Confidence)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, i, "t", m.T, c.T)
		expect(t, i, "log mean", r.LogMean, decimal(m.Estimate))
		if r.N != len(c.A) || m.N != len(c.A) {
			t.Errorf("case %d: n %d and %d", i, r.N, m.N)
		}
	}
}

// Swapping the variants turns the ratio over; another unit changes nothing.
func TestPairedRatioIsInvariant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawRounds(t)
		scale := rapid.Float64Range(1e-6, 1e6).Draw(t, "scale")
		r, err := PairedRatio(a, b, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		swapped, err := PairedRatio(b, a, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		if !agree(swapped.Estimate, 1/r.Estimate) || !agree(swapped.Interval.Low, 1/r.Interval.High) || !agree(swapped.P, r.P) {
			t.Errorf("%+v swapped is %+v", r, swapped)
		}
		other, err := PairedRatio(scaled(a, scale), scaled(b, scale), 0.95)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(other.LogMean-r.LogMean) > 1e-12 || math.Abs(other.LogStdDev-r.LogStdDev) > 1e-12 {
			t.Errorf("%+v at scale %v is %+v", r, scale, other)
		}
		if r.LogStdDev > 1e-9 && math.Abs(r.P-0.05) > 1e-9 && r.Interval.Contains(1) != (r.P > 0.05) {
			t.Errorf("interval %v, but p %v", r.Interval, r.P)
		}
	})
}

func TestPairsThatFit(t *testing.T) {
	d, err := Differences([]float64{1, 2}, []float64{4, 1})
	if err != nil || d[0] != 3 || d[1] != -1 {
		t.Errorf("differences %v, %v", d, err)
	}
	_, err = LogRatios([]float64{1, 2}, []float64{1, 0})
	expectError(t, err, "round 1 has 2 and 0: a ratio needs values above zero")
	_, err = LogRatios([]float64{-1, 2}, []float64{-1, 2})
	expectError(t, err, "round 0 has -1 and -1")
	_, err = Differences([]float64{1, 2}, []float64{1})
	expectError(t, err, "2 values against 1")
	_, err = PairedRatio([]float64{1}, []float64{1}, 0.95)
	if !errors.Is(err, ErrTooFew) {
		t.Errorf("one round: %v", err)
	}
	if d, err := LogRatios([]float64{1e-140}, []float64{1e140}); err != nil || !agree(d[0], 280*math.Ln10) {
		t.Errorf("a ratio beyond all numbers: %v, %v", d, err)
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
	for _, x := range []float64{
		DetectableEffect(1, 1, 0.95, 0.8), DetectableEffect(-1, 8, 0.95, 0.8), DetectableEffect(math.NaN(), 8, 0.95, 0.8),
		DetectableEffect(1, 8, 0.95, 0), DetectableEffect(1, 8, 0.95, 1), DetectableEffect(1, 8, 0.95, math.NaN()),
	} {
		if !math.IsNaN(x) {
			t.Errorf("unfit input: %v, want NaN", x)
		}
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
		{0, -1, 0.02, 8, "standard deviation -1"}, {0, 1, 0.02, 1, "1 rounds"}, {0, 1, 0.02, MaxRounds + 1, "rounds"},
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

// The t interval holds the true ratio as often as it says, whatever the drift
// that the rounds share.
func TestPairedRatioCovers(t *testing.T) {
	const runs, n = 2500, 8
	rng := newRNG(7)
	covered, positive := 0, 0
	for range runs {
		a, b := make([]float64, n), make([]float64, n)
		for i := range a {
			drift := rng.NormFloat64() * 0.2
			a[i] = 5000 * math.Exp(drift+rng.NormFloat64()*0.01)
			b[i] = 5000 * 0.95 * math.Exp(drift+rng.NormFloat64()*0.01)
		}
		r, err := PairedRatio(a, b, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		if r.Interval.Contains(0.95) {
			covered++
		}
		if r.Interval.Low > 1 {
			positive++
		}
	}
	// Three standard errors of the share are 0.013.
	if share := float64(covered) / runs; math.Abs(share-0.95) > 0.013 {
		t.Errorf("coverage %v, want 0.95", share)
	}
	if positive > 0 {
		t.Errorf("%d of %d with the wrong sign", positive, runs)
	}
}
