package stat

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// decimal is a number of a fixture, which may be infinite.
type decimal float64

func (d *decimal) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case `"inf"`:
		*d = decimal(math.Inf(1))
	case `"-inf"`:
		*d = decimal(math.Inf(-1))
	default:
		return json.Unmarshal(text, (*float64)(d))
	}
	return nil
}

// readFixture returns the cases that make.py computed.
func readFixture[T any](t *testing.T, name string) []T {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "comparison", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []T
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) == 0 {
		t.Fatalf("%s: no cases", name)
	}
	return cases
}

// agree tells whether two numbers are equal but for rounding.
func agree(got, want float64) bool {
	return got == want || math.Abs(got-want) <= 1e-9*max(math.Abs(got), math.Abs(want)) || math.Abs(got-want) < 1e-13
}

// expect compares a computed number with the fixture's.
func expect(t *testing.T, i int, what string, got float64, want decimal) {
	t.Helper()
	if !agree(got, float64(want)) {
		t.Errorf("case %d: %s %.15g, want %.15g", i, what, got, float64(want))
	}
}

// expectError holds an error to what it must say.
func expectError(t *testing.T, err error, says string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("error %v, want one that says %q", err, says)
	}
}

// drawDifferences draws paired differences with a few ties and zeros. Their sums
// are exact.
func drawDifferences(t *rapid.T, least, most int) []float64 {
	grid := func(most, parts int) *rapid.Generator[float64] {
		return rapid.Map(rapid.IntRange(-most, most), func(i int) float64 { return float64(i) / float64(parts) })
	}
	value := rapid.OneOf(grid(1<<20, 1<<16), grid(4, 1))
	return rapid.SliceOfN(value, least, most).Draw(t, "differences")
}

func negated(values []float64) []float64 {
	out := make([]float64, len(values))
	for i, x := range values {
		out[i] = -x
	}
	return out
}

func scaled(values []float64, by float64) []float64 {
	out := make([]float64, len(values))
	for i, x := range values {
		out[i] = by * x
	}
	return out
}

func TestMedian(t *testing.T) {
	values := []float64{4, 1, 3, 2}
	if got, err := Median(values); err != nil || got != 2.5 {
		t.Errorf("median %v, %v", got, err)
	}
	if got, err := Median([]float64{9, 7, 8}); err != nil || got != 8 {
		t.Errorf("median of three values: %v, %v", got, err)
	}
	if !slices.Equal(values, []float64{4, 1, 3, 2}) {
		t.Errorf("the caller's values are now %v", values)
	}
}

func TestIntervals(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	i := Interval{-1, 2}
	for x, want := range map[float64]bool{-1: true, 2: true, 0: true, 2.1: false, -inf: false, nan: false} {
		if i.Contains(x) != want {
			t.Errorf("%v contains %v: %v", i, x, !want)
		}
	}
	for _, c := range []struct {
		inner Interval
		want  bool
	}{{i, true}, {Interval{0, 1}, true}, {Interval{0, inf}, false}, {Interval{nan, nan}, false}, {Interval{-2, 0}, false}} {
		if c.inner.Within(i) != c.want {
			t.Errorf("%v within %v: %v", c.inner, i, !c.want)
		}
	}
}

// Every function returns a located error for values that it cannot compute with. None panics.
func TestUnfitInput(t *testing.T) {
	good := make([]float64, 120)
	for i := range good {
		good[i] = float64(i + 1)
	}
	calls := map[string]func(d []float64) error{
		"PairedMean":             func(d []float64) error { _, err := PairedMean(d, 0.95); return err },
		"SignFlip":               func(d []float64) error { _, err := SignFlip(d, 1); return err },
		"SignedRank":             func(d []float64) error { _, err := SignedRank(d); return err },
		"HodgesLehmann":          func(d []float64) error { _, err := HodgesLehmann(d, 0.95); return err },
		"Median":                 func(d []float64) error { _, err := Median(d); return err },
		"CoefficientOfVariation": func(d []float64) error { _, err := CoefficientOfVariation(d, 0.95); return err },
		"UnpairedRatio":          func(d []float64) error { _, err := UnpairedRatio(good, d, 0.95); return err },
		"ChangePoints":           func(d []float64) error { _, err := ChangePoints(d, Divisive{MinSegment: 4, Alpha: 0.05}); return err },
		"MSER5":                  func(d []float64) error { _, err := MSER5(good, d); return err },
		"MeasureDependence":      func(d []float64) error { _, err := MeasureDependence(d); return err },
		"Knee":                   func(d []float64) error { _, _, err := Knee(good[:len(d)], d, Convex, 1); return err },
		"TheilSen":               func(d []float64) error { _, err := TheilSen(good[:len(d)], d, 0.95, 1); return err },
		"MannKendall":            func(d []float64) error { _, err := MannKendall(d, 1); return err },
		"HamedRao":               func(d []float64) error { _, err := HamedRao(d); return err },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 2e150} {
				d := slices.Clone(good)
				d[1] = bad
				expectError(t, call(d), "value 1 is")
			}
			if err := call(nil); !errors.Is(err, ErrTooFew) {
				t.Errorf("nothing: %v", err)
			}
		})
	}
	for _, bad := range []float64{math.NaN(), -0.1, 1.1} {
		_, err := Holm([]float64{0.5, bad})
		expectError(t, err, "p-value 1 is")
	}
	_, err := Stopping{Rule: FixedRounds, Rounds: 8}.Decide([]float64{1, math.NaN()})
	expectError(t, err, "value 1 is NaN")
	_, err = ChangePoints(counting(MaxHistory+1), Divisive{})
	expectError(t, err, "want at most 2048")
	_, err = TheilSen(counting(MaxTrend+1), counting(MaxTrend+1), 0.95, 1)
	expectError(t, err, "want at most 4096")
	_, err = MeasureDependence(make([]float64, 60))
	if !errors.Is(err, ErrConstant) {
		t.Error(err)
	}
}
