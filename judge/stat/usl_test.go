package stat

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestScalabilityFixtures(t *testing.T) {
	for _, c := range readSeries[struct {
		Name                 string
		N, X, Weights        []float64
		Lambda, Sigma, Kappa float64
		Residual             float64
	}](t, "usl.json") {
		t.Run(c.Name, func(t *testing.T) {
			before := slices.Clone(c.X)
			got, err := ScalabilityFit(c.N, c.X, c.Weights)
			if err != nil {
				t.Fatal(err)
			}
			// What counts at the largest level is how far each term moves it.
			most := slices.Max(c.N)
			near(t, "lambda", got.Lambda, c.Lambda, 1e-5)
			if math.Abs(got.Sigma-c.Sigma)*most > 1e-4 || math.Abs(got.Kappa-c.Kappa)*most*most > 1e-4 {
				t.Errorf("%+v, want %+v", got, c)
			}
			residual := 0.0
			for i, x := range c.X {
				w := 1.0
				if c.Weights != nil {
					w = c.Weights[i]
				}
				residual += w * math.Pow(x-got.Throughput(c.N[i]), 2)
			}
			if residual > c.Residual*(1+1e-9) {
				t.Errorf("residual %v, want at most %v", residual, c.Residual)
			}
			if !slices.Equal(before, c.X) {
				t.Error("the caller's values have changed")
			}
		})
	}
}

// sweepLevels are those of the sweeps below.
var sweepLevels = []float64{1, 2, 4, 8, 16, 32, 64}

// sweep returns rounds of throughputs with a relative error, and one common to the
// round.
func sweep(seed uint64, law Scalability, rounds int, noise float64) [][]float64 {
	rng := newRNG(seed)
	all := make([][]float64, rounds)
	for r := range all {
		day := 1 + noise/2*rng.NormFloat64()
		for _, n := range sweepLevels {
			all[r] = append(all[r], law.Throughput(n)*day*(1+noise*rng.NormFloat64()))
		}
	}
	return all
}

func TestScalabilityPeak(t *testing.T) {
	s := Scalability{Lambda: 1000, Sigma: 0.19, Kappa: 0.0009}
	n, x, ok := s.Peak()
	near(t, "peak", n, 30, 1e-9)
	near(t, "throughput", x, s.Throughput(30), 1e-9)
	if !ok || x <= s.Throughput(29) || x <= s.Throughput(31) {
		t.Errorf("peak at %v, %v, %v", n, x, ok)
	}
	for _, s := range []Scalability{{Lambda: 1, Sigma: 0.1}, {Lambda: 1, Sigma: 1.2, Kappa: 0.1}, {Lambda: 1, Kappa: 1}} {
		if n, x, ok := s.Peak(); ok {
			t.Errorf("%+v has a peak at %v, %v", s, n, x)
		}
	}
	near(t, "one", s.Throughput(1), 1000, 1e-12)
}

func TestBootstrapScalability(t *testing.T) {
	r := Resampling{Draws: 1000, Seed: 7, Confidence: 0.95}
	law := Scalability{Lambda: 1000, Sigma: 0.03, Kappa: 0.001}
	rounds := sweep(1, law, 8, 0.02)
	e, err := BootstrapScalability(sweepLevels, rounds, nil, r)
	if err != nil {
		t.Fatal(err)
	}
	n, x, _ := e.Fit.Peak()
	if !e.Peaked || e.PeakLevel != n || e.PeakThroughput != x || !e.PeakLevelInterval.Contains(n) || !e.PeakThroughputInterval.Contains(x) {
		t.Errorf("no peak: %+v", e)
	}
	if !e.Lambda.Contains(e.Fit.Lambda) || !e.Sigma.Contains(e.Fit.Sigma) || !e.Kappa.Contains(e.Fit.Kappa) || e.Misfit > 0.03 || e.Misfit == 0 {
		t.Errorf("estimate %+v", e)
	}
	again, err := BootstrapScalability(sweepLevels, rounds, nil, r)
	if err != nil || again != e {
		t.Errorf("the same seed gave %+v and %+v, %v", e, again, err)
	}
	r.Seed = 8
	if other, err := BootstrapScalability(sweepLevels, rounds, nil, r); err != nil || other.Fit != e.Fit || other.Kappa == e.Kappa {
		t.Errorf("another seed gave %+v, %v", other, err)
	}
	weights := make([]float64, len(sweepLevels))
	for i, n := range sweepLevels {
		weights[i] = math.Pow(law.Throughput(n), -2)
	}
	relative, err := BootstrapScalability(sweepLevels, rounds, weights, r)
	if err != nil || relative.Fit == e.Fit || !relative.Lambda.Contains(1000) {
		t.Errorf("weighted: %+v, %v", relative, err)
	}
}

// The intervals hold what they should about as often as they should, and where
// nothing makes throughput fall a peak is claimed in few sweeps.
func TestScalabilityIntervals(t *testing.T) {
	const repeats = 60
	r := Resampling{Draws: 200, Confidence: 0.9}
	covered, peaks := map[string]int{}, 0
	for seed := range uint64(repeats) {
		r.Seed = seed
		law := Scalability{Lambda: 500, Sigma: 0.04, Kappa: 0.0008}
		e, err := BootstrapScalability(sweepLevels, sweep(seed, law, 8, 0.03), nil, r)
		if err != nil {
			t.Fatal(err)
		}
		at, _, _ := law.Peak()
		for name, ok := range map[string]bool{
			"lambda": e.Lambda.Contains(law.Lambda), "sigma": e.Sigma.Contains(law.Sigma), "kappa": e.Kappa.Contains(law.Kappa),
			"peak": e.PeakLevelInterval.Contains(at),
		} {
			if ok {
				covered[name]++
			}
		}
		e, err = BootstrapScalability(sweepLevels, sweep(seed, Scalability{Lambda: 500, Sigma: 0.04}, 8, 0.03), nil, r)
		if err != nil {
			t.Fatal(err)
		}
		if e.Peaked {
			peaks++
		} else if e.PeakLevel != 0 || e.PeakLevelInterval != (Interval{}) {
			t.Errorf("no peak, and yet %+v", e)
		}
	}
	for _, name := range []string{"lambda", "sigma", "kappa", "peak"} {
		if n := covered[name]; n < 47 || n > 59 {
			t.Errorf("%s: %d of %d intervals of 90 %% hold it", name, n, repeats)
		}
	}
	if peaks > 7 {
		t.Errorf("%d of %d sweeps without a peak have one", peaks, repeats)
	}
}

// Any positive throughputs have a fit no worse than the plain average, and other
// units only change λ.
func TestScalabilityOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOfN(rapid.Float64Range(1, 1e4), len(sweepLevels), len(sweepLevels)).Draw(t, "throughputs")
		got, err := ScalabilityFit(sweepLevels, xs, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !(got.Lambda > 0 && got.Sigma >= 0 && got.Kappa >= 0) {
			t.Fatalf("%+v", got)
		}
		residual := func(s Scalability) (sum float64) {
			for i, n := range sweepLevels {
				sum += math.Pow(xs[i]-s.Throughput(n), 2)
			}
			return sum
		}
		best := residual(got)
		for _, lambda := range []float64{xs[0], xs[6] / 64} {
			if other := residual(Scalability{Lambda: lambda}); best > other*(1+1e-9) {
				t.Fatalf("%+v has residual %v, a line through one point %v", got, best, other)
			}
		}
		scale := math.Ldexp(1, rapid.IntRange(-30, 30).Draw(t, "scale"))
		other, err := ScalabilityFit(sweepLevels, affine(xs, scale, 0), slices.Repeat([]float64{1024}, len(xs)))
		if err != nil || other != (Scalability{got.Lambda * scale, got.Sigma, got.Kappa}) {
			t.Fatalf("%+v, in units of %v and with other weights %+v, %v", got, scale, other, err)
		}
	})
}

func TestScalabilityRefuses(t *testing.T) {
	x := []float64{1, 2, 3, 4, 5, 6, 7}
	fit := func(n, x, w []float64) func() error {
		return func() error { _, err := ScalabilityFit(n, x, w); return err }
	}
	boot := func(rounds [][]float64, r Resampling) func() error {
		return func() error { _, err := BootstrapScalability(sweepLevels, rounds, nil, r); return err }
	}
	good := Resampling{Draws: 200, Seed: 1, Confidence: 0.9}
	for name, c := range map[string]struct {
		do   func() error
		want []string
	}{
		"lengths":    {fit(sweepLevels, x[:6], nil), []string{"7 levels, 6 throughputs"}},
		"weights":    {fit(sweepLevels, x, x[:6]), []string{"6 weights"}},
		"few":        {fit(sweepLevels[:5], x[:5], nil), []string{"levels: too few values: 5, want at least 6"}},
		"repeated":   {fit([]float64{1, 1, 2, 3, 4, 5, 5}, x, nil), []string{"too few values: 5 different levels, want at least 6"}},
		"all faults": {fit([]float64{0.5, 2, 4, 8, 16, 32, 64}, []float64{1, 2, 3, math.NaN(), 5, 6, 7}, []float64{1, 1, 1, 1, 1, 1, -1}), []string{"levels: value 0 is 0.5: want at least 1", "throughputs: value 3 is NaN", "weights: value 6 is -1: want above 0"}},
		"zero":       {fit(sweepLevels, []float64{1, 2, 3, 0, 5, 6, 7}, nil), []string{"throughputs: value 3 is 0: want above 0"}},
		"rounds":     {boot([][]float64{x, x, x, x}, good), []string{"4 rounds, want at least 5"}},
		"resampling": {boot([][]float64{x, x, x, x, x}, Resampling{}), []string{"confidence 0", "draws 0"}},
		"one round":  {boot([][]float64{x, x, x[:6], x, x}, good), []string{"round 2: scalability: 7 levels, 6 throughputs"}},
	} {
		err := c.do()
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
}
