package stat

import (
	"math"
	"slices"
	"testing"
)

// counting returns 0, 1, 2 …
func counting(n int) []float64 {
	xs := make([]float64, n)
	for i := range xs {
		xs[i] = float64(i)
	}
	return xs
}

func TestTrendFixtures(t *testing.T) {
	for _, c := range readSeries[struct {
		Name                        string
		X, Y                        []float64
		Slope, Intercept, Low, High float64
		S                           int
		Tau, P                      float64
		Exact                       bool
		Inflation                   float64
		PInflated                   float64 `json:"p_inflated"`
		TheirInflation              float64 `json:"their_inflation"`
		TheirP                      float64 `json:"their_p"`
	}](t, "trend.json") {
		t.Run(c.Name, func(t *testing.T) {
			before := slices.Clone(c.Y)
			line, err := TheilSen(c.X, c.Y, 0.95, 1)
			if err != nil {
				t.Fatal(err)
			}
			near(t, "slope", line.Slope, c.Slope, 1e-12)
			near(t, "intercept", line.Intercept, c.Intercept, 1e-9)
			near(t, "low", line.Interval.Low, c.Low, 1e-12)
			near(t, "high", line.Interval.High, c.High, 1e-12)
			near(t, "at 3", line.At(3), c.Intercept+3*c.Slope, 1e-9)

			test, err := MannKendall(c.Y, 1)
			if err != nil {
				t.Fatal(err)
			}
			if test.S != c.S || test.Exact != c.Exact {
				t.Errorf("S %d, exact %v, want %d, %v", test.S, test.Exact, c.S, c.Exact)
			}
			near(t, "tau", test.Tau, c.Tau, 1e-12)
			near(t, "p", test.P, c.P, 1e-9)
			if c.TheirInflation >= 1 && math.Abs(c.TheirInflation-1) > 1e-9 {
				theirs, err := MannKendall(c.Y, c.TheirInflation)
				if err != nil {
					t.Fatal(err)
				}
				near(t, "p with their inflation", theirs.P, c.TheirP, 1e-6)
			}
			if len(c.Y) < 10 {
				return
			}
			inflation, err := HamedRao(c.Y)
			if err != nil {
				t.Fatal(err)
			}
			near(t, "inflation", inflation, c.Inflation, 1e-9)
			if inflation > 1 {
				inflated, err := MannKendall(c.Y, inflation)
				if err != nil {
					t.Fatal(err)
				}
				near(t, "p inflated", inflated.P, c.PInflated, 1e-8)
				wide, err := TheilSen(c.X, c.Y, 0.95, inflation)
				if err != nil {
					t.Fatal(err)
				}
				if wide.Slope != line.Slope || !line.Interval.Within(wide.Interval) || line.Interval == wide.Interval {
					t.Errorf("interval %v with inflation, %v without", wide.Interval, line.Interval)
				}
			}
			if !slices.Equal(before, c.Y) {
				t.Error("the caller's values have changed")
			}
		})
	}
}

// By hand: of the 24 orders of four values 1, 3 and 5 have 0, 1 and 2 falling pairs.
func TestMannKendallCounts(t *testing.T) {
	for falling, want := range []float64{2.0 / 24, 8.0 / 24, 18.0 / 24} {
		near(t, "p", kendallExact(4, falling), want, 1e-12)
	}
	// Half the middle class twice over is more than everything.
	near(t, "p", kendallExact(4, 3), 1, 1e-12)
}

func TestTrendOfFewAndFlat(t *testing.T) {
	line, err := TheilSen(counting(4), []float64{1, 2, 4, 7}, 0.95, 1)
	if err != nil || line.Slope != 2 || !math.IsInf(line.Interval.Low, -1) || !math.IsInf(line.Interval.High, 1) {
		t.Errorf("four points: %+v, %v: want no bound", line, err)
	}
	flat := slices.Repeat([]float64{3e9}, 30)
	line, err = TheilSen(counting(30), flat, 0.95, 1)
	if err != nil || line != (TrendLine{Slope: 0, Intercept: 3e9}) {
		t.Errorf("flat: %+v, %v", line, err)
	}
	test, err := MannKendall(flat, 1)
	if err != nil || test.S != 0 || test.P != 1 {
		t.Errorf("flat: %+v, %v", test, err)
	}
	for _, xs := range [][]float64{flat, affine(counting(30), 0.1, 7)} {
		if inflation, err := HamedRao(xs); err != nil || inflation != 1 {
			t.Errorf("a straight line: inflation %v, %v", inflation, err)
		}
	}
}
