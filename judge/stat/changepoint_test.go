package stat

import (
	"slices"
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
			points, err := ChangePoints(c.Values, Divisive{MinSegment: 4, Alpha: 0.01, Permutations: 199, Seed: 1})
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

func TestMeansOfChanges(t *testing.T) {
	xs := []float64{100, 102, 98, 110, 112, 108, 0, 0, 5}
	points := []ChangePoint{{Index: 3, P: 0.01}, {Index: 6, P: 0.02}, {Index: 8}}
	setMeans(xs, points)
	for i, w := range [][2]float64{{100, 110}, {110, 0}, {0, 5}} {
		near(t, "before", points[i].Before, w[0], 1e-12)
		near(t, "after", points[i].After, w[1], 1e-12)
	}
	for i, w := range []float64{0.1, -1} {
		relative, ok := points[i].Relative()
		if !ok {
			t.Errorf("change %+v has no relative size", points[i])
		}
		near(t, "relative", relative, w, 1e-12)
	}
	if _, ok := points[2].Relative(); ok {
		t.Error("a change from 0 has a relative size")
	}
}
