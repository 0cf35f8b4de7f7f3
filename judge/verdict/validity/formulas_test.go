package validity

import (
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"dyno/load/hist"
)

// Simulated answers, some of which are good until they are delayed.
func TestGoodputBoundsHoldTheTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, good := rapid.Float64Range(1, 1e4).Draw(t, "all"), rapid.Float64Range(0, 1).Draw(t, "good")
		delayed := rapid.Float64Range(0, 1).Draw(t, "delayed")
		recorded := max(0, good-delayed*rapid.Float64Range(0, 1).Draw(t, "beyond the goal"))
		if high := mostGoodput(recorded*all, all, delayed); high < good*all*(1-1e-9) || high > all*(1+1e-9) {
			t.Errorf("%v to %v, truly %v", recorded*all, high, good*all)
		}
	})
}

// The more may have been disturbed, the wider the bounds.
func TestBoundsAreMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := hist.New()
		for _, x := range rapid.SliceOfN(rapid.Int64Range(1e3, 1e9), 1, 50).Draw(t, "times") {
			h.Record(x)
		}
		shares := []float64{rapid.Float64Range(0, 0.9).Draw(t, "one"), rapid.Float64Range(0, 0.9).Draw(t, "other")}
		slices.Sort(shares)
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		for name, of := range map[string]func(float64) float64{
			"quantile": func(s float64) float64 { return -leastQuantile(h, q, s) },
			"mean":     func(s float64) float64 { return -leastMean(h, s) }, "throughput": func(s float64) float64 { return mostThroughput(1, s) },
			"stolen": func(s float64) float64 { return -leastCPU(1, s, 0) }, "foreign": func(s float64) float64 { return -leastCPU(1, 0, s) },
		} {
			if less, more := of(shares[0]), of(shares[1]); less > more+1e-9*math.Abs(more) {
				t.Errorf("%s: %v at %v, %v at %v", name, less, shares[0], more, shares[1])
			}
		}
	})
}

// The method names the function of each formula, and no other.
func TestTheMethodNamesTheFormulas(t *testing.T) {
	read := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	_, tables, _ := strings.Cut(read("../../../docs/development/method.md"), "**Bounds.**")
	tables, _, _ = strings.Cut(tables, "\n- ")
	formulas := read("formulas.go")
	source := formulas + read("bounds.go") + read("../disturbance/disturbance.go")
	for _, row := range regexp.MustCompile("`(\\w+)` \\|\n").FindAllStringSubmatch(tables, -1) {
		if !regexp.MustCompile(`(?m)^func (\(.*\) )?` + row[1] + `\(`).MatchString(source) {
			t.Errorf("method.md names the function %s, which is not there", row[1])
		}
	}
	for _, f := range regexp.MustCompile(`(?m)^func (\w+)`).FindAllStringSubmatch(formulas, -1) {
		if !strings.Contains(tables, "| `"+f[1]+"` |") {
			t.Errorf("method.md has no formula with the function %s", f[1])
		}
	}
}
