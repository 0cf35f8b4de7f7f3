package verdict

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"dyno/results/rundir"
)

// The change of a comparison is that of its two figures, whatever the machine did, in rounds and in duets. A lost round
// has no figures.
func TestAChangeIsThatOfItsFigures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := soundDuet()
		d.rounds = rapid.IntRange(2, 9).Draw(t, "rounds")
		d.ratio = rapid.Float64Range(0.3, 3).Draw(t, "ratio")
		d.noise = rapid.Float64Range(0, 0.5).Draw(t, "noise")
		d.own = rapid.Float64Range(0, 0.5).Draw(t, "own noise")
		b := d.bench(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)))
		isDuet := rapid.Bool().Draw(t, "duet")
		for i := range b.trials {
			x := &b.trials[i]
			x.Times = rundir.Times{rundir.TagService: {P99: new(1 / *x.Throughput)}}
			x.Target.CPUSecondsPerRequest = new(0.3 / *x.Throughput)
			if !isDuet {
				x.Duet = nil
				x.Complete = x.Purpose == ""
			}
		}
		if !isDuet {
			b.run.Plan.Duet = nil
		}
		lost := rapid.Bool().Draw(t, "lost")
		if lost {
			x := &b.trials[1] // of b, in the first round
			x.Throughput, x.Counts = new(0.), rundir.Counts{Scheduled: 10, Sent: 10, Timeouts: 10}
		}
		for _, c := range b.judge(t).Comparisons {
			if lost && c.Variant == "b" && c.Metric == "throughput" {
				if c.Figure != nil || c.BaseFigure != nil {
					t.Fatalf("a lost round, and the figures %v and %v", *c.Figure, *c.BaseFigure)
				}
				continue
			}
			if c.Figure == nil {
				if c.Ratio.Interval != rundir.ByLostRounds && !lost {
					t.Fatalf("no figures: %+v", c)
				}
				continue
			}
			if got := *c.Figure / *c.BaseFigure; math.Abs(got / *c.Ratio.Estimate - 1) > 1e-9 {
				t.Fatalf("%s: %v over %v is %v, and the change %v", c.Metric, *c.Figure, *c.BaseFigure, got, *c.Ratio.Estimate)
			}
		}
	})
}
