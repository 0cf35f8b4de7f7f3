package calibrate

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dyno/internal/fields"
	"dyno/judge/stat"
	"dyno/lab/planfile"
	"dyno/load/engine/record"
	"dyno/load/pace"
	"dyno/observe"
	"dyno/results/rundir"
	"dyno/selftest/oracle"
)

// The intervals are those of published tables (Clopper and Pearson).
func TestProportion(t *testing.T) {
	for _, c := range []struct {
		p         Proportion
		low, high float64
	}{
		{Proportion{10, 200}, 0.0242, 0.0900},
		{Proportion{0, 10}, 0, 0.3085},
		{Proportion{10, 10}, 0.6915, 1},
		{Proportion{5, 10}, 0.1871, 0.8129},
	} {
		if i := c.p.Interval(); math.Abs(i.Low-c.low) > 5e-5 || math.Abs(i.High-c.high) > 5e-5 {
			t.Errorf("%+v: %+v, want %v to %v", c.p, i, c.low, c.high)
		}
	}
	for _, c := range []struct {
		p         Proportion
		low, high float64
		want      Outcome
	}{
		{Proportion{4, 200}, 4. / 200, 16. / 200, Met},
		{Proportion{16, 200}, 4. / 200, 16. / 200, Met},
		{Proportion{17, 200}, 4. / 200, 16. / 200, Missed},
		{Proportion{3, 200}, 4. / 200, 16. / 200, Missed},
		{Proportion{0, 10}, 4. / 200, 16. / 200, TooFew},
		{Proportion{5, 10}, 4. / 200, 16. / 200, Missed},
		{Proportion{190, 200}, 0.93, 0.97, Met},
		{Proportion{0, 0}, 0, 1, TooFew},
		{Proportion{5, 5}, 0.95, 1, Met},
		{Proportion{0, 5}, 0.95, 1, Missed},
	} {
		if got := c.p.within(c.low, c.high); got != c.want {
			t.Errorf("%+v within %v to %v: %q, want %q", c.p, c.low, c.high, got, c.want)
		}
	}
}

func TestReadingOutcome(t *testing.T) {
	for _, c := range []struct {
		r    Reading
		want Outcome
	}{
		{Reading{Expected: pointer(1), Measured: 1.1, Limit: pointer(0.2)}, Met},
		{Reading{Expected: pointer(1), Measured: 0.7, Limit: pointer(0.2)}, Missed},
		{Reading{Expected: pointer(1), Measured: 9}, Unlimited},
		{Reading{Measured: 0.3, Limit: pointer(0.5)}, Met},
		{Reading{Measured: 0.6, Limit: pointer(0.5)}, Missed},
		{Reading{Measured: math.NaN(), Limit: pointer(0.5)}, Missed},
	} {
		if got := c.r.Outcome(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.r, got, c.want)
		}
	}
}

func TestQuantileIsARank(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ns := rapid.SliceOfN(rapid.Int64Range(0, 1e12), 1, 200).Draw(t, "times")
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		all := sorted(slices.Clone(ns))
		got := all.quantile(q)
		below := 0
		for _, v := range ns {
			if float64(v)/1e9 < got {
				below++
			}
		}
		if at := math.Round(q * float64(len(ns))); float64(below) > max(at, 1)-1 || got < float64(all[0])/1e9 {
			t.Fatalf("quantile %v of %v is %v, above %d", q, all, got, below)
		}
	})
	if !math.IsNaN(times(nil).quantile(0.5)) {
		t.Error("a quantile of nothing")
	}
}

// simulate draws the rounds of a comparison and judges them as runs are judged.
func simulate(random *rand.Rand, n int, slow float64) Comparison {
	const rounds, noise = 8, 0.02
	c := Comparison{Number: n, Slow: slow, Rounds: rounds, Claimed: true, Valid: true, Detectable: pointer(0.03), ServerCPU: pointer(0.94)}
	var logs []float64
	for range rounds {
		base, variant := math.Exp(noise*random.NormFloat64()), oracle.SlowRatio(slow)*math.Exp(noise*random.NormFloat64())
		logs, c.Ratios = append(logs, math.Log(variant)-math.Log(base)), append(c.Ratios, variant/base)
	}
	m, err := stat.PairedMean(logs, 0.95)
	if err != nil {
		panic(err)
	}
	c.Ratio, c.Low, c.High = pointer(math.Exp(m.Estimate)), pointer(math.Exp(m.Interval.Low)), pointer(math.Exp(m.Interval.High))
	return c
}

// Of many simulated comparisons, whose noise is known, the tables say what theory
// says.
func TestTalliesOfSimulatedComparisons(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const runs = 3000
	var all []Comparison
	for i := range runs {
		all = append(all, simulate(random, i, 0.05), simulate(random, i, 0))
	}
	sums := (&Result{Comparisons: all}).Tallies()
	if len(sums) != 2 || sums[0].Slow != 0 || sums[1].Slow != 0.05 {
		t.Fatalf("%+v", sums)
	}
	same, slower := sums[0], sums[1]
	between := func(name string, v, low, high float64) {
		t.Helper()
		if !(v >= low && v <= high) {
			t.Errorf("%s: %v, want %v to %v", name, v, low, high)
		}
	}
	between("A/A found", same.Found.Share(), 0.04, 0.06)
	between("A/A covered", same.Covered.Share(), 0.94, 0.96)
	if same.Found.Hits+same.Covered.Hits != runs {
		t.Error("an interval that holds 1 is no difference")
	}
	between("covered", slower.Covered.Share(), 0.94, 0.96)
	// ln 1.05 = 0.0488 is 4.9 standard errors of 0.02·√2/√8.
	between("found", slower.Found.Share(), 0.95, 1)
	if slower.FoundDeclared != slower.Found || slower.WrongSign.Hits != 0 || same.FoundDeclared.Of != 0 {
		t.Errorf("%+v", slower)
	}
	between("spread", slower.Spread, 0.0275, 0.0290)
	between("bias", slower.Bias, -0.001, 0.001)
	between("detectable", slower.Detectable, 0.03, 0.03)
	r := Result{Comparisons: all}
	if n := r.Missed(); n != 0 {
		t.Errorf("%d missed", n)
	}
	for i := range all {
		*all[i].Low, *all[i].High = 1.01, 1.02
	}
	wrong := (&Result{Comparisons: all}).Tallies()[1]
	if wrong.WrongSign.Share() != 1 || wrong.Found.Hits != 0 || r.Missed() != 4 {
		t.Errorf("%+v, %d missed", wrong, r.Missed())
	}
}

func TestTalliesCountWhatIsMissing(t *testing.T) {
	sums := (&Result{Comparisons: []Comparison{
		{Slow: 0.05, Valid: true, Ratios: []float64{0.95, 0.96}},                                 // no interval claimed
		{Slow: 0.05, Claimed: true, ServerCPU: pointer(0.5)},                                     // not bounded, and invalid
		{Slow: 0.05, Claimed: true, Valid: true, High: pointer(0.99), Detectable: pointer(0.09)}, // bounded on one side
		{Slow: 0.05, Claimed: true, Valid: true, State: rundir.StateNotIdentified, Low: pointer(1.01), High: pointer(1.02), Detectable: pointer(0.01)},
	}}).Tallies()
	got := sums[0]
	want := Tally{
		Slow: 0.05, Found: Proportion{1, 2}, Covered: Proportion{2, 2}, WrongSign: Proportion{0, 2},
		Detectable: 0.05, Spread: got.Spread, Bias: got.Bias, Width: math.NaN(), Took: math.NaN(), Invalid: 1, Unclaimed: 1, ServerCPU: 0.5,
		Refused: 1, RefusedFound: Proportion{0, 1}, RefusedCovered: Proportion{0, 1},
	}
	same := cmp.Comparer(func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) })
	if diff := cmp.Diff(want, got, same); diff != "" {
		t.Error(diff)
	}
}

// Comparisons of which nothing was claimed, or everything refused, have proved nothing.
func TestNothingClaimedIsMissed(t *testing.T) {
	for _, c := range []Comparison{{Valid: true}, {Slow: 0.05, Claimed: true, Valid: true, State: rundir.StateNotIdentified, Low: pointer(0.9), High: pointer(0.99)}} {
		r := Result{Comparisons: []Comparison{c}}
		if r.Missed() == 0 {
			t.Errorf("%+v: no limit was missed", c)
		}
	}
}

// What a run says is taken as it is, by the variants' names.
func TestRead(t *testing.T) {
	run := &rundir.Run{
		Valid: true,
		Flags: []rundir.Flag{{Kind: "a"}, {Kind: "b"}, {Kind: "a"}},
		Variants: []rundir.Variant{
			{Name: slowed(0.05), Figures: map[string]rundir.Estimate{rundir.MetricCPUShare: {Estimate: pointer(0.5)}}},
			{Name: baseName, Figures: map[string]rundir.Estimate{rundir.MetricCPUShare: {Estimate: pointer(0.99)}, rundir.MetricGenerator: {Estimate: pointer(0.3)}}},
		},
		Comparisons: []rundir.Comparison{
			{Base: baseName, Variant: slowed(0.05), Metric: "response.p99", Ratio: rundir.Estimate{Estimate: pointer(9)}},
			{Base: controlName, Variant: slowed(0.05), Metric: compared, Ratio: rundir.Estimate{Estimate: pointer(8)}},
			{
				Base: baseName, Variant: slowed(0.05), Metric: compared, Rounds: 8, P: pointer(0.01), SignFlipP: pointer(0.0078), Detectable: pointer(0.02), Verdict: rundir.Worse,
				Ratio: rundir.Estimate{Estimate: pointer(0.95), Low: pointer(0.94), High: pointer(0.96), Interval: rundir.ByPairedStudent, Values: []float64{0.95}},
			},
			{Base: baseName, Variant: controlName, Metric: compared, Role: rundir.RoleControl, Ratio: rundir.Estimate{Estimate: pointer(1), Interval: rundir.NoInterval}},
		},
		Validity: []rundir.Validity{
			{Figure: compared, Variant: slowed(0.05), State: rundir.StateBounded},
			{Figure: "response.p99", Variant: slowed(0.05), Base: baseName, State: rundir.StateBounded},
			{Figure: compared, Variant: slowed(0.05), Base: baseName, State: rundir.StateNotIdentified},
		},
	}
	got := read(run, 7, []float64{0, 0.05})
	want := []Comparison{
		{Number: 7, Ratio: pointer(1), Valid: true, Flags: []string{"a", "b"}, ServerCPU: pointer(0.99), LoadCPU: pointer(0.3)},
		{
			Number: 7, Slow: 0.05, Rounds: 8, Ratio: pointer(0.95), Low: pointer(0.94), High: pointer(0.96), Claimed: true, P: pointer(0.01), FlipP: pointer(0.0078),
			Detectable: pointer(0.02), Verdict: rundir.Worse, State: rundir.StateNotIdentified, Valid: true, Flags: []string{"a", "b"}, Ratios: []float64{0.95}, ServerCPU: pointer(0.99), LoadCPU: pointer(0.3),
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if row := strings.Join(got[1].row(), ","); row != "7,0.05,0.952380952,8,0.95,0.94,0.96,0.01,0.0078,0.02,worse,,false,0,not_identified,true,a b,0.99,0.3,0.95" {
		t.Error(row)
	}
}

// The plans are ones that dyno takes.
func TestPlans(t *testing.T) {
	c := Long()
	c.Program = "/bin/dyno"
	k := &calibrator{Config: c, server: []int{0}, load: []int{0}}
	e := k.experiment(3, 1000, c.Slow)
	if err := e.Validate(); err != nil {
		t.Error(err)
	}
	if len(e.Variants) != 6 || e.Variants[1].AliasOf != baseName || e.Design.Control != controlName {
		t.Errorf("%+v", e)
	}
	k.Only = []string{Power}
	e = k.experiment(3, 1000, []float64{0.05})
	if err := e.Validate(); err != nil {
		t.Error(err)
	}
	if len(e.Variants) != 2 || e.Design.Control != "" {
		t.Errorf("without the table aa: %+v", e)
	}
	for _, loop := range []string{"open", "closed"} {
		text, err := k.plan(loop, 5, true, &group{dir: "/sys/fs/cgroup/x/y"})
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "flags.yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		e, err := planfile.ReadFile(file, planfile.Options{})
		if err != nil {
			t.Errorf("%s: %v", loop, err)
			continue
		}
		if e.Design.Rounds != 1 || e.Design.Seed != 5 || !e.Design.KeepDisturbed || (e.Variants[0].Load.Open != nil) != (loop == "open") || !slices.Contains(e.Variants[0].Target.Start, "/sys/fs/cgroup/x/cgroup.procs") {
			t.Errorf("%s: %+v", loop, e)
		}
	}
}

func TestFlagShares(t *testing.T) {
	all := func(throughput, p50, p99 string) map[string]string {
		return map[string]string{compared: throughput, "p50": p50, "p99": p99}
	}
	ok, none := rundir.StateOK, rundir.StateNotIdentified
	r := Result{Trials: []Trial{
		{Trouble: Healthy, Loop: "open", States: all(ok, ok, ok)},
		{Trouble: Healthy, Loop: "open", States: all(ok, rundir.StateBounded, none), Disturbs: []string{"steal", "drops"}},
		{Trouble: Starved, Loop: "open", States: all(ok, ok, rundir.StateBounded)},
		{Trouble: Starved, Loop: "open", States: all(ok, ok, ok), Disturbs: []string{"drops"}},
		{Trouble: NeighbourOne, Loop: "open", States: all(ok, ok, ok)},
		{Trouble: Starved, Loop: "closed"}, // nothing was said
		{Trouble: Starved, Loop: "closed", States: all(ok, ok, ok), Blamed: []string{"drops"}},
	}}
	got := r.FlagShares()
	shares := func(throughput, p50, p99, of int) map[string]Proportion {
		return map[string]Proportion{compared: {throughput, of}, "p50": {p50, of}, "p99": {p99, of}}
	}
	want := []FlagShare{
		{Healthy, "open", Proportion{1, 2}, Proportion{0, 2}, shares(0, 0, 1, 2), map[string]int{"steal": 1, "drops": 1}},
		{Starved, "open", Proportion{2, 2}, Proportion{0, 2}, shares(0, 0, 0, 2), map[string]int{"drops": 1}},
		{NeighbourOne, "open", Proportion{0, 1}, Proportion{0, 1}, shares(0, 0, 0, 1), map[string]int{}},
		{Starved, "closed", Proportion{1, 2}, Proportion{1, 2}, shares(1, 1, 1, 2), map[string]int{}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for i, want := range []Outcome{TooFew, Met, Unlimited, TooFew} {
		if o := got[i].Outcome(); o != want {
			t.Errorf("%s: %q, want %q", got[i].Trouble, o, want)
		}
	}
}

// What a run says of a trial is read by the loop's own latency.
func TestTrialOfARun(t *testing.T) {
	run := &rundir.Run{
		Flags: []rundir.Flag{{Kind: "a", Disturbs: true}, {Kind: "b"}, {Kind: "a", Disturbs: true}, {Kind: "c", Breaks: true}},
		Validity: []rundir.Validity{
			{Figure: compared, State: rundir.StateOK},
			{Figure: "response.p99", State: rundir.StateNotIdentified},
			{Figure: "service.p99", State: rundir.StateBounded},
			{Figure: "service.p50", State: rundir.StateOK},
			{Figure: "service.p50", State: rundir.StateNotIdentified, Base: "x"},
			{Figure: "service.max", State: rundir.StateNotIdentified},
		},
	}
	got := trialOf(run, Starved, "closed", 3)
	want := Trial{
		Trouble: Starved, Loop: "closed", Number: 3, Disturbs: []string{"a"}, Blamed: []string{"c"}, Warnings: []string{"b"},
		States: map[string]string{compared: rundir.StateOK, "p50": rundir.StateOK, "p99": rundir.StateBounded},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if row := strings.Join(got.row(), ","); row != "starved,closed,3,true,ok,ok,bounded,a,c,b,,," {
		t.Error(row)
	}
}

// A request that comes into a freeze waits for its end and its share of the drain.
func TestWaits(t *testing.T) {
	start := time.Now()
	schedule, err := pace.New(pace.Steady(10, 0), pace.Constant, 0) // every 100 ms
	if err != nil {
		t.Fatal(err)
	}
	freezes := []oracle.Freezing{{Start: start.Add(1050 * time.Millisecond), Length: 100 * time.Millisecond, Drain: 20 * time.Millisecond}}
	got, longest := waits(freezes, schedule, &record.Result{Start: start, WindowStart: time.Second, Window: time.Second})
	if len(got) != 10 || longest != 20*time.Millisecond {
		t.Fatalf("%d arrivals, longest drain %v", len(got), longest)
	}
	// At 1.1 s: 50 ms into the freeze.
	if got[9] != int64(60*time.Millisecond) || got[8] != 0 {
		t.Errorf("%v, want one of 60 ms", got)
	}
}

func TestWindowsAreCutAlike(t *testing.T) {
	start := time.Now()
	r := &record.Result{Start: start, WindowStart: time.Second, Window: time.Second}
	at := func(d time.Duration) time.Time { return start.Add(d).Round(0) }
	exchanges := []oracle.Exchange{{Request: at(999 * time.Millisecond), Took: 1}, {Request: at(time.Second), Took: 3}, {Request: at(1999 * time.Millisecond), Took: 2}, {Request: at(2 * time.Second), Took: 4}}
	if got := passed(exchanges, r); !slices.Equal(got, times{2, 3}) {
		t.Errorf("%v, want 2 and 3", got)
	}
	second := int64(time.Second)
	log := []oracle.Record{{Arrival: second - 1, Injected: 1}, {Arrival: second, Injected: 3}, {Arrival: second + 1, Injected: -1}, {Arrival: 2*second - 1, Injected: 2}, {Arrival: 2 * second, Injected: 4}}
	if got := injectedIn(log, start, r); !slices.Equal(got, times{2, 3}) {
		t.Errorf("%v, want 2 and 3", got)
	}
}

func TestConfigFaults(t *testing.T) {
	for _, c := range []Config{Quick(), Long()} {
		if err := fields.Validate(c, c.Check); err != nil {
			t.Error(err)
		}
	}
	c := Config{Only: []string{"x", Power}, Slow: []float64{0.05, 0.05}, Noises: []string{"loud"}}
	err := fields.Validate(c, c.Check)
	if err == nil {
		t.Fatal("no fault")
	}
	for _, want := range []string{`only: "x"`, "window: ", "trial_window: ", "comparisons: ", "rounds: ", "noise_runs: ", `noises: "loud"`, "flag_trials: ", "slow: ", "twice"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %s in %v", want, err)
		}
	}
}

// example is a whole result, of figures made up.
func example() *Result {
	c := Long()
	c.Command, c.Version, c.Raw = []string{"dyno-calibrate", "--long"}, "v0.3.0", "docs/calibration"
	r := &Result{
		Config: c, Started: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Finished: time.Date(2026, 3, 4, 7, 6, 8, 0, time.UTC),
		Environment: observe.Environment{CPUs: 2, CPUModel: "Some CPU", Kernel: "6.1", GoVersion: "go1.26", Virtualisation: "kvm"}, LoadCPU: 1,
		Oracles: []Reading{
			{Oracle: "fixed delay 1 ms", Quantity: "service p50 by the kernel's clock", Unit: Seconds, Expected: pointer(0.001066), Measured: 0.0011, Limit: pointer(50e-6), Note: "5959 exchanges"},
			{Oracle: "fixed delay 1 ms", Quantity: "service p50 by the server's clock", Unit: Seconds, Expected: pointer(0.001), Measured: 0.0011},
			{Oracle: "fixed delay 1 ms", Quantity: "generator CPU", Unit: Share, Measured: 0.61, Limit: pointer(0.5)},
			{Oracle: "capacity", Quantity: "throughput", Unit: PerSecond, Expected: pointer(4000), Measured: 3999.5, Limit: pointer(80)},
			{Oracle: "faults", Quantity: "errors: reset", Unit: Count, Expected: pointer(327), Measured: 327, Limit: pointer(0)},
		},
		Trials: []Trial{
			{Trouble: Healthy, Loop: "open", States: map[string]string{compared: rundir.StateOK, "p50": rundir.StateOK, "p99": rundir.StateBounded}},
			{Trouble: Starved, Loop: "open", Disturbs: []string{"drops", "achieved_rate"}},
		},
		Noisy: someNoise(),
		Notes: []string{"the machine has one CPU"},
		Files: []string{"oracles.csv", "comparisons.csv"},
	}
	random := rand.New(rand.NewPCG(3, 4))
	for i := range 200 {
		for _, s := range []float64{0, 0.05} {
			r.Comparisons = append(r.Comparisons, simulate(random, i, s))
		}
	}
	return r
}

// Duets are named, and so is the time that one takes.
func TestTalliesOfDuets(t *testing.T) {
	of := func(high, took float64) Comparison {
		return Comparison{Duet: true, Claimed: true, Low: pointer(1), High: pointer(high), Took: took, State: rundir.StateOK}
	}
	r := &Result{Comparisons: []Comparison{of(1.02, 25), of(1.02, 24), of(1.02, 30), of(1.02, 0)}}
	sums := r.Tallies()
	if len(sums) != 1 || sums[0].name() != "none (A/A), duet" || sums[0].Found.Of != 4 || sums[0].Took != 25 || math.Abs(sums[0].Width-0.02) > 1e-9 {
		t.Errorf("%+v", sums)
	}
}

func TestGolden(t *testing.T) {
	var text, markdown strings.Builder
	if err := Text(&text, example()); err != nil {
		t.Fatal(err)
	}
	if err := Markdown(&markdown, example(), "docs"); err != nil {
		t.Fatal(err)
	}
	golden(t, "calibration.txt", text.String())
	golden(t, "calibration.md", markdown.String())
}

// A result of nothing is no table, and no fault.
func TestEmptyResult(t *testing.T) {
	var text strings.Builder
	if err := Text(&text, &Result{}); err != nil || !strings.Contains(text.String(), "No figure missed") || strings.Contains(text.String(), "Generators") {
		t.Errorf("%v\n%s", err, &text)
	}
}

// Rows are on disk as soon as they are written.
func TestSheetIsKept(t *testing.T) {
	dir := t.TempDir()
	k := &calibrator{Config: Config{Raw: dir}, result: &Result{}}
	s, err := k.sheet("x.csv", "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.close() }()
	if err := s.write("1", "two, and more"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "x.csv")); err != nil || string(got) != "a,b\n1,\"two, and more\"\n" {
		t.Errorf("%q, %v", got, err)
	}
	if !slices.Equal(k.result.Files, []string{"x.csv"}) {
		t.Errorf("files %v", k.result.Files)
	}
}

// A round that one of the two lost has no ratio, and is in no mean.
func TestLogarithmsOfLostRounds(t *testing.T) {
	got := logarithms([]float64{0, 1, math.MaxFloat64, math.E})
	if len(got) != 2 || got[0] != 0 || math.Abs(got[1]-1) > 1e-12 {
		t.Errorf("%v, want 0 and 1", got)
	}
}
