package diff

import (
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"dyno/internal/texts"
	"dyno/results/rundir"
)

// nightly is a judged run of two variants and a control, whose trials spread by 1 %
// about their figures.
func nightly(rng *rand.Rand, at time.Time, trials int, speed float64) *rundir.Run {
	run := &rundir.Run{
		SchemaVersion: rundir.SchemaVersion, Name: "relay", StartedAt: at, FinishedAt: &at, Complete: true, Valid: true,
		Rounds: trials, DynoVersion: "v1",
		Environment: rundir.Environment{Hostname: "bench-1", OS: "linux", Arch: "amd64", Kernel: "6.1", CPUs: 8, TargetCPUs: []int{0}},
		Plan:        rundir.Plan{Rounds: trials, Seed: uint64(at.Unix()), Margin: 0.02, Metric: "throughput", Loop: "closed", Protocol: "tcp"},
	}
	for _, v := range []struct{ name, alias string }{{"pool", ""}, {"pool.control", "pool"}, {"goroutine", ""}} {
		run.Plan.Variants = append(run.Plan.Variants, rundir.PlanVariant{
			Name: v.name, AliasOf: v.alias, Loop: "closed", Connections: 100, WarmupSeconds: 2, WindowSeconds: 5,
			Variables: map[string]string{"workers": "16"},
		})
		intervals := map[string]rundir.Estimate{}
		for _, figure := range []struct {
			metric string
			level  float64
		}{
			{"throughput", 10_000 * speed}, {"service.p50", 0.009 / speed}, {"service.p99", 0.03 / speed}, {"response.p99", 0.031 / speed},
			{"target.cpu_per_request", 90e-6 / speed}, {"program.switch_seconds", 2e-7}, {"send_lag.p50", 1e-6},
		} {
			e := rundir.Estimate{Interval: rundir.ByStudent, Confidence: 0.95}
			for range trials {
				e.Values = append(e.Values, figure.level*math.Exp(0.01*rng.NormFloat64()))
			}
			e.Estimate = &figure.level
			intervals[figure.metric] = e
		}
		run.Variants = append(run.Variants, rundir.Variant{Name: v.name, Trials: trials, Figures: intervals})
	}
	return run
}

func nights(speed float64, trials int) (older, newer *rundir.Run) {
	rng := rand.New(rand.NewPCG(7, 8))
	return nightly(rng, time.Unix(1_000_000, 0).UTC(), trials, 1), nightly(rng, time.Unix(1_086_400, 0).UTC(), trials, speed)
}

func verdicts(d Difference) map[string]string {
	all := map[string]string{}
	for _, c := range d.Comparisons {
		all[c.Variant+" "+c.Metric] = c.Verdict
	}
	return all
}

func kinds(list []rundir.Message) (found []string) {
	for _, m := range list {
		found = append(found, m.Kind)
	}
	return found
}

func TestDiffFindsARegression(t *testing.T) {
	older, newer := nights(0.9, 8)
	d, err := Runs(older, newer)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, variant := range []string{"pool", "goroutine"} {
		for _, metric := range []string{"throughput", "service.p50", "service.p99", "target.cpu_per_request"} {
			want[variant+" "+metric] = rundir.Worse
		}
		want[variant+" program.switch_seconds"] = rundir.Equivalent
	}
	if got := verdicts(d); !reflect.DeepEqual(got, want) {
		t.Errorf("verdicts %v, want %v", got, want)
	}
	for _, c := range d.Comparisons {
		if c.AdjustedP == nil || *c.AdjustedP < *c.P || c.Adjustment != "Holm" || c.Ratio.Interval != rundir.ByWelch {
			t.Errorf("%+v", c)
		}
		if c.Metric == "throughput" && (math.Abs(*c.Ratio.Estimate-0.9) > 0.02 || c.Good != "higher" || !c.Primary) {
			t.Errorf("%+v", c)
		}
		if c.Metric == "service.p99" && (c.Good != "lower" || c.Primary || *c.Ratio.Estimate < 1.05) {
			t.Errorf("%+v", c)
		}
	}
	found := d.Regressions()
	if len(found) != 2 || found[0].Variant != "pool" || found[1].Variant != "goroutine" {
		t.Errorf("regressions %+v", found)
	}
	newer.Plan.Margin = 0.15
	if d, err = Runs(older, newer); err != nil || len(d.Regressions()) != 0 || d.Margin != 0.15 {
		t.Errorf("with a margin of 15 %%: %+v, %v", d.Regressions(), err)
	}
	if len(d.Disparities) != 0 || len(d.Notes) != 0 || len(d.OnlyNew) != 0 || len(d.OnlyOld) != 0 || d.Caveat.Kind == "" {
		t.Errorf("%+v", d)
	}
}

// Between two runs of the same thing, one of twenty has any finding at all.
func TestDiffOfTheSame(t *testing.T) {
	const pairs = 300
	rng := rand.New(rand.NewPCG(9, 10))
	found := 0
	for range pairs {
		d, err := Runs(nightly(rng, time.Unix(1, 0), 8, 1), nightly(rng, time.Unix(2, 0), 8, 1))
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(d.Comparisons, func(c Comparison) bool { return c.Verdict == rundir.Better || c.Verdict == rundir.Worse }) {
			found++
		}
	}
	// Holm's family is independent here: three standard errors are 0.038.
	if share := float64(found) / pairs; math.Abs(share-0.05) > 0.038 {
		t.Errorf("%v of the pairs of equal runs had a finding, want 0.05", share)
	}
}

func TestDiffWithoutIntervals(t *testing.T) {
	older, newer := nights(0.5, 1)
	d, err := Runs(older, newer)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range d.Comparisons {
		if c.Verdict != rundir.Inconclusive || c.P != nil || c.Ratio.Estimate != nil || c.Detail.Kind != "differ.few" {
			t.Errorf("%+v", c)
		}
	}
	// A figure that one run lacks, and one that is no ratio.
	older, newer = nights(1, 3)
	delete(older.Variants[0].Figures, "service.p50")
	newer.Variants[0].Figures["service.p99"].Values[1] = 0
	newer.Plan.Metric = "errors.ratio"
	if d, err = Runs(older, newer); err != nil {
		t.Fatal(err)
	}
	details := map[string]string{}
	for _, c := range d.Comparisons {
		if c.Variant == "pool" && c.Detail != nil {
			details[c.Metric] = c.Detail.Kind + c.Detail.Values["old"] + c.Detail.Values["new"]
		}
	}
	want := map[string]string{"service.p50": "differ.few03", "service.p99": texts.Others, "errors.ratio": "differ.few00"}
	if !maps.Equal(details, want) {
		t.Errorf("details %q, want %q", details, want)
	}
	if _, err := json.Marshal(d); err != nil {
		t.Error(err)
	}
}

func TestDiffOfUnlikeRuns(t *testing.T) {
	older, newer := nights(1, 4)
	older.Valid, newer.Complete = false, false
	newer.Name = "relay-2"
	newer.Variants[2].Name, newer.Plan.Variants[2].Name = "epoll", "epoll"
	newer.Environment.Kernel, newer.Environment.Governor = "6.2", "performance"
	older.Environment.MemoryBytes, newer.Environment.MemoryBytes = new(int64(8167300<<10)), new(int64(16<<30))
	newer.DynoVersion = "v2"
	newer.Plan.Rounds = 12
	rate := 100.0
	v := &newer.Plan.Variants[0]
	v.Connections, v.WarmupSeconds, v.Rate = 50, 3, &rate
	v.Variables = map[string]string{"workers": "8", "batch": "2"}
	d, err := Runs(older, newer)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(d.OnlyOld, []string{"goroutine"}) || !slices.Equal(d.OnlyNew, []string{"epoll"}) {
		t.Errorf("only old %v, only new %v", d.OnlyOld, d.OnlyNew)
	}
	want := [][5]string{
		{OnMachine, "", "kernel", "6.1", "6.2"},
		{OnMachine, "", "memory", "7.79 GiB", "16.0 GiB"},
		{OnMachine, "", "CPU governor", "unknown", "performance"},
		{OnMachine, "", "dyno", "v1", "v2"},
		{InPlan, "", "rounds", "4", "12"},
		{InPlan, "pool", "connections", "100", "50"},
		{InPlan, "pool", "rate", "none", "100/s"},
		{InPlan, "pool", "warm-up", "2s", "3s"},
		{InPlan, "pool", "batch", "unknown", "2"},
		{InPlan, "pool", "workers", "16", "8"},
	}
	var disparities [][5]string
	for _, x := range d.Disparities {
		disparities = append(disparities, [5]string{x.Where, x.Variant, x.What.English(), x.Old.English(), x.New.English()})
		if own := x.What.English() != "batch" && x.What.English() != "workers"; (x.What.Kind == texts.Others) == own {
			t.Errorf("%s is %s", x.What, x.What.Kind)
		}
	}
	if !slices.Equal(disparities, want) {
		t.Errorf("disparities %q", disparities)
	}
	notes := []string{"differ.experiments", "differ.invalid", "differ.incomplete", "differ.machine", "differ.plan"}
	if !slices.Equal(kinds(d.Notes), notes) {
		t.Errorf("notes %q, want %q", kinds(d.Notes), notes)
	}
}

// Two runs do not share what disturbs them: a figure that one of them lacks gets no verdict.
func TestDiffOfFiguresNotIdentified(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	older, newer := nightly(r, time.Unix(1, 0), 4, 1), nightly(r, time.Unix(2, 0), 4, 2)
	older.Validity = []rundir.Validity{{Figure: "throughput", Variant: "pool", State: rundir.StateRelative}, {Figure: "service.p50", Variant: "pool", State: rundir.StateBounded}}
	newer.Validity = []rundir.Validity{{Figure: "service.p99", Variant: "pool", State: rundir.StateNotIdentified}, {Figure: "target.cpu_per_request", Variant: "other", State: rundir.StateNotIdentified}}
	d, err := Runs(older, newer)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range d.Comparisons {
		want := c.Variant == "pool" && (c.Metric == "throughput" || c.Metric == "service.p99")
		if got := c.Verdict == rundir.Invalid; got != want {
			t.Errorf("%s of %s: %s", c.Metric, c.Variant, c.Verdict)
		}
	}
	nothing := func(d Difference) bool { return slices.Contains(kinds(d.Notes), "differ.nothing") }
	if nothing(d) {
		t.Error("some figures can be compared, and a note says that none can")
	}
	for _, c := range d.Comparisons {
		older.Validity = append(older.Validity, rundir.Validity{Figure: c.Metric, Variant: c.Variant, State: rundir.StateRelative})
	}
	if d, err = Runs(older, newer); err != nil || !nothing(d) {
		t.Errorf("no figure can be compared, and no note says so: %v", err)
	}
}

// Searches that all ended at the same two rates know the edge no better than these
// lie apart.
func TestDiffOfCapacities(t *testing.T) {
	of := func(low, high float64) *rundir.Run {
		run := nightly(rand.New(rand.NewPCG(1, 1)), time.Unix(1, 0), 4, 1)
		run.Plan.Metric = "capacity"
		for i := range run.Variants {
			v := &run.Variants[i]
			c := rundir.Capacity{Variant: v.Name}
			var values []float64
			for round := range 4 {
				c.Searches = append(c.Searches, rundir.Bracket{Round: round + 1, Low: &low, High: &high})
				values = append(values, math.Sqrt(low*high))
			}
			v.Figures["capacity"] = rundir.Estimate{Estimate: &values[0], Values: values}
			run.Capacities = append(run.Capacities, c)
		}
		return run
	}
	for _, c := range []struct {
		low, high float64 // of the new run; of the old one 1000 and 1020
		margin    float64
		want      string
	}{
		{1000, 1020, 0.015, rundir.Inconclusive}, {1000, 1020, 0.03, rundir.Equivalent}, {1010, 1030, 0.02, rundir.Inconclusive},
		{1030, 1050, 0.02, rundir.Better}, {960, 980, 0.02, rundir.Worse},
	} {
		newer := of(c.low, c.high)
		newer.Plan.Margin = c.margin
		d, err := Runs(of(1000, 1020), newer)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(d.Comparisons, func(x Comparison) bool { return x.Metric == "capacity" })
		x := d.Comparisons[i]
		if x.Verdict != c.want || *x.Ratio.High / *x.Ratio.Low < 1.02 || *x.Detectable < 0.01 {
			t.Errorf("%v to %v: %s, %v to %v, detectable %v, want %s", c.low, c.high, x.Verdict, *x.Ratio.Low, *x.Ratio.High, *x.Detectable, c.want)
		}
	}
}

func TestDiffRefuses(t *testing.T) {
	older, newer := nights(1, 2)
	newer.Variants = nil
	if _, err := Runs(older, newer); err == nil || !strings.Contains(err.Error(), "the new run, relay, holds no figures") {
		t.Errorf("without figures: %v", err)
	}
	older, newer = nights(1, 2)
	for i := range newer.Variants {
		newer.Variants[i].Name += "2"
	}
	if _, err := Runs(older, newer); err == nil || !strings.Contains(err.Error(), "no variant in common: old pool, goroutine; new pool2") {
		t.Errorf("of other variants: %v", err)
	}
}

// Two finished runs are compared in the times of their steps.
func TestStepsOfTwoRuns(t *testing.T) {
	of := func(steps ...string) *rundir.Variant {
		v := &rundir.Variant{Figures: map[string]rundir.Estimate{"throughput": {}}}
		for _, name := range steps {
			v.Steps = append(v.Steps, rundir.ScenarioStep{Name: name})
			v.Figures[rundir.StepMetric("service.p50", name)] = rundir.Estimate{}
		}
		return v
	}
	got := comparedIn(of("login", "gone"), of("new", "login"), "service", "throughput")
	want := []string{"throughput", "service.p50{step=new}", "service.p50{step=login}", "service.p50{step=gone}"}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A comparison that could not have found a regression differs from one that found none.
func TestTooImprecise(t *testing.T) {
	for _, c := range []struct {
		verdict    string
		detectable *float64
		want       bool
	}{
		{rundir.Inconclusive, new(0.23), true},
		{rundir.Inconclusive, nil, true},
		{rundir.Inconclusive, new(0.019), false},
		{rundir.Equivalent, new(0.23), false},
		{rundir.Worse, new(0.23), false},
	} {
		d := Difference{Margin: 0.02, Comparisons: []Comparison{{Primary: true, Verdict: c.verdict, Detectable: c.detectable}, {Verdict: rundir.Inconclusive}}}
		if got := len(d.TooImprecise()) == 1; got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
