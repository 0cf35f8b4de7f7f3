package evidence

import (
	"math"
	"testing"

	"dyno/internal/texts"
	"dyno/judge/verdict/expr"
	"dyno/results/rundir"
)

func TestSteepest(t *testing.T) {
	slope := func(variant, gauge string, trial int, low, estimate, high *float64) rundir.Trend {
		return rundir.Trend{Variant: variant, Trial: trial, Metric: gauge, Slope: rundir.Estimate{Estimate: estimate, Low: low, High: high, Interval: rundir.ByTheilSen}}
	}
	ts := []rundir.Trend{
		slope("a", "rss", 1, new(0.1), new(0.2), new(0.3)),
		slope("a", "rss", 3, nil, new(0.4), nil),
		slope("a", "rss", 5, new(-0.2), new(-0.1), new(0.9)),
		slope("b", "rss", 2, new(0.5), new(0.6), new(0.7)),
		slope("b", "threads", 2, new(0.), new(0.), new(0.)),
		{Variant: "b", Trial: 4, Metric: "descriptors", Slope: rundir.Estimate{Interval: rundir.NoInterval}, Detail: new(texts.Verbatim("7 readings"))},
	}
	for _, c := range []struct {
		variant, gauge string
		want           expr.Quantity
		err            string
	}{
		{"a", "rss", expr.Quantity{Estimate: 0.4, Low: math.Inf(-1), High: math.Inf(1), Bounded: true}, ""},
		{"b", "rss", expr.Quantity{Estimate: 0.6, Low: 0.5, High: 0.7, Bounded: true}, ""},
		{"b", "threads", expr.Quantity{Estimate: 0, Low: 0, High: 0, Bounded: true}, ""},
		{"b", "descriptors", expr.Quantity{}, "the slope of descriptors of b is not known: trial 4: 7 readings"},
		{"a", "threads", expr.Quantity{}, "the slope of threads of a is not known: it was not recorded"},
	} {
		got, err := steepest(ts, c.variant, c.gauge)
		if said := ""; err != nil {
			if said = err.Error(); said != c.err {
				t.Errorf("%s of %s: %v, want %s", c.gauge, c.variant, err, c.err)
			}
		} else if got != c.want || c.err != "" {
			t.Errorf("%s of %s: %+v, want %+v%s", c.gauge, c.variant, got, c.want, c.err)
		}
	}
}
