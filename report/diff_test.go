package report

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"dyno/judge/diff"
	"dyno/report/changes"
	"dyno/results/rundir"
)

// nights are two judged runs: the second slower, in fewer trials, elsewhere.
func nights() (older, newer *rundir.Run) {
	of := func(at time.Time, wobble []float64, factor float64) *rundir.Run {
		run := &rundir.Run{
			Name: "relay", StartedAt: at, Complete: true, Valid: true, Rounds: len(wobble), DynoVersion: "v1",
			Environment: rundir.Environment{Hostname: "bench-1", OS: "linux", Arch: "amd64", Kernel: "6.1", CPUs: 8},
			Plan: rundir.Plan{Rounds: 8, Margin: 0.02, Metric: "throughput", Loop: "closed", Variants: []rundir.PlanVariant{
				{Name: "pool", Loop: "closed", Connections: 100}, {Name: "goroutine", Loop: "closed", Connections: 100},
			}},
		}
		for _, name := range []string{"pool", "goroutine"} {
			intervals := map[string]rundir.Estimate{}
			for metric, level := range map[string]float64{
				"throughput": 10_000 * factor, "service.p50": 0.009, "service.p99": 0.03 / factor, "target.cpu_per_request": 90e-6 / factor,
				"program.stack_bytes": 4096,
			} {
				e := rundir.Estimate{Estimate: ptr(level), Low: ptr(0.99 * level), High: ptr(1.01 * level)}
				for _, w := range wobble {
					e.Values = append(e.Values, level*w)
				}
				intervals[metric] = e
			}
			run.Variants = append(run.Variants, rundir.Variant{Name: name, Trials: len(wobble), Figures: intervals})
		}
		return run
	}
	older = of(time.Date(2026, 1, 1, 3, 0, 0, 0, time.UTC), []float64{0.995, 1.004, 0.998, 1.001, 1.006, 0.997, 1, 1.003}, 1)
	newer = of(time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC), []float64{1.01, 0.992, 1.001, 0.995}, 0.93)
	newer.Environment.Kernel, newer.Plan.Variants[1].Connections = "6.2", 200
	return older, newer
}

func difference(t *testing.T, older, newer *rundir.Run) string {
	t.Helper()
	d, err := diff.Runs(older, newer)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := changes.Diff(&b, &d); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestDiff(t *testing.T) {
	older, newer := nights()
	golden(t, "diff.txt", difference(t, older, newer))

	// Of the same machine and plan, with one trial, and variants of their own.
	older, newer = nights()
	newer.Environment, newer.Plan = older.Environment, older.Plan
	newer.Valid, newer.Name = false, "relay-2"
	for metric, e := range newer.Variants[0].Figures {
		e.Values, e.Low, e.High = e.Values[:1], nil, nil
		newer.Variants[0].Figures[metric] = e
	}
	older.Variants[1].Name = "epoll"
	golden(t, "diff-single.txt", difference(t, older, newer))
}

// A ratio of a figure that one of the runs does not identify is not shown.
func TestDiffUnidentified(t *testing.T) {
	older, newer := nights()
	newer.Validity = []rundir.Validity{{Figure: "throughput", Variant: "pool", State: rundir.StateNotIdentified}}
	got := difference(t, older, newer)
	if !strings.Contains(got, "pool, throughput: invalid, ?: one of the runs does not identify the figure\n") {
		t.Error("the sentence does not say so")
	}
	if n := strings.Count(got, "−7.1% (−8.2 … −6.0)"); n != 2 { // of the other variant, in its sentence and its table
		t.Errorf("the ratio is there %d times, want 2:\n%s", n, got)
	}
}

// What a run holds of foreign text cannot drive a terminal.
func TestDiffIsTame(t *testing.T) {
	const wild = "a\x1b[2Jb\u009b1mc\u202ed\r\ne\x00\xff"
	older, newer := nights()
	newer.Name, newer.DynoVersion, newer.Environment.Kernel = wild, wild, wild
	for _, run := range []*rundir.Run{older, newer} {
		run.Variants[0].Name, run.Plan.Variants[0].Name = wild, wild
		run.Variants[0].Figures["program."+wild] = rundir.Estimate{}
	}
	newer.Plan.Variants[0].Connections, newer.Variants[1].Name = 3, wild+"2"
	expectTame(t, difference(t, older, newer))
}

func expectTame(t *testing.T, out string) {
	t.Helper()
	if !utf8.ValidString(out) {
		t.Error("not valid UTF-8")
	}
	for _, r := range out {
		if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			t.Fatalf("%U in\n%q", r, out)
		}
	}
	if strings.Count(out, "<U+001B>[2J") < 5 {
		t.Errorf("the foreign text is missing:\n%s", out)
	}
}
