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
	got := summarize("v", []*rundir.Trial{
		{Tokens: &rundir.Tokens{Count: 10, Within: 1, PerSecond: new(5.), Goodput: new(1.)}},
		{Tokens: &rundir.Tokens{Count: 30, Within: 3, PerSecond: new(15.), Goodput: new(3.)}},
	}, log).Tokens
	if got == nil || got.Count != 40 || got.Within != 4 || got.FirstToken.Count != 100 || got.TokenTime.Count != 0 ||
		got.PerSecond == nil || *got.PerSecond < 5 || *got.PerSecond > 15 || *got.Goodput < 1 || *got.Goodput > 3 {
		t.Errorf("%+v", got)
	}
}
