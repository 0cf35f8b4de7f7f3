package stat

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestSignFlipAgainstSciPy(t *testing.T) {
	for i, c := range readFixture[struct {
		D []float64
		P decimal
	}](t, "signflip") {
		before := slices.Clone(c.D)
		f, err := SignFlip(c.D, 1)
		if err != nil || !f.Exact {
			t.Errorf("case %d: %+v, %v", i, f, err)
			continue
		}
		expect(t, i, "p", f.P, c.P)
		if !slices.Equal(c.D, before) {
			t.Errorf("case %d: the caller's values are now %v", i, c.D)
		}
	}
}

// flipByGrayCode counts the arrangements one by one: the definition.
func flipByGrayCode(d []float64) float64 {
	observed := 0.0
	signs := slices.Clone(d)
	for _, x := range d {
		observed += x
	}
	sum, count := observed, 0
	for k := 1; k <= 1<<len(d); k++ {
		if math.Abs(sum) >= math.Abs(observed) {
			count++
		}
		flip := 0
		for k>>flip&1 == 0 {
			flip++
		}
		if flip < len(d) {
			sum -= 2 * signs[flip]
			signs[flip] = -signs[flip]
		}
	}
	return float64(count) / float64(int(1)<<len(d))
}

func TestSignFlipCountsAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDifferences(t, 1, 11)
		f, err := SignFlip(d, 1)
		if err != nil {
			t.Fatal(err)
		}
		if want := flipByGrayCode(d); f.P != want {
			t.Errorf("p %v, want %v", f.P, want)
		}
		if f.P < f.Smallest || f.P > 1 {
			t.Errorf("p %v outside %v to 1", f.P, f.Smallest)
		}
		if g, err := SignFlip(negated(d), 1); err != nil || g != f {
			t.Errorf("%+v with the variants swapped is %+v, %v", f, g, err)
		}
		if g, err := SignFlip(scaled(d, 1024), 1); err != nil || g != f {
			t.Errorf("%+v in another unit is %+v, %v", f, g, err)
		}
	})
}

func TestSignFlipSmallest(t *testing.T) {
	for _, c := range []struct {
		d    []float64
		want Flip
	}{
		{[]float64{1, 2, 3, 4, 5, 6, 7, 8}, Flip{2.0 / 256, 2.0 / 256, true}},
		{[]float64{1, 2, 3, 0, 0, 0}, Flip{0.25, 0.25, true}},
		{[]float64{0, 0}, Flip{1, 1, true}},
		{[]float64{-5}, Flip{1, 1, true}},
		{slices.Repeat([]float64{3}, MaxExactSignFlip), Flip{math.Ldexp(1, -31), math.Ldexp(1, -31), true}},
		{slices.Repeat([]float64{3}, MaxExactSignFlip+1), Flip{1e-5, 1e-5, false}},
	} {
		if f, err := SignFlip(c.d, 1); err != nil || f != c.want {
			t.Errorf("%v: %+v, %v, want %+v", c.d, f, err, c.want)
		}
	}
	_, err := SignFlip(make([]float64, maxSignFlip+1), 1)
	expectError(t, err, "10001 differences")
}

// Drawn arrangements agree with all of them, and with themselves.
func TestSignFlipDraws(t *testing.T) {
	rng := newRNG(3)
	d := make([]float64, 30)
	for _, shift := range []float64{0, 0.2, 0.4} {
		magnitudes, sum := make([]float64, len(d)), 0.0
		for i := range d {
			d[i] = rng.NormFloat64() + shift
			sum += d[i]
			magnitudes[i] = math.Abs(d[i])
		}
		exact, err := SignFlip(d, 0)
		if err != nil {
			t.Fatal(err)
		}
		drawn := flipSome(magnitudes, math.Abs(sum), newRNG(1))
		if tolerance := 4*math.Sqrt(exact.P/signFlipDraws) + 1e-5; math.Abs(drawn-exact.P) > tolerance {
			t.Errorf("shift %v: %v drawn, %v exact", shift, drawn, exact.P)
		}
		if again := flipSome(magnitudes, math.Abs(sum), newRNG(1)); again != drawn {
			t.Errorf("seed 1 gives %v, then %v", drawn, again)
		}
		if other := flipSome(magnitudes, math.Abs(sum), newRNG(2)); other == drawn && drawn > 0.01 {
			t.Errorf("seeds 1 and 2 both give %v", drawn)
		}
	}
}
