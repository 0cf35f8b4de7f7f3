package dataset

import (
	"math"
	"math/rand/v2"
	"testing"

	"dyno/load/hist"
	"dyno/results/rundir"
)

// Eight trials of log-normal times, whose levels differ by so much from trial to trial: all together they are log-normal,
// too, and their quantiles known. The intervals hold the truth as often as they say, or oftener.
func TestRangesHoldTheTruth(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: simulates thousands of experiments")
	}
	const trials, runs, within = 8, 300, 1.0
	z := map[string]float64{"p50": 0, "p90": 1.2815515655446004, "p99": 2.3263478740408408}
	rng := rand.New(rand.NewPCG(29, 29)) //nolint:gosec // a simulation
	for _, c := range []struct {
		q       string
		between float64
	}{{"p50", 0}, {"p50", 0.05}, {"p99", 0.05}, {"p90", 0.2}, {"p99", 0.2}} {
		m, _ := Lookup("service." + c.q)
		truth := 1e-3 * math.Exp(math.Hypot(within, c.between)*z[c.q])
		held := 0
		for range runs {
			whole, list := &Stats{Histograms: map[string]*hist.Histogram{rundir.TagService: hist.New()}}, []*Stats(nil)
			for range trials {
				h, level := hist.New(), c.between*rng.NormFloat64()
				for range 400 + rng.IntN(400) {
					h.Record(int64(1e6 * math.Exp(level+within*rng.NormFloat64())))
				}
				whole.Histograms[rundir.TagService].Merge(h)
				list = append(list, &Stats{Histograms: map[string]*hist.Histogram{rundir.TagService: h}})
			}
			r := m.sample(whole, list).Range((1 - Confidence) / 2)
			if r.Low > r.High {
				t.Fatalf("%+v", r)
			}
			if r.Low <= truth && truth <= r.High {
				held++
			}
		}
		// Three standard errors are 0.038.
		if share := float64(held) / runs; share < Confidence-0.038 {
			t.Errorf("%s, trials differing by %v: held the truth in %v", c.q, c.between, share)
		}
	}
}
