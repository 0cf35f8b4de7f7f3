package report

import (
	"testing"

	"dyno/results/rundir"
)

// An inconclusive comparison says what would settle it.
func TestRemedies(t *testing.T) {
	p := newPage(&rundir.Folder{})
	c := func(rounds int, further *int, method string, low *float64) rundir.Comparison {
		return rundir.Comparison{
			Rounds: rounds, FurtherRounds: further, Verdict: rundir.Inconclusive,
			Ratio: rundir.Estimate{Estimate: new(1.), Low: low, Interval: method},
		}
	}
	for _, x := range []struct {
		comparison rundir.Comparison
		want       string
	}{
		{c(8, new(5), rundir.ByPairedStudent, new(0.9)), "5 further rounds would settle it, if the spread stays as it is (design.rounds)"},
		{c(8, new(1), rundir.ByPairedStudent, new(0.9)), "1 further round would settle it, if the spread stays as it is (design.rounds)"},
		{c(8, nil, rundir.ByPairedStudent, new(0.9)), ""},
		{c(1, nil, rundir.NoInterval, nil), "1 round: too few for any interval (design.rounds)"},
		{c(3, nil, rundir.ByHodgesLehmann, nil), "signed ranks bound a ratio of quantiles from 6 rounds on (design.rounds)"},
		{c(8, nil, rundir.NoInterval, nil), "no interval is claimed for this ratio"},
	} {
		if got := p.remedyFor(x.comparison); got != x.want {
			t.Errorf("got %q, want %q", got, x.want)
		}
	}
}
