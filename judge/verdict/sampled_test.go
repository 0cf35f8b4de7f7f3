package verdict

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"dyno/judge/verdict/compare"
	"dyno/judge/verdict/dataset"
	"dyno/judge/verdict/evidence"
	"dyno/judge/verdict/expr"
	"dyno/load/hist"
	"dyno/results/rundir"
)

// answers counts the answers of one trial. The slow ones take 900 ms, and all others 20 ms. The early ones were given
// up after 20 ms.
type answers struct{ all, slow, early int64 }

// sampled is the evidence of trials of one variant.
func sampled(t testing.TB, trials ...answers) evidence.Sampled {
	t.Helper()
	of := func(a answers) *dataset.Stats {
		h := hist.New()
		h.RecordN(int64(20*time.Millisecond), a.all-a.slow)
		h.RecordN(int64(900*time.Millisecond), a.slow)
		early := hist.New()
		early.RecordN(int64(20*time.Millisecond), a.early)
		return &dataset.Stats{
			Variant: rundir.Variant{
				Name: "v", Figures: map[string]rundir.Estimate{rundir.MetricErrorRatio: {Estimate: new(float64(a.slow) / float64(a.all)), Interval: rundir.NoInterval}},
				Counts: rundir.Counts{Scheduled: a.all, Errors: a.slow, OK: a.all - a.slow},
			},
			Values:     map[string]float64{rundir.MetricErrorRatio: float64(a.slow) / float64(a.all), rundir.MetricErrorTotal: float64(a.slow)},
			Histograms: map[string]*hist.Histogram{rundir.TagResponse: h, rundir.TagGivenUp: early},
		}
	}
	s := dataset.New(rundir.Plan{Variants: []rundir.PlanVariant{{Name: "v"}}}, nil)
	var sum answers
	for i, a := range trials {
		s.Rounds["v"][i+1] = of(a)
		sum = answers{sum.all + a.all, sum.slow + a.slow, sum.early + a.early}
	}
	s.Whole["v"] = of(sum)
	return evidence.Sampled{Evidence: evidence.New(compare.New(s), nil)}
}

func decided(t testing.TB, text string, trials ...answers) rundir.Threshold {
	t.Helper()
	return expr.DecideThreshold(text, expr.Names{Variants: []string{"v"}}, sampled(t, trials...))[0]
}

// A quantile's threshold is the binomial test of the answers above its limit.
func TestThresholdsOfFewRequests(t *testing.T) {
	for _, c := range []struct {
		text    string
		of      []answers
		outcome string
		says    string // that it is not sure; empty: it is
	}{
		{"p99 < 500ms", []answers{{all: 600}}, rundir.Kept, ""},
		{"p99 < 500ms", []answers{{all: 299}}, rundir.Kept, ""},
		{"p99 < 500ms", []answers{{all: 298}}, rundir.KeptAsMeasured, "too few requests to be sure: 298 of 299"},
		{"p99 < 500ms", []answers{{all: 50}}, rundir.KeptAsMeasured, "too few requests to be sure: 50 of 299"},
		{"p99.9 < 500ms", []answers{{all: 1000}}, rundir.KeptAsMeasured, "1,000 of 2,995"},
		{"p99 < 500ms", []answers{{all: 1000, slow: 4}}, rundir.Kept, ""},
		{"p99 < 500ms", []answers{{all: 1000, slow: 5}}, rundir.KeptAsMeasured, "1,000 of "},
		{"p99 < 500ms", []answers{{all: 1000, slow: 10}}, rundir.KeptAsMeasured, "the 1,000 requests are right at the limit"},
		{"p99 < 500ms", []answers{{all: 1000, slow: 11}}, rundir.Broken, "as measured: too few requests to be sure: 1,000 of "},
		{"p99 < 500ms", []answers{{all: 1000, slow: 15}}, rundir.Broken, "as measured: too few"},
		{"p99 < 500ms", []answers{{all: 1000, slow: 16}}, rundir.Broken, ""},
		{"p99 < 500ms", []answers{{all: 60, slow: 1}}, rundir.Broken, "as measured: too few"}, // 1.7 %, as k6 has it
		{"p99 < 500ms", []answers{{all: 1, slow: 1}}, rundir.Broken, ""},
		{"p50 < 500ms", []answers{{all: 4}}, rundir.KeptAsMeasured, "4 of 5"},
		{"p50 < 500ms", []answers{{all: 5}}, rundir.Kept, ""},
		{"p50 > 500ms", []answers{{all: 5, slow: 5}}, rundir.Kept, ""},
		{"p50 > 500ms", []answers{{all: 5}}, rundir.Broken, ""},
		// What was given up before the limit may have taken longer.
		{"p99 < 500ms", []answers{{all: 600, early: 3}}, rundir.KeptAsMeasured, "600 of "},
		{"p99 < 500ms", []answers{{all: 600, slow: 20, early: 3}}, rundir.Broken, ""},
		// The limit is within a bucket, or at its values.
		{"p99 < 20ms", []answers{{all: 600}}, rundir.Broken, ""},
		{"p99 < 20001us", []answers{{all: 600}}, rundir.Kept, ""}, // nothing took longer than 20 ms
		{"p99 < 900001us", []answers{{all: 600, slow: 1}, {all: 600, slow: 1}}, rundir.Kept, ""},
		{"p99 < 20040us", []answers{{all: 600}}, rundir.Kept, ""},
		// Trials that differ count as such, and those that do not as their requests.
		{"p99 < 500ms", []answers{{all: 300}, {all: 300}}, rundir.Kept, ""},
		{"p99 < 500ms", []answers{{all: 3000, slow: 1}, {all: 3000, slow: 20}}, rundir.KeptAsMeasured, "straddles 500ms"},
		{"p99 < 500ms", []answers{{all: 3000, slow: 3}, {all: 3000, slow: 4}, {all: 3000, slow: 3}, {all: 3000, slow: 4}}, rundir.Kept, ""},
		{"errors.ratio < 1%", []answers{{all: 600}}, rundir.Kept, ""},
		{"errors.ratio < 1%", []answers{{all: 50}}, rundir.KeptAsMeasured, "50 of 299"},
		{"errors.ratio < 1%", []answers{{all: 60, slow: 2}}, rundir.Broken, "as measured"},
		{"errors.ratio < 1%", []answers{{all: 60, slow: 30}}, rundir.Broken, ""},
		{"errors.ratio == 0", []answers{{all: 60}}, rundir.Kept, ""}, // of this run
		{"errors.ratio <= 0%", []answers{{all: 60, slow: 1}}, rundir.Broken, ""},
		{"p99 < 500ms, errors.ratio < 1%", []answers{{all: 600}}, rundir.Kept, ""},
		{"p99{step=a} < 500ms", []answers{{all: 600}}, rundir.Undecided, "unknown step"},
		{"service.p99 < 500ms", []answers{{all: 600}}, rundir.Undecided, "no complete trial of v"},
	} {
		got := decided(t, c.text, c.of...)
		if got.Outcome != c.outcome || !strings.Contains(got.Detail.English(), c.says) || got.Outcome == rundir.Broken && (c.says == "") != (got.Detail == nil) {
			t.Errorf("%s of %+v: %s (%s), want %s (%s)", c.text, c.of, got.Outcome, got.Detail.English(), c.outcome, c.says)
		}
	}
}

// drawn is how many of n requests are slow if each is with a chance: the gaps between them are geometric.
func drawn(random *rand.Rand, n int64, chance float64) (slow int64) {
	if chance == 0 {
		return 0
	}
	for at := int64(-1); ; slow++ {
		if at += 1 + int64(random.ExpFloat64()/-math.Log1p(-chance)); at >= n {
			return slow
		}
	}
}

// Sure outcomes are wrong no more often than dyno says. The truth of thirty thresholds is known, at numbers of requests
// from 10 to 20,000.
func TestSureThresholdsAreRight(t *testing.T) {
	const draws = 100
	random := rand.New(rand.NewPCG(7, 7))
	sure, wrong := 0, 0
	for quantile, beyond := range map[string]float64{"p50": 0.5, "p90": 0.1, "p95": 0.05, "p99": 0.01, "p999": 0.001, "errors": 0.01} {
		text := fmt.Sprintf("%s < 500ms", quantile)
		if quantile == "errors" {
			text = "errors.ratio < 1%"
		}
		for _, factor := range []float64{0, 0.5, 0.9, 1.1, 1.9} {
			truth := rundir.Kept
			if factor > 1 {
				truth = rundir.Broken
			}
			for _, n := range []int64{10, 50, 300, 1000, 20_000} {
				here, known := 0, map[answers]rundir.Threshold{}
				for range draws {
					a := answers{all: n, slow: drawn(random, n, beyond*factor)}
					got, ok := known[a]
					if !ok {
						got = decided(t, text, a)
						known[a] = got
					}
					isSure := got.Outcome == rundir.Kept || got.Outcome == rundir.Broken && got.Detail == nil
					if isSure {
						sure++
						if got.Outcome != truth {
							here++
						}
					}
				}
				wrong += here
				if here > draws/8 { // at 5 %, five are expected at most
					t.Errorf("%s with %g of the allowed share, %d requests: %d of %d are wrong", text, factor, n, here, draws)
				}
			}
		}
	}
	if sure == 0 || float64(wrong) > 0.05*float64(sure) {
		t.Errorf("%d of %d sure outcomes are wrong", wrong, sure)
	}
	t.Logf("%d of %d sure outcomes are wrong", wrong, sure)
}
