package verdict

import (
	"slices"
	"strings"
	"testing"

	"dyno/results/rundir"
)

// One disturbed round refutes nothing, and shows no size: neither alone, nor next to one that was not disturbed. A ratio
// does from four rounds on, where both variants of a round were disturbed alike.
func TestDisturbedRoundsRefuteNothing(t *testing.T) {
	claims := []rundir.PlanClaim{
		{ID: "bound", Holds: `value("b", throughput) >= 50000/s`},
		{ID: "size", Published: "50000/s", Measured: `value("b", throughput)`},
		{ID: "ratio", Published: "50", Measured: `ratio("b", "a", throughput)`},
	}
	const open = rundir.NotSettled
	facts := rundir.PlanClaim{ID: "errors", Holds: `value("b", errors.total) == 0`}
	for _, c := range []struct {
		rounds, disturbed  int
		bound, size, ratio string
	}{
		{1, 0, open, open, open},
		{1, 1, open, open, open},
		{2, 1, open, open, open},
		{3, 2, open, open, open},
		{3, 0, rundir.Refuted, rundir.Smaller, rundir.Smaller},
		{4, 1, rundir.Refuted, rundir.Smaller, rundir.Smaller},
		{8, 8, open, open, rundir.Smaller},
	} {
		b := closedPair(c.rounds, map[string]float64{"a": 1000, "b": 2000}, func(_ string, round int) float64 {
			if round <= c.disturbed {
				return 0.3 + 0.001*float64(round%3)
			}
			return 0.001 * float64(round%3)
		})
		for i := range b.trials {
			if b.trials[i].Round <= c.disturbed {
				b.trials[i].Machine.StealShare = new(0.2)
			}
		}
		b.trials[1].Counts.Errors, b.trials[1].Counts.OK = 3, b.trials[1].Counts.OK-3 // of b, in the first round
		b.run.Plan.Claims = append(slices.Clone(claims), facts)
		run := b.judge(t)
		for i, want := range []string{c.bound, c.size, c.ratio} {
			if got := run.Claims[i]; got.Outcome != want {
				t.Errorf("%d rounds, %d disturbed: %s is %s (%s), want %s", c.rounds, c.disturbed, got.ID, got.Outcome, got.Detail.English(), want)
			}
		}
		want := open
		if c.rounds > 1 && c.disturbed == 0 {
			want = rundir.Refuted
		}
		if got := run.Claims[3]; got.Outcome != want {
			t.Errorf("%d rounds, %d disturbed: errors are %s (%s), want %s", c.rounds, c.disturbed, got.Outcome, got.Detail.English(), want)
		}
		if c.rounds == 2 && !strings.Contains(run.Claims[0].Detail.English(), "1 of 2 rounds of b were disturbed") {
			t.Errorf("%s", run.Claims[0].Detail.English())
		}
	}
}
