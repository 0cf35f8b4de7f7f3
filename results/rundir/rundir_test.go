package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"dyno/internal/texts"
	"dyno/load/hist"
	"dyno/results/rundir/series"
)

var begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func aRun() *Run {
	rate := 1234.5
	return &Run{
		Name: "relay-models", StartedAt: begin, TrialsPlanned: 2, Valid: true,
		Plan: Plan{Rounds: 1, Seed: 7, Variants: []PlanVariant{{Name: "pool", Variables: map[string]string{"workers": "16"}}}},
		Variants: []Variant{{
			Name: "pool", Trials: 2,
			Figures: map[string]Estimate{"throughput": {Estimate: &rate, Values: []float64{1230, 1239}, Interval: NoInterval}},
		}},
		Claims: []Claim{{ID: "R1.1", Says: "x", Outcome: Inconclusive}},
	}
}

func aTrial(number int, variant string) *Trial {
	return &Trial{Number: number, Round: number, Variant: variant, StartedAt: begin, WindowSeconds: 5, Complete: true,
		Counts: Counts{Scheduled: 10, Sent: 10, OK: 9, Errors: 1, ByKind: map[string]int64{"reset": 1}}}
}

func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// writeTrial measures nothing, but writes all that a trial has.
func writeTrial(t testing.TB, w *Writer, number int, variant string) {
	t.Helper()
	tw := must(w.Trial(number, variant))(t)
	f := must(tw.Create(LatencyFile))(t)
	log := must(hist.NewLogWriter(f, begin))(t)
	for second := range 3 {
		for _, tag := range []string{"response", "service"} {
			h := hist.New()
			h.RecordN(int64(second+1)*1_000_000, 10)
			check(t, log.Write(hist.Interval{Tag: tag, Start: time.Duration(second) * time.Second, Length: time.Second, Hist: h}))
		}
	}
	must(io.WriteString(must(tw.Create(SeriesFile))(t), "time_seconds,target_cpu_seconds,target_rss_bytes\n-1,0,\n0.5,0.25,4096\n"))(t)
	check(t, tw.Finish(aTrial(number, variant)))
}

func TestRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs", "one")
	run := aRun()
	w := must(Create(dir, run))(t)
	writeTrial(t, w, 1, "pool")
	check(t, w.Update(run))
	if f := must(Open(dir))(t); f.Complete() || f.Run.Complete {
		t.Error("a run under way reads as complete")
	}
	writeTrial(t, w, 2, "pool")
	end := begin.Add(time.Minute)
	run.Complete, run.FinishedAt = true, &end
	check(t, w.Finish(run))

	f := must(Open(dir))(t)
	if !f.Complete() {
		t.Errorf("not complete: %v", f.Incomplete)
	}
	want := *run
	want.SchemaVersion = SchemaVersion
	if diff := cmp.Diff(want, f.Run, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	if len(f.Trials) != 2 {
		t.Fatalf("%d trials", len(f.Trials))
	}
	trial := f.Trials[1]
	wantTrial := *aTrial(2, "pool")
	wantTrial.SchemaVersion = SchemaVersion
	if diff := cmp.Diff(wantTrial, trial.Trial, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	if trial.Name != "trials/0002-pool" {
		t.Error(trial.Name)
	}

	start, intervals, err := trial.Intervals()
	if err != nil || !start.Equal(begin) || len(intervals) != 6 {
		t.Errorf("%v, %d intervals, %v", start, len(intervals), err)
	}
	h := must(trial.Latency("service"))(t)
	if h.Count() != 30 || h.Max() < 2_900_000 {
		t.Errorf("%d values up to %d ns", h.Count(), h.Max())
	}
	if h := must(trial.Latency("none"))(t); h.Count() != 0 {
		t.Errorf("%d values under a tag that was not used", h.Count())
	}
	s := must(trial.Series())(t)
	wantSeries := &series.Series{
		Columns: []string{series.TimeColumn, "target_cpu_seconds", "target_rss_bytes"},
		Values:  [][]float64{{-1, 0.5}, {0, 0.25}, {math.NaN(), 4096}},
	}
	if diff := cmp.Diff(wantSeries, s, cmpopts.EquateNaNs()); diff != "" {
		t.Error(diff)
	}
	if s.Rows() != 2 || s.Column("target_rss_bytes")[1] != 4096 || s.Column("none") != nil {
		t.Errorf("%d rows, %v", s.Rows(), s.Column("target_rss_bytes"))
	}
}

// What run.json promises to other programs: names, lists that are never null,
// and nothing in the place of what is not known.
func TestRunJSON(t *testing.T) {
	dir := t.TempDir()
	w := must(Create(dir, aRun()))(t)
	check(t, w.Close())
	var got map[string]any
	check(t, json.Unmarshal(must(os.ReadFile(filepath.Join(dir, RunFile)))(t), &got))
	for _, list := range []string{"variants", "comparisons", "thresholds", "claims", "flags"} {
		if _, ok := got[list].([]any); !ok {
			t.Errorf("%s is %T, want a list", list, got[list])
		}
	}
	if got["schema_version"] != 3.0 || got["complete"] != false || got["valid"] != true {
		t.Errorf("%v", got)
	}
	variant := got["variants"].([]any)[0].(map[string]any)
	want := map[string]any{"estimate": 1234.5, "values": []any{1230.0, 1239.0}, "interval": "none claimed"}
	if diff := cmp.Diff(want, variant["figures"].(map[string]any)["throughput"]); diff != "" {
		t.Error(diff)
	}
}

func TestCreateRefusesWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "x"), nil, 0o644))
	if _, err := Create(dir, aRun()); !errors.Is(err, ErrNotEmpty) || !strings.Contains(err.Error(), dir) {
		t.Errorf("%v, want ErrNotEmpty with the path", err)
	}
	if _, err := Create(filepath.Join(dir, "x"), aRun()); err == nil {
		t.Error("a file was taken for a folder")
	}
}

func TestNames(t *testing.T) {
	dir := t.TempDir()
	w := must(Create(dir, aRun()))(t)
	for i, variant := range []string{"../../escape", "a/b\x00c", "", "..", strings.Repeat("é", 300)} {
		tw := must(w.Trial(i+1, variant))(t)
		if filepath.Dir(tw.Dir()) != filepath.Join(dir, "trials") {
			t.Errorf("%q is at %s", variant, tw.Dir())
		}
	}
	for _, number := range []int{0, -1, maxTrials + 1} {
		if _, err := w.Trial(number, "x"); err == nil {
			t.Errorf("trial %d was accepted", number)
		}
	}
	if _, err := w.Trial(1, "../../escape"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("the same trial again: %v", err)
	}
	tw := must(w.Trial(6, "x"))(t)
	for _, name := range []string{"", ".", "..", "../x", "a/b", "/etc/x", TrialFile, ".hidden"} {
		if _, err := tw.Create(name); err == nil {
			t.Errorf("the file %q was accepted", name)
		}
	}
	check(t, must(tw.Create("cpu.pb.gz"))(t).Close())
	if _, err := tw.Create("cpu.pb.gz"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("the same file again: %v", err)
	}
	if err := tw.Finish(aTrial(7, "x")); err == nil {
		t.Error("another trial was finished")
	}
	check(t, w.Close())
}

// incomplete is why a folder is not complete, a line for each reason.
func incomplete(f *Folder) string {
	var lines []string
	for _, m := range f.Incomplete {
		lines = append(lines, m.String())
	}
	return strings.Join(lines, "\n")
}

// A program that is killed between any two steps leaves a readable folder, which
// says that it is not complete.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	w := must(Create(dir, aRun()))(t)
	incomplete := func(reason string) *Folder {
		t.Helper()
		f := must(Open(dir))(t)
		if f.Complete() || !strings.Contains(incomplete(f), reason) {
			t.Errorf("%q, want %s", f.Incomplete, reason)
		}
		return f
	}
	incomplete("2 of 2 planned trials are missing")
	writeTrial(t, w, 1, "pool")
	tw := must(w.Trial(2, "pool"))(t)
	f := must(tw.Create(LatencyFile))(t)
	incomplete("trials/0002-pool/trial.json")
	must(io.WriteString(f, "half a li"))(t)
	check(t, os.WriteFile(filepath.Join(tw.Dir(), ".trial.json.tmp"), []byte("{"), 0o644))
	check(t, os.WriteFile(filepath.Join(dir, ".run.json.tmp"), []byte("{"), 0o644))
	folder := incomplete("1 of 2 planned trials are missing")
	if len(folder.Trials) != 1 {
		t.Fatalf("%d trials", len(folder.Trials))
	}
	if h := must(folder.Trials[0].Latency("response"))(t); h.Count() != 30 {
		t.Errorf("%d values in the finished trial", h.Count())
	}

	// A run that was interrupted says so itself, and so does a failed trial.
	failed := aTrial(2, "pool")
	failed.Complete, failed.Error = false, "the target died"
	check(t, tw.Finish(failed))
	run := aRun()
	run.Reason = new(texts.Verbatim("interrupted"))
	check(t, w.Finish(run))
	incomplete("interrupted")
	if folder = incomplete("trials/0002-pool: the target died"); len(folder.Trials) != 2 {
		t.Errorf("%d trials", len(folder.Trials))
	}
	if _, _, err := folder.Trials[1].Intervals(); err == nil || !strings.Contains(err.Error(), filepath.Join("0002-pool", LatencyFile)) {
		t.Errorf("half a log: %v", err)
	}
}

// One process at a time writes a folder. It can be resumed as long as its run is not
// complete.
func TestReopen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	run := aRun()
	w := must(Create(dir, run))(t)
	writeTrial(t, w, 1, "pool")
	tw := must(w.Trial(2, "pool"))(t)
	check(t, tw.Begin(aTrial(2, "pool")))
	log := must(tw.Create(LatencyFile))(t)
	must(w.Trial(3, "pool"))(t) // and killed here

	if _, _, err := Reopen(dir); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), dir) {
		t.Errorf("opened twice: %v", err)
	}
	if err := must(Open(dir))(t).Rewrite(); !errors.Is(err, ErrBusy) {
		t.Errorf("rewritten while it is written: %v", err)
	}
	check(t, errors.Join(log.Close(), w.Close())) // as the kernel does for one that is killed

	w, f, err := Reopen(dir)
	check(t, err)
	if incomplete(f) != "the run did not finish\ntrials/0002-pool: the trial did not finish" || len(f.Trials) != 2 || f.Trials[1].Round != 2 || f.Trials[1].Complete {
		t.Errorf("%d trials, incomplete: %q", len(f.Trials), f.Incomplete)
	}
	if last := must(w.LastTrial())(t); last != 3 {
		t.Errorf("the last trial is %d", last)
	}
	again := aTrial(4, "pool")
	again.Round = 2
	tw = must(w.Trial(4, "pool"))(t)
	check(t, tw.Finish(again))
	if back := must(tw.Folder())(t); back.Number != 4 || !back.Complete {
		t.Errorf("read back: %+v", back)
	}
	run.Complete = true
	check(t, w.Finish(run))
	if f := must(Open(dir))(t); !f.Complete() || len(f.Trials) != 3 {
		t.Errorf("%d trials, incomplete although the second was replaced: %q", len(f.Trials), f.Incomplete)
	}
	if _, _, err := Reopen(dir); !errors.Is(err, ErrFinished) {
		t.Errorf("a finished run was opened again: %v", err)
	}
	check(t, must(Open(dir))(t).Rewrite())
	stranger := t.TempDir()
	for _, none := range []string{filepath.Join(dir, "none"), stranger} {
		if _, _, err := Reopen(none); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("no folder: %v", err)
		}
	}
	if left := must(os.ReadDir(stranger))(t); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// Probes of one variant and round do not replace each other; one that was abandoned
// is no fault once there are others.
func TestProbes(t *testing.T) {
	dir := t.TempDir()
	run := aRun()
	run.TrialsPlanned = 0
	w := must(Create(dir, run))(t)
	probe := func(number int) {
		t.Helper()
		trial, rate := aTrial(number, "pool"), 100.5
		trial.Round, trial.Purpose, trial.Rate = 1, PurposeProbe, &rate
		check(t, must(w.Trial(number, "pool"))(t).Finish(trial))
	}
	probe(1)
	pilot := aTrial(2, "pool")
	pilot.Round, pilot.Purpose = 0, PurposePilot
	check(t, must(w.Trial(2, "pool"))(t).Finish(pilot))
	check(t, w.Abandon(must(Open(dir))(t).Trials[0], "begun again"))
	if f := must(Open(dir))(t); !strings.Contains(incomplete(f), "0001-pool: begun again") {
		t.Errorf("%q", f.Incomplete)
	}
	probe(3)
	probe(4)
	run.Complete = true
	check(t, w.Finish(run))
	if f := must(Open(dir))(t); !f.Complete() || len(f.Trials) != 4 || !f.Trials[2].Complete || *f.Trials[3].Rate != 100.5 {
		t.Errorf("%d trials, incomplete: %q", len(f.Trials), f.Incomplete)
	}
}

func TestLogIsBounded(t *testing.T) {
	w := must(Create(t.TempDir(), aRun()))(t)
	tw := must(w.Trial(1, "x"))(t)
	log := must(tw.Log("target.log"))(t)
	block := bytes.Repeat([]byte("x"), 1<<20)
	for range maxLogBytes/len(block) + 3 {
		if n, err := log.Write(block); n != len(block) || err != nil {
			t.Fatal(n, err)
		}
	}
	check(t, tw.Finish(aTrial(1, "x")))
	content := must(os.ReadFile(filepath.Join(tw.Dir(), "target.log")))(t)
	want := fmt.Sprintf("x\n[%d more bytes were dropped]\n", 3<<20)
	if !bytes.HasSuffix(content, []byte(want)) || len(content) != maxLogBytes+len(want)-1 {
		t.Errorf("%d bytes, the end is %q", len(content), content[len(content)-50:])
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, c := range []struct {
		name, content, want string
	}{
		{"nothing", "", "unexpected end of JSON"},
		{"version", `{"schema_version": 1, "name": "x"}`, "schema_version: 1, this program reads 3"},
		{"no version", `{"name": "x"}`, "schema_version: 0"},
		{"no name", `{"schema_version": 3}`, "name: is empty"},
		{"type", `{"schema_version": 3, "name": 5}`, "byte 31: name cannot be a number"},
		{"syntax", `{"schema_version": 3,}`, "byte 22"},
		{"planned", `{"schema_version": 3, "name": "x", "trials_planned": -1}`, "trials_planned: -1"},
		{"variants", `{"schema_version": 3, "name": "x", "variants": [{"name": "a"}, {"name": "a", "trials": -1}]}`, "variants[1].trials: -1"},
	} {
		dir := t.TempDir()
		check(t, os.WriteFile(filepath.Join(dir, RunFile), []byte(c.content), 0o644))
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), filepath.Join(dir, RunFile)) {
			t.Errorf("%s: %v, want %s with the path", c.name, err, c.want)
		}
	}
	if _, err := Open(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no run.json: %v", err)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
}

func TestTrialsThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	w := must(Create(dir, aRun()))(t)
	writeTrial(t, w, 1, "pool")
	check(t, w.Close())
	good := string(must(os.ReadFile(filepath.Join(dir, "trials/0001-pool", TrialFile)))(t))
	for folder, content := range map[string]string{
		"0002-syntax":  "{",
		"0003-number":  good,
		"0001-again":   good,
		"0004-version": strings.Replace(good, `"schema_version": 3`, `"schema_version": 9`, 1),
		"0006-pilot":   strings.NewReplacer(`"number": 1`, `"number": 6, "purpose": "pilot"`).Replace(good),
		"0007-probe":   strings.NewReplacer(`"number": 1`, `"number": 7, "purpose": "probe"`).Replace(good),
		"0008-purpose": strings.NewReplacer(`"number": 1`, `"number": 8, "purpose": "fun"`).Replace(good),
		"0009-round":   strings.NewReplacer(`"number": 1`, `"number": 9`, `"round": 1`, `"round": 0`).Replace(good),
		"0005-count":   strings.NewReplacer(`"number": 1`, `"number": 5`, `"sent": 10`, `"sent": -10`).Replace(good),
		"junk":         good,
	} {
		check(t, os.Mkdir(filepath.Join(dir, "trials", folder), 0o755))
		check(t, os.WriteFile(filepath.Join(dir, "trials", folder, TrialFile), []byte(content), 0o644))
	}
	f := must(Open(dir))(t)
	if len(f.Trials) != 1 || f.Trials[0].Number != 1 {
		t.Errorf("%d trials", len(f.Trials))
	}
	all := incomplete(f)
	for _, want := range []string{
		"trials/0002-syntax/trial.json: byte 1", "trials/0003-number/trial.json: number: 1", "number: 1 is there twice",
		"trials/0004-version/trial.json: schema_version: 9", "counts.sent: -10", "trials/junk/trial.json",
		"round: 1, want 0 for a pilot", "a probe wants one above 0", `purpose: "fun"`, "round: 0, want at least 1",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("nothing says %q:\n%s", want, all)
		}
	}
}

// Whatever is in the files: no panic, and trials that are handed out are valid.
func FuzzOpen(f *testing.F) {
	dir := f.TempDir()
	w := must(Create(dir, aRun()))(f)
	writeTrial(f, w, 1, "pool")
	check(f, w.Close())
	read := func(name string) []byte { return must(os.ReadFile(filepath.Join(dir, name)))(f) }
	run, trial := read(RunFile), read("trials/0001-pool/"+TrialFile)
	latency, observed := read("trials/0001-pool/"+LatencyFile), read("trials/0001-pool/"+SeriesFile)
	f.Add(run, trial, latency, observed)
	f.Add([]byte(`{"schema_version": 3, "name": "x"}`), []byte("{}"), []byte{}, []byte("time_seconds\n1\n"))
	f.Add([]byte("null"), []byte("[]"), []byte("#x"), []byte("time_seconds,a\n1,\n"))
	scratch := f.TempDir()
	f.Fuzz(func(t *testing.T, run, trial, latency, observed []byte) {
		dir := must(os.MkdirTemp(scratch, ""))(t)
		defer func() { check(t, os.RemoveAll(dir)) }()
		in := filepath.Join(dir, "trials", "0001-pool")
		check(t, os.MkdirAll(in, 0o755))
		for path, content := range map[string][]byte{
			filepath.Join(dir, RunFile): run, filepath.Join(in, TrialFile): trial,
			filepath.Join(in, LatencyFile): latency, filepath.Join(in, SeriesFile): observed,
		} {
			check(t, os.WriteFile(path, content, 0o644))
		}
		folder, err := Open(dir)
		if err != nil {
			return
		}
		if len(folder.Trials) == 0 && folder.Complete() && folder.Run.TrialsPlanned > 0 {
			t.Error("complete without trials")
		}
		for _, trial := range folder.Trials {
			if trial.Number != 1 || trial.Variant == "" || trial.SchemaVersion != SchemaVersion {
				t.Errorf("an invalid trial: %+v", trial.Trial)
			}
			if _, err := trial.Latencies(); err != nil && !strings.Contains(err.Error(), LatencyFile) {
				t.Errorf("not located: %v", err)
			}
			s, err := trial.Series()
			if err != nil && !strings.Contains(err.Error(), SeriesFile) {
				t.Errorf("not located: %v", err)
			}
			if s != nil {
				for _, column := range s.Values {
					if len(column) != s.Rows() {
						t.Errorf("columns of %d and %d rows", len(column), s.Rows())
					}
				}
			}
		}
	})
}

func TestQuantilesOf(t *testing.T) {
	if diff := cmp.Diff(Quantiles{}, QuantilesOf(nil)); diff != "" {
		t.Error(diff)
	}
	h := hist.New()
	for ms := range int64(1000) {
		h.Record((ms + 1) * 1e6)
	}
	q := QuantilesOf(h)
	near := func(name string, got *float64, want float64) {
		t.Helper()
		if got == nil || math.Abs(*got-want) > want/100 {
			t.Errorf("%s is %v, want about %v s", name, got, want)
		}
	}
	near("p50", q.P50, 0.5)
	near("p90", q.P90, 0.9)
	near("p99", q.P99, 0.99)
	near("mean", q.Mean, 0.5005)
	near("max", q.Max, 1)
	near("p99.9", q.P999, 0.999)
	if q.Count != 1000 || q.P9999 != nil {
		t.Errorf("of %d values, a p99.99 was given: %v", q.Count, q.P9999)
	}
	for quantile, want := range map[float64]bool{0: false, 0.5: false, 0.99: false, 0.991: true, 0.999: true} {
		if got := Few(1000, quantile); got != want {
			t.Errorf("1000 values are too few for the %v-quantile: %v", quantile, got)
		}
	}
	h.Reset()
	h.Record(1e9)
	one := QuantilesOf(h)
	near("p50 of one value", one.P50, 1)
	if one.P75 != nil {
		t.Errorf("of one value, a p75 was given: %v", *one.P75)
	}
}

// TestMeasured: what no figure uses is in no export. What the target lost is in them, and both
// trials of a pair in a duet. What was interrupted is in them where nothing else is.
func TestMeasured(t *testing.T) {
	trial := func(number, round int, purpose string, complete bool, peer string) *TrialFolder {
		folder := &TrialFolder{Trial: Trial{Number: number, Round: round, Variant: "v", Purpose: purpose, Complete: complete}}
		if peer != "" {
			folder.Duet = &Duet{Peer: peer}
		}
		return folder
	}
	lost := trial(10, 8, "", false, "")
	lost.Fault = FaultTarget
	cut := func(number int, variant, peer string) *TrialFolder {
		folder := trial(number, 9, "", false, peer)
		folder.Variant, folder.Interrupted = variant, true
		return folder
	}
	f := &Folder{
		Trials: []*TrialFolder{
			lost, trial(1, 1, "", true, ""), trial(2, 1, "", true, ""), trial(3, 2, "", false, ""), trial(4, 3, PurposeProfile, true, ""),
			trial(5, 4, "", true, ""), trial(6, 5, "", true, ""), trial(7, 6, "", true, "a"), trial(8, 6, "", true, "b"), trial(9, 7, "", true, ""),
			// A variant without another trial has the figures of its last interrupted one.
			cut(11, "v", ""), cut(12, "w", ""), cut(13, "w", ""), cut(14, "x", "y"), cut(15, "x", "z"),
		},
		Run: Run{Trials: []Examined{{Number: 5, Excluded: true}, {Number: 6}, {Number: 9, Replaced: true}}},
	}
	var got []int
	for _, m := range f.Measured() {
		got = append(got, m.Number)
	}
	if want := []int{10, 2, 6, 7, 8, 13, 14, 15}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
