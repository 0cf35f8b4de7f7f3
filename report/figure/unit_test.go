package figure

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"dyno/results/rundir"
)

func TestEstimates(t *testing.T) {
	none := func(v float64) rundir.Estimate { return rundir.Estimate{Estimate: &v, Interval: rundir.NoInterval} }
	open := func(v float64, low, high *float64) rundir.Estimate {
		return rundir.Estimate{Estimate: &v, Low: low, High: high, Interval: rundir.ByHodgesLehmann}
	}
	of := func(v, low, high float64) rundir.Estimate { return open(v, &low, &high) }
	few := func(v float64, values ...float64) rundir.Estimate {
		return rundir.Estimate{Estimate: &v, Values: values, Interval: rundir.ByHodgesLehmann}
	}
	for _, c := range []struct{ got, want string }{
		{Rates().Estimate(rundir.Estimate{}), "–"},
		{Rates().Estimate(none(4230)), "4.23k/s"},
		{Rates().Estimate(of(4230, 4145, 4315)), "4.23k/s ±2%"},
		{Rates().Estimate(of(4230, 4230, 4230)), "4.23k/s ±0%"},
		{Rates().Estimate(of(4230, 4227, 4233)), "4.23k/s ±0.071%"},
		{Times().Estimate(of(3.6e-3, 3.3e-3, 4.3e-3)), "3.60 ms (3.30 … 4.30)"},
		{Times().Estimate(of(3.6e-3, 0.9e-3, 1)), "3.60 ms (0.900 … 1000)"},
		{Times().Estimate(open(3.6e-3, new(3.3e-3), nil)), "3.60 ms (≥ 3.30)"},
		{Times().Estimate(open(3.6e-3, nil, new(4e-3))), "3.60 ms (≤ 4.00)"},
		{shares().Estimate(of(0, 0, 0.001)), "0% (0 … 0.100%)"},
		{Change(of(0.944, 0.929, 0.96)), "−5.6% (−7.1 … −4.0)"},
		{Change(of(1.001, 0.9995, 1.0025)), "+0.10% (−0.05 … +0.25)"},
		{Change(of(1.5, 1, 1.9)), "+50% (0 … +90)"},
		{Change(of(3.1, 2.9, 3.31)), "3.10x (2.90 … 3.31)"},
		{Change(of(0.15, 0.147, 0.153)), "0.150x (0.147 … 0.153)"},
		{Change(open(0.944, nil, new(0.96))), "−5.6% (≤ −4.0)"},
		{Change(open(0.944, nil, nil)), "−5.6%"},
		{Change(open(2.5, nil, nil)), "2.50x"},
		{Change(none(0.944)), "−5.6%"},
		{Change(few(0.944, 0.9, 0.95, 0.98)), "−5.6% (range −10.0 … −2.0)"},
		{Change(few(2.5, 2, 3)), "2.50x (range 2.00 … 3.00)"},
		{Times().Estimate(few(3.6e-3, 3.3e-3, 4e-3)), "3.60 ms (range 3.30 … 4.00)"},
		{Change(rundir.Estimate{}), "–"},
		{Over(of(0.03/3600, 0.02/3600, 0.04/3600), 1800), "+1.5% (+1.0 … +2.0)"},
		{Probability(0.00005), "<0.0001"}, {Probability(0.0003), "0.0003"}, {Probability(0.0123), "0.012"}, {Probability(0.5), "0.50"},
		{Margin(0.02), "2%"}, {Margin(0.015), "1.5%"}, {Margin(0.12), "12%"}, {Margin(0.0032), "0.32%"}, {Margin(0), "0%"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

// What a figure says of its interval is never narrower than the interval, but for
// the rounding of two digits.
func TestIntervalsAreNotNarrowed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := math.Exp(rapid.Float64Range(-10, 10).Draw(t, "log"))
		low := v * rapid.Float64Range(0.4, 1).Draw(t, "low")
		high := v * rapid.Float64Range(1, 2).Draw(t, "high")
		text := Rates().Estimate(rundir.Estimate{Estimate: &v, Low: &low, High: &high, Confidence: 0.95, Interval: rundir.ByStudent})
		_, wide, symmetric := strings.Cut(text, "±")
		if !symmetric {
			if !strings.Contains(text, " … ") {
				t.Fatalf("%q has no interval", text)
			}
			return
		}
		shown, err := strconv.ParseFloat(strings.TrimSuffix(wide, "%"), 64)
		if err != nil {
			t.Fatal(err)
		}
		if want := 100 * max(1-low/v, high/v-1); shown < 0.94*want {
			t.Errorf("%q of %v to %v, which is ±%v %%", text, low, high, want)
		}
	})
}
