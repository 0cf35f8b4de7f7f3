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

func TestQuantile(t *testing.T) {
	values := []float64{4, 1, 3, 2}
	for _, c := range []struct{ q, want float64 }{{0, 1}, {0.5, 2.5}, {0.25, 1.75}, {1, 4}, {1.0 / 3, 2}} {
		if got, err := Quantile(values, c.q); err != nil || !agree(got, c.want) {
			t.Errorf("quantile %v: %v, %v, want %v", c.q, got, err, c.want)
		}
	}
	if got, err := Median([]float64{7}); err != nil || got != 7 {
		t.Errorf("median of one value: %v, %v", got, err)
	}
	if !slices.Equal(values, []float64{4, 1, 3, 2}) {
		t.Errorf("the caller's values are now %v", values)
	}
	_, err := Quantile(values, math.NaN())
	expectError(t, err, "quantile NaN: want 0 to 1")
	_, err = Median(nil)
	if !errors.Is(err, ErrTooFew) {
		t.Errorf("median of nothing: %v", err)
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

func TestEnds(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		low, high *float64
		want      Interval
	}{{nil, nil, Interval{-inf, inf}}, {new(1.), nil, Interval{1, inf}}, {nil, new(2.), Interval{-inf, 2}}, {new(1.), new(2.), Interval{1, 2}}} {
		if got := Ends(c.low, c.high); got != c.want {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
}

// Whatever cannot be computed with is an error that says what and where, from
// every function, and no panic.
func TestUnfitInput(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	calls := map[string]func(d []float64) error{
		"PairedMean":    func(d []float64) error { _, err := PairedMean(d, 0.95); return err },
		"SignFlip":      func(d []float64) error { _, err := SignFlip(d, 1); return err },
		"SignedRank":    func(d []float64) error { _, err := SignedRank(d); return err },
		"HodgesLehmann": func(d []float64) error { _, err := HodgesLehmann(d, 0.95); return err },
		"Median":        func(d []float64) error { _, err := Median(d); return err },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			for _, bad := range []float64{nan, inf, -inf, 2e150} {
				expectError(t, call([]float64{1, bad, 2}), "value 1 is")
			}
			for _, none := range [][]float64{nil, {}} {
				if err := call(none); !errors.Is(err, ErrTooFew) {
					t.Errorf("nothing: %v", err)
				}
			}
		})
	}
	decide := func(d []float64) error {
		_, err := Stopping{Rule: FixedRounds, Rounds: 8}.Decide(d)
		return err
	}
	expectError(t, decide([]float64{1, nan}), "value 1 is NaN")

	for _, confidence := range []float64{nan, 0, 1, -1, 95, math.Nextafter(1, 0)} {
		d := []float64{1, 2, 3}
		_, mean := PairedMean(d, confidence)
		_, shift := HodgesLehmann(d, confidence)
		_, further := FurtherRounds(0, 1, 8, 0.02, confidence)
		for _, err := range []error{mean, shift, further} {
			expectError(t, err, "confidence")
		}
		if x := DetectableEffect(1, 8, confidence, 0.8); !math.IsNaN(x) {
			t.Errorf("confidence %v: detectable effect %v, want NaN", confidence, x)
		}
	}
}
