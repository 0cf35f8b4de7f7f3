package stat

import (
	"slices"
	"testing"
)

func TestKneeFixtures(t *testing.T) {
	for _, c := range readSeries[struct {
		Name        string
		X, Y        []float64
		Curve       string
		Sensitivity float64
		Knee        int
	}](t, "knees.json") {
		t.Run(c.Name, func(t *testing.T) {
			curve := map[string]Curve{"convex": Convex, "concave": Concave}[c.Curve]
			before := slices.Clone(c.Y)
			at, ok, err := Knee(c.X, c.Y, curve, c.Sensitivity)
			if err != nil || ok != (c.Knee >= 0) || ok && at != c.Knee {
				t.Errorf("knee at %d, %v, %v, want %d", at, ok, err, c.Knee)
			}
			if !slices.Equal(before, c.Y) {
				t.Error("the caller's values have changed")
			}
		})
	}
}

func TestKneeOfTwoLines(t *testing.T) {
	x := counting(21)
	for _, c := range []struct {
		curve       Curve
		left, right float64
	}{{Convex, 1, 20}, {Concave, 20, 1}} {
		for bend := 3; bend < 18; bend++ {
			y := make([]float64, len(x))
			for i := range y {
				y[i] = c.left*min(x[i], float64(bend)) + c.right*max(0, x[i]-float64(bend))
			}
			if at, ok, err := Knee(x, y, c.curve, 1); at != bend || !ok || err != nil {
				t.Errorf("curve %v bent at %d: %d, %v, %v", c.curve, bend, at, ok, err)
			}
			if _, ok, err := Knee(x, y, 1-c.curve, 1); ok || err != nil {
				t.Errorf("curve %v bent the other way at %d: %v, %v", c.curve, bend, ok, err)
			}
		}
	}
	for _, y := range [][]float64{x, slices.Repeat([]float64{3}, len(x))} {
		if at, ok, err := Knee(x, y, Convex, 1); ok || err != nil {
			t.Errorf("straight line: %d, %v, %v", at, ok, err)
		}
	}
}
