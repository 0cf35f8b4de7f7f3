package judged

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"dyno/report/figure"
	"dyno/results/rundir"
)

// Two figures are printed in one unit, and the change next to them is theirs, within what rounding hides.
func TestPairedFigures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		metric := rapid.SampledFrom([]string{"throughput", "service.p99", "target.cpu_per_request", "target.rss"}).Draw(t, "metric")
		base := math.Exp(rapid.Float64Range(-14, 14).Draw(t, "base"))
		ratio := math.Exp(rapid.Float64Range(-2, 2).Draw(t, "ratio"))
		c := rundir.Comparison{Base: "a", Variant: "b", Metric: metric, Figure: new(base * ratio), BaseFigure: &base, Ratio: rundir.Estimate{Estimate: &ratio}}
		r := Result{Run: &rundir.Run{}}
		over, under := r.Paired(c)
		read := func(text string) (value, half float64, unit string) {
			number := strings.TrimRight(text, " abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZµ/")
			v, err := strconv.ParseFloat(number, 64)
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			decimals := 0
			if _, after, ok := strings.Cut(number, "."); ok {
				decimals = len(after)
			}
			return v, max(math.Pow(10, float64(-decimals))/2, v*0.005), strings.TrimPrefix(text, number)
		}
		b, halfB, unit := read(over)
		a, halfA, same := read(under)
		if unit != same {
			t.Fatalf("%s next to %s", over, under)
		}
		change := figure.Change(c.Ratio)
		var said, half float64
		if number, ok := strings.CutSuffix(change, "%"); ok {
			v, err := strconv.ParseFloat(strings.NewReplacer("−", "-", "+", "").Replace(number), 64)
			if err != nil {
				t.Fatal(err)
			}
			said, half = 1+v/100, 0.005
		} else {
			v, h, _ := read(strings.TrimSuffix(change, "x"))
			said, half = v, h
		}
		if low, high := (b-halfB)/(a+halfA), (b+halfB)/max(a-halfA, 1e-9); said+half < low || said-half > high {
			t.Fatalf("%s over %s, and %s", over, under, change)
		}
	})
}
