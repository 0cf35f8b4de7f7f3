package report

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

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
		{rates().estimate(rundir.Estimate{}), "–"},
		{rates().estimate(none(4230)), "4.23k/s"},
		{rates().estimate(of(4230, 4145, 4315)), "4.23k/s ±2%"},
		{rates().estimate(of(4230, 4230, 4230)), "4.23k/s ±0%"},
		{rates().estimate(of(4230, 4227, 4233)), "4.23k/s ±0.071%"},
		{times().estimate(of(3.6e-3, 3.3e-3, 4.3e-3)), "3.60 ms (3.30 … 4.30)"},
		{times().estimate(of(3.6e-3, 0.9e-3, 1)), "3.60 ms (0.900 … 1000)"},
		{times().estimate(open(3.6e-3, ptr(3.3e-3), nil)), "3.60 ms (≥ 3.30)"},
		{times().estimate(open(3.6e-3, nil, ptr(4e-3))), "3.60 ms (≤ 4.00)"},
		{shares().estimate(of(0, 0, 0.001)), "0% (0 … 0.100%)"},
		{change(of(0.944, 0.929, 0.96)), "−5.6% (−7.1 … −4.0)"},
		{change(of(1.001, 0.9995, 1.0025)), "+0.10% (−0.05 … +0.25)"},
		{change(of(1.5, 1, 1.9)), "+50% (0 … +90)"},
		{change(of(3.1, 2.9, 3.31)), "3.10x (2.90 … 3.31)"},
		{change(of(0.15, 0.147, 0.153)), "0.150x (0.147 … 0.153)"},
		{change(open(0.944, nil, ptr(0.96))), "−5.6% (≤ −4.0)"},
		{change(open(0.944, nil, nil)), "−5.6%"},
		{change(open(2.5, nil, nil)), "2.50x"},
		{change(none(0.944)), "−5.6%"},
		{change(few(0.944, 0.9, 0.95, 0.98)), "−5.6% (range −10.0 … −2.0)"},
		{change(few(2.5, 2, 3)), "2.50x (range 2.00 … 3.00)"},
		{times().estimate(few(3.6e-3, 3.3e-3, 4e-3)), "3.60 ms (range 3.30 … 4.00)"},
		{change(rundir.Estimate{}), "–"},
		{over(of(0.03/3600, 0.02/3600, 0.04/3600), 1800), "+1.5% (+1.0 … +2.0)"},
		{probability(0.00005), "<0.0001"}, {probability(0.0003), "0.0003"}, {probability(0.0123), "0.012"}, {probability(0.5), "0.50"},
		{margin(0.02), "2%"}, {margin(0.015), "1.5%"}, {margin(0.12), "12%"}, {margin(0.0032), "0.32%"}, {margin(0), "0%"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestUnits(t *testing.T) {
	for metric, want := range map[string]string{
		"throughput": "1.50/s", "capacity": "1.50/s", "response.p99": "1.50 s", "send_lag.max": "1.50 s", "target.cpu_per_request": "1.50 s",
		"target.rss": "1.50 B", "target.cpu_share": "150%", "errors.ratio": "150%", "errors.total": "1.50",
		"program.a_seconds": "1.50 s", "program.a_bytes": "1.50 B", "program.a_per_second": "1.50/s", "program.a": "1.50", "program.response.p50": "1.50",
	} {
		if got := unitOf(metric).Write(1.5); got != want {
			t.Errorf("%s: %q, want %q", metric, got, want)
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
		text := rates().estimate(between(v, low, high, rundir.ByStudent))
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

// Columns that find no room go below, with the first column again; none is lost.
func TestTableFolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns, rows := rapid.IntRange(2, 30).Draw(t, "columns"), rapid.IntRange(1, 3).Draw(t, "rows")
		var tb table
		for r := range rows {
			row := []string{"r" + strconv.Itoa(r)}
			for c := 1; c < columns; c++ {
				row = append(row, strings.Repeat("x", rapid.IntRange(1, 40).Draw(t, "width"))+strconv.Itoa(r)+"y"+strconv.Itoa(c))
			}
			tb.add(row...)
		}
		var b strings.Builder
		tb.write(&b)
		found := map[string]int{}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(line) - 1; n > tableWidth {
				t.Errorf("%d characters: %s", n, line)
			}
			fields := strings.Fields(line)
			if !strings.HasPrefix(fields[0], "r") {
				t.Errorf("no first column: %s", line)
			}
			for _, f := range fields[1:] {
				found[f]++
			}
		}
		for _, row := range tb.rows {
			for _, cell := range row[1:] {
				if found[cell] == 0 {
					t.Errorf("%s is missing", cell)
				}
			}
		}
	})
}

func TestTableProse(t *testing.T) {
	tb := table{head: []string{"", "text"}, left: []int{1}, prose: true}
	tb.add("a", strings.Repeat("word ", 40))
	tb.add("the title of a group that is longer than the column")
	tb.add("b", "c")
	var b strings.Builder
	tb.write(&b)
	lines := strings.Split(b.String(), "\n")
	if len(lines) != 6 || !strings.HasPrefix(lines[1], "  a  word word") || !strings.HasPrefix(lines[2], "     word") || lines[4] != "  b  c" {
		t.Errorf("got\n%s", b.String())
	}
}

// An inconclusive comparison says what would settle it.
func TestRemedies(t *testing.T) {
	p := newPage(&rundir.Folder{})
	c := func(rounds int, further *int, method string, low *float64) rundir.Comparison {
		return rundir.Comparison{
			Rounds: rounds, FurtherRounds: further, Verdict: rundir.Inconclusive,
			Ratio: rundir.Estimate{Estimate: ptr(1.), Low: low, Interval: method},
		}
	}
	for _, x := range []struct {
		comparison rundir.Comparison
		want       string
	}{
		{c(8, ptr(5), rundir.ByPairedStudent, ptr(0.9)), "5 further rounds would settle it, if the spread stays as it is (design.rounds)"},
		{c(8, ptr(1), rundir.ByPairedStudent, ptr(0.9)), "1 further round would settle it, if the spread stays as it is (design.rounds)"},
		{c(8, nil, rundir.ByPairedStudent, ptr(0.9)), ""},
		{c(1, nil, rundir.NoInterval, nil), "1 round: too few for any interval (design.rounds)"},
		{c(3, nil, rundir.ByHodgesLehmann, nil), "signed ranks bound a ratio of quantiles from 6 rounds on (design.rounds)"},
		{c(8, nil, rundir.NoInterval, nil), "no interval is claimed for this ratio"},
	} {
		if got := p.remedyFor(x.comparison); got != x.want {
			t.Errorf("got %q, want %q", got, x.want)
		}
	}
}
