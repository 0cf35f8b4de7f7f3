package stat

import (
	"math"
	"math/rand/v2"
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

// Whatever the places differ by, the interval holds the truth in 95 of 100 cases, and is
// no wider for it; so do signed ranks of the values.
func TestExchangedCovers(t *testing.T) {
	const runs = 2000
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{6, 7, 8, 12} {
		var widths []float64
		for _, apart := range []float64{0, 0.1} {
			held, byRanks, width := 0, 0, 0.
			for range runs {
				d, second := make([]float64, n), make([]bool, n)
				for i := range d {
					second[i] = i%2 == 1
					d[i] = 0.05 + 0.01*rng.NormFloat64() + apart
					if second[i] {
						d[i] -= 2 * apart
					}
				}
				m, err := Exchanged(d, second, 0.95)
				if err != nil {
					t.Fatal(err)
				}
				if m.Interval.Contains(0.05) {
					held++
				}
				width += m.Interval.High - m.Interval.Low
				r, err := HodgesLehmann(m.Values, 0.95)
				if err != nil {
					t.Fatal(err)
				}
				if r.Interval.Contains(0.05) {
					byRanks++
				}
			}
			widths = append(widths, width/runs)
			if share := float64(held) / runs; share < 0.935 || share > 0.965 {
				t.Errorf("%d rounds, places %v apart: %v of the intervals hold the truth", n, apart, share)
			}
			if share := float64(byRanks) / runs; share < 0.93 {
				t.Errorf("%d rounds, places %v apart: by ranks %v of the intervals hold the truth", n, apart, share)
			}
			t.Logf("%d rounds, apart %v: t %v, ranks %v, width %v", n, apart, float64(held)/runs, float64(byRanks)/runs, width/runs)
		}
		if widths[1] > 1.05*widths[0] || widths[1] < 0.95*widths[0] {
			t.Errorf("%d rounds: widths %v", n, widths)
		}
	}
}
