package stat

import (
	"testing"
)

func TestUnpairedRatioAgainstSciPy(t *testing.T) {
	for i, c := range readFixture[struct {
		A, B                                             []float64
		Confidence                                       float64
		Estimate, Low, High, T, P, DF, Error, Detectable decimal
	}](t, "unpaired") {
		u, err := UnpairedRatio(c.A, c.B, c.Confidence)
		if err != nil {
			t.Errorf("case %d: %v", i, err)
			continue
		}
		expect(t, i, "estimate", u.Estimate, c.Estimate)
		expect(t, i, "low", u.Interval.Low, c.Low)
		expect(t, i, "high", u.Interval.High, c.High)
		expect(t, i, "t", u.T, c.T)
		expect(t, i, "p", u.P, c.P)
		expect(t, i, "degrees of freedom", u.DF, c.DF)
		expect(t, i, "standard error", u.LogError, c.Error)
		expect(t, i, "detectable", u.Detectable, c.Detectable)
		if u.NA != len(c.A) || u.NB != len(c.B) {
			t.Errorf("case %d: %+v", i, u)
		}
	}
}

func TestUnpairedRatioWithoutSpread(t *testing.T) {
	for _, c := range []struct {
		a, b []float64
		p    float64
	}{{[]float64{2, 2}, []float64{2, 2, 2}, 1}, {[]float64{2, 2}, []float64{4, 4, 4}, 0}} {
		u, err := UnpairedRatio(c.a, c.b, 0.95)
		if err != nil || u.P != c.p || u.Interval.Low != u.Interval.High || u.DF != 3 || u.Detectable != 0 {
			t.Errorf("%v and %v: %+v, %v", c.a, c.b, u, err)
		}
	}
}
