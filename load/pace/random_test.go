package pace

import (
	"math"
	"slices"
	"testing"
	"time"
)

// TestPoissonKnownStarts pins the schedule of a seed: a run is repeated, years
// later and elsewhere, by its seed alone. Do not update it; find out what
// changed.
func TestPoissonKnownStarts(t *testing.T) {
	s := mustNew(t, []Stage{{time.Second, 0, 1000}, {0, 1000, 1000}}, Poisson, 42)
	var got []time.Duration
	for i, a := range take(s.Split(0, 1), 1000) {
		if i < 4 || i > 996 {
			got = append(got, a.at)
		}
	}
	want := []time.Duration{11893783, 86585165, 93032153, 101076239, 1558359574, 1559297288, 1559518081}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestPoissonGaps tests at the 1 % level with a fixed seed. Gaps are exponential (Kolmogorov-Smirnov)
// and independent (lag-1 autocorrelation). Counts in equal windows vary as they should (index of
// dispersion). The rate is a ramp's, so that rescaling time is tested too.
func TestPoissonGaps(t *testing.T) {
	const n = 200_000
	s := mustNew(t, []Stage{{100 * time.Second, 0, 4000}, {time.Hour, 4000, 4000}}, Poisson, 3)
	gaps := make([]float64, n)
	windows := make([]float64, n/100+1)
	var last float64
	for i, a := range take(s.Split(0, 1), n) {
		x := expected(s, a.at)
		gaps[i], last = x-last, x
		if w := int(x / 100); w < len(windows) {
			windows[w]++
		}
	}

	var cov, variance float64
	for i := 1; i < n; i++ {
		cov += (gaps[i] - 1) * (gaps[i-1] - 1)
		variance += (gaps[i] - 1) * (gaps[i] - 1)
	}
	if r := cov / variance; math.Abs(r)*math.Sqrt(n) > 2.58 {
		t.Errorf("lag-1 autocorrelation %v over %d gaps", r, n)
	}

	windows = windows[:int(last/100)]
	var dispersion float64
	for _, w := range windows {
		dispersion += (w - 100) * (w - 100) / 100
	}
	if z := (dispersion - float64(len(windows))) / math.Sqrt(2*float64(len(windows))); math.Abs(z) > 2.58 {
		t.Errorf("index of dispersion %v over %d windows: z %v", dispersion/float64(len(windows)), len(windows), z)
	}

	slices.Sort(gaps)
	var d float64
	for i, g := range gaps {
		f := -math.Expm1(-g)
		d = max(d, f-float64(i)/n, float64(i+1)/n-f)
	}
	if d*math.Sqrt(n) > 1.63 {
		t.Errorf("Kolmogorov-Smirnov distance %v over %d gaps", d, n)
	}
}
