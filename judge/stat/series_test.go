package stat

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// readSeries reads a fixture that testdata/series/make.py made.
func readSeries[C any](t *testing.T, name string) []C {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "series", name))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Cases []C }
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if len(doc.Cases) == 0 {
		t.Fatalf("%s: no cases", name)
	}
	return doc.Cases
}

// near compares with a tolerance relative to the larger, and to 1e-12 near 0.
func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*max(math.Abs(got), math.Abs(want))+1e-12) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// gaussian returns n normal values of standard deviation 1.
func gaussian(seed uint64, n int) []float64 {
	rng := newRNG(seed)
	xs := make([]float64, n)
	for i := range xs {
		xs[i] = rng.NormFloat64()
	}
	return xs
}

// autoregressive returns n values of standard deviation 1, whose neighbours have correlation phi.
func autoregressive(seed uint64, n int, phi float64) []float64 {
	xs := gaussian(seed, n)
	for i := range xs[1:] {
		xs[i+1] = phi*xs[i] + math.Sqrt(1-phi*phi)*xs[i+1]
	}
	return xs
}

// affine returns a·x + b.
func affine(xs []float64, a, b float64) []float64 {
	ys := make([]float64, len(xs))
	for i, x := range xs {
		ys[i] = a*x + b
	}
	return ys
}

func TestSeriesFixtures(t *testing.T) {
	for _, c := range readSeries[struct {
		Name       string
		Values     []float64
		ACF        []float64
		Lags       int
		Time       float64
		Truncation int
		Steady     bool
	}](t, "series.json") {
		t.Run(c.Name, func(t *testing.T) {
			before := slices.Clone(c.Values)
			centered, err := center(c.Values)
			if err != nil {
				t.Fatal(err)
			}
			for k, want := range c.ACF {
				near(t, "autocorrelation", centered.rho(k), want, 1e-10)
			}
			d, err := MeasureDependence(c.Values)
			if err != nil {
				t.Fatal(err)
			}
			near(t, "lag 1", d.Lag1, c.ACF[1], 1e-10)
			near(t, "time", d.Time, c.Time, 1e-10)
			near(t, "effective size", d.EffectiveSize, float64(len(c.Values))/c.Time, 1e-10)
			if d.Lags != c.Lags {
				t.Errorf("%d lags, want %d", d.Lags, c.Lags)
			}
			cut, err := MSER5(c.Values)
			if err != nil {
				t.Fatal(err)
			}
			if want := (Truncation{Index: c.Truncation, Steady: c.Steady}); cut != want {
				t.Errorf("truncation %+v, want %+v", cut, want)
			}
			if !slices.Equal(before, c.Values) {
				t.Error("the caller's values have changed")
			}
		})
	}
}

// The integrated autocorrelation time of x = φ·x′ + ε is (1+φ)/(1−φ).
func TestDependenceOfKnownProcess(t *testing.T) {
	for _, phi := range []float64{0, 0.3, 0.6, 0.9} {
		mean := 0.0
		const repeats = 20
		for seed := range uint64(repeats) {
			d, err := MeasureDependence(autoregressive(seed, 5000, phi))
			if err != nil {
				t.Fatal(err)
			}
			mean += d.Time / repeats
		}
		if want := (1 + phi) / (1 - phi); math.Abs(mean/want-1) > 0.1 {
			t.Errorf("φ %v: time %v, want %v", phi, mean, want)
		}
	}
}

func TestMSER5TakesTheWorst(t *testing.T) {
	const n = 400
	from := func(seed uint64, start int) []float64 { // a warm-up of a number of values
		xs := gaussian(seed, n)
		for i := range xs[:start] {
			xs[i] += 50
		}
		return xs
	}
	steady, late, later, never := from(1, 0), from(2, 60), from(5, 90), from(4, 250)
	for _, c := range []struct {
		name   string
		series [][]float64
		want   Truncation
	}{
		{"steady", [][]float64{slices.Repeat([]float64{7}, 200)}, Truncation{0, true, 0}},
		{"constant next to it", [][]float64{slices.Repeat([]float64{1.1}, 100), late}, Truncation{60, true, 1}},
		{"longest", [][]float64{steady, late, later}, Truncation{90, true, 2}},
		{"not steady is worse than long", [][]float64{later, never, late}, Truncation{250, false, 1}},
	} {
		got, err := MSER5(c.series...)
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
}

// A series without trend and warm-up is nearly always called steady.
func TestMSER5OnSteadySeries(t *testing.T) {
	unsteady := 0
	for seed := range uint64(200) {
		cut, err := MSER5(gaussian(seed, 300))
		if err != nil {
			t.Fatal(err)
		}
		if !cut.Steady {
			unsteady++
		}
	}
	if unsteady > 5 {
		t.Errorf("%d of 200 steady series called not steady", unsteady)
	}
}
