package report

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/perf/benchfmt"

	"dyno/report/export"
	"dyno/results/rundir"
)

// parsed reads what benchstat would.
func parsed(t interface {
	Helper()
	Fatal(args ...any)
}, f *rundir.Folder) (results []*benchfmt.Result, units benchfmt.UnitMetadataMap) {
	t.Helper()
	var b bytes.Buffer
	if err := export.Benchmark(&b, f); err != nil {
		t.Fatal(err)
	}
	r := benchfmt.NewReader(&b, "report")
	for r.Scan() {
		switch x := r.Result().(type) {
		case *benchfmt.Result:
			results = append(results, x.Clone())
		case *benchfmt.SyntaxError:
			t.Fatal(x)
		}
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	return results, r.Units()
}

// key is the value of a part of a benchmark's name, as benchstat's -col /key has it.
func key(r *benchfmt.Result, key string) string {
	_, parts := r.Name.Parts()
	for _, p := range parts {
		if value, ok := strings.CutPrefix(string(p), "/"+key+"="); ok {
			return value
		}
	}
	return ""
}

func TestBenchmark(t *testing.T) {
	for _, name := range []string{"compare", "program"} {
		var b bytes.Buffer
		if err := export.Benchmark(&b, examples()[name]); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".bench", b.String())
	}
}

// Benchstat reads the trials that the figures use, and no others.
func TestBenchmarkIsRead(t *testing.T) {
	f := example("relay models", "", 4, "pool", "pool-16")
	f.Trials[0].Complete = false
	f.Trials[2].Purpose = rundir.PurposeProbe
	f.Run.Trials[4].Excluded = true
	f.Trials[7].Round = 3 // it replaces trial 6
	f.Trials[1].Throughput = ptr(4000.)
	results, units := parsed(t, f)
	var variants []string
	for _, r := range results {
		variants = append(variants, key(r, "variant"))
		if base := string(r.Name.Base()); base != "Relay%20models" || r.Iters != 1 || key(r, "protocol") != "tcp" || r.GetConfig("goos") != "linux" || r.GetConfig("dyno") != "0.2.0" {
			t.Errorf("%s, %d iterations, config %v", r.Name, r.Iters, r.Config)
		}
	}
	if diff := cmp.Diff([]string{"pool-16", "pool-16", "pool", "pool-16"}, variants); diff != "" {
		t.Error(diff)
	}
	for unit, want := range map[string]float64{"sec/op": 1.32e-3, "req/s": 4000, "p50-sec": 1.2e-3, "p99-sec": 3.6e-3, "cpu-sec/op": 21e-6, "rss-B": 10 << 20} {
		got, ok := results[0].Value(unit)
		if !ok || math.Abs(got-want) > 1e-9*want {
			t.Errorf("%s: %v, want %v", unit, got, want)
		}
		if better := units.GetBetter(unit); unit == "req/s" && better != 1 || unit != "req/s" && better != -1 {
			t.Errorf("%s: better is %d", unit, better)
		}
	}
	f.Run.Plan.Variants[1].Loop = "open"
	results, _ = parsed(t, f)
	if got, _ := results[0].Value("p50-sec"); math.Abs(got-1.204e-3) > 1e-12 {
		t.Errorf("p50 of an open loop %v, want that of the response time", got)
	}
}

// A trial that the target lost says so: none would look as if all had gone well.
func TestBenchmarkOfLostTrials(t *testing.T) {
	f := example("relay models", "", 2, "pool", "goroutine")
	lose := func(x *rundir.TrialFolder, counts rundir.Counts) {
		x.Trial = rundir.Trial{
			Number: x.Number, Round: x.Round, Variant: x.Variant, Fault: rundir.FaultTarget, PlannedSeconds: 5,
			Throughput: ptr(float64(counts.CompletedInWindow) / 5), Counts: counts,
		}
	}
	lose(f.Trials[1], rundir.Counts{})
	lose(f.Trials[3], rundir.Counts{Scheduled: 100, Sent: 100, OK: 90, Errors: 10, CompletedInWindow: 90, Missed: 100})
	results, units := parsed(t, f)
	if len(results) != 4 || units.GetBetter("error-ratio") != -1 {
		t.Fatalf("%d results, want all 4 trials, and fewer errors are better", len(results))
	}
	for i, want := range map[int]struct{ rate, errors float64 }{1: {0, 1}, 3: {18, 0.55}} {
		rate, ok := results[i].Value("req/s")
		errors, known := results[i].Value("error-ratio")
		if !ok || !known || rate != want.rate || errors != want.errors {
			t.Errorf("trial %d: %v req/s, %v of errors; want %v", i+1, rate, errors, want)
		}
		if _, ok := results[i].Value("sec/op"); ok {
			t.Errorf("trial %d has a time, and none was measured", i+1)
		}
	}
}
