package changes

import (
	"testing"

	"dyno/report/figure"
	"dyno/results/rundir"
)

func TestInUnit(t *testing.T) {
	for _, c := range []struct {
		e    rundir.Estimate
		want string
		bare bool
	}{
		{rundir.Estimate{}, figure.Unknown, false},
		{rundir.Estimate{Estimate: new(0.01)}, "10.0 ms [1]", true},
		{rundir.Estimate{Estimate: new(0.01), Low: new(0.0099), High: new(0.01012)}, "10.0 ms ±1.2%", false},
		{rundir.Estimate{Estimate: new(0.01), Low: new(0.0099), High: new(0.02)}, "10.0 ms (9.90 … 20.0)", false},
		{rundir.Estimate{Estimate: new(0.01), Low: new(0.0099)}, "10.0 ms (≥ 9.90)", false},
	} {
		if got, bare := inUnit("response.p99", c.e); got != c.want || bare != c.bare {
			t.Errorf("%+v: %q, bare %v, want %q", c.e, got, bare, c.want)
		}
	}
}
