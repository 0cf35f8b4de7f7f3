package stat

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// indices returns where the change points are.
func indices(points []ChangePoint) []int {
	at := []int{}
	for _, p := range points {
		at = append(at, p.Index)
	}
	return at
}

func TestChangePointFixtures(t *testing.T) {
	for _, c := range readSeries[struct {
		Name      string
		Values    []float64
		Statistic float64
		Split     int
		Theirs    []int
	}](t, "changes.json") {
		t.Run(c.Name, func(t *testing.T) {
			before := slices.Clone(c.Values)
			at, q := newSplitSearch(len(c.Values), 4).split(c.Values)
			if at != c.Split {
				t.Errorf("split at %d, want %d", at, c.Split)
			}
			near(t, "statistic", q, c.Statistic, 1e-10)
			expected := c.Theirs
			switch c.Name {
			case "bump": // theirs takes a segment to its end, where all is as it was
				expected = []int{20, 32}
			case "spread": // nor is theirs as sharp on what leaves the mean alone
				expected = []int{c.Split}
			}
			d := DefaultDivisive()
			d.Alpha, d.Permutations = 0.01, 199
			points, err := ChangePoints(c.Values, d)
			if err != nil || !slices.Equal(indices(points), expected) {
				t.Errorf("change points %+v, %v, want %v", points, err, expected)
			}
			if i := slices.IndexFunc(points, func(p ChangePoint) bool { return p.Index == c.Split }); i >= 0 {
				near(t, "statistic of the first", points[i].Statistic, c.Statistic, 1e-10)
			}
			if !slices.Equal(before, c.Values) {
				t.Error("the caller's values have changed")
			}
		})
	}
}

// Where nothing changes, a permutation test at 5 % finds something in 5 of 100.
func TestChangePointFalseAlarms(t *testing.T) {
	const repeats = 400
	d := Divisive{MinSegment: 4, Alpha: 0.05, Permutations: 39}
	alarms := 0
	for seed := range uint64(repeats) {
		xs := gaussian(seed, 30)
		if seed%2 == 1 { // heavy tails
			for i := range xs {
				xs[i] = math.Exp(1.5 * xs[i])
			}
		}
		d.Seed = seed
		points, err := ChangePoints(xs, d)
		if err != nil {
			t.Fatal(err)
		}
		if len(points) > 0 {
			alarms++
		}
	}
	if alarms < 8 || alarms > 32 {
		t.Errorf("%d of %d series without a change have one", alarms, repeats)
	}
}

// No segment is shorter than the least, and no change is less likely than asked for.
func TestChangePointsAreApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOfN(rapid.Float64Range(0, 10), 1, 30).Draw(t, "values")
		d := Divisive{MinSegment: rapid.IntRange(2, 5).Draw(t, "least"), Alpha: 0.1, Permutations: 19, Seed: rapid.Uint64().Draw(t, "seed")}
		points, err := ChangePoints(xs, d)
		if err != nil {
			t.Fatal(err)
		}
		previous := 0
		for _, p := range points {
			if p.Index < previous+d.MinSegment || p.Index > len(xs)-d.MinSegment || p.P > d.Alpha || !(p.Statistic > 0) {
				t.Fatalf("change point %+v after %d of %v", p, previous, xs)
			}
			previous = p.Index
		}
	})
}

func TestMeanChanges(t *testing.T) {
	xs := []float64{100, 102, 98, 110, 112, 108, 0, 0, 5}
	points := []ChangePoint{{Index: 3, P: 0.01}, {Index: 6, P: 0.02}, {Index: 8}}
	changes, err := MeanChanges(xs, points)
	if err != nil {
		t.Fatal(err)
	}
	want := []MeanChange{{points[0], 100, 110}, {points[1], 110, 0}, {points[2], 0, 5}}
	for i, w := range want {
		if changes[i].ChangePoint != w.ChangePoint {
			t.Errorf("change %+v, want %+v", changes[i], w)
		}
		near(t, "before", changes[i].Before, w.Before, 1e-12)
		near(t, "after", changes[i].After, w.After, 1e-12)
	}
	for i, w := range []float64{0.1, -1} {
		relative, ok := changes[i].Relative()
		if !ok {
			t.Errorf("change %+v has no relative size", changes[i])
		}
		near(t, "relative", relative, w, 1e-12)
	}
	if _, ok := changes[2].Relative(); ok {
		t.Error("a change from 0 has a relative size")
	}
	if changes, err := MeanChanges(xs, nil); err != nil || len(changes) != 0 {
		t.Errorf("no points: %v, %v", changes, err)
	}
}

func TestChangePointsRefuse(t *testing.T) {
	good := DefaultDivisive()
	for name, c := range map[string]struct {
		xs   []float64
		d    Divisive
		want []string
	}{
		"all at once": {[]float64{1, math.NaN()}, Divisive{Alpha: 2}, []string{"min segment 0", "permutations 0", "alpha 2", "value 1 is NaN"}},
		"too coarse":  {counting(20), Divisive{MinSegment: 2, Alpha: 0.01, Permutations: 50}, []string{"permutations 50: want at least 99 for alpha 0.01"}},
		"empty":       {nil, good, []string{"too few"}},
		"long":        {counting(MaxHistory + 1), good, []string{"2049 values: want at most 2048"}},
	} {
		_, err := ChangePoints(c.xs, c.d)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
	for name, points := range map[string][]ChangePoint{
		"at the start": {{Index: 0}}, "at the end": {{Index: 5}}, "twice": {{Index: 2}, {Index: 2}}, "backwards": {{Index: 3}, {Index: 2}},
	} {
		if _, err := MeanChanges(counting(5), points); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := MeanChanges([]float64{math.Inf(1)}, nil); err == nil {
		t.Error("infinite: no error")
	}
	for _, xs := range [][]float64{{1}, counting(7), slices.Repeat([]float64{0.1}, 50)} {
		if points, err := ChangePoints(xs, good); err != nil || len(points) != 0 {
			t.Errorf("%d values: %v, %v: want none", len(xs), points, err)
		}
	}
}
