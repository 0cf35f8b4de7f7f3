package stat

import (
	"math"
	"testing"
)

// By hand: means 2 and 6, residuals ±1, s² = 6/4, standard error √(3/2)/2 · √(2/3) = 1/2.
func TestExchanged(t *testing.T) {
	d := []float64{1, 5, 2, 6, 3, 7}
	second := []bool{false, true, false, true, false, true}
	m, err := Exchanged(d, second, 0.95)
	if err != nil {
		t.Fatal(err)
	}
	// t for 4 degrees of freedom is 2.776.
	wantStdDev, wantHalf := 1., 2.7764451/math.Sqrt(6)
	if m.Estimate != 4 || math.Abs(m.StdDev-wantStdDev) > 1e-9 || math.Abs(m.Interval.High-4-wantHalf) > 1e-6 {
		t.Errorf("%+v, want 4 ± %v, s %v", m, wantHalf, wantStdDev)
	}
	plain, err := PairedMean(m.Values, 0.95)
	if err != nil || math.Abs(plain.Estimate-4) > 1e-9 || math.Abs(plain.StdDev-m.StdDev) > 1e-9 {
		t.Errorf("values %v have %+v: %v", m.Values, plain, err)
	}
	for _, c := range []struct {
		name   string
		d      []float64
		second []bool
	}{
		{"few rounds", d[:5], second[:5]},
		{"never changed", d, make([]bool, 6)},
	} {
		m, err := Exchanged(c.d, c.second, 0.95)
		plain, failed := PairedMean(c.d, 0.95)
		if err != nil || failed != nil || m.Mean != plain {
			t.Errorf("%s: %+v, want %+v: %v", c.name, m.Mean, plain, err)
		}
	}
	if _, err := Exchanged(d, second[:3], 0.95); err == nil {
		t.Error("places of other rounds are accepted")
	}
}
