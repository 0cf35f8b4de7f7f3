package stat

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestSignedRankAgainstSciPy(t *testing.T) {
	for i, c := range readFixture[struct {
		D    []float64
		W, P decimal
	}](t, "signedrank") {
		before := slices.Clone(c.D)
		r, err := SignedRank(c.D)
		if err != nil {
			t.Errorf("case %d: %v", i, err)
			continue
		}
		expect(t, i, "W", r.W, c.W)
		expect(t, i, "p", r.P, c.P)
		if !slices.Equal(c.D, before) {
			t.Errorf("case %d: the caller's values are now %v", i, c.D)
		}
	}
}

func TestHodgesLehmannAgainstSciPy(t *testing.T) {
	for i, c := range readFixture[struct {
		D                   []float64
		Confidence          float64
		Estimate, Low, High decimal
		Coverage            *decimal // not counted for the larger ones
	}](t, "hodgeslehmann") {
		before := slices.Clone(c.D)
		l, err := HodgesLehmann(c.D, c.Confidence)
		if err != nil {
			t.Errorf("case %d: %v", i, err)
			continue
		}
		expect(t, i, "estimate", l.Estimate, c.Estimate)
		expect(t, i, "low", l.Interval.Low, c.Low)
		expect(t, i, "high", l.Interval.High, c.High)
		if c.Coverage != nil {
			expect(t, i, "coverage", l.Coverage, *c.Coverage)
		}
		if !slices.Equal(c.D, before) {
			t.Errorf("case %d: the caller's values are now %v", i, c.D)
		}
	}
}

func TestSignedRankIsInvariant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDifferences(t, 1, 15)
		r, err := SignedRank(d)
		if err != nil {
			t.Fatal(err)
		}
		swapped, err := SignedRank(negated(d))
		if err != nil || swapped.P != r.P {
			t.Errorf("%+v with the variants swapped is %+v, %v", r, swapped, err)
		}
		// Only the order of the magnitudes counts.
		bent := slices.Clone(d)
		for i, x := range bent {
			bent[i] = x * x * x
		}
		if cubed, err := SignedRank(bent); err != nil || cubed != r {
			t.Errorf("%+v of the cubes is %+v, %v", r, cubed, err)
		}
	})
}

func TestHodgesLehmannIsInvariant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDifferences(t, 1, 15)
		shift := rapid.Float64Range(-5, 5).Draw(t, "shift")
		l, err := HodgesLehmann(d, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		swapped, err := HodgesLehmann(negated(d), 0.95)
		if err != nil || !agree(swapped.Estimate, -l.Estimate) || swapped.Interval != (Interval{-l.Interval.High, -l.Interval.Low}) {
			t.Errorf("%+v with the variants swapped is %+v, %v", l, swapped, err)
		}
		moved := slices.Clone(d)
		for i := range moved {
			moved[i] += shift
		}
		if m, err := HodgesLehmann(moved, 0.95); err != nil || math.Abs(m.Estimate-l.Estimate-shift) > 1e-12 {
			t.Errorf("%+v moved by %v is %+v, %v", l, shift, m, err)
		}
		if !l.Interval.Contains(l.Estimate) || l.Coverage < 0.95 {
			t.Errorf("%+v", l)
		}
		if unbounded := math.IsInf(l.Interval.Low, 0); unbounded != (len(d) < 6) {
			t.Errorf("%d rounds: %+v", len(d), l)
		}
		// The interval and the test agree: what lies outside is rejected. Ties with
		// the moved zero make the test's distribution another one.
		if len(d) >= 6 {
			outside := slices.Clone(d)
			for i := range outside {
				outside[i] -= l.Interval.High + 1e-3
			}
			magnitudes := make([]float64, len(outside))
			for i, x := range outside {
				magnitudes[i] = math.Abs(x)
			}
			slices.Sort(magnitudes)
			if r, err := SignedRank(outside); len(slices.Compact(magnitudes)) == len(d) && (err != nil || r.P > 0.05) {
				t.Errorf("%v above the interval is not rejected: %+v, %v", l.Interval.High+1e-3, r, err)
			}
		}
	})
}

func TestSignedRankBounds(t *testing.T) {
	if r, err := SignedRank([]float64{-2.5}); err != nil || r != (Rank{0, 1}) {
		t.Errorf("one difference: %+v, %v", r, err)
	}
	if r, err := SignedRank([]float64{0, 0, 0}); err != nil || r != (Rank{0, 1}) {
		t.Errorf("all zero: %+v, %v", r, err)
	}
	many := make([]float64, MaxSignedRank)
	for i := range many {
		many[i] = float64(i - MaxSignedRank/2)
	}
	r, err := SignedRank(many)
	if err != nil || r.P < 0.9 {
		t.Errorf("%d balanced differences: %+v, %v", len(many), r, err)
	}
	_, err = SignedRank(append(many, 1))
	expectError(t, err, "251 differences")
	_, err = HodgesLehmann(append(many, 1), 0.95)
	expectError(t, err, "251 differences")
}

// The interval holds the centre at least as often as it says, with tails as
// heavy as those of a p99.
func TestHodgesLehmannCovers(t *testing.T) {
	const runs, n = 4000, 8
	rng := newRNG(13)
	covered, stated := 0, 0.0
	for range runs {
		d := make([]float64, n)
		for i := range d {
			d[i] = 3 + rng.NormFloat64()/math.Sqrt(rng.ExpFloat64())
		}
		l, err := HodgesLehmann(d, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		if l.Interval.Contains(3) {
			covered++
		}
		stated = l.Coverage
	}
	if share := float64(covered) / runs; math.Abs(share-stated) > 0.01 {
		t.Errorf("coverage %v, want %v", share, stated)
	}
}
