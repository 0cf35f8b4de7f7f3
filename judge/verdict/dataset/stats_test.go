package dataset

import (
	"testing"
	"time"

	"dyno/judge/verdict/recording"
	"dyno/load/hist"
	"dyno/results/rundir"
)

// Trials without answers have no tokens, and a variant that has some counts these.
func TestTokensOfSeveralTrials(t *testing.T) {
	h := hist.New()
	h.RecordN(int64(time.Millisecond), 100)
	log := recording.Times{rundir.TagFirstToken: h}
	if got := summarize("v", []*rundir.Trial{{}}, log).Tokens; got != nil {
		t.Errorf("%+v", got)
	}
	f := summarize("v", []*rundir.Trial{
		{Tokens: &rundir.Tokens{Count: 10, Within: 1, PerSecond: new(5.), Goodput: new(1.)}},
		{Tokens: &rundir.Tokens{Count: 30, Within: 3, PerSecond: new(15.), Goodput: new(3.)}},
	}, log)
	if got := f.Tokens; got == nil || *got != (rundir.Tokens{Count: 40, Within: 4}) || f.Times[rundir.TagFirstToken].Count != 100 {
		t.Errorf("%+v, %+v", got, f.Times)
	}
	if rate, good := f.Values[rundir.MetricTokenRate], f.Values[rundir.MetricGoodput]; rate < 5 || rate > 15 || good < 1 || good > 3 {
		t.Errorf("%v tokens a second, goodput %v", rate, good)
	}
}
