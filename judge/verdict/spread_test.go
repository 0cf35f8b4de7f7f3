package verdict

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dyno/judge/stat"
	"dyno/results/rundir"
)

func TestSpreadOfTrials(t *testing.T) {
	b := newBench(6, "go", "net")
	for round, x := range []float64{-1, 1, -1, 1, -1, 1} {
		b.measure(round+1, "go", 1000*math.Exp(0.01*x))
		b.measure(round+1, "net", 500*math.Exp(0.2*x))
	}
	b.run.Plan.Claims = []rundir.PlanClaim{
		{ID: "size", Holds: `spread("go", throughput) < 5%`},
		{ID: "more", Holds: `spread("net", throughput) > spread("go", throughput)`},
		{ID: "twice", Holds: `spread("net", throughput) / spread("go", throughput) >= 20`},
		{ID: "memory", Holds: `spread("net", target.rss) < 5%`},
		{ID: "zero", Holds: `spread("net", errors.ratio) < 5%`},
	}
	b.run.Plan.Thresholds = []string{"spread(throughput) < 5%"}
	run := b.judge(t)
	var got []string
	for _, c := range run.Claims {
		got = append(got, c.ID+": "+c.Outcome+"; "+c.Detail.English())
	}
	for _, x := range run.Thresholds {
		got = append(got, x.Variant+": "+x.Outcome)
	}
	if diff := cmp.Diff([]string{
		"size: holds; ",
		"more: holds; ",
		"twice: not settled; 5.113 to 84.61 straddles 20",
		"memory: not settled; target.rss of net is not known: not observed, or too few values",
		"zero: not settled; errors.ratio of net has no spread as a share of its mean: it is 0 in a trial",
		"go: ok", "net: broken",
	}, got); diff != "" {
		t.Error(diff)
	}
	want, err := stat.CoefficientOfVariation(b.throughputs("go"), 0.95)
	if err != nil {
		t.Fatal(err)
	}
	if c := run.Claims[0]; *c.Measured != want.Estimate || *c.Low != want.Interval.Low || *c.High != want.Interval.High {
		t.Errorf("%v (%v to %v), want %+v", *c.Measured, *c.Low, *c.High, want)
	}
}

// One trial has no spread.
func TestSpreadOfOneTrial(t *testing.T) {
	b := newBench(1, "go")
	b.measure(1, "go", 1000)
	b.run.Plan.Thresholds = []string{"spread(throughput) < 5%"}
	if got := b.judge(t).Thresholds[0]; got.Outcome != rundir.Undecided || got.Detail.English() != "the spread of throughput of go is not known: it takes two trials" {
		t.Errorf("%+v", got)
	}
}

// throughputs are those of a variant's trials.
func (b *bench) throughputs(variant string) (all []float64) {
	for _, t := range b.trials {
		if t.Variant == variant {
			all = append(all, *t.Throughput)
		}
	}
	return all
}
