package verdict

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dyno/judge/verdict/checks"
	"dyno/load/hist"
	"dyno/results/rundir"
)

// write puts a run into a folder, and opens it.
func (b *bench) write(t *testing.T) *rundir.Folder {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	b.run.Name, b.run.TrialsPlanned = "bench", len(b.trials)
	w, err := rundir.Create(dir, &b.run)
	must(err)
	for i := range b.trials {
		n := b.trials[i].Number
		trial, err := w.Trial(n, b.trials[i].Variant)
		must(err)
		f, err := trial.Create(rundir.LatencyFile)
		must(err)
		log, err := hist.NewLogWriter(f, time.Unix(1e9, 0))
		must(err)
		for _, interval := range b.logs[n] {
			must(log.Write(interval))
		}
		must(trial.Finish(&b.trials[i]))
	}
	must(w.Finish(&b.run))
	folder, err := rundir.Open(dir)
	must(err)
	return folder
}

// A run judged from what its folder says is the run judged from memory.
func TestJudgeFolder(t *testing.T) {
	b := abc()
	b.trials = b.trials[:8] // two rounds: every file is synced to the disk
	folder := b.write(t)
	if err := Judge(folder); err != nil {
		t.Fatal(err)
	}
	want, got := b.judge(t), folder.Run
	if diff := cmp.Diff([]any{want.Variants, want.Comparisons, want.Flags, want.Valid, want.Trials},
		[]any{got.Variants, got.Comparisons, got.Flags, got.Valid, got.Trials}); diff != "" {
		t.Error(diff)
	}

	if err := os.Remove(filepath.Join(folder.Dir, folder.Trials[1].Name, rundir.LatencyFile)); err != nil {
		t.Fatal(err)
	}
	if err := Judge(folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a log: %v", err)
	}
}

// Examine returns the flags of a trial that the verdict has later.
func TestRefereeExamines(t *testing.T) {
	b := abc()
	b.trials = b.trials[:4]
	b.trials[1].Conservation = rundir.Conservation{Detail: "one is missing"}
	folder := b.write(t)
	var each []rundir.Flag
	for _, trial := range folder.Trials {
		flags, err := NewReferee().Examine(folder.Run.Plan, trial)
		if err != nil {
			t.Fatal(err)
		}
		each = append(each, flags...)
	}
	if len(each) == 0 || each[0].Kind != checks.FlagConservation || each[0].Trial != 2 || !each[0].Disturbs {
		t.Errorf("%+v, want what is wrong with trial 2", each)
	}
	for _, f := range b.judge(t).Flags {
		if f.Trial != 0 && !slices.ContainsFunc(each, func(e rundir.Flag) bool { return cmp.Equal(e, f) }) {
			t.Errorf("the verdict has %+v, which was not said", f)
		}
	}
	if err := os.Remove(filepath.Join(folder.Dir, folder.Trials[0].Name, rundir.LatencyFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := NewReferee().Examine(folder.Run.Plan, folder.Trials[0]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a log: %v", err)
	}
}

// A referee reads each trial once: it judges rounds and the run after the recordings have gone.
func TestRefereeReadsOnce(t *testing.T) {
	b := abc()
	b.trials = b.trials[:4]
	folder := b.write(t)
	referee := NewReferee()
	for _, trial := range folder.Trials {
		if _, err := referee.Examine(folder.Run.Plan, trial); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(folder.Dir, trial.Name, rundir.LatencyFile)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := referee.Disturbed(folder.Run.Plan, folder.Trials); err != nil {
		t.Error(err)
	}
	if err := referee.Judge(folder); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(b.judge(t).Variants, folder.Run.Variants); diff != "" {
		t.Error(diff)
	}
	folder.Trials[0].Complete = false // as when its search was begun again
	if flags, err := referee.Examine(folder.Run.Plan, folder.Trials[0]); err != nil || !slices.ContainsFunc(flags, func(f rundir.Flag) bool { return f.Kind == checks.FlagIncomplete }) {
		t.Errorf("a trial that was given up: %v, %+v", err, flags)
	}
}

// A referee reads the folders of single trials.
func TestRefereeReadsFolders(t *testing.T) {
	b := capacityBench("a")
	b.run.Plan.Variants = append(b.run.Plan.Variants, rundir.PlanVariant{Name: "a.control", AliasOf: "a", Loop: "open"})
	b.probe(1, "a", 1000, true)
	b.probe(1, "a", 2000, false)
	b.measure(1, "a", 1000)
	steady := pilot(20, 4, false)
	log, err := steady.Log()
	if err != nil {
		t.Fatal(err)
	}
	b.logs[3], b.trials[2].WindowSeconds = log, steady.Trial.WindowSeconds
	folder := b.write(t)

	referee := NewReferee()
	for i, want := range []bool{true, false} {
		if got, err := referee.Probe(b.run.Plan, folder.Trials[i]); err != nil || got.Good != want || got.Rate != *folder.Trials[i].Rate || got.Disturbed {
			t.Errorf("probe %d: %+v, %v; want good %v", i+1, got, err, want)
		}
	}
	if _, err := referee.Probe(b.run.Plan, folder.Trials[2]); err == nil {
		t.Error("a trial that is no probe")
	}

	found, err := referee.Warmup(b.run.Plan, folder.Trials[2:])
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Variants) != 1 || found.WarmupSeconds != 1.5*found.Variants[0].SteadySeconds || found.WarmupSeconds < 4.5 {
		t.Errorf("%+v", found)
	}
	if _, err := referee.Warmup(b.run.Plan, nil); err == nil || err.Error() != "pilot of a: none was completed" {
		t.Errorf("without pilots: %v", err)
	}
}
