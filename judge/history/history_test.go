package history

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dyno/results/archive"
	"dyno/results/rundir"
)

// night is a judged run of two variants and a control, on a day.
func night(day int, pool, goroutine float64) *rundir.Run {
	run := &rundir.Run{
		SchemaVersion: rundir.SchemaVersion, Name: "relay", StartedAt: time.Date(2026, 1, 1, 3, 0, 0, 0, time.UTC).AddDate(0, 0, day),
		Complete: true, Valid: true, Rounds: 8, DynoVersion: "v1",
		Environment: rundir.Environment{Hostname: "bench-1", Kernel: "6.1", CPUs: 8},
		Plan: rundir.Plan{
			Rounds: 8, Seed: uint64(day), Metric: "throughput", Loop: "closed", Protocol: "tcp",
			Variants: []rundir.PlanVariant{
				{Name: "pool", Loop: "closed", Connections: 100, WarmupSeconds: 2 + float64(day), WindowSeconds: 5},
				{Name: "pool.control", AliasOf: "pool", Loop: "closed", Connections: 100, WindowSeconds: 5},
				{Name: "goroutine", Loop: "closed", Connections: 100, WindowSeconds: 5},
			},
		},
	}
	for _, v := range []struct {
		name  string
		level float64
	}{{"pool", pool}, {"pool.control", pool}, {"goroutine", goroutine}} {
		run.Variants = append(run.Variants, rundir.Variant{Name: v.name, Trials: 8, Figures: map[string]rundir.Estimate{
			"throughput":  {Estimate: &v.level, Values: []float64{v.level}},
			"service.p50": {Estimate: &v.level, Values: []float64{v.level}},
		}})
	}
	return run
}

func write(t *testing.T, dir string, run *rundir.Run) {
	t.Helper()
	text, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, rundir.RunFile), text, 0o644); err != nil {
		t.Fatal(err)
	}
}

func trace(t *testing.T, dir string, q Query) *History {
	t.Helper()
	runs, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	h, err := Trace(runs, q)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "b"), night(1, 1, 1))
	write(t, filepath.Join(dir, "team", "c"), night(0, 1, 1))
	write(t, filepath.Join(dir, "1", "2", "3", "4"), night(2, 1, 1))
	write(t, filepath.Join(dir, "1", "2", "3", "not", "5"), night(3, 1, 1)) // too deep
	write(t, filepath.Join(dir, "b", "trials", "x"), night(4, 1, 1))        // within a run
	if err := os.Symlink(filepath.Join(dir, "b"), filepath.Join(dir, "latest")); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"broken": "{", "later": `{"schema_version": 99, "name": "x"}`} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, rundir.RunFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	runs, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for _, r := range runs {
		rel, err := filepath.Rel(dir, r.Dir)
		if err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, rel)
	}
	if want := []string{"broken", "later", "team/c", "b", "1/2/3/4"}; !slices.Equal(dirs, want) {
		t.Errorf("found %v, want %v", dirs, want)
	}
	if !strings.Contains(runs[0].Problem, "broken/run.json") || !strings.Contains(runs[1].Problem, "schema_version: 99") || runs[2].Problem != "" {
		t.Errorf("problems %q, %q, %q", runs[0].Problem, runs[1].Problem, runs[2].Problem)
	}
	if r := runs[3]; r.Machine != "bench-1, 6.1, 8 CPUs" || !slices.Equal(r.Variants, []string{"pool", "goroutine"}) || r.Figures["pool"]["throughput"].Values != nil {
		t.Errorf("%+v", r)
	}
	if _, err := Read(filepath.Join(dir, "none")); err == nil {
		t.Error("a folder that is not there was read")
	}
}

// Runs are of one history when what they measured is the same, whatever the seed, the
// rounds and the warm-up.
func TestExperiments(t *testing.T) {
	dir := t.TempDir()
	for day := range 3 {
		run := night(day, 1, 1)
		run.Plan.Rounds = 8 + day
		write(t, filepath.Join(dir, fmt.Sprint("a", day)), run)
	}
	more := night(3, 1, 1)
	more.Plan.Variants[0].Connections = 200
	write(t, filepath.Join(dir, "b"), more)
	other := night(4, 1, 1)
	other.Name = "echo"
	write(t, filepath.Join(dir, "c"), other)
	got := map[string]int{}
	h := trace(t, dir, Query{})
	for _, e := range h.Experiments {
		got[e.Name] = max(got[e.Name], len(e.Runs))
	}
	if len(h.Experiments) != 3 || h.Experiments[0].Name != "echo" || got["relay"] != 3 {
		t.Errorf("%+v", h.Experiments)
	}
	if h = trace(t, dir, Query{Name: "echo", Variant: "pool", Metrics: []string{"service.p50"}}); len(h.Experiments) != 1 ||
		len(h.Experiments[0].Series) != 1 || h.Experiments[0].Metric != "service.p50" {
		t.Errorf("%+v", h)
	}
	runs, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		q    Query
		says string
	}{
		{Query{Name: "x"}, "no run of an experiment named x"},
		{Query{Variant: "x"}, "no run has a figure of a variant named x"},
		{Query{Variant: "pool.control"}, "of a variant named pool.control"},
		{Query{Metrics: []string{"x"}}, "no run has a figure named x"},
	} {
		if _, err := Trace(runs, c.q); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want %q", c.q, err, c.says)
		}
	}
	if h, err := Trace(nil, Query{}); err != nil || len(h.Experiments) != 0 {
		t.Errorf("of nothing: %+v, %v", h, err)
	}
}

// A slowdown of one variant is found where it began, and only of that one; runs that
// cannot be relied on neither hide it nor make one.
func TestChanges(t *testing.T) {
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 2))
	noise := func(level float64) float64 { return level * (1 + 0.003*rng.NormFloat64()) }
	for day := range 24 {
		level := 10_000.0
		if day >= 14 {
			level = 9500
		}
		run := night(day, noise(level), noise(5000))
		switch {
		case day == 5:
			run.Valid, *run.Variants[0].Figures["throughput"].Estimate = false, 100
		case day == 6:
			run.Complete, *run.Variants[0].Figures["throughput"].Estimate = false, 200
		case day == 7:
			delete(run.Variants[0].Figures, "throughput")
		case day >= 14:
			run.Environment.Kernel = "6.2"
		}
		write(t, filepath.Join(dir, fmt.Sprintf("%02d", day)), run)
	}
	h := trace(t, dir, Query{})
	e := h.Experiments[0]
	pool, goroutine := e.Series[0], e.Series[1]
	if len(pool.Changes) != 1 || pool.Compared != 21 {
		t.Fatalf("%+v", pool)
	}
	c := pool.Changes[0]
	if c.Run != 14 || *c.Relative > -0.04 || *c.Relative < -0.06 || !c.NewMachine || c.NewDyno || c.P > 0.01 {
		t.Errorf("%+v, relative %v", c, *c.Relative)
	}
	var left []string
	for _, p := range pool.Points[4:8] {
		left = append(left, p.Left.English())
	}
	if !slices.Equal(left, []string{"", "invalid", "incomplete", "no figure"}) {
		t.Errorf("left out: %q", left)
	}
	if len(goroutine.Changes) != 0 || goroutine.Compared != 22 || goroutine.Detail != nil {
		t.Errorf("%+v", goroutine)
	}
	if _, err := json.Marshal(h); err != nil {
		t.Error(err)
	}
}

func TestTooFewAndTooMany(t *testing.T) {
	var runs []Run
	for day := range MaxCompared + 5 {
		level := 1.0
		r := Run{Dir: fmt.Sprint(day), Name: "x", Complete: true, Valid: true, Variants: []string{"a"}}
		r.Figures = map[string]map[string]rundir.Estimate{"a": {"throughput": {Estimate: &level}}}
		runs = append(runs, r)
	}
	h, err := Trace(runs[:9], Query{})
	if err != nil || h.Experiments[0].Series[0].Detail.Kind != "searched.few" {
		t.Errorf("%+v, %v", h, err)
	}
	if h, err = Trace(runs, Query{}); err != nil {
		t.Fatal(err)
	}
	s := h.Experiments[0].Series[0]
	if s.Compared != MaxCompared || s.Points[4].Left == nil || s.Points[5].Left != nil || len(s.Changes) != 0 {
		t.Errorf("compared %d, %+v, changes %+v", s.Compared, s.Points[:6], s.Changes)
	}
}

// 60 histories have a drop of 5 %, and 60 have none. Their runs spread by half a percent.
// Nearly all of the former show the drop where it is, and hardly any shows another
// change. Hardly any of the latter shows a change.
func TestAlarms(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		drop               float64
		leastFound, mostIn int // histories with the change where it is, and with any other
	}{{0.05, 58, 5}, {0, 0, 5}} {
		found, others := 0, 0
		for range 60 {
			var runs []Run
			for i := range 24 {
				level := 1 + 0.005*rng.NormFloat64()
				if i >= 14 {
					level -= c.drop
				}
				runs = append(runs, Run{
					Dir: fmt.Sprint(i), Name: "x", Complete: true, Valid: true, Variants: []string{"a"},
					Figures: map[string]map[string]rundir.Estimate{"a": {"throughput": {Estimate: &level}}},
				})
			}
			h, err := Trace(runs, Query{})
			if err != nil {
				t.Fatal(err)
			}
			changes := h.Experiments[0].Series[0].Changes
			here := c.drop > 0 && slices.ContainsFunc(changes, func(c Change) bool { return c.Run >= 13 && c.Run <= 15 })
			if here {
				found++
			}
			if len(changes) > 1 || len(changes) == 1 && !here {
				others++
			}
		}
		if found < c.leastFound || others > c.mostIn {
			t.Errorf("drop %v: found in %d of 60, want at least %d; another in %d, want at most %d", c.drop, found, c.leastFound, others, c.mostIn)
		}
	}
}

// Every run is in one history, once, and every history in the order of time.
func TestTraceLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		level := 1.0
		start := time.Unix(0, 0)
		var runs []Run
		for i := range rapid.IntRange(1, 20).Draw(t, "runs") {
			start = start.Add(time.Duration(rapid.IntRange(0, 1000).Draw(t, "later")) * time.Second)
			r := Run{
				Dir: fmt.Sprint(i), StartedAt: start, Valid: rapid.Bool().Draw(t, "valid"), Complete: true, Variants: []string{"a"},
				Name: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "name"), Plan: rapid.SampledFrom([]string{"p", "q"}).Draw(t, "plan"),
				Figures: map[string]map[string]rundir.Estimate{"a": {"throughput": {Estimate: &level}}},
			}
			if rapid.IntRange(0, 9).Draw(t, "problem") == 0 {
				r.Problem = "broken"
			}
			runs = append(runs, r)
		}
		h, err := Trace(runs, Query{})
		if err != nil {
			t.Fatal(err)
		}
		seen := len(h.Unreadable)
		for _, e := range h.Experiments {
			seen += len(e.Runs)
			if !slices.IsSortedFunc(e.Runs, func(a, b Run) int { return a.StartedAt.Compare(b.StartedAt) }) {
				t.Errorf("not in order: %+v", e.Runs)
			}
			for _, s := range e.Series {
				if len(s.Points) != len(e.Runs) {
					t.Errorf("%d points of %d runs", len(s.Points), len(e.Runs))
				}
			}
		}
		if seen != len(runs) {
			t.Errorf("%d of %d runs", seen, len(runs))
		}
	})
}

func TestSearch(t *testing.T) {
	dir := t.TempDir()
	for day := range 4 {
		at := filepath.Join(dir, fmt.Sprint(day))
		write(t, at, night(day, 1000+100*float64(day), 500))
		if err := archive.Annotate(at, func(a *archive.Annotations) {
			a.Tags = [][]string{{"release"}, {"release", "slow"}, nil, {"slow"}}[day]
			if day < 2 {
				a.PinnedAt = time.Date(2026, 2, 2-day, 0, 0, 0, 0, time.UTC) // the first was pinned last
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	runs, err := Read(dir, filepath.Join(dir, "1"))
	if err != nil {
		t.Fatal(err)
	}
	day := func(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }
	for _, c := range []struct {
		q    Query
		want string // the last part of the runs' folders; or an error
	}{
		{Query{}, "0 1 2 3"},
		{Query{Tags: []string{"release"}}, "0 1"},
		{Query{Tags: []string{"release", "slow"}}, "1"},
		{Query{From: day(2)}, "1 2 3"},
		{Query{From: day(2), To: day(3)}, "1"},
		{Query{Where: "throughput > 1150/s"}, "2 3"},
		{Query{Where: "throughput > 1150/s", Variant: "goroutine"}, "no run matches"},
		{Query{Where: "throughput < 600/s and service.p50 > 1s"}, "0 1 2 3"}, // of goroutine
		{Query{Where: "ratio(pool, goroutine, throughput) >= 2.4"}, "2 3"},
		{Query{Where: "throughput > 1150/s", Tags: []string{"slow"}}, "3"},
		{Query{Where: "response.p50 > 1ms"}, "no run matches"},
		{Query{Where: "througput > 1"}, "column 1: unknown"},
		{Query{Tags: []string{"other"}, Name: "relay"}, "no run matches"},
	} {
		got := ""
		if h, err := Trace(runs, c.q); err != nil {
			got = err.Error()
		} else {
			for _, r := range h.Experiments[0].Runs {
				got += " " + filepath.Base(r.Dir)
			}
			if b := h.Experiments[0].Baseline; b == nil || filepath.Base(b.Dir) != "0" {
				t.Errorf("%+v: baseline %+v", c.q, b)
			}
		}
		if !strings.Contains(strings.TrimSpace(got), c.want) || len(c.want) < 8 && strings.TrimSpace(got) != c.want {
			t.Errorf("%+v: %q, want %q", c.q, got, c.want)
		}
	}
	h, err := Trace(runs, Query{Metrics: []string{"throughput", "service.p50", "capacity"}, Tags: []string{"slow"}})
	if err != nil || len(h.Experiments) != 2 || h.Experiments[1].Metric != "service.p50" {
		t.Fatalf("%+v, %v", h, err)
	}
	if r := h.Experiments[0].Series[0].Points[1].Relative; r == nil || *r < 0.299 || *r > 0.301 {
		t.Errorf("300 more than 1000: %v", r)
	}
	if b := Baseline(runs, "relay"); filepath.Base(b.Dir) != "0" || Baseline(runs, "other") != nil {
		t.Errorf("%+v", b)
	}
}
