package verdict

import (
	"testing"
	"time"

	"dyno/results/rundir"
)

// answersBench has a trial of an open loop with answers of a language model: 900 of 1,000 a
// second keep within the goal. In some of the 100 ms intervals there was a stall.
func answersBench(stall time.Duration, disturbed ...int) *bench {
	const ms = time.Millisecond
	b := openBench(1, "v")
	b.run.Plan.Base, b.run.Plan.Metric = "", rundir.MetricGoodput
	trial := b.measure(1, "v", 1000)
	trial.Tokens = &rundir.Tokens{Count: 80_000, PerSecond: new(20_000.), PromptPerSecond: new(3000.), Within: 3600, Goodput: new(900.)}
	b.stallIn(stall, disturbed...)
	for _, tag := range []string{rundir.TagResponse, rundir.TagService, rundir.TagFirstToken, rundir.TagTokenTime} {
		b.tenthsOf(tag, ms, 20*ms)
	}
	for _, tag := range []string{rundir.TagSendLag, rundir.TagGeneratorLag} {
		b.tenthsOf(tag, time.Microsecond, time.Microsecond)
	}
	return b
}

func TestFiguresOfTokens(t *testing.T) {
	b := answersBench(0)
	b.run.Plan.Thresholds = []string{"goodput > 800/s", "tokens_per_second < 100/s", "first_token.p99 < 5ms", "token_time.p50 < 1us"}
	run := b.judge(t)
	v := run.Variants[0]
	for name, want := range map[string]float64{"goodput": 900, "tokens_per_second": 20_000, "prompt_tokens_per_second": 3000, "first_token.p50": 0.001, "token_time.p99": 0.001} {
		if e := v.Figures[name].Estimate; e == nil || *e < want*0.99 || *e > want*1.01 {
			t.Errorf("%s: %v, want %v", name, e, want)
		}
	}
	if v.Tokens == nil || v.Tokens.Within != 3600 || v.Tokens.Count != 80_000 || v.Known("first_token.max") == nil {
		t.Errorf("%+v", v.Tokens)
	}
	for i, want := range []bool{true, false, true, false} {
		if got := run.Thresholds[i]; got.OK != want {
			t.Errorf("%s: %v", got.Text, got.OK)
		}
	}
}

// A disturbance may have moved answers beyond the goal, and none within.
func TestGoodputOfADisturbedTrial(t *testing.T) {
	got := figureOfRun(t, answersBench(0).judge(t), rundir.MetricGoodput, "v", "")
	if got.State != rundir.StateOK {
		t.Errorf("undisturbed: %+v", got)
	}
	got = figureOfRun(t, answersBench(60*time.Millisecond, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19).judge(t), rundir.MetricGoodput, "v", "")
	if got.State != rundir.StateBounded || got.Low == nil || *got.Low > 900 || *got.Low < 899 || got.High == nil || *got.High <= 900 || *got.High > 1000 {
		t.Errorf("disturbed: %+v, %v to %v", got, got.Low, got.High)
	}
	if got.Why == nil || len(got.Causes) == 0 {
		t.Errorf("no reason: %+v", got)
	}
}
