package verdict

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"dyno/internal/texts"
	"dyno/judge/capacity"
	"dyno/judge/stat"
	"dyno/judge/verdict/checks"
	"dyno/judge/verdict/compare"
	"dyno/judge/verdict/dataset"
	"dyno/judge/verdict/recording"
	"dyno/judge/verdict/search"
	"dyno/load/hist"
	"dyno/results/rundir"
	"dyno/results/rundir/series"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// A bench is a run that was made up.
type bench struct {
	run    rundir.Run
	trials []rundir.Trial
	logs   map[int][]hist.Interval
	series map[int]*series.Series
	stalls map[int][]series.Stall // nil: no observer looked for them
}

// newBench is a closed-loop plan of variants, the first being the base of the
// others.
func newBench(rounds int, variants ...string) *bench {
	b := &bench{logs: map[int][]hist.Interval{}, series: map[int]*series.Series{}}
	b.run.Plan = rundir.Plan{Base: variants[0], Rounds: rounds, Loop: "closed", Metric: "throughput", Margin: 0.02, Stop: "fixed", Seed: 7}
	for _, name := range variants {
		v := rundir.PlanVariant{Name: name, Loop: "closed", Connections: 10, WindowSeconds: 4}
		if of, ok := strings.CutSuffix(name, ".control"); ok {
			v.AliasOf = of
			b.run.Plan.Control = name
		}
		b.run.Plan.Variants = append(b.run.Plan.Variants, v)
	}
	return b
}

// measure adds a trial.
func (b *bench) measure(round int, variant string, throughput float64) *rundir.Trial {
	n := int64(throughput * 4)
	b.trials = append(b.trials, rundir.Trial{
		Number: len(b.trials) + 1, Round: round, Variant: variant, Complete: true, WindowSeconds: 4,
		Throughput:   &throughput,
		Conservation: rundir.Conservation{OK: true},
		Counts:       rundir.Counts{Scheduled: n, Sent: n, OK: n, CompletedInWindow: n},
		Connections:  rundir.Connections{Requested: 10, Opened: 10, Peak: 10},
	})
	return &b.trials[len(b.trials)-1]
}

// record adds a log of service and response times to the last trial.
func (b *bench) record(values ...time.Duration) {
	for at := range 4 {
		h := hist.New()
		for i := at; i < len(values); i += 4 {
			h.Record(int64(values[i]))
		}
		for _, tag := range []string{rundir.TagResponse, rundir.TagService} {
			b.logs[len(b.trials)] = append(b.logs[len(b.trials)], hist.Interval{
				Tag: tag, Start: time.Duration(at) * time.Second, Length: time.Second, Hist: h,
			})
		}
	}
}

func (b *bench) sources() []recording.Source {
	var all []recording.Source
	for i := range b.trials {
		n := b.trials[i].Number
		all = append(all, recording.Source{
			Trial:  &b.trials[i],
			Log:    func() ([]hist.Interval, error) { return b.logs[n], nil },
			Series: func() (*series.Series, error) { return b.series[n], nil },
			Stalls: func() ([]series.Stall, bool, error) { return b.stalls[n], b.stalls != nil, nil },
		})
	}
	return all
}

type fataler interface {
	Helper()
	Fatal(...any)
}

func (b *bench) judge(t fataler) *rundir.Run {
	t.Helper()
	run := b.run
	if err := judge(&run, b.sources(), dataset.Taken{}); err != nil {
		t.Fatal(err)
	}
	return &run
}

// comparison finds the one of a variant, its base and a metric.
func comparison(t fataler, run *rundir.Run, variant, base, metric string) rundir.Comparison {
	t.Helper()
	i := slices.IndexFunc(run.Comparisons, func(c rundir.Comparison) bool {
		return c.Variant == variant && c.Base == base && c.Metric == metric
	})
	if i < 0 {
		t.Fatal("no comparison of", variant, "with", base, "in", metric)
	}
	return run.Comparisons[i]
}

func kinds(flags []rundir.Flag) string {
	var all []string
	for _, f := range flags {
		kind := f.Kind
		if f.Disturbs {
			kind += "!"
		}
		all = append(all, kind)
	}
	return strings.Join(all, " ")
}

// latencies are n values about a median, with a tail.
func latencies(r *rand.Rand, n int, median time.Duration) []time.Duration {
	values := make([]time.Duration, n)
	for i := range values {
		values[i] = time.Duration(float64(median) * math.Exp(0.3*r.NormFloat64()))
	}
	return values
}

// abc is a run of a base, its control and two variants in eight rounds: b is as
// fast, c slower by a tenth.
func abc() *bench {
	r := rand.New(rand.NewPCG(3, 4))
	b := newBench(8, "a", "a.control", "b", "c")
	b.run.Name = "abc"
	for round := 1; round <= 8; round++ {
		drift := 1 + 0.03*r.NormFloat64() // which pairing cancels
		for _, v := range []struct {
			name string
			slow float64
		}{{"a", 1}, {"a.control", 1}, {"b", 1}, {"c", 1.1}} {
			t := b.measure(round, v.name, 5000*drift/v.slow*(1+0.004*r.NormFloat64()))
			t.Target.CPUSecondsPerRequest = new(2e-5 * v.slow * (1 + 0.004*r.NormFloat64()))
			b.record(latencies(r, 2000, time.Duration(2e6*v.slow*(1+0.01*r.NormFloat64())))...)
		}
	}
	return b
}

// golden compares with a file, or writes it.
func golden(t *testing.T, name string, got any) {
	t.Helper()
	text, err := json.MarshalIndent(got, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var a, b any
	if err := errors.Join(json.Unmarshal(want, &a), json.Unmarshal(text, &b)); err != nil {
		t.Fatal(err)
	}
	// The last digits differ between processors that fuse a multiplication and an
	// addition and those that do not.
	if diff := cmp.Diff(a, b, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
		t.Error(diff)
	}
}

func TestJudgedRun(t *testing.T) {
	run := abc().judge(t)
	for i := range run.Variants { // a few of the forty metrics are enough to read
		for name := range run.Variants[i].Figures {
			if !slices.Contains([]string{"throughput", "service.p50", "service.p99", "service.mean", "service.max", "errors.ratio", "errors.total", rundir.MetricCPU, "connections.opened"}, name) {
				delete(run.Variants[i].Figures, name)
			}
		}
	}
	golden(t, "compare.json", map[string]any{"rounds": run.Rounds, "valid": run.Valid, "variants": run.Variants, "comparisons": run.Comparisons})

	if first := run.Comparisons[0]; first.Role != rundir.RoleControl || first.Verdict != rundir.Equivalent || first.AdjustedP != nil {
		t.Errorf("the first comparison is %+v, want the control, equivalent, in no family", first)
	}
	if b := comparison(t, run, "b", "a", "throughput"); b.Verdict != rundir.Equivalent || !b.Primary {
		t.Errorf("b: %+v", b)
	}
	for _, metric := range []string{"throughput", "service.p50", "service.p99", rundir.MetricCPU} {
		if c := comparison(t, run, "c", "a", metric); c.Verdict != rundir.Worse || c.Primary != (metric == "throughput") || c.Rounds != 8 {
			t.Errorf("c in %s: %+v", metric, c)
		}
	}
	if len(run.Comparisons) != 3*4 || run.Rounds != 8 || !run.Valid {
		t.Errorf("%d comparisons, %d rounds, valid %v: %s", len(run.Comparisons), run.Rounds, run.Valid, kinds(run.Flags))
	}
}

// Every interval holds its estimate, every estimate is the figure itself, and
// nothing is claimed of one trial.
func TestIntervals(t *testing.T) {
	b := abc()
	run := b.judge(t)
	for _, v := range run.Variants {
		for name, e := range v.Figures {
			if e.Low != nil && *e.Low > *e.Estimate || e.High != nil && *e.High < *e.Estimate {
				t.Errorf("%s of %s: %v to %v does not hold %v", name, v.Name, *e.Low, *e.High, *e.Estimate)
			}
			if len(e.Values) != 8 && !strings.HasSuffix(name, ".p999") { // of which one trial has too few values
				t.Errorf("%s of %s: %d values", name, v.Name, len(e.Values))
			}
		}
		for name, want := range map[string]string{
			"service.p99": rundir.ByShare, "service.mean": rundir.ByStudent, "service.max": rundir.NoInterval, "errors.total": rundir.NoInterval, rundir.MetricCPU: rundir.ByStudent,
		} {
			if got := v.Figures[name].Interval; got != want {
				t.Errorf("%s: interval %q, want %q", name, got, want)
			}
		}
		if e := v.Figures["connections.opened"]; *e.Estimate != 10 || *e.Low != 10 || *e.High != 10 {
			t.Errorf("ten connections in all trials: %v, %v to %v", *e.Estimate, *e.Low, *e.High)
		}
	}

	b.trials = b.trials[:4]
	run = b.judge(t)
	for name, e := range run.Variants[0].Figures {
		if e.Interval != rundir.NoInterval || e.Low != nil || e.High != nil {
			t.Errorf("%s of one trial: %+v", name, e)
		}
	}
	for _, c := range run.Comparisons {
		if c.Ratio.Interval != rundir.NoInterval || c.P != nil || c.SignFlipP != nil || c.Verdict != rundir.Inconclusive || c.FurtherRounds != nil {
			t.Errorf("a comparison by one round: %+v", c)
		}
	}
}

// Of trials of one size the interval of a share is Student's of the trials' own, on logits.
func TestShares(t *testing.T) {
	b := newBench(4, "a")
	for round, errs := range []int64{3, 9, 4, 8} {
		x := b.measure(round+1, "a", 1000)
		x.Counts.Errors, x.Counts.ByKind = errs, map[string]int64{"reset": errs, "unfinished": 2}
	}
	run := b.judge(t)
	e := run.Variants[0].Figures["errors.ratio"]
	want, err := stat.PairedMean([]float64{3. / 4000, 9. / 4000, 4. / 4000, 8. / 4000}, 0.95)
	if err != nil {
		t.Fatal(err)
	}
	p := want.Estimate
	logit, half := math.Log(p/(1-p)), (want.Interval.High-p)/(p*(1-p))
	low, high := 1/(1+math.Exp(half-logit)), 1/(1+math.Exp(-half-logit))
	if math.Abs(*e.Estimate-p) > 1e-12 || math.Abs(*e.Low-low) > 1e-12 || math.Abs(*e.High-high) > 1e-12 {
		t.Errorf("%v, %v to %v; want %v to %v of %+v", *e.Estimate, *e.Low, *e.High, low, high, want)
	}
	if byKind, _ := run.Variants[0].Counts.Failures(); !maps.Equal(byKind, map[string]int64{"reset": 24, "unfinished": 8}) || run.Variants[0].Counts.Unanswered() != 24 {
		t.Errorf("errors: %v", byKind)
	}
}

// Swapping two variants inverts their ratio, and a unit does not matter.
func TestSwappingAndScaling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		rounds := rapid.IntRange(1, 9).Draw(t, "rounds")
		apart := rapid.Float64Range(0.9, 1.1).Draw(t, "apart")
		scale := rapid.Float64Range(0.01, 100).Draw(t, "scale")
		plain, swapped, scaled := newBench(rounds, "a", "b"), newBench(rounds, "a", "b"), newBench(rounds, "a", "b")
		swapped.run.Plan.Base = "b"
		for round := 1; round <= rounds; round++ {
			for name, x := range map[string]float64{"a": 1000 * math.Exp(0.02*r.NormFloat64()), "b": 1000 * apart * math.Exp(0.02*r.NormFloat64())} {
				cpu := 1 / x
				for b, factor := range map[*bench]float64{plain: 1, swapped: 1, scaled: scale} {
					b.measure(round, name, x*factor).Target.CPUSecondsPerRequest = new(cpu * factor)
				}
			}
		}
		plainly, backwards, larger := plain.judge(t), swapped.judge(t), scaled.judge(t)
		for _, metric := range []string{"throughput", rundir.MetricCPU} {
			is := comparison(t, plainly, "b", "a", metric)
			back := comparison(t, backwards, "a", "b", metric)
			again := comparison(t, larger, "b", "a", metric)
			near := cmpopts.EquateApprox(1e-6, 1e-12)
			for _, figure := range []*float64{is.Figure, is.BaseFigure} {
				*figure *= scale
			}
			if diff := cmp.Diff(is, again, near); diff != "" {
				t.Fatalf("scaled: %s", diff)
			}
			if math.Abs(*is.Ratio.Estimate**back.Ratio.Estimate-1) > 1e-9 {
				t.Fatalf("ratios %v and %v", *is.Ratio.Estimate, *back.Ratio.Estimate)
			}
			if rounds > 1 && (math.Abs(*is.Ratio.Low**back.Ratio.High-1) > 1e-9 || math.Abs(*is.P-*back.P) > 1e-9) {
				t.Fatalf("intervals %+v and %+v", is.Ratio, back.Ratio)
			}
			mirror := map[string]string{rundir.Better: rundir.Worse, rundir.Worse: rundir.Better}
			want, ok := mirror[is.Verdict]
			if !ok {
				want = is.Verdict
			}
			if back.Verdict != want {
				t.Fatalf("verdicts %s and %s", is.Verdict, back.Verdict)
			}
		}
	})
}

// Of comparisons of a variant with itself one in twenty finds a difference.
func TestAlike(t *testing.T) {
	const runs = 600
	r := rand.New(rand.NewPCG(11, 12))
	for _, c := range []struct {
		metric string
		rounds int
	}{{"throughput", 8}, {"service.p99", 12}} {
		positive, adjusted := 0, 0
		b := newBench(c.rounds, "a", "b", "c")
		b.run.Plan.Metric = c.metric
		for range runs {
			s := dataset.New(b.run.Plan, nil)
			for round := range c.rounds {
				for _, v := range []string{"a", "b", "c"} {
					x := math.Exp(0.01 * r.NormFloat64())
					f := &dataset.Stats{Times: rundir.Times{rundir.TagService: {P99: &x, Count: 1000}}}
					if c.metric == rundir.MetricThroughput {
						f = &dataset.Stats{Values: map[string]float64{c.metric: x}}
					}
					s.Rounds[v][round], s.AllRounds[v][round] = f, f
				}
			}
			list, _, err := compare.New(s).Compare()
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, k := range list {
				if k.Variant == "b" && !stat.Ends(k.Ratio.Low, k.Ratio.High).Contains(1) {
					positive++
				}
				found = found || k.Verdict == rundir.Better || k.Verdict == rundir.Worse
			}
			if found {
				adjusted++
			}
		}
		// 5 % of 600, ± 3 standard deviations. Signed ranks are a little stricter.
		if positive < 11 || positive > 46 {
			t.Errorf("%s: %d of %d differ", c.metric, positive, runs)
		}
		if adjusted < 8 || adjusted > 46 {
			t.Errorf("%s: a family finds something in %d of %d", c.metric, adjusted, runs)
		}
	}
}

// A difference that is one of many needs more to show.
func TestFamily(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	b := newBench(8, names...)
	r := rand.New(rand.NewPCG(5, 6))
	for round := 1; round <= 8; round++ {
		for i, v := range names {
			shift := 1.0
			if i > 0 {
				shift = 1.008
			}
			b.measure(round, v, 1000*shift*math.Exp(0.008*r.NormFloat64()))
		}
	}
	run := b.judge(t)
	var ps, adjusted []float64
	rescued := 0
	for _, c := range run.Comparisons {
		ps, adjusted = append(ps, *c.P), append(adjusted, *c.AdjustedP)
		excludes, found := !stat.Ends(c.Ratio.Low, c.Ratio.High).Contains(1), c.Verdict == rundir.Better
		if found != (excludes && *c.AdjustedP <= 0.05) || c.Adjustment != "Holm, of 4" {
			t.Errorf("%s: %s, p %.3g, adjusted %.3g by %q", c.Variant, c.Verdict, *c.P, *c.AdjustedP, c.Adjustment)
		}
		if excludes && !found {
			rescued++
			if c.FurtherRounds == nil && c.Verdict == rundir.Inconclusive || c.FurtherRounds != nil && *c.FurtherRounds < 1 {
				t.Errorf("%s: further rounds %v", c.Variant, c.FurtherRounds)
			}
		}
	}
	want, err := stat.Holm(ps)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, adjusted); diff != "" {
		t.Error(diff)
	}
	if rescued == 0 {
		t.Errorf("the example does not show what it is for: p %v, adjusted %v", ps, adjusted)
	}
}

func TestDisturbedRoundsAreLeftOut(t *testing.T) {
	b := abc()
	noise := func(rounds ...int) {
		for i := range b.trials {
			b.trials[i].Machine.StealShare = nil
			if slices.Contains(rounds, b.trials[i].Round) && b.trials[i].Variant == "c" {
				b.trials[i].Machine.StealShare = new(0.2)
			}
		}
	}
	noise(2, 5)
	run := b.judge(t)
	if kinds(run.Flags) != "steal! steal!" || run.Comparisons[0].AllRounds != nil {
		t.Errorf("not left out: flags %s, %+v", kinds(run.Flags), run.Comparisons[0])
	}
	all := *comparison(t, run, "b", "a", "throughput").Ratio.Estimate

	b.run.Plan.Rounds, b.run.Plan.Remeasure = 6, 3
	run = b.judge(t)
	if !run.Valid || kinds(run.Flags) != "" || run.Rounds != 8 {
		t.Errorf("left out: valid %v, flags %s, %d rounds", run.Valid, kinds(run.Flags), run.Rounds)
	}
	c := comparison(t, run, "b", "a", "throughput")
	if c.Rounds != 6 || c.AllRounds == nil || *c.AllRounds.Estimate != all || len(c.AllRounds.Values) != 8 {
		t.Errorf("comparison %+v", c)
	}
	if run.Variants[1].Trials != 6 {
		t.Errorf("%d trials behind a.control, want all members of a round left out", run.Variants[1].Trials)
	}
	for _, x := range run.Trials {
		if x.Excluded != (x.Round == 2 || x.Round == 5) || x.Disturbed != (x.Excluded && x.Variant == "c") {
			t.Errorf("%+v", x)
		}
	}

	noise(1, 2, 3, 4, 5, 6, 7)
	run = b.judge(t)
	if run.Variants[0].Trials != 8 || comparison(t, run, "b", "a", "throughput").Rounds != 8 {
		t.Errorf("hardly a round left, and still left out: flags %s", kinds(run.Flags))
	}
	flags := kinds(run.Flags)
	if err := judge(run, b.sources(), dataset.Taken{}); err != nil || kinds(run.Flags) != flags {
		t.Errorf("again: %v, flags %s, want %s", err, kinds(run.Flags), flags)
	}
}

// A round in which a target was lost is not left out for noise: the target may be the noise.
func TestLostRoundsAreNotDisturbed(t *testing.T) {
	for name, lose := range map[string]func(*rundir.Trial){
		"ended": func(x *rundir.Trial) { x.Complete, x.Fault, x.Error = false, rundir.FaultTarget, "exit status 3" },
		"answers nothing": func(x *rundir.Trial) {
			x.Throughput, x.Counts = new(0.), rundir.Counts{Scheduled: 400, Sent: 400, Timeouts: 400, Errors: 400}
		},
	} {
		b := abc()
		b.run.Plan.Rounds, b.run.Plan.Remeasure = 6, 3
		for i := range b.trials {
			if x := &b.trials[i]; x.Round == 2 {
				if x.Variant == "c" {
					x.Machine.StealShare = new(0.2)
				}
				if x.Variant == "b" {
					lose(x)
					delete(b.logs, x.Number)
				}
			}
		}
		run := b.judge(t)
		if len(Breaking(run)) == 0 || len(LostRounds(run)) == 0 {
			t.Errorf("%s: flags %s, lost %q", name, kinds(run.Flags), LostRounds(run))
		}
		for _, x := range run.Trials {
			if x.Excluded {
				t.Errorf("%s: trial %d is left out", name, x.Number)
			}
		}
	}
}

// The rule that ends a run hears of no round that is measured again: the level is that of its
// look, whichever are left out.
func TestLevelOfALookWithRoundsLeftOut(t *testing.T) {
	b := newBench(24, "a", "b")
	b.run.Plan.Stop, b.run.Plan.Remeasure = "looks", 12
	r := rand.New(rand.NewPCG(13, 14))
	for round := 1; round <= 9; round++ {
		b.measure(round, "a", 1000*math.Exp(0.005*r.NormFloat64()))
		b.measure(round, "b", 1100*math.Exp(0.005*r.NormFloat64()))
	}
	b.trials[5].Machine.StealShare = new(0.2)
	c := comparison(t, b.judge(t), "b", "a", "throughput")
	if c.Rounds != 8 || c.Ratio.Confidence != 0.9995 || math.Abs(c.Equivalence.Confidence-0.999) > 1e-12 || c.Verdict != rundir.Better {
		t.Errorf("%d rounds at %v, equivalence at %v: %s", c.Rounds, c.Ratio.Confidence, c.Equivalence.Confidence, c.Verdict)
	}
}

// Ranks of few rounds bound nothing, and a tail that one trial makes has no end.
func TestUnboundedIntervals(t *testing.T) {
	b := newBench(3, "a", "b")
	r := rand.New(rand.NewPCG(15, 16))
	for round := 1; round <= 3; round++ {
		for _, v := range []string{"a", "b"} {
			b.measure(round, v, 1000)
			values := latencies(r, 2000, time.Millisecond)
			if v == "b" {
				for i := range values {
					values[i] *= 2
					if round == 2 && i%20 == 0 {
						values[i] = time.Second
					}
				}
			}
			b.record(values...)
		}
	}
	run := b.judge(t)
	c := comparison(t, run, "b", "a", "service.p50")
	if c.Ratio.Low != nil || c.Ratio.High != nil || c.Detectable != nil || c.Verdict != rundir.Inconclusive || c.FurtherRounds == nil || *c.FurtherRounds != 3 {
		t.Errorf("three rounds: %+v", c)
	}
	if p99 := run.Variants[1].Figures["service.p99"]; p99.High != nil || p99.Low == nil || p99.Interval != rundir.ByShare {
		t.Errorf("p99 %+v", p99)
	}
}

// A resumed run measures its interrupted round again. What it replaces is listed
// and nothing else.
func TestReplacedTrials(t *testing.T) {
	want := abc().judge(t)
	b := abc()
	// Trials 1 and 2 were made, the third was cut off; then the round came again.
	earlier := []rundir.Trial{b.trials[0], b.trials[1], b.trials[2]}
	for i := range b.trials {
		b.trials[i].Number += 3
	}
	logs := map[int][]hist.Interval{}
	for n, log := range b.logs {
		logs[n+3] = log
	}
	earlier[0].Throughput, earlier[1].Throughput = new(1.), new(1.)
	earlier[2].Complete, earlier[2].Error = false, "interrupted"
	b.trials, b.logs = append(earlier, b.trials...), logs
	run := b.judge(t)
	if diff := cmp.Diff(want, run, cmpopts.IgnoreFields(rundir.Run{}, "Trials"), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	for i, x := range run.Trials {
		if x.Replaced != (i < 3) {
			t.Errorf("trial %d: replaced %v", x.Number, x.Replaced)
		}
	}

	// One that was cut off after a complete one replaces nothing.
	b.trials[2].Number, b.trials[2].Round, b.trials[2].Variant = 100, 8, "c"
	run = b.judge(t)
	if kinds(run.Flags) != "incomplete!" || run.Variants[3].Trials != 8 {
		t.Errorf("flags %s, %d trials of c", kinds(run.Flags), run.Variants[3].Trials)
	}
}

func TestFlagsOfTheRun(t *testing.T) {
	b := abc()
	for i := range b.trials {
		if b.trials[i].Variant == "a.control" {
			*b.trials[i].Throughput *= 1.05
		}
	}
	b.run.Flags = []rundir.Flag{{Kind: "placement", Detail: new(texts.Verbatim("shared CPU"))}}
	b.run.Pilot = &rundir.Pilot{WarmupSeconds: 7.5, Variants: []rundir.PilotVariant{{Variant: "a", Steady: true}, {Variant: "b", Series: "p50"}}}
	b.run.Notes = []rundir.Message{texts.Verbatim("measured by night")}
	b.trials[3].Flags = []rundir.Flag{{Kind: "observer", Detail: new(texts.Verbatim("no counters"))}, {Kind: checks.FlagDrops, Disturbs: true}}
	b.measure(0, "a", 1).Purpose = rundir.PurposePilot
	b.trials[len(b.trials)-1].Machine.StealShare = new(0.5)
	run := b.judge(t)
	if got, want := kinds(run.Flags), "control_differs placement pilot_not_steady observer"; got != want || run.Valid || run.NoRoom == nil {
		t.Errorf("flags %q, want %q; valid %v", got, want, run.Valid)
	}
	if f := run.Flags[3]; f.Trial != 4 || f.Variant != "c" {
		t.Errorf("%+v", f)
	}
	if diff := cmp.Diff([]rundir.Message{texts.Verbatim("measured by night")}, run.Notes); diff != "" {
		t.Error(diff)
	}
	if last := run.Trials[len(run.Trials)-1]; last.Purpose != rundir.PurposePilot || !last.Disturbed || run.Variants[0].Trials != 8 {
		t.Errorf("the pilot: %+v", last)
	}
}

func TestOrderDoesNotMatterAndJudgingTwiceNeither(t *testing.T) {
	b := abc()
	b.trials[9].Complete = false
	b.trials[4].Machine.StealShare = new(0.3)
	b.run.Plan.Remeasure = 4
	b.run.Flags = []rundir.Flag{{Kind: "placement", Detail: new(texts.Verbatim("shared CPU"))}}
	*b.trials[3].Throughput = 0
	want := b.judge(t)
	before := slices.Clone(b.trials)
	again := *want
	for range 2 {
		sources := b.sources()
		rand.Shuffle(len(sources), func(i, j int) { sources[i], sources[j] = sources[j], sources[i] })
		if err := judge(&again, sources, dataset.Taken{}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, &again); diff != "" {
			t.Fatal(diff)
		}
	}
	if diff := cmp.Diff(before, b.trials); diff != "" {
		t.Errorf("the trials were changed: %s", diff)
	}
	if _, err := json.Marshal(want); err != nil {
		t.Error(err)
	}
}

func TestVariantWithoutTrials(t *testing.T) {
	b := newBench(1, "a", "b")
	b.measure(1, "a", 1000)
	run := b.judge(t)
	if kinds(run.Flags) != "no_complete_trial!" || run.Flags[0].Variant != "b" || run.Valid || len(run.Comparisons) != 0 {
		t.Errorf("flags %+v, comparisons %+v", run.Flags, run.Comparisons)
	}
	if v := run.Variants[1]; v.Trials != 0 || len(v.Figures) != 0 {
		t.Errorf("figures of nothing: %+v", v)
	}
}

func TestJudgeFails(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		change func(*recording.Source)
		want   string
	}{
		"log":     {func(s *recording.Source) { s.Log = func() ([]hist.Interval, error) { return nil, broken } }, "trial 2: latency log: broken"},
		"series":  {func(s *recording.Source) { s.Series = func() (*series.Series, error) { return nil, broken } }, "trial 2: series: broken"},
		"variant": {func(s *recording.Source) { s.Trial.Variant = "z" }, `trial 2: variant "z" is not in the plan`},
	} {
		t.Run(name, func(t *testing.T) {
			b := abc()
			sources := b.sources()
			c.change(&sources[1])
			before := b.run
			if err := judge(&b.run, sources, dataset.Taken{}); err == nil || err.Error() != c.want {
				t.Errorf("error %v, want %s", err, c.want)
			}
			if diff := cmp.Diff(before, b.run); diff != "" {
				t.Errorf("the run was changed: %s", diff)
			}
		})
	}
}

func TestThresholdsAndClaims(t *testing.T) {
	b := abc()
	b.run.Plan.Thresholds = []string{"service.p50 < 1s", "ratio(b, a, throughput) > 2", "connect.p50 < 1s"}
	b.run.Plan.Claims = []rundir.PlanClaim{
		{ID: "C1", Holds: "ratio(c, a, throughput) < 0.95"},
		{ID: "C2", Holds: "ratio(c, a, throughput) > 1"},
		{ID: "C3", Holds: "ratio(c, a, throughput) > 1", NotTestable: "needs 64 cores"},
	}
	run := b.judge(t)
	var got []string
	for _, x := range run.Thresholds {
		got = append(got, fmt.Sprint(x.Variant, " ", x.Outcome))
	}
	for _, x := range run.Claims {
		got = append(got, fmt.Sprint(x.ID, " ", x.Outcome))
	}
	if diff := cmp.Diff([]string{
		"a ok", "a.control ok", "b ok", "c ok", " broken",
		"a inconclusive", "a.control inconclusive", "b inconclusive", "c inconclusive",
		"C1 holds", "C2 refuted", "C3 not testable here",
	}, got); diff != "" {
		t.Error(diff)
	}
}

// The quantiles of a variant are those of one histogram that recorded the values
// of all its trials.
func TestQuantilesAreOfMergedHistograms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBench(4, "v")
		all := hist.New()
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		for n := 1; n <= rapid.IntRange(1, 4).Draw(t, "trials"); n++ {
			b.measure(n, "v", 1000)
			values := latencies(r, rapid.IntRange(0, 4000).Draw(t, "values"), time.Duration(n)*time.Millisecond)
			b.record(values...)
			for _, v := range values {
				all.Record(int64(v))
			}
		}
		run := b.judge(t)
		q := rundir.QuantilesOf(all)
		for _, s := range rundir.Summaries() {
			if diff := cmp.Diff(s.Of(&q), run.Variants[0].Known("service."+s.Name)); diff != "" {
				t.Fatalf("%s: %s", s.Name, diff)
			}
		}
	})
}

func TestPrograms(t *testing.T) {
	b := newBench(3, "go", "c")
	b.run.Plan.Metric = "program.switch_seconds"
	for i := range b.run.Plan.Variants {
		b.run.Plan.Variants[i].Loop = ""
	}
	for round := 1; round <= 3; round++ {
		for i, v := range []string{"go", "c"} {
			x := b.measure(round, v, 1)
			x.Throughput = nil
			x.Measures = map[string]float64{"switch_seconds": 2e-7 / float64(i+1), "rounds_per_second": 100 + float64(round)}
		}
	}
	sources := b.sources()
	for i := range sources {
		sources[i].Log = func() ([]hist.Interval, error) { return nil, errors.New("a program has none") }
	}
	if err := judge(&b.run, sources, dataset.Taken{}); err != nil {
		t.Fatal(err)
	}
	if e := b.run.Variants[1].Figures["program.switch_seconds"]; e.Estimate == nil || *e.Estimate != 1e-7 || *e.High != 1e-7 {
		t.Errorf("%+v", b.run.Variants[1].Figures)
	}
	c := comparison(t, &b.run, "c", "go", "program.switch_seconds")
	if !c.Primary || c.Good != "lower" || c.Verdict != rundir.Better || math.Abs(*c.Ratio.Estimate-0.5) > 1e-12 {
		t.Errorf("%+v", c)
	}
	if c := comparison(t, &b.run, "c", "go", "program.rounds_per_second"); c.Good != "higher" || c.Verdict != rundir.Equivalent {
		t.Errorf("%+v", c)
	}
}

// The growth of the target is looked at in a soak, and where a condition asks.
func TestTrendsOfARun(t *testing.T) {
	for name, c := range map[string]struct {
		plan func(*rundir.Plan)
		want int
	}{
		"neither":     {func(*rundir.Plan) {}, 0},
		"a soak":      {func(p *rundir.Plan) { p.Soak = true }, 1},
		"a threshold": {func(p *rundir.Plan) { p.Thresholds = []string{"slope(rss) < 5%/30min"} }, 1},
		"a claim":     {func(p *rundir.Plan) { p.Claims = []rundir.PlanClaim{{Holds: "slope(a, rss) < 5%/30min"}} }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(1, "a")
			b.measure(1, "a", 1000)
			b.measure(0, "a", 1000).Purpose = rundir.PurposePilot
			s := &series.Series{Columns: []string{series.TimeColumn, "target_rss_bytes"}, Values: make([][]float64, 2)}
			r := rand.New(rand.NewPCG(61, 62))
			for i := range 40 {
				s.Values[0] = append(s.Values[0], float64(i)/10)
				s.Values[1] = append(s.Values[1], 1e6*(1+0.1*float64(i)+0.01*r.NormFloat64()))
			}
			b.series[1], b.series[2] = s, s
			c.plan(&b.run.Plan)
			run := b.judge(t)
			if len(run.Trends) != c.want || c.want > 0 && (run.Trends[0].Trial != 1 || run.Trends[0].Metric != "rss") {
				t.Errorf("trends %+v", run.Trends)
			}
			for _, x := range run.Thresholds {
				if x.Outcome != rundir.Broken {
					t.Errorf("a target that grows to five times its size in four seconds: %+v", x)
				}
			}
		})
	}
}

func TestLadder(t *testing.T) {
	b := newBench(8, "one", "one.control", "two", "three", "four", "four-two")
	b.run.Plan.Ladder = &rundir.PlanLadder{Steps: []string{"one", "two", "three", "four"}, WithoutStep: map[string]string{"four-two": "two"}}
	r := rand.New(rand.NewPCG(8, 9))
	for round := 1; round <= 8; round++ {
		for i, x := range []float64{1, 1, 1.2, 1.2, 1.8, 1.5} {
			b.measure(round, b.run.Plan.Variants[i].Name, 1000*x*math.Exp(0.003*r.NormFloat64()))
		}
	}
	run := b.judge(t)
	var got []string
	for _, c := range run.Comparisons {
		got = append(got, fmt.Sprintf("%s/%s %s %s %s", c.Variant, c.Base, c.Role, c.Verdict, c.Adjustment))
	}
	if diff := cmp.Diff([]string{
		"one.control/one control equivalent ",
		"two/one  better Holm, of 5",
		"three/one  better Holm, of 5",
		"three/two step equivalent Holm, of 5",
		"four/one  better Holm, of 5",
		"four/three step better Holm, of 5",
		"four/four-two left out better ",
	}, got); diff != "" {
		t.Error(diff)
	}
	got = nil
	say := func(e *rundir.Estimate, verdict string) string {
		if e == nil {
			return "-"
		}
		return fmt.Sprintf("%.1f %s", *e.Estimate, verdict)
	}
	for _, s := range run.Ladder {
		got = append(got, strings.Join([]string{s.Variant, say(s.Marginal, s.Verdict), say(s.Total, s.TotalVerdict), say(s.LeftOut, s.LeftOutVerdict)}, ", "))
	}
	if diff := cmp.Diff([]string{
		"one, -, -, -",
		"two, 1.2 better, 1.2 better, 1.2 better",
		"three, 1.0 equivalent, 1.2 better, -",
		"four, 1.5 better, 1.8 better, -",
	}, got); diff != "" {
		t.Error(diff)
	}
}

// levelling is a sweep of a server whose throughput stops growing along its levels, with noise.
func levelling(rounds int, levels []float64, payloads ...string) *bench {
	var names []string
	variables := map[string]map[string]string{}
	for _, payload := range payloads {
		for _, n := range levels {
			name := fmt.Sprintf("%g-%s", n, payload)
			names = append(names, name)
			variables[name] = map[string]string{"connections": fmt.Sprint(n), "payload": payload}
		}
	}
	b := newBench(rounds, append(names, names[0]+".control")...)
	b.run.Plan.Base = ""
	b.run.Plan.Sweep = []rundir.Dimension{{Name: "connections"}, {Name: "payload", Values: payloads}}
	for _, n := range levels {
		b.run.Plan.Sweep[0].Values = append(b.run.Plan.Sweep[0].Values, fmt.Sprint(n))
	}
	r := rand.New(rand.NewPCG(21, 22))
	for i := range b.run.Plan.Variants {
		b.run.Plan.Variants[i].Variables = variables[strings.TrimSuffix(b.run.Plan.Variants[i].Name, ".control")]
	}
	for round := 1; round <= rounds; round++ {
		for _, v := range b.run.Plan.Variants {
			var n float64
			if _, err := fmt.Sscan(v.Variables["connections"], &n); err != nil {
				panic(err)
			}
			b.measure(round, v.Name, 1000*n/(1+0.05*(n-1)+0.001*n*(n-1))*math.Exp(0.005*r.NormFloat64()))
		}
	}
	return b
}

func TestSweep(t *testing.T) {
	b := levelling(8, []float64{64, 1, 2, 4, 8, 16, 32}, "small", "large")
	run := b.judge(t)
	if len(run.Sweeps) != 2 {
		t.Fatalf("%d sweeps, want one of connections for each payload, which is no number", len(run.Sweeps))
	}
	for i, payload := range []string{"small", "large"} {
		w := run.Sweeps[i]
		if w.Variable != "connections" || w.Fixed["payload"] != payload || len(w.Levels) != 7 || w.Levels[0].Value != 1 || w.Levels[6].Value != 64 {
			t.Errorf("sweep %+v", w)
		}
		if w.Knee == nil || *w.Knee < 4 || *w.Knee > 32 {
			t.Errorf("knee %v", w.Knee)
		}
	}
	for _, c := range run.Comparisons {
		if c.Role != rundir.RoleControl {
			t.Errorf("a sweep without a base compares %s with %s", c.Variant, c.Base)
		}
	}
	if len(run.Comparisons) != 1 {
		t.Errorf("%d comparisons, want the control's", len(run.Comparisons))
	}
}

func TestSweepOfNames(t *testing.T) {
	b := levelling(2, []float64{1, 2, 4, 8, 16, 32}, "x")
	b.run.Plan.Sweep[0].Values[2] = "many"
	if sweeps := b.judge(t).Sweeps; sweeps != nil {
		t.Errorf("a variable that is not all numbers: %+v", sweeps)
	}
}

// search makes a capacity plan's probes of one variant and round, against a
// server with an edge.
func (b *bench) search(t *testing.T, round int, variant string, edge, hint float64) {
	t.Helper()
	g := search.Goal(*b.run.Plan.Capacity)
	var done []capacity.Trial
	for {
		state, err := g.Next(done, hint)
		if err != nil {
			t.Fatal(err)
		}
		if state.Done {
			return
		}
		ok := state.Next <= edge
		b.probe(round, variant, state.Next, ok)
		done = append(done, capacity.Trial{Rate: state.Next, Good: ok})
	}
}

func (b *bench) probe(round int, variant string, rate float64, ok bool) *rundir.Trial {
	v := time.Millisecond
	if !ok {
		v = 20 * time.Millisecond
	}
	return b.probeOf(round, variant, rate, v)
}

// probeOf makes a probe whose requests all took the same time.
func (b *bench) probeOf(round int, variant string, rate float64, v time.Duration) *rundir.Trial {
	x := b.measure(round, variant, rate)
	x.Purpose, x.Rate = rundir.PurposeProbe, &rate
	x.Times = nil
	b.record(slices.Repeat([]time.Duration{v}, 2000)...)
	for i := range b.logs[x.Number] {
		if b.logs[x.Number][i].Tag == rundir.TagService {
			b.logs[x.Number][i].Tag = rundir.TagGeneratorLag
			b.logs[x.Number][i].Hist = hist.New()
			b.logs[x.Number][i].Hist.RecordN(1000, 500)
		}
	}
	return x
}

func capacityBench(variants ...string) *bench {
	b := newBench(4, variants...)
	b.run.Plan.Loop, b.run.Plan.Metric = "open", rundir.MetricCapacity
	for i := range b.run.Plan.Variants {
		b.run.Plan.Variants[i].Loop = "open"
	}
	b.run.Plan.Thresholds = []string{"response.p99 < 10ms"}
	b.run.Plan.Capacity = &rundir.PlanCapacity{From: 100, To: 100000, Resolution: 0.02, Trials: 1}
	return b
}

// Of several trials at the highest rate that kept the limit, the one in the middle is shown.
func TestMiddleTrialAtTheEdge(t *testing.T) {
	b := capacityBench("a")
	b.run.Plan.Capacity = &rundir.PlanCapacity{From: 100, To: 200, Resolution: 1, Trials: 3}
	for _, ms := range []time.Duration{2, 9, 4} {
		b.probeOf(1, "a", 100, ms*time.Millisecond)
	}
	for range 3 {
		b.probe(1, "a", 200, false)
	}
	at := b.judge(t).Capacities[0].Searches[0].AtLow
	if len(at) != 1 || math.Abs(*at[0].Measured-0.004) > 1e-4 {
		t.Errorf("%+v, want 4 ms", at)
	}
}

func TestCapacity(t *testing.T) {
	b := capacityBench("a", "b")
	edges := map[string][]float64{"a": {5000, 5100, 4950, 5030}, "b": {6000, 6100, 5950, 6040}}
	for round := range 4 {
		for _, v := range []string{"a", "b"} {
			b.search(t, round+1, v, edges[v][round], 0)
		}
	}
	run := b.judge(t)
	if !run.Valid || run.Rounds != 4 || len(run.Thresholds) != 0 || run.Variants[0].Trials != 0 {
		t.Errorf("valid %v, %d rounds, flags %s, thresholds %+v", run.Valid, run.Rounds, kinds(run.Flags), run.Thresholds)
	}
	for _, c := range run.Capacities {
		want := 1.0
		for _, edge := range edges[c.Variant] {
			want *= math.Pow(edge, 1/float64(len(edges[c.Variant])))
		}
		rate := run.Variant(c.Variant).Figure(rundir.MetricCapacity)
		if len(c.Searches) != 4 || !(*rate.Low <= want && want <= *rate.High) || c.Limit != "response.p99 < 10ms" || c.Detail != nil {
			t.Errorf("%+v, want %v", c, want)
		}
		for i, s := range c.Searches {
			if edge := edges[c.Variant][i]; !(*s.Low <= edge && edge <= *s.High) || s.Round != i+1 || s.Trials == 0 {
				t.Errorf("round %d: %v to %v, want %v", s.Round, *s.Low, *s.High, edge)
			}
		}
		s := c.Searches[0]
		if len(s.AtLow) != 1 || s.AtLow[0].Outcome != rundir.Kept || math.Abs(*s.AtLow[0].Measured-0.001) > 1e-5 || s.HighDisturbed ||
			len(s.AtHigh) != 1 || s.AtHigh[0].Outcome != rundir.Broken || math.Abs(*s.AtHigh[0].Measured-0.02) > 1e-4 {
			t.Errorf("at the ends: %+v, %+v", s.AtLow, s.AtHigh)
		}
	}
	c := comparison(t, run, "b", "a", rundir.MetricCapacity)
	if c.Verdict != rundir.Better || !c.Primary || c.Good != "higher" || math.Abs(*c.Ratio.Estimate-1.2) > 0.02 {
		t.Errorf("%+v", c)
	}
	for _, x := range run.Trials {
		if x.Good == nil || x.Rate == nil || *x.Good != (*x.Rate <= edges[x.Variant][x.Round-1]) || x.Replaced {
			t.Errorf("%+v", x)
		}
	}
}

// Searches that agree on their brackets say no more than these do.
func TestCapacityIsNoNarrowerThanItsBrackets(t *testing.T) {
	b := capacityBench("a", "b")
	for round := range 4 {
		for _, v := range []string{"a", "b"} {
			b.search(t, round+1, v, 5000, 0)
		}
	}
	run := b.judge(t)
	rate, s := run.Variant("a").Figure(rundir.MetricCapacity), run.Capacities[0].Searches[0]
	if *rate.Low > *s.Low || *rate.High < *s.High {
		t.Errorf("%v to %v, brackets %v to %v", *rate.Low, *rate.High, *s.Low, *s.High)
	}
	ratio := comparison(t, run, "b", "a", rundir.MetricCapacity).Ratio
	if width := *s.High / *s.Low; *ratio.Low > 1.0001/width || *ratio.High < 0.9999*width {
		t.Errorf("ratio %v to %v, brackets %v wide", *ratio.Low, *ratio.High, width)
	}
}

func TestCapacityOutsideTheRange(t *testing.T) {
	b := capacityBench("low", "high", "both")
	for round := 1; round <= 2; round++ {
		b.search(t, round, "low", 10, 0)
		b.search(t, round, "high", 1e9, 0)
	}
	b.search(t, 1, "both", 1e9, 0)
	b.search(t, 2, "both", 2000, 0)
	run := b.judge(t)
	for i, want := range []struct {
		low, high float64 // 0: open
		says      string
	}{
		{0, 100, "the edge lies below the range in 2 of 2 searches"},
		{100000, 0, "the edge lies above the range in 2 of 2 searches"},
		{1990, 0, "the edge lies above the range in 1 of 2 searches"},
	} {
		c, rate := run.Capacities[i], run.Variants[i].Figure(rundir.MetricCapacity)
		is := func(end *float64, want float64) bool {
			return (end == nil) == (want == 0) && (end == nil || math.Abs(*end-want) <= 0.03*want)
		}
		if rate.Estimate != nil || !is(rate.Low, want.low) || !is(rate.High, want.high) || c.Detail.English() != want.says {
			t.Errorf("%+v, %+v", c, rate)
		}
	}
	if len(run.Comparisons) != 0 || !run.Valid || len(Breaking(run)) != 1 {
		t.Errorf("%+v, flags %s", run.Comparisons, kinds(run.Flags))
	}

	// One search of many that finds nothing leaves no capacity, and raises a flag.
	b = capacityBench("once")
	for round := 1; round <= 4; round++ {
		b.search(t, round, "once", 5000, 0)
	}
	b.search(t, 5, "once", 10, 0)
	run = b.judge(t)
	if found := Breaking(run); run.Variants[0].Known(rundir.MetricCapacity) != nil || len(found) != 1 || found[0].Detail.English() != "in 1 of 5 searches once did not keep up with 100 requests a second, the lowest rate of the range" {
		t.Errorf("%+v, %+v", run.Capacities[0], found)
	}
}

// A search that was interrupted begins again, and its probes are marked as not
// complete: they count for nothing.
func TestCapacityResumed(t *testing.T) {
	whole, resumed := capacityBench("a"), capacityBench("a")
	for _, b := range []*bench{whole, resumed} {
		b.search(t, 1, "a", 5000, 0)
	}
	*resumed.probe(2, "a", 200, false) = rundir.Trial{
		Number: len(resumed.trials), Round: 2, Variant: "a", Purpose: rundir.PurposeProbe, Rate: new(200.), Error: "begun again",
		Conservation: rundir.Conservation{OK: true},
	}
	for _, b := range []*bench{whole, resumed} {
		b.search(t, 2, "a", 4900, 5000)
	}
	want, got := whole.judge(t), resumed.judge(t)
	if diff := cmp.Diff(want.Capacities, got.Capacities); diff != "" || !got.Valid {
		t.Error(diff)
	}
	for _, x := range got.Trials {
		if abandoned := x.Round == 2 && *x.Rate == 200; x.Replaced != abandoned || abandoned && *x.Good {
			t.Errorf("%+v", x)
		}
	}

	// One that was not begun again is no search, and leaves nothing of its round.
	resumed.trials = resumed.trials[:len(resumed.trials)-1]
	run := resumed.judge(t)
	if c := run.Capacities[0]; len(c.Searches) != 1 || c.Detail.English() != "1 of 2 searches did not finish" || run.Rounds != 1 {
		t.Errorf("%+v, %d rounds", c, run.Rounds)
	}
}

// serve records that a trial's requests took the target a millisecond each.
func (b *bench) serve(number int) {
	service := b.logs[number][0]
	service.Tag, service.Hist = rundir.TagService, hist.New()
	service.Hist.RecordN(int64(time.Millisecond), 2000)
	b.logs[number] = append(b.logs[number], service)
}

// searchTo5000 plays a search whose probes above 5,000 requests a second are what a change makes of them.
func searchTo5000(t *testing.T, beyond capacity.Trial, change func(*rundir.Trial)) *bench {
	t.Helper()
	b := capacityBench("a")
	b.run.Plan.Variants[0].MostConnections, b.run.Plan.Variants[0].ConnectionsLimit = 50, new(texts.New("limit.connections", "n", "50"))
	g := search.Goal(*b.run.Plan.Capacity)
	g.Connections, g.MostConnections = 50, 50
	var done []capacity.Trial
	for {
		state, err := g.Next(done, 0)
		if err != nil {
			t.Fatal(err)
		}
		if state.Done {
			return b
		}
		probe := capacity.Trial{Rate: state.Next, Good: true}
		trial := b.probe(1, "a", state.Next, state.Next <= 5000)
		trial.Connections = rundir.Connections{Requested: int64(state.Connections), Peak: 3}
		if state.Next > 5000 {
			probe = beyond
			probe.Rate, probe.Connections, probe.Reached = state.Next, state.Connections, 100*float64(state.Connections)
			change(trial)
			trial.Connections.Peak = trial.Connections.Requested
			trial.Counts.CompletedInWindow = int64(probe.Reached * trial.WindowSeconds)
		}
		done = append(done, probe)
	}
}

// A search ends where dyno itself is the limit, or is disturbed all the time. Its result is known from below only, and
// says why. Connections are a limit only where half of them got half as many responses.
func TestSearchEndsAtTheGenerator(t *testing.T) {
	for name, c := range map[string]struct {
		beyond  capacity.Trial
		change  func(*rundir.Trial)
		because string
	}{
		"disturbed":   {capacity.Trial{Disturbed: true}, func(x *rundir.Trial) { x.Conservation.OK = false }, "why.search"},
		"CPU":         {capacity.Trial{Own: true}, func(x *rundir.Trial) { x.Generator.CPUShare = new(0.99) }, "limit.cpu"},
		"descriptors": {capacity.Trial{Own: true}, func(x *rundir.Trial) { x.Connections.Generator = 3 }, "limit.resources"},
		"connections": {capacity.Trial{Waited: true}, func(*rundir.Trial) {}, "limit.connections"},
	} {
		t.Run(name, func(t *testing.T) {
			b := searchTo5000(t, c.beyond, c.change)
			for number := range b.logs { // what is slow is the wait for a connection
				b.serve(number)
			}
			run := b.judge(t)
			found := run.Capacities[0].Searches[0]
			if low := found.Low; low == nil || *low > 5000 || *low < 4000 || !found.HighDisturbed || (found.OwnLimit != nil) != !c.beyond.Disturbed {
				t.Errorf("%+v", found)
			}
			v := run.Validity[len(run.Validity)-1]
			if v.Figure != rundir.MetricCapacity || v.State != rundir.StateBounded || v.Low != found.Low || v.High != nil || v.Why.Kind != c.because {
				t.Errorf("%+v", v)
			}
			if run.Valid || !strings.Contains(run.Reason.English(), "the capacity is at least") || len(run.Flags) != 0 {
				t.Errorf("valid %v, %s, flags %s", run.Valid, run.Reason.English(), kinds(run.Flags))
			}
			for _, x := range run.Trials {
				if (x.Good == nil) != (*x.Rate > 5000 && c.beyond.Disturbed) {
					t.Errorf("%+v", x)
				}
			}
		})
	}
}

func TestJudgeProbe(t *testing.T) {
	b := capacityBench("a")
	b.run.Plan.Variants[0].MostConnections = 50
	b.probe(1, "a", 100, true).Connections = rundir.Connections{Requested: 50, Peak: 49}
	b.serve(1)
	p99 := func(s *dataset.Trial, tag string, seconds *float64) {
		q := s.Stats.Times[tag]
		q.P99 = seconds
		s.Stats.Times[tag] = q
	}
	allUsed := func(s *dataset.Trial, service float64) {
		s.Connections.Peak = 50
		p99(s, rundir.TagResponse, new(0.011))
		p99(s, rundir.TagService, new(service))
	}
	grow := func(s *dataset.Trial) {
		s.AllFlags = []rundir.Flag{{Kind: checks.FlagBacklog, Measured: new(0.2)}}
	}
	plan, waits := b.run.Plan, map[string]bool{"waited for a connection": true, "backlog for want of connections": true}
	for name, c := range map[string]struct {
		change func(*dataset.Trial)
		want   string
	}{
		"good":          {func(*dataset.Trial) {}, ""},
		"incomplete":    {func(s *dataset.Trial) { s.Complete = false }, checks.FlagIncomplete},
		"dropped":       {func(s *dataset.Trial) { s.Counts.Dropped = 1 }, checks.FlagDrops},
		"too slow":      {func(s *dataset.Trial) { p99(s, rundir.TagResponse, new(0.011)) }, "response.p99 < 10ms"},
		"grown backlog": {grow, checks.FlagBacklog},
		"backlog for want of connections": {func(s *dataset.Trial) {
			allUsed(s, 0.009)
			p99(s, rundir.TagResponse, new(0.009))
			grow(s)
		}, checks.FlagBacklog},
		"unknown": {func(s *dataset.Trial) { p99(s, rundir.TagResponse, nil) },
			"response.p99 of a is not known: not observed, or too few values"},
		"waited for a connection":       {func(s *dataset.Trial) { allUsed(s, 0.009) }, "response.p99 < 10ms"},
		"too slow with all connections": {func(s *dataset.Trial) { allUsed(s, 0.0105) }, "response.p99 < 10ms"},
		"answered on some connections": {func(s *dataset.Trial) {
			s.Connections.Served = 20
			s.AllFlags = []rundir.Flag{{Kind: checks.FlagConnections, Breaks: true}}
		}, checks.FlagConnections},
		"hung": {func(s *dataset.Trial) {
			allUsed(s, 0.009)
			s.AllFlags = []rundir.Flag{{Kind: checks.FlagStalled, Breaks: true}}
		}, checks.FlagStalled},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := dataset.Taken{}.Take(plan, b.sources()[0], false)
			if err != nil {
				t.Fatal(err)
			}
			trial := *s.Trial
			s.Trial = &trial
			c.change(s)
			p := search.JudgeProbe(plan, s)
			if p.Result.Good != (c.want == "") || p.Why != c.want || p.Result.Disturbed || p.Result.Waited != waits[name] || (p.Result.Served == 20) != (name == "answered on some connections") {
				t.Errorf("%+v: %q, want %q", p.Result, p.Why, c.want)
			}
		})
	}
}

// A backlog that a disturbance explains says nothing about the target; a larger one does.
func TestBacklogOfADisturbedProbe(t *testing.T) {
	for foreign, want := range map[float64]bool{0.4: true, 0.1: false} {
		b := capacityBench("a")
		b.probe(1, "a", 100, true).Target.ForeignShare = &foreign
		s, err := dataset.Taken{}.Take(b.run.Plan, b.sources()[0], false)
		if err != nil {
			t.Fatal(err)
		}
		s.AllFlags = []rundir.Flag{{Kind: checks.FlagBacklog, Measured: new(0.3)}}
		if p := search.JudgeProbe(b.run.Plan, s); p.Result.Good || p.Result.Disturbed != want || (p.Why == checks.FlagBacklog) == want {
			t.Errorf("others took %v: %+v, %q", foreign, p.Result, p.Why)
		}
	}
}

// Where even the lowest rate was bad for reasons that are not the target's, nothing is known of the
// capacity: that is no finding about the target.
func TestDisturbedSearch(t *testing.T) {
	b := capacityBench("a")
	b.probe(1, "a", b.run.Plan.Capacity.From, false).Generator.CPUShare = new(0.99)
	run := b.judge(t)
	if v := run.Validity[0]; run.Valid || len(Breaking(run)) != 0 || v.State != rundir.StateNotIdentified || v.Why.Kind != "limit.cpu" {
		t.Errorf("valid %v, flags %s, %+v", run.Valid, kinds(run.Flags), v)
	}
}

func TestEnough(t *testing.T) {
	var referee Referee
	ask := func(b *bench) (bool, string) {
		t.Helper()
		stop, reason, err := referee.Enough(b.run.Plan, b.trials)
		if err != nil {
			t.Fatal(err)
		}
		return stop, reason.String()
	}
	play := func(stop, metric string, spread, shift float64) (rounds int, reason string, b *bench) {
		b = newBench(24, "a", "a.control", "b")
		b.run.Plan.Stop, b.run.Plan.Metric = stop, metric
		r := rand.New(rand.NewPCG(31, 32))
		for round := 1; ; round++ {
			for _, v := range b.run.Plan.Variants {
				x := math.Exp(spread * r.NormFloat64())
				if v.Name == "b" {
					x *= shift
				}
				if v.Name == "a.control" {
					x = math.Exp(r.NormFloat64()) // it may be as wild as it likes
				}
				trial := b.measure(round, v.Name, 1000*x)
				trial.Times = rundir.Times{rundir.TagService: {P99: new(0.01 * x)}}
			}
			if stop, reason := ask(b); stop {
				return round, reason, b
			}
		}
	}
	for _, c := range []struct {
		name, stop, metric string
		spread, shift      float64
		want               int
		reason             string
	}{
		{"fixed", "fixed", "throughput", 0.001, 1, 24, "all 24 rounds were measured"},
		{"precise at once", "precision", "throughput", 0.001, 1, 8, "b over a, throughput: half-width"},
		{"never precise", "precision", "service.p99", 0.2, 1, 24, "all 24 rounds were measured"},
		{"at the first look", "looks", "throughput", 0.005, 1.1, 8, "look 1 of 3"},
		{"at no look", "looks", "throughput", 0.05, 1, 24, "all 24"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rounds, reason, b := play(c.stop, c.metric, c.spread, c.shift)
			if rounds != c.want || !strings.Contains(reason, c.reason) {
				t.Errorf("stopped after %d rounds, %q; want %d, %q", rounds, reason, c.want, c.reason)
			}
			// The verdict is read at the confidence that the rule leaves.
			if c.metric != "throughput" {
				return
			}
			want, err := compare.Stopping(b.run.Plan).Decide(stat.Logs(comparison(t, b.judge(t), "b", "a", "throughput").Ratio.Values))
			if err != nil {
				t.Fatal(err)
			}
			if got := comparison(t, b.judge(t), "b", "a", "throughput").Ratio.Confidence; got != want.Confidence {
				t.Errorf("confidence %v, want %v", got, want.Confidence)
			}
		})
	}
	if _, reason, b := play("precision", "throughput", 0.001, 1); !strings.Contains(reason, "want") || len(b.trials) != 3*8 {
		t.Errorf("%d trials: %s", len(b.trials), reason)
	}
	alone := newBench(3, "a")
	alone.run.Plan.Base, alone.run.Plan.Stop = "", "precision"
	alone.measure(1, "a", 1000)
	if stop, reason := ask(alone); stop || reason != "1 of 3 rounds" {
		t.Errorf("stop %v, %s", stop, reason)
	}
}

// pilot is one whose throughput rises for a while.
func pilot(seconds, settled float64, observed bool) recording.Source {
	trial := &rundir.Trial{Number: 1, Variant: "v", Purpose: rundir.PurposePilot, Complete: true, WindowSeconds: seconds}
	r := rand.New(rand.NewPCG(51, 52))
	var log []hist.Interval
	rows := &series.Series{Columns: []string{series.TimeColumn, cpuColumn}, Values: make([][]float64, 2)}
	cpu := 5.0
	for b := range int(seconds * 10) {
		at := float64(b) / 10
		rate := 1000.0
		if at < settled {
			rate = 1000 * (0.5 + at/settled/2)
		}
		h := hist.New()
		n := int64(rate/10 + 2*r.NormFloat64())
		h.RecordN(int64(2e6*(1+0.01*r.NormFloat64())), n)
		for _, tag := range []string{rundir.TagResponse, rundir.TagService} {
			log = append(log, hist.Interval{Tag: tag, Start: time.Duration(at * 1e9), Length: 100 * time.Millisecond, Hist: h})
		}
		rows.Values[0], rows.Values[1] = append(rows.Values[0], at), append(rows.Values[1], cpu)
		cpu += float64(n) * 1e-5
	}
	if !observed {
		rows = nil
	}
	return recording.Source{Trial: trial,
		Log:    func() ([]hist.Interval, error) { return log, nil },
		Series: func() (*series.Series, error) { return rows, nil },
		Stalls: func() ([]series.Stall, bool, error) { return nil, false, nil },
	}
}

func TestSettling(t *testing.T) {
	v := rundir.PlanVariant{Name: "v", Loop: "closed"}
	for _, c := range []struct {
		name             string
		seconds, settled float64
		observed         bool
		low, high        float64
		steady           bool
		series           string
	}{
		{"at once", 20, 0, true, 0, 2, true, ""},
		{"after four seconds", 20, 4, true, 3, 5.5, true, "throughput"},
		{"never", 20, 100, true, 10, 10, false, "throughput"},
		{"not observed", 20, 4, false, 3, 5.5, true, "throughput"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := settling(v, pilot(c.seconds, c.settled, c.observed))
			if err != nil {
				t.Fatal(err)
			}
			if p.SteadySeconds < c.low || p.SteadySeconds > c.high || p.Steady != c.steady || c.series != "" && p.Series != c.series {
				t.Errorf("%+v, want %v to %v s", p, c.low, c.high)
			}
			if (p.Detail == nil) != c.observed {
				t.Errorf("detail %q", p.Detail)
			}
		})
	}
	if _, err := settling(v, pilot(5, 1, true)); !errors.Is(err, stat.ErrTooFew) {
		t.Errorf("a pilot of five seconds: %v", err)
	}
}

// An interrupted trial is behind the figures of a variant that has no other. It is in no
// comparison, and with a trial that stands it is behind nothing.
func TestInterruptedTrial(t *testing.T) {
	b := newBench(2, "a", "b")
	why := new(texts.New("incomplete.run"))
	b.run.Complete, b.run.Reason = false, why
	b.measure(1, "a", 100)
	cut := b.measure(1, "b", 50)
	cut.Complete, cut.Interrupted, cut.Error = false, true, "interrupted by SIGINT"
	b.record(slices.Repeat([]time.Duration{time.Millisecond}, 200)...)

	run := b.judge(t)
	v := run.Variants[1]
	if v.Trials != 1 || v.Known("throughput") == nil || *v.Known("throughput") != 50 || v.Known("service.p50") == nil {
		t.Errorf("the figures of b: %d trials, %v, %v", v.Trials, v.Known("throughput"), v.Known("service.p50"))
	}
	if run.Rounds != 0 {
		t.Errorf("%d whole rounds", run.Rounds)
	}
	for _, c := range run.Comparisons {
		if c.Ratio.Estimate != nil {
			t.Errorf("%s is compared with %s: %v", c.Variant, c.Base, *c.Ratio.Estimate)
		}
	}

	// It is examined as others are, and its observations are recorded.
	cut = &b.trials[1]
	cut.Counts.Sent, cut.Counts.Scheduled, cut.Counts.Errors = cut.Counts.Sent+1, cut.Counts.Scheduled+1, 1
	cut.Counts.ByKind, cut.Failures = map[string]int64{"limit": 1}, map[string]int64{"limit: header larger than the limit": 1}
	cut.Observed = map[string]float64{"depth": 3}
	run = b.judge(t)
	found := slices.ContainsFunc(run.Flags, func(f rundir.Flag) bool { return f.Kind == checks.FlagOwnLimit && f.Variant == "b" })
	disturbed := slices.ContainsFunc(run.Validity, func(v rundir.Validity) bool {
		return v.Variant == "b" && v.Figure == "throughput" && slices.Contains(v.Causes, checks.FlagOwnLimit)
	})
	if !found || !disturbed {
		t.Errorf("flags %+v, validity %+v", run.Flags, run.Validity)
	}
	if got := run.Variants[1].Figures[rundir.OfObservers+"depth"].Estimate; got == nil || *got != 3 {
		t.Errorf("observed %v", got)
	}

	b.measure(2, "b", 80)
	v = b.judge(t).Variants[1]
	if v.Trials != 1 || *v.Known("throughput") != 80 {
		t.Errorf("with a trial that stands: %d trials, %v", v.Trials, *v.Known("throughput"))
	}
}
