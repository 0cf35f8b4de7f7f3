package verdict

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dyno/judge/stat"
	"dyno/results/rundir"
)

// languages is a run of four variants and a control with a number of rounds. The second and the third
// have the same throughput; all differ in memory but the third and the fourth.
func languages(rounds int) *bench {
	b := newBench(rounds, "go", "go.control", "rust", "cpp", "node")
	b.run.Plan.Pairs = true
	r := rand.New(rand.NewPCG(3, 4))
	for round := 1; round <= rounds; round++ {
		drift := math.Exp(0.2 * r.NormFloat64()) // what neighbours in a round share
		for i, of := range []struct{ throughput, bytes float64 }{{1000, 20e6}, {1000, 20e6}, {1500, 7e6}, {1500, 21e6}, {300, 21e6}} {
			noise := func() float64 { return math.Exp(0.004 * r.NormFloat64()) }
			t := b.measure(round, b.run.Plan.Variants[i].Name, of.throughput*drift*noise())
			t.Target.RSSBytes = new(int64(of.bytes * noise()))
		}
	}
	return b
}

func TestPairs(t *testing.T) {
	run := languages(8).judge(t)
	var got []string
	byMetric := map[string][2][]float64{}
	for _, c := range run.Comparisons {
		got = append(got, fmt.Sprintf("%s: %s/%s %s: %s, %s", c.Metric, c.Variant, c.Base, c.Role, c.Verdict, c.Adjustment))
		if c.Role != rundir.RoleControl {
			ps := byMetric[c.Metric]
			byMetric[c.Metric] = [2][]float64{append(ps[0], *c.P), append(ps[1], *c.AdjustedP)}
		}
	}
	if diff := cmp.Diff([]string{
		"throughput: go.control/go control: equivalent, ",
		"target.rss: go.control/go control: equivalent, ",
		"throughput: rust/go : better, Holm, of 6",
		"target.rss: rust/go : better, Holm, of 6",
		"throughput: cpp/go : better, Holm, of 6",
		"target.rss: cpp/go : worse, Holm, of 6",
		"throughput: node/go : worse, Holm, of 6",
		"target.rss: node/go : worse, Holm, of 6",
		"throughput: cpp/rust pair: equivalent, Holm, of 6",
		"target.rss: cpp/rust pair: worse, Holm, of 6",
		"throughput: node/rust pair: worse, Holm, of 6",
		"target.rss: node/rust pair: worse, Holm, of 6",
		"throughput: node/cpp pair: worse, Holm, of 6",
		"target.rss: node/cpp pair: equivalent, Holm, of 6",
	}, got); diff != "" {
		t.Error(diff)
	}
	for metric, ps := range byMetric {
		want, err := stat.Holm(ps[0])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, ps[1]); diff != "" {
			t.Errorf("%s: %s", metric, diff)
		}
	}
}

// Latencies are compared with the base alone, in a family of their own size.
func TestPairsAreOfTheirMetrics(t *testing.T) {
	b := newBench(8, "a", "b", "c")
	b.run.Plan.Pairs = true
	r := rand.New(rand.NewPCG(5, 5))
	for round := 1; round <= 8; round++ {
		for i, v := range []string{"a", "b", "c"} {
			b.measure(round, v, 1000*float64(i+1)*math.Exp(0.01*r.NormFloat64()))
			b.record(latencies(r, 2000, time.Duration(i+1)*time.Millisecond)...)
		}
	}
	var got []string
	for _, c := range b.judge(t).Comparisons {
		got = append(got, fmt.Sprintf("%s: %s/%s %s", c.Metric, c.Variant, c.Base, c.Adjustment))
	}
	if diff := cmp.Diff([]string{
		"throughput: b/a Holm, of 3", "service.p50: b/a Holm, of 2", "service.p99: b/a Holm, of 2",
		"throughput: c/a Holm, of 3", "service.p50: c/a Holm, of 2", "service.p99: c/a Holm, of 2",
		"throughput: c/b Holm, of 3",
	}, got); diff != "" {
		t.Error(diff)
	}
}

// With stop: precision, all pairs must have enough rounds.
func TestPairsStop(t *testing.T) {
	b := languages(8)
	b.run.Plan.Stop, b.run.Plan.Rounds = "precision", 40
	enough, why, err := Referee{}.Enough(b.run.Plan, b.trials)
	if err != nil {
		t.Fatal(err)
	}
	if !enough {
		t.Errorf("eight rounds with a spread of 0.4 %% are not enough: %s", why)
	}
	for i := range b.trials {
		if x := &b.trials[i]; x.Variant == "cpp" && x.Round%2 == 0 {
			x.Throughput = new(1.3 * *x.Throughput)
		}
	}
	if enough, why, err = (Referee{}).Enough(b.run.Plan, b.trials); err != nil || enough || why.Values["variant"] != "cpp" {
		t.Errorf("%v, %s, %v; want further rounds, for cpp", enough, why, err)
	}
}
