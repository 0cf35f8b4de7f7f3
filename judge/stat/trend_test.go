package stat

import (
	"math"
	"slices"
	"strings"
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

// The exact p-value and the approximation are two computations of one thing.
func TestMannKendallApproximation(t *testing.T) {
	for seed := range uint64(20) {
		xs := gaussian(seed, 40)
		exact, err := MannKendall(xs, 1)
		if err != nil {
			t.Fatal(err)
		}
		about, err := MannKendall(xs, 1+1e-12)
		if err != nil {
			t.Fatal(err)
		}
		if !exact.Exact || about.Exact || math.Abs(exact.P-about.P) > 0.005 {
			t.Errorf("exact %+v, approximate %+v", exact, about)
		}
	}
}

// Where nothing grows, five in a hundred tests are positive at 5 %, with and
// without ties and dependence as far as HamedRao's comment says.
func TestMannKendallSize(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: simulates thousands of experiments")
	}
	for _, c := range []struct {
		name     string
		n        int
		series   func(seed uint64, n int) []float64
		corrects bool
		repeats  int
		low, top float64
	}{
		{"exact", 30, gaussian, false, 500, 0.025, 0.065},
		{"normal", 80, gaussian, false, 1000, 0.03, 0.07},
		{"ties", 60, func(seed uint64, n int) []float64 {
			xs := gaussian(seed, n)
			for i := range xs {
				xs[i] = math.Round(2 * xs[i])
			}
			return xs
		}, false, 1000, 0.03, 0.07},
		{"dependent, uncorrected", 200, func(seed uint64, n int) []float64 { return autoregressive(seed, n, 0.5) }, false, 500, 0.17, 0.33},
		{"dependent, corrected", 200, func(seed uint64, n int) []float64 { return autoregressive(seed, n, 0.5) }, true, 150, 0.02, 0.12},
	} {
		t.Run(c.name, func(t *testing.T) {
			positive := 0
			for seed := range uint64(c.repeats) {
				xs, inflation := c.series(seed, c.n), 1.0
				if c.corrects {
					var err error
					if inflation, err = HamedRao(xs); err != nil {
						t.Fatal(err)
					}
				}
				test, err := MannKendall(xs, inflation)
				if err != nil {
					t.Fatal(err)
				}
				if test.P <= 0.05 {
					positive++
				}
			}
			if share := float64(positive) / float64(c.repeats); share < c.low || share > c.top {
				t.Errorf("%.3f positive, want %v to %v", share, c.low, c.top)
			}
		})
	}
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

func TestTrendRefuses(t *testing.T) {
	good := counting(20)
	nan := slices.Concat(counting(19), []float64{math.NaN()})
	for name, c := range map[string]struct {
		do   func() error
		want string
	}{
		"lengths":    {func() error { _, err := TheilSen(good, good[:19], 0.95, 1); return err }, "20 values of x and 19 of y"},
		"few":        {func() error { _, err := TheilSen(good[:2], good[:2], 0.95, 1); return err }, "want at least 3"},
		"nan":        {func() error { _, err := TheilSen(good, nan, 0.95, 1); return err }, "y: value 19 is NaN"},
		"nan x":      {func() error { _, err := TheilSen(nan, good, 0.95, 1); return err }, "x: value 19 is NaN"},
		"order":      {func() error { _, err := TheilSen([]float64{0, 2, 2}, good[:3], 0.95, 1); return err }, "value 2 is 2 after 2"},
		"confidence": {func() error { _, err := TheilSen(good, good, 1, 1); return err }, "confidence 1"},
		"inflation":  {func() error { _, err := TheilSen(good, good, 0.95, 0.5); return err }, "inflation 0.5"},
		"many":       {func() error { _, err := TheilSen(counting(5000), counting(5000), 0.95, 1); return err }, "5000 points: want at most 4096"},
		"overflow": {func() error {
			_, err := TheilSen([]float64{0, 1e-300, 2e-300}, []float64{1e100, 2e100, 3e100}, 0.9, 1)
			return err
		}, "beyond"},
		"kendall few": {func() error { _, err := MannKendall(good[:2], 1); return err }, "want at least 3"},
		"kendall nan": {func() error { _, err := MannKendall(nan, 1); return err }, "value 19 is NaN"},
		"kendall inf": {func() error { _, err := MannKendall(good, math.Inf(1)); return err }, "inflation +Inf"},
		"rao few":     {func() error { _, err := HamedRao(good[:9]); return err }, "want at least 10"},
		"rao nan":     {func() error { _, err := HamedRao(nan); return err }, "value 19 is NaN"},
		"rao many":    {func() error { _, err := HamedRao(counting(5000)); return err }, "want at most 4096"},
	} {
		if err := c.do(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
