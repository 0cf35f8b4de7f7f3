package stat

import (
	"slices"
	"testing"
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
